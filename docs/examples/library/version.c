/* SPDX-License-Identifier: MIT */
/* version: which version of the library this program runs with; what errors are like. */
#include <errno.h>

#include <probe/version.h>

#include "example.h"

int main(void)
{
	struct probe_error *error = probe_error_new(PROBE_ERROR_STATE, "it is %s", "off");

	printf("libprobe %s\n", probe_version());
	error = probe_error_prefix(error, "a probe");
	printf("%s (%s)\n", error->message, error->code == PROBE_ERROR_STATE ? "state" : "other");
	probe_error_free(error);
	error = probe_error_system(ENOENT, "a file");
	printf("%s (errno %d)\n", error->message, error->err);
	probe_error_free(error);
	return 0;
}
