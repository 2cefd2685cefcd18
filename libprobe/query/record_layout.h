/* SPDX-License-Identifier: MIT */
/* What the record of a site contains: how arguments are captured, and read back. */
#ifndef LIBPROBE_QUERY_RECORD_LAYOUT_H
#define LIBPROBE_QUERY_RECORD_LAYOUT_H

#include "arch/arch.h"
#include "elf/unwind.h"
#include "arch/general.h"
#include "arch/layout.h"
#include "libprobe/process/modules.h"
#include "libprobe/query/pattern.h"
#include "probe/target.h"

/* One argument as it is shown. Captures are indices, or -1. */
struct record_layout_arg {
	int8_t value, string;
	bool is_signed, is_float;
	bool is_guess;	/* the string is shown only if it is text */
	bool is_known;	/* the string is shown beside the number, whatever it holds */
	bool is_symbol; /* the value is an address that is shown by its name */
	bool is_bytes;	/* the string is bytes of a stated length, with or without NUL */
	uint8_t size;
	uint8_t number; /* of the probe's argument */
};

struct record_layout {
	struct record_layout_arg args[ARCH_ARGS_MAX];
	uint8_t arg_count;
	struct arch_capture captures[ARCH_ARGS_MAX];
	uint8_t capture_count;
	uint8_t recorded; /* captures; further ones are for expressions */
	bool checked;	  /* records contain the bits that say which captures could be read */
	uint8_t stack;	  /* 1 + index of the capture that takes the stack; 0: none */
};

/* What a record has of the stack: a copy, or return addresses. */
struct record_layout_stack {
	/* u64 each, those in arch->unwind_registers; NULL: return addresses */
	const void *registers;
	const uint8_t *bytes; /* from the stack pointer on; or the addresses, u64 each */
	size_t length;
	uint64_t caller; /* that of the site's function, where it is not among them; else 0 */
};

/* What the begins of a session keep for expressions of their ends; the same at all sites. */
struct record_layout_kept {
	struct capture what;
	uint16_t bytes;	 /* of a string, at most; 0: a number, held in 64 bits */
	uint16_t offset; /* in struct probe_begun */
	bool is_unsigned;
};

/* A site's arguments, parsed from its note. */
struct record_layout_site {
	const struct arch *arch;
	struct module *module;
	struct arch_arg specs[ARCH_ARGS_MAX];
	size_t count;
	/* Of the end of a pair: what its begin has kept. Borrowed from the session. */
	const struct record_layout_kept *kept;
	uint8_t kept_count;
	/* The captures that make the identity of a begin or an end (arch_flights.same). */
	struct capture same[ARCH_SAME_MAX];
	uint8_t same_count;
	enum probe_stack_kind stack; /* what records of the site have of the stack */
	/* For keys that are stacks, and PROBE_STACK_FRAMES: */
	uint64_t pc; /* in the target */
	struct unwind_saved saved;
};
void record_layout_site_init(struct record_layout_site *site, const struct arch *arch,
	struct module *module, const char *args);

/*
 * Decides what to capture of a site's arguments: those in `wanted`, or all. Symbols are looked
 * up in the module. An argument that cannot be captured is shown as null.
 */
void record_layout_init(struct record_layout *layout, const struct record_layout_site *site,
	const struct capture *wanted, size_t wanted_count,
	const struct probe_session_options *options);

/*
 * Captures an argument for an expression: reuses an existing capture, or adds one that is not
 * recorded. Strings are read up to `bytes`; those with a length end at a NUL all the same.
 * Returns its index, or -1 if it cannot be captured.
 * Call it after everything that is recorded has been added.
 */
int record_layout_capture(struct record_layout *layout, const struct record_layout_site *site,
	const struct capture *wanted, uint16_t bytes);

/*
 * Captures what the begin has kept: the argument, as a string of at most `bytes`, or if that is 0
 * as a number. Returns its index, or -1 if there is no room.
 */
int record_layout_capture_begun(struct record_layout *layout, const struct record_layout_site *site,
	const struct capture *what, uint16_t bytes);

/* The element of an array that has this argument; NULL: none. */
const struct record_layout_kept *record_layout_find_kept(const struct record_layout_kept *kept,
	uint8_t count, const struct capture *what, uint16_t bytes);

/*
 * Captures `bytes` bytes of the stack, or of return addresses. Returns its index, or -1 if
 * impossible. The first frame pointer is in its register if frame_at is -1, else at this
 * distance from the stack pointer.
 */
int record_layout_capture_stack(struct record_layout *layout, const struct arch *arch,
	enum arch_capture_stack kind, uint16_t bytes, int32_t frame_at);

/* Captures the thread's name, for a key. Returns the same. */
int record_layout_capture_comm(struct record_layout *layout);

/*
 * Captures the return address of a site's function, if the chain of frame pointers may lack it.
 * Returns the same; -1, too, if the chain has it. It may be signed.
 */
int record_layout_capture_return(
	struct record_layout *layout, const struct record_layout_site *site);

/*
 * Records what was captured for expressions, too. Call it after everything was added; the
 * arguments that are shown stay the same.
 */
void record_layout_record_all(struct record_layout *layout, const struct arch *arch);

/* The length of the longest possible record. */
size_t record_layout_bytes(const struct record_layout *layout);

/*
 * Reads a record's arguments from `size` bytes, which start at the fixed header. Returns the
 * length of the whole record, or 0 if it is invalid. Bytes of strings point into the record.
 */
size_t record_layout_read(const struct record_layout *layout, const uint8_t *record, size_t size,
	struct probe_value values[ARCH_ARGS_MAX]);

/* What a record holds of one capture. */
struct record_layout_captured {
	uint64_t word;	      /* of a number, extended to 64 bits */
	const uint8_t *bytes; /* of strings and aggregates, in the record */
	size_t length;
	bool is_null; /* could not be read */
};

/* Finds the recorded captures of a record that record_layout_read() has accepted. */
void record_layout_captures(const struct record_layout *layout, const uint8_t *record,
	struct record_layout_captured ret[ARCH_ARGS_MAX]);

/*
 * Reads the arguments from what a stub passes to a function (arch_stub.call). Bytes stay where
 * the program has them.
 */
void record_layout_read_frame(const struct record_layout *layout, const uint64_t *frame,
	struct probe_value values[ARCH_ARGS_MAX]);

/*
 * Whether all arguments are whole numbers, or strings that end with a NUL. Then
 * record_layout_read_plain() does the same, with general registers only (arch/general.h).
 */
bool record_layout_is_plain(const struct record_layout *layout);

/* Stubs extend whole numbers to 64 bits; one that could not be read is 0. */
GENERAL_INLINE void record_layout_read_number(const struct record_layout_arg *arg, uint64_t word,
	bool is_readable, struct probe_value *ret)
{
	ret->kind = arg->is_signed ? PROBE_VALUE_SIGNED : PROBE_VALUE_UNSIGNED;
	if (!is_readable)
		ret->kind = PROBE_VALUE_NULL;
	ret->truncated = false;
	ret->u = word;
	ret->bytes = NULL;
	ret->length = 0;
}

GENERAL_INLINE void record_layout_read_text(
	uint64_t word, uint64_t pointer, struct probe_value *ret)
{
	bool is_null = word >> RING_STRING_NULL_BIT & 1;

	ret->kind = is_null ? PROBE_VALUE_NULL : PROBE_VALUE_STRING;
	ret->truncated = word >> RING_STRING_TRUNCATED_BIT & 1;
	ret->u = 0;
	ret->bytes = (const char *)(uintptr_t)pointer;
	ret->length = (uint32_t)word & RING_STRING_LENGTH;
}

GENERAL_INLINE void record_layout_read_plain(const struct record_layout *layout,
	const uint64_t *frame, struct probe_value values[ARCH_ARGS_MAX])
{
	size_t words = layout->recorded + 1u; /* the last one says which could be read */
	const struct record_layout_arg *arg = layout->args, *end = arg + layout->arg_count;

	for (; arg < end; arg++, values++)
		if (arg->string < 0)
			record_layout_read_number(
				arg, frame[arg->value], frame[words - 1] >> arg->value & 1, values);
		else
			record_layout_read_text(
				frame[arg->string], frame[words + arg->string], values);
}

/* The stack in a record that record_layout_read() accepted; false if there is none. */
bool record_layout_read_stack(
	const struct record_layout *layout, const uint8_t *record, struct record_layout_stack *ret);

#endif
