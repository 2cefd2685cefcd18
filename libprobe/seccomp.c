/* SPDX-License-Identifier: MIT */
/*
 * A filter may kill the process for a call that it does not know, so nothing
 * can be tried out. But a privileged tracer can read filters
 * (PTRACE_SECCOMP_GET_FILTER), and they are small programs that depend on the
 * call alone: they are run here instead.
 *
 * Sources: seccomp(2), ptrace(2), Documentation/userspace-api/seccomp_filter.rst;
 * Documentation/networking/filter.rst for the instructions.
 */
#include <errno.h>
#include <linux/audit.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "libprobe/seccomp.h"
#include "libprobe/shared.h"

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif

/* The state of the machine. */
struct machine {
	uint32_t a, x;
	uint32_t memory[BPF_MEMWORDS];
};

static bool alu(struct machine *m, uint16_t code, uint32_t operand)
{
	switch (BPF_OP(code)) {
	case BPF_ADD:
		m->a += operand;
		return true;
	case BPF_SUB:
		m->a -= operand;
		return true;
	case BPF_MUL:
		m->a *= operand;
		return true;
	case BPF_DIV:
		if (!operand)
			return false;
		m->a /= operand;
		return true;
	case BPF_OR:
		m->a |= operand;
		return true;
	case BPF_AND:
		m->a &= operand;
		return true;
	case BPF_XOR:
		m->a ^= operand;
		return true;
	case BPF_LSH:
		m->a = operand < 32 ? m->a << operand : 0;
		return true;
	case BPF_RSH:
		m->a = operand < 32 ? m->a >> operand : 0;
		return true;
	case BPF_NEG:
		m->a = -m->a;
		return true;
	}
	return false;
}

static bool condition(const struct machine *m, uint16_t code, uint32_t operand)
{
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		return m->a == operand;
	case BPF_JGT:
		return m->a > operand;
	case BPF_JGE:
		return m->a >= operand;
	default:
		return m->a & operand;
	}
}

/* A load into either register; false where it is malformed. */
static bool load(const struct machine *m, const struct sock_filter *i,
	const struct seccomp_data *data, uint32_t *ret)
{
	switch (BPF_MODE(i->code)) {
	case BPF_IMM:
		*ret = i->k;
		return true;
	case BPF_LEN:
		*ret = sizeof(*data);
		return true;
	case BPF_MEM:
		if (i->k >= BPF_MEMWORDS)
			return false;
		*ret = m->memory[i->k];
		return true;
	case BPF_ABS:
		if (i->k % 4 || i->k > sizeof(*data) - 4)
			return false;
		memcpy(ret, (const uint8_t *)data + i->k, sizeof(*ret));
		return true;
	}
	return false;
}

/* One instruction that is neither a jump nor a return. */
static bool step(struct machine *m, const struct sock_filter *i, const struct seccomp_data *data)
{
	uint32_t operand = BPF_SRC(i->code) == BPF_X ? m->x : i->k;

	switch (BPF_CLASS(i->code)) {
	case BPF_LD:
		return load(m, i, data, &m->a);
	case BPF_LDX:
		return load(m, i, data, &m->x);
	case BPF_ST:
	case BPF_STX:
		if (i->k >= BPF_MEMWORDS)
			return false;
		m->memory[i->k] = BPF_CLASS(i->code) == BPF_ST ? m->a : m->x;
		return true;
	case BPF_ALU:
		return alu(m, i->code, operand);
	case BPF_MISC:
		if (BPF_MISCOP(i->code) == BPF_TAX)
			m->x = m->a;
		else
			m->a = m->x;
		return true;
	}
	return false;
}

uint32_t seccomp_run(
	const struct sock_filter *program, size_t length, const struct seccomp_data *data)
{
	struct machine m = {0};
	size_t at = 0;

	/* Jumps only go forward, so this ends. */
	while (at < length) {
		const struct sock_filter *i = &program[at++];
		uint32_t operand = BPF_SRC(i->code) == BPF_X ? m.x : i->k;

		if (BPF_CLASS(i->code) == BPF_RET)
			return BPF_RVAL(i->code) == BPF_A ? m.a : i->k;
		if (BPF_CLASS(i->code) != BPF_JMP) {
			if (!step(&m, i, data))
				break;
		} else if (BPF_OP(i->code) == BPF_JA) {
			at += i->k;
		} else {
			at += condition(&m, i->code, operand) ? i->jt : i->jf;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

/* ---- A target's filters --------------------------------------------------------------- */

/* What we have a target do, with those arguments that filters look at. */
struct needed {
	const char *name;
	int number;
	uint64_t args[6];
};

static const struct needed calls[] = {
	{"mmap", SYS_mmap,
		{4096, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, 3}},
	{"mmap", SYS_mmap,
		{4096, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED}},
	{"mmap", SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3}},
	{"munmap", SYS_munmap, {4096, 4096}},
	{"madvise", SYS_madvise, {4096, 4096, MADV_WIPEONFORK}},
	{"memfd_create", SYS_memfd_create, {4096, SHARED_MEMFD_FLAGS}},
	{"close", SYS_close, {3}},
	{"rt_sigreturn", SYS_rt_sigreturn, {0}},
	{"rt_sigprocmask", SYS_rt_sigprocmask, {UINT32_MAX, 4096, 0, 8}},
	{"gettid", SYS_gettid, {0}},
	{"futex", SYS_futex, {4096, 0, 0}},
};

static const struct needed *first_denied(const struct sock_filter *program, size_t length)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		struct seccomp_data data = {.nr = calls[i].number, .arch = AUDIT_ARCH_X86_64};
		uint32_t verdict;

		memcpy(data.args, calls[i].args, sizeof(data.args));
		verdict = seccomp_run(program, length, &data) & SECCOMP_RET_ACTION_FULL;
		if (verdict != SECCOMP_RET_ALLOW && verdict != SECCOMP_RET_LOG)
			return &calls[i];
	}
	return NULL;
}

struct probe_error *seccomp_check(pid_t pid, pid_t tid)
{
	for (unsigned long index = 0;; index++) {
		long length = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)index, NULL);
		const struct needed *denied;
		struct sock_filter *program;

		if (length < 0 && errno == ENOENT)
			return NULL; /* there are no more */
		if (length < 0)
			return probe_error_new(PROBE_ERROR_UNSUPPORTED,
				"process %d runs under a seccomp filter, which might kill it for "
				"what probectl has it do, and only root can read the filter: run "
				"probectl as root",
				pid);
		program = calloc(length, sizeof(*program));
		if (!program)
			return probe_error_no_memory();
		if (ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)index, program) != length) {
			free(program);
			return probe_error_new(
				PROBE_ERROR_STATE, "the seccomp filters of process %d change", pid);
		}
		denied = first_denied(program, length);
		free(program);
		if (denied)
			return probe_error_new(PROBE_ERROR_UNSUPPORTED,
				"the seccomp filter of process %d does not allow %s, which "
				"probectl would have it call",
				pid, denied->name);
	}
}
