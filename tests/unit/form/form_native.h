/* SPDX-License-Identifier: MIT */
/* Forms as machine code of the processor that runs the tests. */
#ifndef TESTS_FORM_NATIVE_H
#define TESTS_FORM_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "arch/stub/plan.h"

/* The numbers of a register that holds the second argument, and of the stack pointer. */
extern const int form_native_live, form_native_stack;

/* Runs with its stack pointer at the memory of a frame, a multiple of 16, with room below. */
typedef void form_native_function(uint8_t *memory, uint64_t live, double vector);

struct form_native {
	uint8_t *code;
	size_t room, used;
};

/* Whether there is a back end for this processor. */
bool form_native_is_possible(void);
/* arch_thread.has_atomics of this processor. */
bool form_native_has_atomics(void);
void form_native_init(struct form_native *n);
void form_native_deinit(struct form_native *n);
/* What `write` puts into a form; valid until the next one is made. */
form_native_function *form_native_make(struct form_native *n, const struct frame *frame,
	const struct arch_thread *thread, void (*write)(struct form *f, void *arg), void *arg);

#endif
