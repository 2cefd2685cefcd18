/* SPDX-License-Identifier: MIT */
/* version: which version of the library this program runs with; what errors are like. */
#include <probe/pattern.h>
#include <probe/version.h>

#include "example.h"

int main(void)
{
	struct probe_pattern *pattern;
	struct probe_error *error = probe_pattern_parse("a:b(", &pattern);

	printf("libprobe %s\n", probe_version());
	if (!error)
		return 1;
	printf("%s (%s)\n", error->message, error->code == PROBE_ERROR_USAGE ? "usage" : "other");
	probe_error_free(error);
	return 0;
}
