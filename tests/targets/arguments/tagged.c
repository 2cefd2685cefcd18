/* SPDX-License-Identifier: MIT */
/*
 * Text in memory with tags, which addresses must have, too (FEAT_MTE of aarch64): a read by another
 * tag raises SIGSEGV.
 *
 *	tagged	prints "ready PID", or "none" if this machine has no tags; waits; passes
 *		tagged:text(CASE, POINTER) for every case; prints "passed N", and "checked"
 *		behind it if a read by another tag still raises SIGSEGV; waits
 */
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>

#include "../target.h"

/* <asm/mman.h> and <linux/prctl.h>; Linux 5.10. */
enum { WITH_TAGS = 0x20, SET_TAGGED = 55, TAGGED = 1, SYNCHRONOUS = 2, ALL_BUT_0 = 0xfffe << 3 };
enum { GRANULE = 16, LENGTH = 40, PAGE = 65536 /* or less */ };

static sigjmp_buf back;

static void jump_back(int signal)
{
	siglongjmp(back, signal);
}

/*
 * Gives a tag to a page; its address with it. All of the page has the same: some emulators do not
 * know more.
 */
static char *tag(char *page, uint64_t number)
{
	char *tagged = (char *)((uintptr_t)page | number << 56);

#ifdef __aarch64__
	for (int at = 0; at < PAGE; at += GRANULE)
		__asm__ volatile(".arch armv8.5-a+memtag\nstg %0, [%0]" ::"r"(tagged + at)
				 : "memory");
#endif
	return tagged;
}

static bool is_checked(const volatile char *freed)
{
	struct sigaction action = {.sa_handler = jump_back};

	sigaction(SIGSEGV, &action, NULL);
	if (sigsetjmp(back, 1))
		return true;
	(void)*freed;
	return false;
}

int main(void)
{
	char *memory, *freed;
	const char *texts[4];
	int count = sizeof(texts) / sizeof(*texts);

	target_allow_tracing();
	memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | WITH_TAGS,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || prctl(SET_TAGGED, TAGGED | SYNCHRONOUS | ALL_BUT_0, 0, 0, 0)) {
		puts("none");
		fflush(stdout);
		return 0;
	}
	freed = tag(memory, 7);
	texts[0] = strcpy(tag(memory, 3), "short");
	texts[1] = memset(tag(memory + PAGE, 5), 'x', LENGTH);
	texts[2] = freed;
	texts[3] = "without a tag";
	target_wait();
	for (int i = 0; i < count; i++)
		DTRACE_PROBE2(tagged, text, i, texts[i]);
	printf("passed %d%s\n", count, is_checked(freed) ? " checked" : "");
	target_wait();
	return 0;
}
