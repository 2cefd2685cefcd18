/* SPDX-License-Identifier: MIT */
/*
 * Stubs: what runs in the target at a hit.
 *
 * A stub is entered by a jump from a site, in the middle of somebody else's
 * function, and must leave no trace there:
 *
 *   lea -128(%rsp),%rsp       step over the red zone (System V ABI, 3.2.2)
 *   push %rax; lahf; seto %al; push %rax ...    flags: popf costs 6 ns more
 *   [guard == 0: a forked child that does not count: leave]
 *   [pointers: may they be followed? measure the strings]
 *   retry:
 *   %fs:rseq_cs = descriptor   from here on a preemption, a migration or a
 *   start:                     signal makes the kernel resume at `abort`
 *     cpu = %fs:cpu_id; none: go to `slow`
 *     write the record behind head; no room: go to `full`
 *     add size, head           the last instruction of the sequence publishes it
 *   end:
 *   %fs:rseq_cs = 0            nothing may point into memory that we unmap
 *   out:
 *   pop ...; add $0x7f,%al; sahf; pop %rax; lea 128(%rsp),%rsp
 *   jmp next
 *
 * The time is read inside the sequence, so the records of one ring are in the
 * order of time.
 *
 * Sources: include/uapi/linux/rseq.h and kernel/rseq.c of Linux; Intel SDM
 * volume 2, LAHF, SETcc, RDTSC, RDTSCP.
 *
 * Pointers. A memory operand that is not on the stack or in static storage,
 * and every string, is reached through a pointer that the program may never
 * follow itself. Before following it, the stub asks the kernel whether its
 * page can be read: rt_sigprocmask(2) with an invalid `how` copies eight bytes
 * from the address it is given and then fails with EINVAL, or with EFAULT where
 * there is nothing to read. It changes nothing in either case.
 */
#include <string.h>

#include "arch/arch.h"
#include "arch/layout.h"
#include "arch/x86/emit.h"
#include "arch/x86/stub.h"

enum {
	RED_ZONE = 128,
	PAGE_BYTES = 4096,
	XMM_BYTES = 16,
	STACK_NEAR = 2 * PAGE_BYTES, /* above the stack pointer: certainly stack */
	SYS_RT_SIGPROCMASK = 14,
	SYS_GETTID = 186,
	MINUS_EINVAL = -22,
	IMM_AND = 4, /* digits of opcode group 1 */
	IMM_SUB = 5,
	IMM_CMP = 7
};

/* The stack frame of a stub, while it runs. */
struct frame {
	int saved[16]; /* offset from %rsp of a register's value at the site, or -1 */
	int order[16]; /* the registers pushed behind the flags */
	int order_count;
	int temps; /* 8-byte temporaries at the bottom */
	int size;  /* from %rsp to the site's %rsp */
};

/* Where a stub's captures keep what was found out before the sequence starts. */
struct plan {
	const struct arch_stub *stub;
	struct frame frame;
	bool checked;	 /* any pointer to be checked */
	bool kernel_tid; /* the thread id comes from gettid(2) */
	int tid_temp, mask_temp;
	int temp[ARCH_ARGS_MAX * 2]; /* of each capture; strings use two */
	uint32_t fixed_bytes;	     /* of a record, before strings and aggregates */
	uint32_t max_bytes;
	int check; /* label of the subroutine that checks a page */
	int next;  /* label of the jump out */
};

bool x86_64_capturable(const struct arch_arg *arg)
{
	switch (arg->kind) {
	case ARCH_ARG_IMMEDIATE:
	case ARCH_ARG_REGISTER:
		return arg->size <= 8;
	case ARCH_ARG_FP_REGISTER: /* more than 16 of them need AVX-512 */
		return arg->base >= 0 && arg->base < 16 &&
		       (arg->size == 4 || arg->size == 8 || arg->size == XMM_BYTES);
	case ARCH_ARG_MEMORY:
		return !arg->symbol && arg->size > 0 && arg->size <= PAGE_BYTES;
	case ARCH_ARG_UNKNOWN:
		break;
	}
	return false;
}

static bool is_bytes(const struct arch_capture *c)
{
	return !c->is_string && c->arg.size > 8;
}

/* Static storage and the stack frame are mapped as long as the code there runs. */
static bool memory_is_safe(const struct arch_arg *arg)
{
	if (arg->index != ARCH_REG_NONE)
		return false;
	return arg->base == RSP || arg->base == ARCH_REG_PC || arg->base == ARCH_REG_NONE;
}

bool x86_64_capture_checked(const struct arch_capture *c)
{
	return c->arg.kind == ARCH_ARG_MEMORY && !memory_is_safe(&c->arg);
}

/* ---- Frame -------------------------------------------------------------- */

static void frame_layout(struct frame *f, bool record, bool full)
{
	static const int count_regs[] = {RCX};
	static const int record_regs[] = {RCX, RDX, R9, R10, R8, RSI, RDI, R11};
	const int *regs = record ? record_regs : count_regs;

	f->order_count = !record ? 1 : full ? 8 : 4;
	for (int i = 0; i < 16; i++)
		f->saved[i] = -1;
	for (int i = 0; i < f->order_count; i++)
		f->order[i] = regs[i];
	f->size = RED_ZONE + 8 * (2 + f->order_count + f->temps);
	f->saved[RAX] = 8 * (1 + f->order_count + f->temps);
	for (int i = 0; i < f->order_count; i++)
		f->saved[f->order[i]] = 8 * (f->temps + f->order_count - 1 - i);
}

static void emit_enter(struct emit *e, const struct frame *f)
{
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -RED_ZONE));
	emit_push(e, RAX);
	emit_bytes(e, "\x9f\x0f\x90\xc0", 4); /* lahf; seto %al */
	emit_push(e, RAX);
	for (int i = 0; i < f->order_count; i++)
		emit_push(e, f->order[i]);
	if (f->temps)
		emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, -8 * f->temps));
}

static void emit_leave(struct emit *e, const struct frame *f)
{
	if (f->temps)
		emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, 8 * f->temps));
	for (int i = f->order_count - 1; i >= 0; i--)
		emit_pop(e, f->order[i]);
	emit_pop(e, RAX);
	emit_bytes(e, "\x04\x7f\x9e", 3); /* add $0x7f,%al (sets OF as it was); sahf */
	emit_pop(e, RAX);
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, RED_ZONE));
}

static struct emit_mem temp_at(int temp)
{
	return mem_at(RSP, 8 * temp);
}

/* dst = the register's value at the site. */
static void emit_original(struct emit *e, const struct frame *f, int reg, int dst)
{
	if (reg == RSP)
		emit_mem(e, true, OP_LEA, dst, mem_at(RSP, f->size));
	else if (f->saved[reg] >= 0)
		emit_mem(e, true, OP_MOV_LOAD, dst, mem_at(RSP, f->saved[reg]));
	else
		emit_reg(e, true, OP_MOV_LOAD, dst, reg);
}

/* ---- Values of arguments -------------------------------------------------- */

/* Extends the low `bytes` bytes of %rax to 64 bits. */
static void emit_extend(struct emit *e, unsigned int bytes, bool is_signed)
{
	if (bytes == 1)
		emit_reg(e, is_signed, is_signed ? OP_MOVSX8 : OP_MOVZX8, RAX, RAX);
	else if (bytes == 2)
		emit_reg(e, is_signed, is_signed ? OP_MOVSX16 : OP_MOVZX16, RAX, RAX);
	else if (bytes == 4)
		emit_reg(e, is_signed, is_signed ? OP_MOVSX32 : OP_MOV_LOAD, RAX, RAX);
}

/* %rax = the value at m, of 1 to 8 bytes, extended. */
static void emit_load(struct emit *e, struct emit_mem m, unsigned int bytes, bool is_signed)
{
	if (bytes == 1)
		emit_mem(e, is_signed, is_signed ? OP_MOVSX8 : OP_MOVZX8, RAX, m);
	else if (bytes == 2)
		emit_mem(e, is_signed, is_signed ? OP_MOVSX16 : OP_MOVZX16, RAX, m);
	else if (bytes == 4)
		emit_mem(e, is_signed, is_signed ? OP_MOVSX32 : OP_MOV_LOAD, RAX, m);
	else
		emit_mem(e, true, OP_MOV_LOAD, RAX, m);
}

/* The constant as the declared size and sign make it. */
static uint64_t immediate_value(const struct arch_arg *arg)
{
	unsigned int bits = arg->size < 8 ? arg->size * 8 : 64;
	uint64_t value = arg->disp;

	if (bits == 64 || bits == 0)
		return value;
	value &= (UINT64_C(1) << bits) - 1;
	if (arg->is_signed && value >> (bits - 1))
		value |= ~UINT64_C(0) << bits;
	return value;
}

/* dst = the address of a memory operand; uses %rcx where it has an index. */
static void emit_address(struct emit *e, const struct frame *f, const struct arch_arg *arg, int dst)
{
	bool far = arg->disp != (int32_t)arg->disp;
	bool based = arg->base >= 0;
	struct emit_mem m = {.base = dst,
		.index = REG_NONE,
		.scale = arg->scale ? arg->scale : 1,
		.disp = far || !based ? 0 : arg->disp};

	if (based)
		emit_original(e, f, arg->base, dst);
	else
		emit_const(e, dst, arg->disp);
	if (arg->index >= 0) {
		emit_original(e, f, arg->index, RCX);
		m.index = RCX;
	}
	if (m.index != REG_NONE || m.disp)
		emit_mem(e, true, OP_LEA, dst, m);
	if (based && far) {
		emit_const(e, RCX, arg->disp);
		emit_reg(e, true, OP_ADD, dst, RCX);
	}
}

/* %rax = the value of an argument that needs no check. */
static void emit_value(struct emit *e, const struct frame *f, const struct arch_arg *arg)
{
	unsigned int bytes = arg->size < arg->width ? arg->size : arg->width;

	switch (arg->kind) {
	case ARCH_ARG_IMMEDIATE:
		emit_const(e, RAX, immediate_value(arg));
		break;
	case ARCH_ARG_REGISTER:
		emit_original(e, f, arg->base, RAX);
		if (arg->shift)
			emit_shift(e, true, false, RAX, arg->shift);
		emit_extend(e, bytes, arg->is_signed);
		break;
	case ARCH_ARG_FP_REGISTER: /* movq %xmmN,%rax */
		emit_u8(e, 0x66);
		emit_u8(e, 0x48 | (arg->base & 8 ? 4 : 0));
		emit_u8(e, 0x0f);
		emit_u8(e, 0x7e);
		emit_u8(e, 0xc0 | (arg->base & 7) << 3);
		break;
	case ARCH_ARG_MEMORY:
		emit_address(e, f, arg, RAX);
		emit_load(e, mem_at(RAX, 0), arg->size, arg->is_signed && !arg->is_float);
		break;
	case ARCH_ARG_UNKNOWN:
		break;
	}
}

/* ---- Checked pointers ------------------------------------------------------ */

/*
 * The subroutine: may the page of address %rsi be read? ZF if so.
 * Changes %rax, %rcx, %rdx, %rsi, %rdi, %r10, %r11.
 */
static void emit_check_subroutine(struct emit *e, const struct plan *p)
{
	int out = emit_label(e);

	emit_place(e, p->check);
	emit_imm(e, true, IMM_AND, RSI, -8);
	/* A null set would be no error; nothing is ever mapped in the first page. */
	emit_imm(e, true, IMM_CMP, RSI, PAGE_BYTES);
	emit_jump_label(e, CC_B, out); /* below: not equal */
	emit_const(e, RDI, UINT32_MAX);
	emit_const(e, RDX, 0);
	emit_const(e, R10, 8);
	emit_const(e, RAX, SYS_RT_SIGPROCMASK);
	emit_bytes(e, "\x0f\x05", 2); /* syscall */
	emit_imm(e, true, IMM_CMP, RAX, MINUS_EINVAL);
	emit_place(e, out);
	emit_u8(e, 0xc3);
}

static void emit_call_check(struct emit *e, const struct plan *p)
{
	/* call rel32 has the fix-up of a jmp. */
	emit_jump_label(e, -1, p->check);
	if (e->length >= 5 && e->length <= e->room)
		e->out[e->length - 5] = 0xe8;
}

static void emit_clear_valid(struct emit *e, const struct plan *p, int capture)
{
	emit_mem(e, false, OP_MOV_LOAD, RAX, temp_at(p->mask_temp));
	emit_imm(e, false, IMM_AND, RAX, (int32_t) ~(UINT32_C(1) << capture));
	emit_mem(e, false, OP_MOV_STORE, RAX, temp_at(p->mask_temp));
}

/*
 * %r8 = the address of a memory operand that is readable for arg->size bytes,
 * else a jump to `bad`.
 */
static void emit_checked_address(
	struct emit *e, const struct plan *p, const struct arch_arg *arg, int bad)
{
	int good = emit_label(e);

	emit_address(e, &p->frame, arg, R8);
	if (!x86_64_capture_checked(&(struct arch_capture){.arg = *arg})) {
		emit_place(e, good);
		return;
	}
	emit_reg(e, true, OP_MOV_LOAD, RAX, R8);
	emit_reg(e, true, OP_SUB, RAX, RSP);
	emit_imm(e, true, IMM_CMP, RAX, STACK_NEAR);
	emit_jump_label(e, CC_B, good);
	if (!p->stub->may_call_kernel) {
		emit_jump_label(e, -1, bad);
		emit_place(e, good);
		return;
	}
	emit_reg(e, true, OP_MOV_LOAD, RSI, R8);
	emit_call_check(e, p);
	emit_jump_label(e, CC_NE, bad);
	emit_mem(e, true, OP_LEA, RSI, mem_at(R8, arg->size - 1));
	emit_call_check(e, p);
	emit_jump_label(e, CC_NE, bad);
	emit_place(e, good);
}

/*
 * Measures the string at %r8: its pointer and its length with the flag bits go
 * to temporaries t and t + 1.
 */
static void emit_measure_string(struct emit *e, const struct plan *p, int t, uint32_t max)
{
	const struct arch_stub *s = p->stub;
	int page = emit_label(e), scan = emit_label(e), loop = emit_label(e);
	int ended = emit_label(e), found = emit_label(e), fault = emit_label(e);
	int cut = emit_label(e), store = emit_label(e);

	emit_mem(e, true, OP_MOV_STORE, R8, temp_at(t));
	emit_reg(e, true, OP_MOV_LOAD, R9, R8);
	if (s->safe_end > s->safe_start) {
		/* %rcx = the end of the module's constants, if the string is there */
		emit_const(e, RAX, s->safe_start);
		emit_reg(e, true, OP_MOV_LOAD, RDX, R8);
		emit_reg(e, true, OP_SUB, RDX, RAX);
		emit_const(e, RCX, s->safe_end - s->safe_start);
		emit_reg(e, true, OP_CMP, RDX, RCX);
		emit_jump_label(e, CC_AE, page);
		emit_reg(e, true, OP_ADD, RCX, RAX);
		emit_jump_label(e, -1, scan);
	}
	emit_place(e, page);
	if (s->may_call_kernel) {
		emit_reg(e, true, OP_MOV_LOAD, RSI, R9);
		emit_call_check(e, p);
		emit_jump_label(e, CC_NE, fault);
		emit_mem(e, true, OP_LEA, RCX, mem_at(R9, PAGE_BYTES));
		emit_imm(e, true, IMM_AND, RCX, -PAGE_BYTES);
	} else {
		emit_jump_label(e, -1, fault);
	}
	emit_place(e, scan); /* bytes [%r9, %rcx) can be read */
	emit_mem(e, true, OP_LEA, RAX, mem_at(R8, max + 1));
	emit_reg(e, true, OP_CMP, RAX, RCX);
	emit_jump_label(e, CC_AE, loop);
	emit_reg(e, true, OP_MOV_LOAD, RCX, RAX);
	emit_place(e, loop);
	emit_reg(e, true, OP_CMP, R9, RCX);
	emit_jump_label(e, CC_AE, ended);
	emit_bytes(e, "\x41\x80\x39\x00", 4); /* cmpb $0,(%r9) */
	emit_jump_label(e, CC_E, found);
	emit_bytes(e, "\x49\xff\xc1", 3); /* inc %r9 */
	emit_jump_label(e, -1, loop);
	emit_place(e, ended);
	emit_mem(e, true, OP_LEA, RAX, mem_at(R8, max + 1));
	emit_reg(e, true, OP_CMP, R9, RAX);
	emit_jump_label(e, CC_B, page);
	emit_const(e, RAX, max | UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	emit_jump_label(e, -1, store);

	emit_place(e, fault); /* what came before it, if anything, is shown */
	emit_reg(e, true, OP_CMP, R9, R8);
	emit_jump_label(e, CC_NE, cut);
	emit_const(e, RAX, UINT64_C(1) << RING_STRING_NULL_BIT);
	emit_jump_label(e, -1, store);
	emit_place(e, cut);
	emit_const(e, RAX, UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	emit_reg(e, true, OP_ADD, RAX, R9);
	emit_reg(e, true, OP_SUB, RAX, R8);
	emit_jump_label(e, -1, store);

	emit_place(e, found);
	emit_reg(e, true, OP_MOV_LOAD, RAX, R9);
	emit_reg(e, true, OP_SUB, RAX, R8);
	emit_place(e, store);
	emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(t + 1));
}

static uint32_t capture_bytes(const struct arch_capture *c)
{
	if (c->arg.kind == ARCH_ARG_FP_REGISTER)
		return XMM_BYTES;
	return is_bytes(c) && c->arg.size < c->bytes_max ? c->arg.size : c->bytes_max;
}

/* Everything that may fault or enter the kernel, before the sequence starts. */
static void emit_prepare_capture(struct emit *e, const struct plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	bool memory = c->arg.kind == ARCH_ARG_MEMORY;
	bool checked = x86_64_capture_checked(c);
	int bad = emit_label(e), done = emit_label(e);

	if (!checked && !c->is_string && !(is_bytes(c) && memory))
		return;
	if (memory) {
		emit_checked_address(e, p, &c->arg, bad);
		if (!is_bytes(c))
			emit_load(e, mem_at(R8, 0), c->arg.size,
				c->arg.is_signed && !c->arg.is_float);
	} else {
		emit_value(e, &p->frame, &c->arg);
	}
	if (c->is_string) {
		emit_reg(e, true, OP_MOV_LOAD, R8, RAX);
		emit_measure_string(e, p, p->temp[i], c->bytes_max);
	} else if (is_bytes(c)) {
		bool cut = c->arg.size > c->bytes_max;

		emit_mem(e, true, OP_MOV_STORE, R8, temp_at(p->temp[i]));
		emit_const(e, RAX, capture_bytes(c) | (uint64_t)cut << RING_STRING_TRUNCATED_BIT);
		emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->temp[i] + 1));
	} else {
		emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->temp[i]));
	}
	if (!checked) {
		emit_place(e, bad);
		emit_place(e, done);
		return;
	}
	emit_jump_label(e, -1, done);
	emit_place(e, bad);
	emit_clear_valid(e, p, i);
	emit_store_imm(e, true, temp_at(p->temp[i]), 0);
	if (c->is_string || is_bytes(c)) {
		emit_const(e, RAX, UINT64_C(1) << RING_STRING_NULL_BIT);
		emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->temp[i] + 1));
	}
	emit_place(e, done);
}

/* ---- The record -------------------------------------------------------------- */

/* Copies the bytes of a string or aggregate to %r8 and moves it on, padded. */
static void emit_copy_bytes(struct emit *e, int t)
{
	int words = emit_label(e), tail = emit_label(e), loop = emit_label(e), done = emit_label(e);

	emit_mem(e, true, OP_MOV_LOAD, RSI, temp_at(t));
	emit_mem(e, false, OP_MOV_LOAD, RDX, temp_at(t + 1)); /* without the flag bits */
	emit_const(e, RCX, 0);
	emit_place(e, words);
	emit_mem(e, true, OP_LEA, RAX, mem_at(RCX, 8));
	emit_reg(e, true, OP_CMP, RAX, RDX);
	emit_jump_label(e, CC_A, tail);
	emit_mem(e, true, OP_MOV_LOAD, RDI,
		(struct emit_mem){.base = RSI, .index = RCX, .scale = 1});
	emit_mem(e, true, OP_MOV_STORE, RDI,
		(struct emit_mem){.base = R8, .index = RCX, .scale = 1});
	emit_reg(e, true, OP_MOV_LOAD, RCX, RAX);
	emit_jump_label(e, -1, words);
	emit_place(e, tail);
	emit_place(e, loop);
	emit_reg(e, true, OP_CMP, RCX, RDX);
	emit_jump_label(e, CC_AE, done);
	emit_mem(
		e, false, OP_MOVZX8, RAX, (struct emit_mem){.base = RSI, .index = RCX, .scale = 1});
	emit_mem(e, false, OP_MOV_STORE8, RAX,
		(struct emit_mem){.base = R8, .index = RCX, .scale = 1});
	emit_mem(e, true, OP_LEA, RCX, mem_at(RCX, 1));
	emit_jump_label(e, -1, loop);
	emit_place(e, done);
	emit_mem(e, true, OP_LEA, RDX, mem_at(RDX, 7));
	emit_imm(e, true, IMM_AND, RDX, -8);
	emit_reg(e, true, OP_ADD, R8, RDX);
}

static void emit_capture(struct emit *e, const struct plan *p, int i)
{
	const struct arch_capture *c = &p->stub->captures[i];
	struct emit_mem slot = mem_at(R10, sizeof(struct ring_record) + 8 * i);

	if (is_bytes(c) && c->arg.kind == ARCH_ARG_FP_REGISTER) {
		emit_store_imm(e, true, slot, XMM_BYTES);
		if (c->arg.base & 8)
			emit_u8(e, 0x45);
		else
			emit_u8(e, 0x41);
		emit_bytes(e, "\x0f\x11", 2); /* movups %xmmN,(%r8) */
		emit_u8(e, (c->arg.base & 7) << 3);
		emit_mem(e, true, OP_LEA, R8, mem_at(R8, XMM_BYTES));
	} else if (c->is_string || is_bytes(c)) {
		emit_mem(e, true, OP_MOV_LOAD, RAX, temp_at(p->temp[i] + 1));
		emit_mem(e, true, OP_MOV_STORE, RAX, slot);
		emit_copy_bytes(e, p->temp[i]);
	} else {
		if (x86_64_capture_checked(c))
			emit_mem(e, true, OP_MOV_LOAD, RAX, temp_at(p->temp[i]));
		else
			emit_value(e, &p->frame, &c->arg);
		emit_mem(e, true, OP_MOV_STORE, RAX, slot);
	}
}

/*
 * Writes a record into the ring at %r9 and publishes it; no room: jumps to
 * `full`. The last instruction is the one that publishes.
 */
static void emit_record(struct emit *e, const struct plan *p, int full)
{
	const struct arch_stub *s = p->stub;
	bool variable = p->max_bytes > p->fixed_bytes;

	emit_bytes(e, "\x0f\x31", 2); /* rdtsc */
	emit_shift(e, true, true, RDX, 32);
	emit_reg(e, true, OP_OR, RDX, RAX);
	emit_mem(e, true, OP_MOV_LOAD, R10, mem_at(R9, offsetof(struct ring_header, head)));
	emit_mem(e, true, OP_LEA, RAX, mem_at(R10, p->max_bytes));
	emit_mem(e, true, OP_SUB, RAX, mem_at(R9, offsetof(struct ring_header, tail)));
	emit_imm(e, true, IMM_CMP, RAX, s->ring_bytes);
	emit_jump_label(e, CC_A, full);
	emit_imm(e, false, IMM_AND, R10, s->ring_bytes - 1);
	emit_mem(e, true, OP_LEA, R10,
		(struct emit_mem){
			.base = R9, .index = R10, .scale = 1, .disp = sizeof(struct ring_header)});
	emit_mem(e, true, OP_MOV_STORE, RDX, mem_at(R10, offsetof(struct ring_record, time)));
	if (s->thread.has_tid)
		emit_mem(e, false, OP_MOV_LOAD, RAX, mem_fs(s->thread.tid_offset));
	else if (p->kernel_tid)
		emit_mem(e, false, OP_MOV_LOAD, RAX, temp_at(p->tid_temp));
	else
		emit_const(e, RAX, 0);
	emit_mem(e, false, OP_MOV_STORE, RAX, mem_at(R10, offsetof(struct ring_record, tid)));
	emit_store_imm(e, false, mem_at(R10, offsetof(struct ring_record, site)), s->site);
	if (variable)
		emit_mem(e, true, OP_LEA, R8, mem_at(R10, p->fixed_bytes));
	for (int i = 0; i < s->capture_count; i++)
		emit_capture(e, p, i);
	if (p->checked) {
		emit_mem(e, false, OP_MOV_LOAD, RAX, temp_at(p->mask_temp));
		emit_mem(e, true, OP_MOV_STORE, RAX,
			mem_at(R10, sizeof(struct ring_record) + 8 * s->capture_count));
	}
	if (variable) {
		emit_reg(e, true, OP_SUB, R8, R10);
		emit_mem(e, true, OP_ADD_TO, R8, mem_at(R9, offsetof(struct ring_header, head)));
	} else {
		emit_const(e, RAX, p->fixed_bytes);
		emit_mem(e, true, OP_ADD_TO, RAX, mem_at(R9, offsetof(struct ring_header, head)));
	}
}

/* ---- Restartable sequences ---------------------------------------------------- */

struct sequence {
	int retry, start, end, abort, descriptor;
};

static void emit_sequence_enter(
	struct emit *e, const struct arch_stub *s, struct sequence *q, int scratch)
{
	*q = (struct sequence){
		emit_label(e), emit_label(e), emit_label(e), emit_label(e), emit_label(e)};
	emit_place(e, q->retry);
	emit_lea_label(e, scratch, q->descriptor);
	emit_mem(e, true, OP_MOV_STORE, scratch, mem_fs(s->thread.rseq_offset + 8));
	emit_place(e, q->start);
}

/* Outside a sequence the thread must not point to its descriptor. */
static void emit_sequence_leave(struct emit *e, const struct arch_stub *s)
{
	emit_store_imm(e, true, mem_fs(s->thread.rseq_offset + 8), 0);
}

/* The abort handler and struct rseq_cs. */
static void emit_sequence_data(struct emit *e, const struct arch_stub *s, const struct sequence *q)
{
	emit_u32(e, s->thread.rseq_signature);
	emit_place(e, q->abort);
	emit_jump_label(e, -1, q->retry);
	emit_align(e, 32);
	emit_place(e, q->descriptor);
	emit_u32(e, 0); /* version */
	emit_u32(e, 0); /* flags */
	emit_u64(e, e->at + e->labels[q->start]);
	emit_u64(e, e->labels[q->end] - e->labels[q->start]);
	emit_u64(e, e->at + e->labels[q->abort]);
}

/* reg = the CPU, if it has sets of its own; else a jump to `slow`. */
static void emit_cpu(struct emit *e, const struct arch_stub *s, int reg, int slow)
{
	emit_mem(e, false, OP_MOV_LOAD, reg, mem_fs(s->thread.rseq_offset + 4));
	emit_imm(e, false, IMM_CMP, reg, s->cpus);
	emit_jump_label(e, CC_AE, slow);
}

/* A locked increment in the set that all CPUs share; uses %rax. */
static void emit_shared_inc(struct emit *e, const struct arch_stub *s, size_t field)
{
	emit_const(
		e, RAX, s->slots + ((uint64_t)s->cpus << s->slots_shift) + s->slot_offset + field);
	emit_inc(e, true, mem_at(RAX, 0));
}

/* ---- Whole stubs ---------------------------------------------------------------- */

static void emit_guard(struct emit *e, const struct arch_stub *s, int out)
{
	emit_const(e, RCX, s->guard);
	emit_mem(e, false, OP_MOV_LOAD, RCX, mem_at(RCX, 0));
	emit_reg(e, false, OP_TEST, RCX, RCX);
	emit_jump_label(e, CC_E, out);
}

static bool emit_out(
	struct emit *e, const struct arch_stub *s, const struct frame *f, int out, int next)
{
	emit_place(e, out);
	emit_leave(e, f);
	emit_place(e, next);
	return emit_jump(e, s->next);
}

static bool emit_count(struct emit *e, const struct arch_stub *s, int next)
{
	struct frame f = {.temps = 0};
	struct sequence q = {0};
	int out = emit_label(e), slow = emit_label(e);
	bool reached;

	frame_layout(&f, false, false);
	emit_enter(e, &f);
	emit_guard(e, s, out);
	if (s->thread.has_rseq) {
		emit_const(e, RAX, s->slots + s->slot_offset);
		emit_sequence_enter(e, s, &q, RCX);
		emit_cpu(e, s, RCX, slow);
		emit_shift(e, true, true, RCX, s->slots_shift);
		emit_inc(e, false, (struct emit_mem){.base = RAX, .index = RCX, .scale = 1});
		emit_place(e, q.end);
		emit_sequence_leave(e, s);
	} else {
		emit_shared_inc(e, s, offsetof(struct probe_slot, hits));
	}
	reached = emit_out(e, s, &f, out, next);
	if (s->thread.has_rseq) {
		emit_place(e, slow);
		emit_sequence_leave(e, s);
		emit_shared_inc(e, s, offsetof(struct probe_slot, hits));
		emit_jump_label(e, -1, out);
		emit_sequence_data(e, s, &q);
	}
	return reached;
}

/* %r9 = a ring of the sets [cpus, 2 * cpus), locked; none free: a jump to `lost`. */
static void emit_lock_ring(struct emit *e, const struct arch_stub *s, int lost)
{
	int in_range = emit_label(e), next = emit_label(e), got = emit_label(e);
	int wrapped = emit_label(e);

	emit_bytes(e, "\x0f\x01\xf9", 3); /* rdtscp: the CPU's number in %ecx */
	emit_imm(e, false, IMM_AND, RCX, 0xfff);
	emit_imm(e, false, IMM_CMP, RCX, s->cpus);
	emit_jump_label(e, CC_B, in_range);
	emit_const(e, RCX, 0);
	emit_place(e, in_range);
	emit_const(e, RDX, s->cpus);
	emit_place(e, next);
	emit_mem(e, true, OP_LEA, R9, mem_at(RCX, s->cpus));
	emit_shift(e, true, true, R9, s->rings_shift);
	emit_const(e, RAX, s->rings);
	emit_reg(e, true, OP_ADD, R9, RAX);
	emit_const(e, RAX, 1);
	emit_mem(e, false, OP_XCHG, RAX, mem_at(R9, offsetof(struct ring_header, lock)));
	emit_reg(e, false, OP_TEST, RAX, RAX);
	emit_jump_label(e, CC_E, got);
	emit_mem(e, false, OP_LEA, RCX, mem_at(RCX, 1));
	emit_imm(e, false, IMM_CMP, RCX, s->cpus);
	emit_jump_label(e, CC_B, wrapped);
	emit_const(e, RCX, 0);
	emit_place(e, wrapped);
	emit_imm(e, false, IMM_SUB, RDX, 1);
	emit_jump_label(e, CC_NE, next);
	emit_jump_label(e, -1, lost);
	emit_place(e, got);
}

static void emit_unlock_ring(struct emit *e)
{
	emit_store_imm(e, false, mem_at(R9, offsetof(struct ring_header, lock)), 0);
}

static bool plan_record(struct plan *p, const struct arch_stub *s)
{
	bool full = false;
	int temps = 0;

	*p = (struct plan){.stub = s};
	p->fixed_bytes = sizeof(struct ring_record) + 8 * s->capture_count;
	for (int i = 0; i < s->capture_count; i++) {
		const struct arch_capture *c = &s->captures[i];

		if (!x86_64_capturable(&c->arg) || (c->is_string && c->arg.size > 8))
			return false;
		p->temp[i] = temps;
		temps += 2;
		if (x86_64_capture_checked(c))
			p->checked = true;
		if (c->is_string || is_bytes(c)) {
			full = true;
			p->max_bytes += (capture_bytes(c) + 7) & ~7u;
		}
	}
	if (p->checked)
		p->fixed_bytes += 8;
	p->max_bytes += p->fixed_bytes;
	p->mask_temp = temps++;
	p->tid_temp = temps++;
	p->kernel_tid = !s->thread.has_tid && s->may_call_kernel;
	full = full || p->checked || p->kernel_tid;
	p->frame.temps = full ? temps : 0;
	frame_layout(&p->frame, true, full);
	return p->max_bytes <= RING_RECORD_MAX && p->max_bytes <= s->ring_bytes;
}

static bool emit_record_stub(struct emit *e, const struct plan *p)
{
	const struct arch_stub *s = p->stub;
	struct sequence q = {0};
	int out = emit_label(e), full = emit_label(e), slow = emit_label(e);
	int lost = emit_label(e), locked_full = emit_label(e);
	bool reached;

	emit_enter(e, &p->frame);
	emit_guard(e, s, out);
	if (p->kernel_tid) {
		emit_const(e, RAX, SYS_GETTID);
		emit_bytes(e, "\x0f\x05", 2); /* syscall */
		emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->tid_temp));
	}
	if (p->checked)
		emit_store_imm(e, true, temp_at(p->mask_temp), -1);
	for (int i = 0; i < s->capture_count; i++)
		emit_prepare_capture(e, p, i);
	if (s->thread.has_rseq) {
		emit_sequence_enter(e, s, &q, R9);
		emit_cpu(e, s, R9, slow);
		emit_shift(e, true, true, R9, s->rings_shift);
		emit_const(e, RAX, s->rings);
		emit_reg(e, true, OP_ADD, R9, RAX);
		emit_record(e, p, full);
		emit_place(e, q.end);
		emit_sequence_leave(e, s);
	} else {
		emit_jump_label(e, -1, slow);
	}
	reached = emit_out(e, s, &p->frame, out, p->next);

	emit_place(e, slow);
	if (s->thread.has_rseq)
		emit_sequence_leave(e, s);
	emit_lock_ring(e, s, lost);
	emit_record(e, p, locked_full);
	emit_unlock_ring(e);
	emit_jump_label(e, -1, out);
	emit_place(e, locked_full);
	emit_unlock_ring(e);
	emit_jump_label(e, -1, lost);
	emit_place(e, full);
	if (s->thread.has_rseq)
		emit_sequence_leave(e, s);
	emit_place(e, lost);
	emit_shared_inc(e, s, offsetof(struct probe_slot, lost));
	emit_jump_label(e, -1, out);
	if (s->thread.has_rseq)
		emit_sequence_data(e, s, &q);
	emit_check_subroutine(e, p);
	return reached;
}

enum arch_stub_status x86_64_stub(const struct arch_stub *stub, uint64_t at, uint8_t *out,
	size_t room, struct arch_stub_code *ret)
{
	struct emit e = {.out = out, .room = room, .at = at};
	int next = emit_label(&e);
	struct plan p;
	bool reached;

	if (stub->kind == ARCH_STUB_COUNT) {
		reached = emit_count(&e, stub, next);
	} else {
		if (!plan_record(&p, stub))
			return ARCH_STUB_UNSUPPORTED;
		p.check = emit_label(&e);
		p.next = next;
		reached = emit_record_stub(&e, &p);
	}
	if (!emit_finish(&e))
		return ARCH_STUB_NO_ROOM;
	*ret = (struct arch_stub_code){.length = e.length, .next_jump = e.labels[next]};
	return reached ? ARCH_STUB_OK : ARCH_STUB_OUT_OF_REACH;
}
