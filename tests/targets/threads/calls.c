/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE -pthread */
/*
 * A program that notices system calls which others have it make. It takes one command per line:
 *
 *	numbers MS	for so long passes the probe, closes a file and opens another, which
 *			must get the same descriptor			"wrong N"
 *	tables		makes threads with descriptors of their own, which pass the probe
 *			until "check"					"threads N"
 *	check		how many of their descriptors are not as they were, and how many they
 *			have more					"wrong N"
 *	mappings N	makes as many mappings as it may have, but for N	"left N"
 *	dispatch	makes a thread that handles its system calls itself, and passes
 *			the probe until the process ends		"threads N"
 *	dispatch FILE	the only thread does so until FILE's first byte changes	"passed"
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>
#include <sys/stat.h>

#include "../target.h"

enum { TABLES = 3, FILES = 24, DISPATCH_ON = 1, BLOCK = 1, ALLOW = 0 };

static char *text; /* in memory that may go away */
static atomic_bool done;
static atomic_int ready;

static void pass(unsigned long i)
{
	STAP_PROBE2(calls, hit, i, text);
	target_room_behind();
}

/* ---- Descriptors ------------------------------------------------------------------------- */

static int numbers(uint64_t ms)
{
	int file = open("/dev/null", O_RDONLY | O_CLOEXEC), wrong = 0;
	uint64_t end = target_now_ns() + ms * 1000000;

	for (unsigned long i = 0; target_now_ns() < end; i++) {
		int next;

		pass(i);
		wrong += close(file) != 0;
		next = open("/dev/null", O_RDONLY | O_CLOEXEC);
		wrong += next != file;
		if (next != file)
			close(next);
	}
	close(file);
	return wrong;
}

/* Returns how many of its descriptors were closed or replaced, or are too many. */
static void *keep_files(void *data)
{
	int files[FILES], mine = FILES - 6 * (int)(intptr_t)data;
	struct stat then, now;
	intptr_t wrong = 0;

	if (unshare(CLONE_FILES) < 0)
		exit(1);
	for (int i = 0; i < mine; i++)
		files[i] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	fstat(files[0], &then);
	ready++;
	for (unsigned long i = 0; !done; i++)
		pass(i);
	for (int i = 0; i < mine; i++)
		wrong += fstat(files[i], &now) < 0 || now.st_rdev != then.st_rdev;
	for (int fd = files[mine - 1] + 1; fd < files[mine - 1] + FILES; fd++)
		wrong += fstat(fd, &now) == 0;
	return (void *)wrong;
}

/* ---- Mappings ------------------------------------------------------------------------------- */

enum { MAPPINGS = 70000, PAGE = 4096 };

/* Every second page of a mapping differs from its neighbours, which makes two mappings more. */
static void fill(int left)
{
	char *pages = mmap(NULL, (size_t)MAPPINGS * 2 * PAGE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int made = 0;

	if (pages == MAP_FAILED)
		exit(1);
	while (made < MAPPINGS && mprotect(pages + 2 * made * (size_t)PAGE, PAGE, PROT_READ) == 0)
		made++;
	for (int i = 0; i < left / 2; i++)
		mprotect(pages + 2 * --made * (size_t)PAGE, PAGE, PROT_NONE);
	printf("left %d\n", left);
}

/* ---- System calls that the program handles ----------------------------------------------------
 */

static _Thread_local volatile char selector;

static void handle_calls(void)
{
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, DISPATCH_ON, 0, 0, &selector) < 0) {
		printf("not supported\n");
		exit(0);
	}
}

/* There is no handler: any system call ends the process. */
static void *pass_alone(void *data)
{
	handle_calls();
	ready++;
	selector = BLOCK;
	for (unsigned long i = 0; !data || !done; i++)
		pass(i);
	return NULL;
}

/* It sees the change in memory, without a system call; its second byte tells that it has begun. */
static void pass_until_changed(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	volatile char *bytes = mmap(NULL, 2, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char first;

	if (fd < 0 || bytes == MAP_FAILED)
		exit(1);
	first = bytes[0];
	handle_calls();
	selector = BLOCK;
	bytes[1] = '!';
	for (unsigned long i = 0; bytes[0] == first; i++)
		pass(i);
	selector = ALLOW;
}

int main(void)
{
	pthread_t threads[TABLES], thread;
	unsigned long ms;
	char line[300], path[256];

	text = strdup("not a constant");
	if (!text)
		return 1;
	target_allow_tracing();
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (target_read_line(line, sizeof(line))) {
		intptr_t wrong = 0, one;

		if (sscanf(line, "numbers %lu", &ms) == 1) {
			printf("wrong %d\n", numbers(ms));
		} else if (strcmp(line, "tables") == 0) {
			for (intptr_t i = 0; i < TABLES; i++)
				pthread_create(&threads[i], NULL, keep_files, (void *)i);
			while (ready < TABLES)
				sched_yield();
			printf("threads %d\n", TABLES);
		} else if (strcmp(line, "check") == 0) {
			done = true;
			for (int i = 0; i < TABLES; i++, wrong += one)
				pthread_join(threads[i], (void **)&one);
			printf("wrong %jd\n", (intmax_t)wrong);
		} else if (sscanf(line, "mappings %lu", &ms) == 1) {
			fill((int)ms);
		} else if (sscanf(line, "dispatch %255s", path) == 1) {
			pass_until_changed(path);
			printf("passed\n");
		} else {
			pthread_create(&thread, NULL, pass_alone, NULL);
			while (!ready)
				sched_yield();
			printf("threads 1\n");
		}
	}
	return 0;
}
