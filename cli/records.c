/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/records.h"
#include "libprobe/base/error.h"

struct probe_error *records_open(const char *operand, struct probe_reader **ret)
{
	if (strcmp(operand, "-") != 0)
		return probe_reader_open(operand, ret);
	if (isatty(STDIN_FILENO))
		return probe_error_new(PROBE_ERROR_USAGE,
			"-: there is nothing on standard input; `probectl trace --json ... | "
			"probectl ... -`");
	signal(SIGINT, SIG_IGN);
	return probe_reader_open_json(STDIN_FILENO, "standard input", ret);
}
