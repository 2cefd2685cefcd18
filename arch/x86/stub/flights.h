/* SPDX-License-Identifier: MIT */
/* The begins in an entry of the table of what is in flight; the entry is at %rcx. */
#ifndef ARCH_X86_STUB_FLIGHTS_H
#define ARCH_X86_STUB_FLIGHTS_H

#include "arch/x86/stub/plan.h"

#define FIELD(name) mem_at(RCX, offsetof(struct probe_flight, name))

/* Keeps the entry, which is at %rcx, for emit_push_begin(). */
void emit_keep_entry(struct emit *e, const struct stub_plan *plan);

/*
 * Stores the time on top of the entry at %rcx, and what is kept of the begin; the depth publishes
 * it. Changes all registers but %rcx.
 */
void emit_push_begin(struct emit *e, const struct stub_plan *plan);

/* The same without a sequence: before the depth counts it, and once more. */
void emit_push_begin_again(struct emit *e, const struct stub_plan *plan);

/*
 * %rax = the time of the newest begin, which stays counted; %edi = its place. Jumps to `gone` if
 * another begin has taken its place.
 */
void emit_newest_begin(struct emit *e, const struct stub_plan *plan, int empty, int gone);

/* %edi = the place of the newest begin; jumps to `empty` if there is none. */
void emit_newest_place(struct emit *e, const struct stub_plan *plan, int empty);
/* The newest begin, in place %edi, has ended. ZF: none is left. */
void emit_drop_begin(struct emit *e);

/* Notes where the begin that was found is kept, and its time, which is in %rax; changes %rdx. */
void emit_note_kept(struct emit *e, const struct stub_plan *plan);

/* Once that is noted: prepares the captures that are the begin's. */
void emit_prepare_begun(struct emit *e, const struct stub_plan *plan);

#endif
