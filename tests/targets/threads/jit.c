/* SPDX-License-Identifier: MIT */
/*
 * Generated code between functions of the program, named as perf wants it.
 * flags: -D_GNU_SOURCE -fno-omit-frame-pointer -fno-optimize-sibling-calls
 *
 *	jit HOW		waits, calls, prints "hits N", waits; removes the file
 *
 *	main -> generated code -> leaf	jit:call, ROUNDS times
 *
 * HOW the code's names are in /tmp/perf-PID.map: file; late, once half of the calls are made, and
 * a name at first that is replaced; link, hard, fifo, broken: not as they should be.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../target.h"

/* Code that keeps a frame pointer, calls the address between both parts, and returns. */
#if defined(__x86_64__)
/* push %rbp; mov %rsp,%rbp; movabs $leaf,%rax */
static const uint8_t code_head[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8};
/* call *%rax; pop %rbp; ret */
static const uint8_t code_tail[] = {0xff, 0xd0, 0x5d, 0xc3};
#elif defined(__aarch64__)
/* stp x29, x30, [sp, #-16]!; mov x29, sp; ldr x16, 1f; blr x16; ldp x29, x30, [sp], #16; ret; 1: */
static const uint32_t code_head[] = {
	0xa9bf7bfd, 0x910003fd, 0x58000090, 0xd63f0200, 0xa8c17bfd, 0xd65f03c0};
static const uint8_t code_tail[0];
#endif

enum {
	ROUNDS = 10,
	CODE_BYTES = sizeof(code_head) + sizeof(uint64_t) + sizeof(code_tail),
	PAGE = 4096,
};

static unsigned long hits;

__attribute__((noinline)) static void leaf(void)
{
	hits++;
	STAP_PROBE1(jit, call, hits);
	__asm__ volatile("" ::: "memory");
}

static void *generate(void)
{
	uint64_t address = (uintptr_t)leaf;
	uint8_t *code =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		exit(1);
	memcpy(code, code_head, sizeof(code_head));
	memcpy(code + sizeof(code_head), &address, sizeof(address));
	memcpy(code + sizeof(code_head) + sizeof(address), code_tail, sizeof(code_tail));
	__builtin___clear_cache((char *)code, (char *)code + CODE_BYTES);
	if (mprotect(code, PAGE, PROT_READ | PROT_EXEC))
		exit(1);
	return code;
}

static void write_name(const char *path, const void *code, const char *name)
{
	FILE *file = fopen(path, "a");

	if (!file)
		exit(1);
	fprintf(file, "%lx %x %s\n", (unsigned long)(uintptr_t)code, CODE_BYTES, name);
	fclose(file);
}

static void name_code(const char *how, const char *path, const void *code)
{
	char other[64];

	snprintf(other, sizeof(other), "%s.other", path);
	if (!strcmp(how, "fifo") && mkfifo(path, 0600))
		exit(1);
	if (!strcmp(how, "link") || !strcmp(how, "hard")) {
		write_name(other, code, "linked");
		if (!strcmp(how, "link") ? symlink(other, path) : link(other, path))
			exit(1);
	} else if (!strcmp(how, "broken")) {
		write_name(path, (void *)-(uintptr_t)1, "beyond");
		write_name(path, "", "elsewhere\nnonsense\n\n ff\nff ff\nff  \n-1 2 sign");
		write_name(path, code, "");
	} else if (!strcmp(how, "file") || !strcmp(how, "late")) {
		write_name(path, (const char *)code - PAGE, "before");
		write_name(
			path, code, !strcmp(how, "late") ? "first" : "js:~compute /srv/app.js:7");
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "file";
	void (*code)(void) = (void (*)(void))(uintptr_t)generate();
	char path[48], other[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	snprintf(other, sizeof(other), "%s.other", path);
	name_code(how, path, (void *)(uintptr_t)code);
	target_wait();
	for (int i = 0; i < ROUNDS; i++) {
		code();
		if (!strcmp(how, "late") && i == ROUNDS / 2 - 1) {
			usleep(400 * 1000);
			write_name(path, (void *)(uintptr_t)code, "second");
			usleep(400 * 1000);
		}
	}
	printf("hits %lu\n", hits);
	target_wait();
	unlink(path);
	unlink(other);
	return 0;
}
