/* SPDX-License-Identifier: MIT */
/*
 * Maps memory where the pun of its only site would jump to, or unmaps it.
 *
 * prints "ready PID", and answers each line with one:
 *
 *	take	"taken", or "no room"
 *	give	"given"
 *	N	passes the site N times		"passed N"
 *
 * flags: -D_GNU_SOURCE
 */
#include <string.h>
#include <sys/mman.h>

#include "../target.h"

uint64_t taken_pass(uint64_t count);
extern const unsigned char taken_at[];

/* The page that a jump would lead to whose distance is the four bytes after the nop. */
static void *pun_page(void)
{
	uint64_t page = sysconf(_SC_PAGESIZE);
	int32_t distance;

	memcpy(&distance, taken_at + 1, sizeof(distance));
	return (void *)(((uintptr_t)taken_at + 5 + (int64_t)distance) & ~(page - 1));
}

int main(void)
{
	size_t size = 2 * (size_t)sysconf(_SC_PAGESIZE);
	void *page = pun_page();
	char line[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	target_allow_tracing();
	printf("ready %d\n", getpid());
	while (target_read_line(line, sizeof(line))) {
		if (strcmp(line, "take") == 0)
			puts(mmap(page, size, PROT_NONE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
				     0) == page
					? "taken"
					: "no room");
		else if (strcmp(line, "give") == 0)
			puts(munmap(page, size) == 0 ? "given" : "kept");
		else
			printf("passed %ju\n", (uintmax_t)taken_pass(strtoull(line, NULL, 10)));
	}
	return 0;
}
