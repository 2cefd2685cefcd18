/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "arch/aarch64/stub/lower.h"
#include "arch/x86/stub/lower.h"
#include "tests/unit/form/form_native.h"

enum { CODE_BYTES = 1 << 18 };

/*
 * Both: save a register and keep the stack pointer there; take the frame's; and give it back. A
 * register that no form has holds the second argument.
 */
#if defined(__x86_64__)

const int form_native_live = R13, form_native_stack = RSP;

static bool translate(struct form_native *n, const struct frame *frame,
	const struct arch_thread *thread, void (*write)(struct form *f, void *arg), void *arg)
{
	struct emit e = {.out = n->code, .room = n->room, .at = (uintptr_t)n->code};
	struct lowering l;

	(void)thread;
	for (int pass = 0; pass < 2; pass++) {
		if (pass)
			emit_again(&e);
		emit_push(&e, RBX);
		emit_push(&e, R13);
		emit_reg(&e, true, OP_MOV_LOAD, RBX, RSP);
		emit_reg(&e, true, OP_MOV_LOAD, RSP, RDI);
		emit_reg(&e, true, OP_MOV_LOAD, R13, RSI);
		lowering_init(&l, &e, frame);
		write(&l.form, arg);
		emit_reg(&e, true, OP_MOV_LOAD, RSP, RBX);
		emit_pop(&e, R13);
		emit_pop(&e, RBX);
		emit_u8(&e, 0xc3);
	}
	n->used = e.length;
	return emit_finish(&e);
}

#elif defined(__aarch64__)

const int form_native_live = 13, form_native_stack = A64_SP;

static bool translate(struct form_native *n, const struct frame *frame,
	const struct arch_thread *thread, void (*write)(struct form *f, void *arg), void *arg)
{
	struct a64 e = {.out = n->code, .room = n->room, .at = (uintptr_t)n->code};
	struct a64_lowering l;

	a64_pair(&e, A64_PUSH_PAIR, 19, A64_LINK, -16);
	a64_op_const(&e, true, A64_ADD, 19, A64_SP, 0);
	a64_op_const(&e, true, A64_ADD, A64_SP, 0, 0);
	a64_move(&e, form_native_live, 1);
	a64_lowering_init(&l, &e, frame, thread);
	write(&l.form, arg);
	a64_op_const(&e, true, A64_ADD, A64_SP, 19, 0);
	a64_pair(&e, A64_POP_PAIR, 19, A64_LINK, 16);
	a64_op(&e, false, A64_RET, 0, A64_LINK, 0);
	n->used = e.length;
	return a64_finish(&e);
}

#else

const int form_native_live = -1, form_native_stack = -1;

static bool translate(struct form_native *n, const struct frame *frame,
	const struct arch_thread *thread, void (*write)(struct form *f, void *arg), void *arg)
{
	(void)n, (void)frame, (void)thread, (void)write, (void)arg;
	return false;
}

#endif

bool form_native_has_atomics(void)
{
#if defined(__aarch64__)
	return getauxval(AT_HWCAP) & HWCAP_ATOMICS;
#else
	return true;
#endif
}

bool form_native_is_possible(void)
{
	return form_native_live >= 0;
}

void form_native_init(struct form_native *n)
{
	n->room = CODE_BYTES;
	n->used = 0;
	n->code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(n->code, MAP_FAILED);
}

void form_native_deinit(struct form_native *n)
{
	munmap(n->code, n->room);
}

form_native_function *form_native_make(struct form_native *n, const struct frame *frame,
	const struct arch_thread *thread, void (*write)(struct form *f, void *arg), void *arg)
{
	assert_true(translate(n, frame, thread, write, arg));
	__builtin___clear_cache((char *)n->code, (char *)n->code + n->used);
	return (form_native_function *)(uintptr_t)n->code;
}
