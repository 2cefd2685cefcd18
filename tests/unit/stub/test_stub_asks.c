/* SPDX-License-Identifier: MIT */
/*
 * How often stubs of x86-64 ask the kernel whether a page is readable: once in a hit, and again in
 * the next one. A filter of system calls turns each question into a signal, whose handler answers.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cmocka.h>

#include "tests/unit/stub/stub_host.h"
#include "tests/unit/stub/stub_variant.h"

static volatile sig_atomic_t asked;
static int tube[2];

#if defined(__x86_64__)

/* Answers as the kernel would: write(2) fails with EFAULT, too. */
static void on_question(int signal, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	char byte;

	(void)signal;
	(void)info;
	asked = asked + 1;
	registers[REG_RAX] = -EINVAL;
	if (write(tube[1], (const void *)(uintptr_t)registers[REG_RSI], 1) != 1)
		registers[REG_RAX] = -errno;
	else if (read(tube[0], &byte, 1) != 1)
		_exit(1);
}

static void answer(void)
{
	struct sigaction act = {.sa_flags = SA_SIGINFO | SA_ONSTACK, .sa_sigaction = on_question};

	assert_int_equal(sigaction(SIGSYS, &act, NULL), 0); /* cmocka has its own */
}

#else

static void answer(void)
{
}

#endif

static int listen_in(void)
{
	static uint8_t memory[1 << 16];
	stack_t stack = {.ss_sp = memory, .ss_size = sizeof(memory)};
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UINT32_MAX, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
	if (pipe(tube) != 0 || sigaltstack(&stack, NULL) != 0 ||
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ? 0 : 77;
}

/* A hit, and the words of its record; registers of `specs` are pointers to strings. */
static const uint64_t *record(struct variant *v, const char *const specs[], size_t *count_ret)
{
	struct arch_capture captures[ARCH_ARGS_MAX];
	size_t count = 0, bytes;

	for (; specs[count]; count++) {
		captures[count] = variant_capture(specs[count]);
		captures[count].is_string = specs[count][2] == '%';
	}
	answer();
	asked = 0;
	*count_ret = count;
	return variant_record(v, captures, count, &bytes);
}

static void expect(struct variant *v, const char *const specs[], int questions)
{
	const uint64_t *words;
	size_t count;

	words = record(v, specs, &count);
	assert_int_equal(asked, questions);
	for (size_t i = 0; i < count; i++)
		if (specs[i][2] == '%')
			assert_int_equal(words[i], strlen("text"));
}

static void set_up(struct variant *v)
{
	static const int regs[] = {RBX, RCX, RSI, RDI};
	static const int pages[] = {0, 1, 2, 0};

	for (int i = 0; i < 4; i++) {
		char *at = (char *)v->pages + pages[i] * PAGE + 64 * i;

		strcpy(at, "text");
		v->state.gpr[regs[i]] = (uintptr_t)at;
	}
}

static void check_once(struct variant *v)
{
	set_up(v);
	/* A structure, read field by field. */
	expect(v, (const char *const[]){"8@(%rbx)", "-4@8(%rbx)", "2@16(%rbx)", NULL}, 1);
	expect(v, (const char *const[]){"8@%rbx", NULL}, 1);
	/* %rbx and %rdi point to one page, %rcx and %rsi to others. */
	expect(v, (const char *const[]){"8@%rbx", "8@%rdi", "8@%rbx", NULL}, 1);
	expect(v, (const char *const[]){"8@%rbx", "8@%rcx", "8@%rdi", "8@%rcx", NULL}, 2);
	expect(v, (const char *const[]){"8@(%rbx)", "8@%rcx", "8@8(%rbx)", "8@%rsi", NULL}, 3);
	/* The stack pointer's page needs no question. */
	expect(v, (const char *const[]){"8@8(%rsp)", "8@(%rbx)", "8@%rbx", NULL}, 1);
	/* Each hit asks again. */
	expect(v, (const char *const[]){"8@(%rbx)", "8@%rbx", NULL}, 1);
	expect(v, (const char *const[]){"8@(%rbx)", "8@%rbx", NULL}, 1);
}

static void once_in_a_hit(void **state)
{
	(void)state;
	variant_each(check_once);
}

/* One string goes on in the next page, where another one begins. */
static void check_long(struct variant *v)
{
	static const char *const specs[] = {"8@%rbx", "8@%rcx", "8@(%rbx)", NULL};
	const uint64_t *words;
	size_t count;

	memset(v->pages, 'a', 2 * PAGE);
	v->pages[PAGE + 20] = 0;
	v->state.gpr[RBX] = (uintptr_t)v->pages + PAGE - 10;
	v->state.gpr[RCX] = (uintptr_t)v->pages + PAGE;
	words = record(v, specs, &count);
	assert_int_equal(words[0], 30);
	assert_int_equal(words[1], 20);
	assert_int_equal(asked, 2);
}

static void strings_over_pages(void **state)
{
	(void)state;
	variant_each(check_long);
}

/* What could not be read is not taken for readable, neither in this hit nor when that changes. */
static void check_unreadable(struct variant *v)
{
	static const char *const specs[] = {"8@%rbx", "8@%rcx", "8@(%rbx)", "8@(%rcx)", NULL};
	const uint64_t *words;
	size_t count;

	set_up(v);
	v->state.gpr[RBX] = (uintptr_t)v->pages + 3 * PAGE;
	for (int i = 0; i < 2; i++) {
		words = record(v, specs, &count);
		assert_int_equal(words[0], UNREADABLE);
		assert_int_equal(words[1], i ? UNREADABLE : strlen("text"));
		assert_int_equal(words[count] & 0xc, i ? 0 : 8);
		assert_int_equal(asked, i ? 4 : 3);
		assert_int_equal(mprotect(v->pages + PAGE, PAGE, PROT_NONE), 0);
	}
	v->state.gpr[RBX] = v->state.gpr[RCX] = 8; /* no question: never readable */
	words = record(v, specs, &count);
	assert_int_equal(words[count] & 0xc, 0);
	assert_int_equal(asked, 0);
}

static void unreadable_pages(void **state)
{
	(void)state;
	variant_each(check_unreadable);
}

/* ---- Stacks ------------------------------------------------------------------------------ */

enum { KEEP = 32, DEPTH = 2, ENTRIES = 16 };

/* Calls sites from a stack of some pages, all of which a copy asks for but the first. */
static void call_sites(stub_host_site *const sites[], size_t count)
{
	volatile uint8_t room[4 * PAGE];

	room[0] = room[sizeof(room) - 1] = 1;
	answer();
	asked = 0;
	for (size_t i = 0; i < count; i++)
		sites[i](room[0], 0, 0);
	room[1] = 1; /* keeps it alive until here */
}

/* A hit that leaves nothing asks for no page of the stack: a sample that is not taken. */
static void samples_ask_if_taken(void **state)
{
	struct arch_capture capture = {.stack = ARCH_STACK_BYTES, .bytes_max = 2 * PAGE};
	struct stub_host host;
	struct arch_stub stub;
	stub_host_site *sites[2];
	size_t bytes;

	(void)state;
	stub_host_init(&host, true);
	stub = stub_host_stub(&host, true);
	stub.actions[0].kind = ARCH_ACTION_RECORD;
	stub.captures = &capture;
	stub.capture_count = stub.recorded = 1;
	stub.every = 2;
	sites[0] = sites[1] = stub_host_emit_site(&host, &stub);
	call_sites(sites, 1);
	assert_int_equal(asked, 0);
	stub_host_reset(&host);
	call_sites(sites, 2);
	assert_true(asked == 1 || asked == 2); /* by where the stack pointer is in its page */
	assert_non_null(stub_host_only_record(&host, &bytes));
	assert_true(bytes > (size_t)2 * PAGE);
	stub_host_deinit(&host);
}

/* A pair that is shorter than is asked for, or that its filter rejects. */
static void spans_ask_if_left(void **state)
{
	static const struct arch_expr_node nothing = {.kind = ARCH_EXPR_CONST, .wide = true};
	static const struct arch_expr never = {&nothing, 1};
	struct arch_capture capture = {.stack = ARCH_STACK_BYTES, .bytes_max = 2 * PAGE};
	static uint64_t table[ENTRIES * 32];

	(void)state;
	for (int how = 0; how < 3; how++) {
		struct stub_host host;
		struct arch_stub stub;
		stub_host_site *sites[2];
		size_t bytes;

		stub_host_init(&host, true);
		memset(table, 0, sizeof(table));
		stub = stub_host_stub(&host, true);
		stub.actions[0].flights = (struct arch_flights){.table = (uintptr_t)table,
			.entries = ENTRIES,
			.depth = DEPTH,
			.keep = KEEP,
			.record = sizeof(struct probe_begun),
			.scale = UINT64_C(1) << 32};
		stub.actions[0].kind = ARCH_ACTION_BEGIN;
		sites[0] = stub_host_emit_site(&host, &stub);
		stub.actions[0].kind = ARCH_ACTION_RECORD;
		stub.captures = &capture;
		stub.capture_count = stub.recorded = 1;
		stub.actions[0].flights.min_ns = how == 1 ? UINT64_MAX : 0;
		stub.actions[0].flights.filter = how == 2 ? &never : NULL;
		sites[1] = stub_host_emit_site(&host, &stub);
		call_sites(sites, 2);
		assert_int_equal(asked > 0, how == 0);
		assert_int_equal(stub_host_only_record(&host, &bytes) != NULL, how == 0);
		assert_int_equal(stub_host_lost(&host), 0);
		stub_host_deinit(&host);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(once_in_a_hit),
		cmocka_unit_test(strings_over_pages),
		cmocka_unit_test(unreadable_pages),
		cmocka_unit_test(samples_ask_if_taken),
		cmocka_unit_test(spans_ask_if_left),
	};
	int status;

#ifndef __x86_64__
	return stub_harness_lacks();
#endif
	status = listen_in();
	return status ? status : cmocka_run_group_tests(tests, NULL, NULL);
}
