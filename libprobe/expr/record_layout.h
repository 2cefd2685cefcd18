/* SPDX-License-Identifier: MIT */
/* What the record of a site holds: how arguments are captured, and read back. */
#ifndef LIBPROBE_EXPR_RECORD_LAYOUT_H
#define LIBPROBE_EXPR_RECORD_LAYOUT_H

#include "arch/arch.h"
#include "arch/layout.h"
#include "libprobe/process/modules.h"
#include "probe/pattern.h"
#include "probe/target.h"

/* One argument as it is shown. Captures are indices, or -1. */
struct record_layout_arg {
	int8_t value, string;
	bool is_signed, is_float;
	bool is_guess; /* the string is only shown where it is text */
	bool is_bytes; /* the string is bytes of a stated length, NUL or not */
	uint8_t size;
};

struct record_layout {
	struct record_layout_arg args[ARCH_ARGS_MAX];
	uint8_t arg_count;
	struct arch_capture captures[ARCH_ARGS_MAX];
	uint8_t capture_count;
	uint8_t recorded; /* captures; the others are for expressions */
	bool checked;	  /* records hold the word that says which captures could be read */
	uint8_t stack;	  /* behind the capture that is a copy of the stack; 0: there is none */
};

/* A copy of the stack in a record. */
struct record_layout_stack {
	const uint64_t *registers; /* those of arch->unwind_registers */
	const uint8_t *bytes;	   /* from the stack pointer on */
	size_t length;
};

/* A site's arguments as its note has them, parsed. */
struct record_layout_site {
	const struct arch *arch;
	struct module *module;
	struct arch_arg specs[ARCH_ARGS_MAX];
	size_t count;
	/* For the keys of stacks: */
	uint64_t pc;	       /* in the target */
	int32_t return_offset; /* of the return address, from the stack pointer; or -1 */
};
void record_layout_site_init(struct record_layout_site *site, const struct arch *arch,
	struct module *module, const char *args);

/*
 * Decides what to capture of a site's arguments: those in `wanted`, or all.
 * Symbols are looked up in the module. What cannot be captured is shown as null.
 */
void record_layout_init(struct record_layout *layout, const struct record_layout_site *site,
	const struct probe_capture *wanted, size_t wanted_count,
	const struct probe_session_options *options);

/*
 * A capture of an argument for an expression: one that is there already, else a
 * new one, which is not recorded. Strings are read up to `bytes`. Its index, or
 * -1 where it cannot be captured. All that is recorded must be there before.
 */
int record_layout_capture(struct record_layout *layout, const struct record_layout_site *site,
	unsigned int arg, bool is_string, uint16_t bytes);

/*
 * A capture of the stack, of so many bytes, for a key. Its index, or -1 where
 * there can be none.
 */
int record_layout_capture_stack(struct record_layout *layout, const struct arch *arch,
	enum arch_capture_stack kind, uint16_t bytes);

/* A capture of 8 bytes of the stack, so far from the stack pointer. Likewise. */
int record_layout_capture_word(
	struct record_layout *layout, const struct arch *arch, int32_t offset);

/* The length of the longest record that there may be. */
size_t record_layout_bytes(const struct record_layout *layout);

/*
 * Reads a record's arguments; `size` bytes are there, from the fixed header on.
 * Returns the length of the whole record, or 0 where it makes no sense. Bytes
 * of strings point into the record.
 */
size_t record_layout_read(const struct record_layout *layout, const uint8_t *record, size_t size,
	struct probe_value values[ARCH_ARGS_MAX]);

/*
 * Reads the arguments in what a stub hands over to a function (arch_stub.call). Bytes
 * are where the program has them.
 */
void record_layout_read_frame(const struct record_layout *layout, const uint64_t *frame,
	struct probe_value values[ARCH_ARGS_MAX]);

/* The stack in a record that record_layout_read() found whole; false where there is none. */
bool record_layout_read_stack(
	const struct record_layout *layout, const uint8_t *record, struct record_layout_stack *ret);

#endif
