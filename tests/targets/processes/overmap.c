/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE -Wl,-z,max-page-size=0x200000 */
/*
 * A program that keeps its own records of free addresses, and maps memory over probectl's.
 *
 *	N		passes its probe N times; answers "passed N"
 *	WHICH HOW	takes memory; answers "taken SIZE", "none", or "no REASON"
 *	check		answers "kept" if what it mapped is still there and as it was, else why not
 *	fork		a child takes over; the parent waits for it
 *
 * WHICH: code, data, guard (the page after code), all of the code, one mapping after the other; or
 * text: that of the program.
 * HOW: full, first or last (page) with memory of its own; exec (the same, writable and executable);
 * file, memfd (mapped there); unmap; move (mremap(2)); none, write (mprotect(2)); seal (mseal(2));
 * huge (a copy, in anonymous memory that may have huge pages); private, shared (a copy in a memfd,
 * mapped so); anonymous (a copy in shared memory without a file); restored (what the program's file
 * has, in a memfd that is mapped shared and writable).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../target.h"

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

enum { RANGES_MAX = 64, PAGE = 4096 };

static struct range {
	unsigned char *start, *end;
	const char *how;
} ranges[RANGES_MAX];
static int count;

__attribute__((noinline)) static void hit(unsigned long n)
{
	DTRACE_PROBE1(overmap, hit, n);
	target_room_behind();
}

static bool is_named(const char *line)
{
	return strstr(line, "/memfd:probectl") != NULL;
}

/* Finds the first mapping of a kind after an address. */
static bool find(const char *which, const void *after, struct range *ret)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512], flags[5];
	unsigned long start = 0, end = 0, code_end = 0;
	bool found = false;

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		bool ours = is_named(line);

		if (sscanf(line, "%lx-%lx %4s", &start, &end, flags) != 3)
			continue;
		found = *which == 't' ? start <= (unsigned long)find && (unsigned long)find < end
			: *which == 'g'
				? !ours && start == code_end && flags[1] == 'w' &&
					  end - start == (unsigned long)sysconf(_SC_PAGESIZE)
			: *which == 'd' ? ours && flags[3] == 's'
					: ours && flags[2] == 'x';
		found = found && start > (unsigned long)after;
		code_end = ours && flags[2] == 'x' ? end : 0;
	}
	if (maps)
		fclose(maps);
	*ret = (struct range){(void *)start, (void *)end, NULL};
	return found;
}

static int own_file(const char *how, size_t size)
{
	int fd = strcmp(how, "file") == 0 ? open("/tmp", O_TMPFILE | O_RDWR, 0600)
					  : memfd_create("mine", 0);
	static unsigned char page[PAGE];

	memset(page, 0x5a, sizeof(page));
	for (size_t at = 0; fd >= 0 && at < size; at += sizeof(page))
		if (write(fd, page, sizeof(page)) != sizeof(page))
			return -1;
	return fd;
}

extern const char __executable_start[];

/* Puts a copy there that is not private anonymous memory. */
static bool move(const struct range *r, size_t size, const char *how)
{
	bool is_restored = strcmp(how, "restored") == 0, is_private = strcmp(how, "private") == 0;
	int fd = strcmp(how, "anonymous") == 0 ? -1 : memfd_create("text", 0);
	int file = is_restored ? open("/proc/self/exe", O_RDONLY) : -1;
	void *at;

	if (fd >= 0 && ftruncate(fd, (off_t)size) < 0)
		return false;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE,
		(is_private ? MAP_PRIVATE : MAP_SHARED) | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
	if (at == MAP_FAILED)
		return false;
	if (file >= 0 && pread(file, at, size, (const char *)r->start - __executable_start) < 0)
		return false;
	if (file < 0)
		memcpy(at, r->start, size);
	if (is_private && pwrite(fd, r->start, size, 0) == (ssize_t)size)
		at = mmap(at, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
	close(file);
	close(fd);
	return mprotect(at, size, PROT_READ | PROT_EXEC | (is_restored ? PROT_WRITE : 0)) == 0 &&
	       mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, r->start) == r->start;
}

/* Takes a range. Returns false and sets errno on an error. */
static bool take(struct range *r, const char *how)
{
	size_t size = (size_t)(r->end - r->start);
	void *at = MAP_FAILED;
	int fd;

	r->how = how;
	if (strcmp(how, "first") == 0)
		r->end = r->start + PAGE;
	if (strcmp(how, "last") == 0)
		r->start = r->end - PAGE;
	if (strcmp(how, "unmap") == 0)
		return munmap(r->start, size) == 0;
	if (strcmp(how, "none") == 0)
		return mprotect(r->start, size, PROT_NONE) == 0;
	if (strcmp(how, "write") == 0)
		return mprotect(r->start, size, PROT_READ | PROT_WRITE) == 0;
	if (strcmp(how, "seal") == 0)
		return syscall(SYS_mseal, r->start, size, 0) == 0;
	if (strcmp(how, "move") == 0) {
		at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		return mremap(r->start, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at;
	}
	if (strcmp(how, "huge") == 0) {
		at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED)
			return false;
		memcpy(at, r->start, size);
		madvise(at, size, MADV_HUGEPAGE);
		return mprotect(at, size, PROT_READ | PROT_EXEC) == 0 &&
		       mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, r->start) == r->start;
	}
	if (strcmp(how, "private") == 0 || strcmp(how, "shared") == 0 ||
		strcmp(how, "anonymous") == 0 || strcmp(how, "restored") == 0)
		return move(r, size, how);
	if (strcmp(how, "file") == 0 || strcmp(how, "memfd") == 0) {
		fd = own_file(how, size);
		at = mmap(r->start, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
		close(fd);
		return at != MAP_FAILED;
	}
	size = (size_t)(r->end - r->start);
	at = mmap(r->start, size,
		PROT_READ | PROT_WRITE | (strcmp(how, "exec") == 0 ? PROT_EXEC : 0),
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (at != MAP_FAILED)
		memset(at, 0x5a, size);
	return at != MAP_FAILED;
}

static void take_all(const char *which, const char *how)
{
	struct range range = {NULL, NULL, NULL};
	size_t size = 0;

	while (count < RANGES_MAX && find(which, range.end ? range.end - 1 : NULL, &range)) {
		void *end = range.end;

		if (!take(&range, how)) {
			printf("no %s\n", strerror(errno));
			return;
		}
		size += (size_t)(range.end - range.start);
		ranges[count++] = range;
		range.end = end;
		if (strcmp(which, "all") != 0)
			break;
	}
	if (size)
		printf("taken %zu\n", size);
	else
		printf("none\n");
}

/* Returns an error text unless the range is mapped and, if it was filled, keeps its contents. */
static const char *check(const struct range *r)
{
	const char *filled[] = {"full", "first", "last", "exec", "file", "memfd"};
	unsigned char there;

	for (size_t i = 0; i < sizeof(filled) / sizeof(*filled); i++) {
		if (strcmp(r->how, filled[i]) != 0)
			continue;
		for (unsigned char *at = r->start; at < r->end; at += PAGE)
			if (mincore(at, PAGE, &there) < 0)
				return "unmapped";
		for (unsigned char *at = r->start; at < r->end; at++)
			if (*at != 0x5a)
				return "written";
	}
	return NULL;
}

static const char *check_all(void)
{
	for (int i = 0; i < count; i++)
		if (check(&ranges[i]))
			return check(&ranges[i]);
	return "kept";
}

int main(void)
{
	char line[64], which[16];
	static char how[RANGES_MAX][16];
	unsigned long hits = 0;

	target_allow_tracing();
	puts("ready");
	fflush(stdout);
	while (target_read_line(line, sizeof(line))) {
		if (strcmp(line, "check") == 0) {
			puts(check_all());
		} else if (strcmp(line, "fork") == 0) {
			pid_t pid = fork();

			if (pid) {
				waitpid(pid, NULL, 0);
				return 0;
			}
			target_allow_tracing();
			printf("child %d\n", (int)getpid());
		} else if (count < RANGES_MAX &&
			   sscanf(line, "%15s %15s", which, how[count]) == 2) {
			take_all(which, how[count]);
		} else {
			for (int i = atoi(line); i > 0; i--)
				hit(hits++);
			printf("passed %s\n", line);
		}
		fflush(stdout);
	}
	return 0;
}
