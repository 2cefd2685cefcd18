/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE */
/*
 * Kernel uprobes as perf(1) and bpftrace make them: through perf_event_open(2).
 *
 *	uprobe PID PATH OFFSET...
 *
 * places one at each offset of the file, in one process, or in all processes that map it (-1),
 * and prints "on"; for each line it prints how often each was hit (in one process: by its first
 * thread). "end", or the end of its input, removes them. "no uprobes: REASON" and status 77 if
 * the machine has none.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../target.h"

enum { EVENTS_MAX = 4096 };

static int probe_type(void)
{
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	int type = -1;

	if (file && fscanf(file, "%d", &type) != 1)
		type = -1;
	if (file)
		fclose(file);
	return type;
}

static int place(int type, const char *path, uint64_t offset, int pid, int cpu)
{
	struct perf_event_attr attr = {.size = sizeof(attr),
		.type = (uint32_t)type,
		.config1 = (uint64_t)(uintptr_t)path,
		.config2 = offset};

	return (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

int main(int argc, char **argv)
{
	int fds[EVENTS_MAX], type = probe_type(), pid, cpus, count = 0;
	char line[16];

	if (argc < 4)
		return 2;
	pid = atoi(argv[1]);
	cpus = pid > 0 ? 1 : (int)sysconf(_SC_NPROCESSORS_ONLN);
	for (int i = 3; i < argc; i++) {
		uint64_t offset = strtoull(argv[i], NULL, 0);

		for (int cpu = 0; cpu < cpus && count < EVENTS_MAX; cpu++) {
			fds[count] = type < 0 ? -1
					      : place(type, argv[2], offset, pid > 0 ? pid : -1,
							pid > 0 ? -1 : cpu);
			if (fds[count++] >= 0)
				continue;
			printf("no uprobes: %s\n",
				type < 0 ? "the kernel has none" : strerror(errno));
			return 77;
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("on");
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0) {
		for (int i = 0; i < count; i += cpus) {
			uint64_t sum = 0, value;

			for (int cpu = 0; cpu < cpus; cpu++)
				if (read(fds[i + cpu], &value, sizeof(value)) == sizeof(value))
					sum += value;
			printf("%llu%s", (unsigned long long)sum, i + cpus < count ? " " : "\n");
		}
	}
	return 0;
}
