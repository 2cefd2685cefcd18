/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "arch/expr.h"
#include "arch/general.h"
#include "arch/layout.h"
#include "elf/types.h"
#include "elf/unwind.h"
#include "libprobe/base/error.h"
#include "libprobe/process/process.h"
#include "probe/catalogue.h"
#include "probe/pattern.h"
#include "probe/target.h"

/* ---- Argument -------------------------------------------------------------------------------- */

enum { ARGUMENT_TEXT = 512 };

/* Parses "arg0" to "arg31". Returns a pointer past it, or NULL ("arg01", "arg32", "arg1x"). */
const char *argument_parse(const char *text, uint8_t *ret);
/* Returns the length of the word at `at`, or 0. */
size_t expr_word_length(const char *at);
/* Returns the bytes of the members behind a name: "->id", ".name", or both. */
size_t expr_members_length(const char *at);

/* Writes a note's arguments: "2 arguments: -4@%edi 8@%rsi", or "no arguments". */
void argument_list(const struct arch_arg *specs, size_t count, char text[ARGUMENT_TEXT]);

/* ---- Builtin --------------------------------------------------------------------------------- */

/* The catalogue files in libprobe/query/probes, concatenated by the makefile. */

extern const char catalogue_builtin[];
extern const size_t catalogue_builtin_length;

/* ---- Captures -------------------------------------------------------------------------------- */

/* Lists of arguments at the end of a pattern: (arg0, str(arg1)). */

enum { CAPTURES_MAX = 32 };

/* A requested argument, or data that it points to. */
struct capture {
	unsigned char arg; /* number of the argument, from 0 to 31 */
	/* For (s32)argN: the bytes of it that count, negative with a sign; or 0. */
	signed char cast;
	/* The steps from the argument, a pointer, to the wanted data: */
	struct arch_step steps[ARCH_STEPS_MAX];
	uint8_t step_count;
	/* the argument `index` is the index of an array in the steps */
	bool has_index;
	unsigned char index;
	bool is_string;
	bool is_symbol;	      /* sym(argN) in a list: the value is shown as the name of a symbol */
	bool has_length;      /* str(argN,argM) or, if is_string is false, bytes(argN,argM) */
	unsigned char length; /* the number M; equal to `arg` if the length is a constant */
	/* A constant length, as in str(argN,32) or bytes(argN,32), or 0. */
	uint16_t fixed_length;
	bool of_begin; /* the argument is begin.argN, in an expression on pairs */
	bool beside;   /* show the string in addition to the number, not instead of it */
};

bool capture_is(const struct capture *a, const struct capture *b);

/* ---- Catalogue ------------------------------------------------------------------------------- */

enum {
	CATALOGUE_ARGS_MAX = 32,
	CATALOGUE_OFFSET_MAX = 4095,
	CATALOGUE_FILE_MAX = 1024 * 1024 /* maximum size of a file, in bytes */
};

/* A type whose numbers have words: a line `words`. */
struct catalogue_words {
	const char *name;
	struct probe_word *words; /* the numbers and their words; owned */
	size_t count;
	signed char size; /* as in struct probe_arg_meaning */
};

/* A parsed file. Strings point into `text`; each probe owns `args`, `ends` and `same`. */
struct catalogue_file {
	char *text;
	struct probe_meaning *probes;
	size_t probe_count;
	struct catalogue_words *words;
	size_t words_count;
};

/* A user's file, or the library's text about one provider. */
struct catalogue_source {
	_Atomic(struct catalogue_file *) file; /* the parsed file, owned; NULL if not parsed yet */
	/* The library's text from a "provider" line on. */
	const char *text;
	size_t length;
};

/* Functions that debug information describes (elf/types.h). It is only added to. */
struct catalogue_learned;

struct probe_catalogue {
	/* In rising precedence: the last is searched first. */
	struct catalogue_source *sources;
	size_t source_count;
	struct catalogue_learned *learned; /* owned; searched last */
};

/*
 * *ret keeps a copy of the text; `path` is for messages. Errors: PROBE_ERROR_FORMAT,
 * PROBE_ERROR_MEMORY: then *ret needs no catalogue_file_deinit().
 */
PROBE_MUST_CHECK struct probe_error *catalogue_parse(
	const char *path, const char *text, size_t length, struct catalogue_file *ret);
void catalogue_file_deinit(struct catalogue_file *file);

/*
 * Returns a source's parsed file. The library's text is parsed when its provider is first asked
 * for. Returns NULL if out of memory, or if the text is unparsed and not about `provider` (NULL
 * means any).
 */
const struct catalogue_file *catalogue_file_of(
	const struct probe_catalogue *catalogue, size_t source, const char *provider);

/* Returns the meanings one by one: the library's own, those of any function, and then NULL. */
const struct probe_meaning *catalogue_meaning_at(
	const struct probe_catalogue *catalogue, size_t index);
/*
 * Learns functions of an object from its debug information, unless they were asked for before.
 * Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM, PROBE_ERROR_UNSUPPORTED (another file of the same
 * name has a function with other arguments).
 */
PROBE_MUST_CHECK struct probe_error *catalogue_learn(const struct probe_catalogue *catalogue,
	struct object *object, const char *provider, struct types_function *functions,
	size_t count);
/* Asks for a member of structures, such as "order->id", when functions are learned. */
PROBE_MUST_CHECK struct probe_error *catalogue_want(
	const struct probe_catalogue *catalogue, const char *member, size_t length);

/*
 * Returns the argument that a word of probe_meaning.same means, by name or as argN; or -1.
 * *number_ret is true for argN, which is a number even if it points to a string.
 */
int catalogue_same_arg(const struct probe_meaning *meaning, const char *word, bool *number_ret);

/* `pattern` may contain `*`. `-` and `__` match each other. */
bool catalogue_name_matches(const char *pattern, const char *name);

/* Returns the description of a function's entry or exits that no file describes. */
const struct probe_meaning *catalogue_any_function(bool is_return);
/*
 * Writes a function's arguments, as arch_entry.args has them, with the sizes that their description
 * says. Returns `ret`, or `args` if there is no room.
 */
const char *catalogue_sized(
	const struct probe_meaning *meaning, const char *args, char ret[ARCH_FUNCTION_TEXT]);

/* Returns true if a word has a meaning in expressions, so that no argument can have this name. */
bool catalogue_is_reserved(const char *word, size_t length);

/* ---- Pattern --------------------------------------------------------------------------------- */

/*
 * Returns true if the pattern names one probe, without wildcards, regular expression or predicate.
 */
bool pattern_is_exact(const struct probe_pattern *pattern);
/*
 * Returns the function that a pattern names exactly; NULL if it names no file, unless `any_file`.
 */
const char *pattern_function(const struct probe_pattern *pattern, bool any_file);

/* Finds the only provider and name that can match; borrowed. Returns false if several can. */
bool pattern_names(
	const struct probe_pattern *pattern, const char **provider_ret, const char **name_ret);

/* Finds the addresses of probe_pattern_predicate()'s function and data, or 0. */
void pattern_predicate(
	const struct probe_pattern *pattern, uint64_t *function_ret, uint64_t *data_ret);

/* Does the pattern have a list in parentheses? If not, all arguments are captured. */
bool pattern_has_captures(const struct probe_pattern *pattern);
/* Returns true if the list contains sym(argN). */
bool pattern_has_symbols(const struct probe_pattern *pattern);
/*
 * Finds the captures of the pattern's list for a probe with `arg_count` arguments and the
 * catalogue's names. With absent_ok, a name that the probe lacks becomes an argument that does not
 * exist. Errors: PROBE_ERROR_USAGE (unknown name, or invalid list), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *pattern_captures(const struct probe_pattern *pattern,
	const char *provider, const char *name, size_t arg_count, bool absent_ok,
	struct capture captures[CAPTURES_MAX], size_t *count_ret);

/* Does the pattern name functions? Only such a pattern matches a function's entry or exits. */
bool pattern_is_function(const struct probe_pattern *pattern);
/* Is the name of a function, for which no file is given, the name of the file at `path`? */
bool pattern_is_file(const struct probe_pattern *pattern, const char *path);
/* Returns the offset of the instruction in each function that the pattern names; 0 for the entry.
 */
uint64_t pattern_offset(const struct probe_pattern *pattern);
/* Does a pattern of functions name exits (or, if `is_return` is false, entries)? */
bool pattern_wants(const struct probe_pattern *pattern, bool is_return);
/*
 * Does the pattern name a function of the file at `path`, or any function if `function` is NULL?
 * The function's name has no parameters and no version. `path` may be NULL, for any file.
 */
bool pattern_names_function(
	const struct probe_pattern *pattern, const char *path, const char *function);

/* Like probe_pattern_matches() for any module. True for predicates. */
bool pattern_may_name(const struct probe_pattern *pattern, const char *provider, const char *name);

/* ---- Record layout --------------------------------------------------------------------------- */

/* A shown argument. `value` and `string` are indices into captures[], or -1. */
struct record_layout_arg {
	int8_t value, string;
	bool is_signed, is_float;
	bool is_guess;	/* show the string only if its bytes are printable text */
	bool is_known;	/* show the string in addition to the number, whatever its bytes are */
	bool is_symbol; /* the value is an address, shown as a symbol name */
	bool is_bytes;	/* `string` has a given length and need not end with NUL */
	uint8_t size;
	uint8_t number; /* number of the argument in the note, or RECORD_LAYOUT_FRAME */
};

/* The number of the last argument if that is the address of the function's frame. */
enum { RECORD_LAYOUT_FRAME = UINT8_MAX };

struct record_layout {
	struct record_layout_arg args[ARCH_ARGS_MAX];
	uint8_t arg_count;
	struct arch_capture captures[ARCH_ARGS_MAX];
	uint8_t capture_count;
	/* Number of captures in the record. The captures after these are only for expressions. */
	uint8_t recorded;
	bool checked; /* records have a bit mask that says which captures were readable */
	/* Index of the stack's capture plus 1, or 0. */
	uint8_t stack;
};

/* The stack in a record: a copy of memory, or return addresses. */
struct record_layout_stack {
	/* arch->unwind_registers, each a u64. NULL for return addresses. */
	const void *registers;
	/* The stack from the stack pointer up, or return addresses, each a u64. */
	const uint8_t *bytes;
	size_t length;
	/* return address of the site's function if `bytes` may lack it, or 0 */
	uint64_t caller;
};

/* An argument that start events keep for end events' expressions, the same at all sites. */
struct record_layout_kept {
	struct capture what;
	uint16_t bytes;	 /* maximum length of a string; 0 for a number, which has 64 bits */
	uint16_t offset; /* offset of the value in struct probe_begun, in bytes */
	bool is_unsigned;
};

/* A site's arguments, from its note. */
struct record_layout_site {
	const struct arch *arch;
	struct module *module;
	struct arch_arg specs[ARCH_ARGS_MAX];
	size_t count;
	/* For an end event: the arguments that start events have kept. The session owns them. */
	const struct record_layout_kept *kept;
	uint8_t kept_count;
	/* The captures by which end events are matched with start events (arch_flights.same). */
	struct capture same[ARCH_SAME_MAX];
	uint8_t same_count;
	struct arch_arg frame;	     /* a function's frame (arch_flights.frame) */
	enum probe_stack_kind stack; /* the form of the stack in the site's records */
	/* For stacks: where the caller's registers are saved at the site. */
	uint64_t pc; /* run-time address of the site */
	struct unwind_saved saved;
};
void record_layout_site_init(struct record_layout_site *site, const struct arch *arch,
	struct module *module, const char *args);

/*
 * Decides which arguments are captured: `wanted`, or all if NULL. Symbols are looked up in the
 * site's module. An argument that cannot be captured is shown as null.
 */
void record_layout_init(struct record_layout *layout, const struct record_layout_site *site,
	const struct capture *wanted, size_t wanted_count,
	const struct probe_session_options *options);

/*
 * Captures an argument for an expression, after all recorded captures: by an existing capture if
 * possible, else by a capture that is not recorded. Reads up to `bytes` of a string, which ends at
 * a NUL even with a given length. Returns the index, or -1 if impossible.
 */
int record_layout_capture(struct record_layout *layout, const struct record_layout_site *site,
	const struct capture *wanted, uint16_t bytes);

/*
 * Captures an argument that the start event has kept, a string of at most `bytes` or, if 0, a
 * number. Returns the index, or -1 if it was not kept, or the layout is full.
 */
int record_layout_capture_begun(struct record_layout *layout, const struct record_layout_site *site,
	const struct capture *what, uint16_t bytes);

/* Returns the kept argument, or NULL. */
const struct record_layout_kept *record_layout_find_kept(const struct record_layout_kept *kept,
	uint8_t count, const struct capture *what, uint16_t bytes);

/*
 * Captures `bytes` of stack memory or return addresses. `frame_at` is where the caller's frame
 * pointer is saved above the stack pointer; -1 if it is in its register. Returns the index, or -1.
 */
int record_layout_capture_stack(struct record_layout *layout, const struct arch *arch,
	enum arch_capture_stack kind, uint16_t bytes, int32_t frame_at);

/* Captures the thread's name, for a key. Returns the index, or -1 if the layout is full. */
int record_layout_capture_comm(struct record_layout *layout);

/*
 * Captures the return address of the site's function, which may be signed. Returns the index, or -1
 * if that is impossible, or unnecessary because the chain of frame pointers has it.
 */
int record_layout_capture_return(
	struct record_layout *layout, const struct record_layout_site *site);

/* Records expressions' captures, too, after all were added. Shown arguments stay the same. */
void record_layout_record_all(struct record_layout *layout, const struct arch *arch);

/* Returns the maximum size of a record. */
size_t record_layout_bytes(const struct record_layout *layout);

/*
 * Reads a record's arguments from its fixed header on, within `size` bytes. Returns its whole
 * length, or 0 if it is invalid. Strings point into the record.
 */
size_t record_layout_read(const struct record_layout *layout, const uint8_t *record, size_t size,
	struct probe_value values[ARCH_ARGS_MAX]);

/*
 * Reads the arguments from the frame that a stub passes to a function (arch_call). The values
 * of strings point into the memory of the program.
 */
void record_layout_read_frame(const struct record_layout *layout, const uint64_t *frame,
	struct probe_value values[ARCH_ARGS_MAX]);

/*
 * Returns true if all arguments are integers or NUL-terminated strings. Then
 * record_layout_read_plain() does the same with general registers only (arch/general.h).
 */
bool record_layout_is_plain(const struct record_layout *layout);

/* Sets a value to `word`, which the stub has extended; 0 if it was unreadable. */
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
	/* the last is the mask of readable captures */
	size_t words = layout->recorded + 1u;
	const struct record_layout_arg *arg = layout->args, *end = arg + layout->arg_count;

	for (; arg < end; arg++, values++)
		if (arg->string < 0)
			record_layout_read_number(
				arg, frame[arg->value], frame[words - 1] >> arg->value & 1, values);
		else
			record_layout_read_text(
				frame[arg->string], frame[words + arg->string], values);
}

/* Finds the stack in a record that record_layout_read() accepted. Returns false if it has none. */
bool record_layout_read_stack(
	const struct record_layout *layout, const uint8_t *record, struct record_layout_stack *ret);

/* ---- Expr ------------------------------------------------------------------------------------ */

/*
 * The language of filters, keys and values.
 *
 *   expr      C's operators on integers, with C's precedence, but no assignment,
 *             no comma, no ?:, no casts:  ( ) ! ~ - + * / % << >> < <= > >= == !=
 *             & ^ | && ||
 *   lists     in (1, 3, 5), not in (1, 3, 5); for strings, in ("a", "b")
 *   operands  decimal, hexadecimal (0x), octal (0) and character ('a') constants,
 *             with suffixes u, l, ul, or units ns, us, ms, s; doubles (1.5, 2e3);
 *             arg0 ... arg31, or numbers that they point to; tid, pid, cpu;
 *             for pairs, duration, begin.argN, end.argN
 *   strings   str(argN) == "text", str(argN) != "text", starts_with(str(argN), "text")
 *             with C's escapes; strings have no other operators. str(argN, argM) has
 *             at most argM bytes
 *   keys      norm(str(argN)), sym(argN) (the name of an address), comm, ustack and
 *             probe: each is a whole key, and never part of an expression
 *
 * Types are those of C on x86-64 Linux. An argument has the type that its note declares, int8_t
 * to uint64_t; tid, pid and cpu are int. A floating-point argument can only be compared, or be
 * a whole key or value. An aggregate argument is an error.
 *
 * A text is parsed once and then bound to each site, because sites of one probe may hold an
 * argument in different locations and with different types.
 */

struct expr;

/*
 * Parses an expression. `what` names it in messages ("the filter"). Errors: PROBE_ERROR_USAGE, with
 * the text, the column (from 1), and what was expected.
 */
PROBE_MUST_CHECK struct probe_error *expr_parse(
	const char *what, const char *text, struct expr **ret);
void expr_free(struct expr *expr);

/*
 * Returns true if the whole expression is a string, maybe of a start event; *ret is that string. It
 * cannot be bound.
 */
bool expr_is_string(const struct expr *expr, struct capture *ret);

/* Returns true for norm(STRING), which is normalized when it is read (norm.h). */
bool expr_is_norm(const struct expr *expr);

/* Returns true for sym(argN), a number shown as a symbol's name. */
bool expr_is_symbol(const struct expr *expr);
/* Returns the error for sym() outside keys. */
PROBE_MUST_CHECK struct probe_error *expr_no_symbol(const struct expr *expr);
enum expr_word {
	EXPR_NO_WORD,
	EXPR_COMM,   /* comm: the thread's name */
	EXPR_USTACK, /* ustack: the thread's call stack */
	EXPR_PROBE   /* probe: the probe that was hit */
};

/* Returns the word that is the whole expression, which cannot be bound; or EXPR_NO_WORD. */
enum expr_word expr_word(const struct expr *expr);

/*
 * Returns true if an expression needs a complete pair (`duration`, `begin.`, `end.`). Then it is
 * bound to the sites of the end event.
 */
bool expr_is_of_pair(const struct expr *expr);
/* Returns the error for an expression that needs a pair, where there are no pairs. */
PROBE_MUST_CHECK struct probe_error *expr_no_pair(const struct expr *expr);

/*
 * Adds the start event's arguments that the expression uses to kept[], each once. A string that is
 * a key has at most `string_bytes`. Returns false if there are more than ARCH_KEPT_MAX.
 */
bool expr_ask_begin(const struct expr *expr, uint16_t string_bytes, struct record_layout_kept *kept,
	uint8_t *count);
/* Checks that a start event's site has the arguments of the expression. Errors: as expr_bind(). */
PROBE_MUST_CHECK struct probe_error *expr_check_begin(
	const struct expr *expr, const struct record_layout_site *site);

/*
 * Returns true if the expression is argN and the argument is a double or float at this site. Then
 * call expr_bind_double(), because expr_bind() would fail.
 */
bool expr_is_double(const struct expr *expr, const struct record_layout_site *site);
/*
 * Like expr_bind(), for an argument that is a double or float. The value is the bits of a double.
 */
PROBE_MUST_CHECK struct probe_error *expr_bind_double(const struct expr *expr,
	struct record_layout *layout, const struct record_layout_site *site,
	struct arch_expr_node *nodes, uint8_t *count_ret);

/* Checks that a site has the string that is the whole expression. Errors: as expr_bind(). */
PROBE_MUST_CHECK struct probe_error *expr_check_string(
	const struct expr *expr, const struct record_layout_site *site);

/*
 * Binds an expression to a site: adds captures to its layout (record_layout_capture()), and writes
 * the typed tree to nodes[ARCH_EXPR_NODES_MAX], which points to texts of `expr`. Messages do not
 * name the probe. Errors: PROBE_ERROR_USAGE (no such argument, not an integer, too many operators),
 * PROBE_ERROR_UNSUPPORTED (the argument cannot be captured).
 */
PROBE_MUST_CHECK struct probe_error *expr_bind(const struct expr *expr,
	struct record_layout *layout, const struct record_layout_site *site,
	struct arch_expr_node *nodes, uint8_t *count_ret);

/*
 * Binds `first && second`, as expr_bind(). The nodes of `first` come first; *first_ret is their
 * number.
 */
PROBE_MUST_CHECK struct probe_error *expr_bind_both(const struct expr *first,
	const struct expr *second, struct record_layout *layout,
	const struct record_layout_site *site, struct arch_expr_node *nodes, uint8_t *count_ret,
	uint8_t *first_ret);

/* Returns true if the type of a bound expression, with this last node, is signed. */
bool expr_is_signed(const struct arch_expr_node *last);

/* ---- Evaluate -------------------------------------------------------------------------------- */

/* Computes a bound expression's value for a hit, outside the target, as arch/expr.h defines it. */

struct expr_string {
	const char *bytes;
	size_t length;
};

/* A hit, with an element for each capture. */
struct expr_input {
	const uint64_t *words;		   /* values of scalars, as recorded */
	const struct expr_string *strings; /* values of strings */
	uint64_t unreadable;		   /* bit i is set if capture i was unreadable */
	int32_t tid, pid, cpu;
	uint64_t duration;
};

/* Returns false if the hit is rejected because an operand was unreadable or a divisor was 0. */
bool expr_evaluate(const struct arch_expr *expr, const struct expr_input *input, uint64_t *ret);

/*
 * Computes an expression from a record that record_layout_read() accepted, with all its operands
 * (record_layout_record_all()). PROBE_VALUE_NULL if one was unreadable. `tid`, `pid` and `cpu` are
 * the stub's.
 */
struct probe_value expr_record_value(const struct arch_expr *expr,
	const struct record_layout *layout, const uint8_t *record, int32_t tid, int32_t pid,
	int32_t cpu);

/* ---- Meaning --------------------------------------------------------------------------------- */

/*
 * For a pattern without a list, finds the captures according to the catalogue: strings as strings,
 * and no arguments that are only lengths. Returns their number.
 */
size_t meaning_captures(const struct probe_meaning *meaning, size_t arg_count,
	struct capture captures[CAPTURES_MAX]);
/*
 * Finds the captures for machine-readable output: all arguments as numbers, strings also as
 * strings, and bytes instead of their address. Returns their number.
 */
size_t meaning_captures_all(const struct probe_meaning *meaning, size_t arg_count,
	struct capture captures[CAPTURES_MAX]);

/*
 * Finds the captures that match end events with start events, in the order of the entry `begin`.
 * `meaning` is the entry of the hit's probe. Returns their number, or 0 if that probe lacks an
 * argument.
 */
size_t meaning_same(const struct probe_meaning *begin, const struct probe_meaning *meaning,
	struct capture captures[PROBE_SAME_MAX]);

/* Returns true if a text contains words that can only be arguments' names. */
bool meaning_names_used(const char *text);
/* Asks the catalogue for the members of structures that a text names. */
PROBE_MUST_CHECK struct probe_error *meaning_want(
	const struct probe_catalogue *catalogue, const char *text);
/*
 * Returns which argument of a description a capture shows, by its index: that of a member of a
 * structure, or capture.arg.
 */
size_t meaning_shown(const struct probe_meaning *meaning, const struct capture *capture);
/* Returns true if one of these words is an argument of a start event (begin.NAME). */
bool meaning_begin_used(const char *text);

/*
 * Replaces arguments' names in a text by argN, str(argN), str(argN,argM) or bytes(argN,argM);
 * inside str() and bytes(), by argN; and words that stand for numbers, by the numbers. `what` names
 * the text in messages. `meaning` is the probe's entry, `begin` is the entry of its pair's start
 * event, for names after `begin.`, which must exist; both may be NULL. A name that the probe lacks
 * becomes `absent`, or is an error if `absent` is NULL. The caller frees *ret. Errors:
 * PROBE_ERROR_USAGE (unknown name), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *meaning_replace(const char *what, const char *text,
	const struct probe_meaning *meaning, const struct probe_meaning *begin, const char *absent,
	char **ret);

/* ---- Operand --------------------------------------------------------------------------------- */

/*
 * Parses argN or *(TYPE *)ADDRESS into the argument and steps of *ret, and moves *at past it.
 * Returns NULL, or a text that says what was expected at *at.
 */
const char *operand_parse(const char **at, struct capture *ret);
/* Parses a type in parentheses, as in (s32)argN. Returns its size, as capture.cast has it; or 0. */
signed char operand_parse_cast(const char **at);
/* Returns an argument with the bytes and the sign that a cast leaves of it. */
struct arch_arg operand_cast(const struct arch_arg *arg, signed char cast);

/* Like operand_parse(), for a string's or bytes' address without parentheses: `arg0 + 8`. */
const char *operand_parse_address(const char **at, struct capture *ret);

/* ---- Functions ------------------------------------------------------------------------------- */

/*
 * Adds the functions of the object at `path` that the patterns name, each once: a note for an
 * entry, and one for each exit. `modules` are those of the process that has mapped it, or NULL:
 * they say which functions the process has chosen (IFUNC). The catalogue, or NULL, has the sizes of
 * arguments. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_FORMAT (functions that overlap too much).
 */
PROBE_MUST_CHECK struct probe_error *select_functions(struct object *object, const char *path,
	const struct probe_pattern *const *patterns, size_t count, const struct modules *modules,
	const struct probe_catalogue *catalogue, struct sdt_functions *inout);

/* ---- Parts of functions ---------------------------------------------------------------------- */

/* A range that .eh_frame describes and no symbol names. Addresses are link-time. */
struct split {
	struct object_range range;
	uint32_t references; /* how often the file refers to it, but for short branches */
	/* how often to its start: by code, and by code or constants */
	uint32_t entered, taken;
};

/* The parts of a file, by address. Initialise with {0}. */
struct splits {
	bool known;
	struct split *items;
	size_t count;
};

/* Finds a file's parts. Errors: as object_load(), PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *splits_read(
	struct object *object, const struct arch *arch, struct splits *ret);
struct split *splits_at(const struct splits *splits, uint64_t address);
void splits_deinit(struct splits *splits);

/* ---- The code of functions (function_code.c) ---------------------------------------------------
 */

/* Names, code and notes of a file's functions may take this many times the file's size. */
enum { FUNCTIONS_OVERLAP_MAX = 64 };

/* The code of one function of a file after the other: the caller sets `range` and `name`. */
struct function_code {
	struct object *object;
	const struct arch *arch;
	struct object_range range;
	const char *name; /* without version and parameters */
	/* Its entry, and why that cannot be patched, or NULL. */
	struct arch_entry entry;
	const char *entry_refused;
	struct lines *lines; /* NULL if there is no line table, or it was not looked for */
	bool lines_tried;
	struct splits split; /* what compilers split off, without a name */
	/*
	 * Bytes of names, code and notes that may be read and made: in a hostile file, each
	 * function may have all of the file.
	 */
	uint64_t budget;
	struct arch_windows *windows; /* too large for a stack */
};

/* Returns false if out of memory; function_code_deinit() is due even then. */
bool function_code_init(struct function_code *code, struct object *object, const struct arch *arch);
void function_code_deinit(struct function_code *code);
/* Takes bytes from the budget. Returns false if there are fewer. */
bool function_code_charge(struct function_code *code, size_t bytes);
/* Returns the code in a range, which the caller frees; NULL if it cannot be read, or no more. */
uint8_t *function_code_read(struct function_code *code, struct object_range range);
/* Finds out what has to stay at the entry. */
void function_code_entry(struct function_code *code);
/* Returns NULL if each thread at the first instruction was called, or why not. */
const char *function_code_loop(struct function_code *code);
/* Returns NULL if an instruction begins at the offset, or why there is no site. */
const char *function_code_inside(struct function_code *code, uint64_t offset);
/*
 * Adds the sites of the function's exits by add(): copies of a note, or the note itself with the
 * reason if they are refused. `symbol` is the function's full one.
 */
PROBE_MUST_CHECK struct probe_error *function_code_exits(struct function_code *code,
	const char *symbol, struct sdt_note *inout,
	struct probe_error *(*add)(void *data, const struct sdt_note *note), void *data);
/* Like probe_demangle(). Names of Rust have no parameters at their end. */
PROBE_MUST_CHECK struct probe_error *demangle_symbol(
	const char *symbol, bool *is_rust_ret, char **ret);
/*
 * Returns a symbol's name without version, demangled, and without parameters, which the caller
 * frees. NULL if memory is short.
 */
char *function_plain_name(const char *symbol);

/* ---- Select ---------------------------------------------------------------------------------- */

/* The probes and sites of a process that a request names. */

enum { SELECT_REASONS = 3 };

struct plan; /* describes how a site can be patched; private to libprobe/patch */
struct plan_ops;

/* Run-time addresses; 0 if the note has none. */
struct select_site {
	const struct sdt_note *note; /* the site's note; owned by the module */
	uint64_t pc;
	uint64_t semaphore;
	size_t probe;	   /* index of the site's probe in selection.probes */
	struct plan *plan; /* points into selection.plans; NULL until install_make_plans() */
	/* the plan for the site; NULL if it is refused */
	const struct plan_ops *chosen;
	/* Why the site is refused: the plans' distinct reasons, then NULL. */
	const char *reasons[SELECT_REASONS];
};

/* All sites with one provider and name in a module, in the file's order. */
struct select_probe {
	struct module *module;
	const char *provider, *name;
	enum sdt_kind kind;
	size_t first_site, site_count;
	/* The first of the patterns that match most precisely. */
	size_t pattern;
	uint64_t key;  /* key in the registry; see select_key() */
	bool refused;  /* no site of the probe can be patched */
	bool unwanted; /* the probe is to be dropped; see selection_drop_unwanted() */
	bool lacking;  /* a site lacks an argument that a matching pattern names */
	/* A pattern without wildcards names the probe. */
	bool exact;
	uint16_t times; /* by how much the reference count changes; 0 stands for 1 */
};

static inline uint16_t select_times(const struct select_probe *probe)
{
	return probe->times ? probe->times : 1;
}

/* Are these the exits and the entry of the functions with one name in a file? */
bool select_is_exit_of(const struct select_probe *exit, const struct select_probe *entry);
/*
 * Returns the entry to which exits belong, or NULL. It is searched for from the exits back to
 * `first`: the probes of a module are sorted by name.
 */
const struct select_probe *select_entry_of(
	const struct select_probe *first, const struct select_probe *exit);

/* The selected probes, and their sites by probe. Initialise with {0}. */
struct selection {
	struct select_probe *probes;
	size_t probe_count;
	struct select_site *sites;
	size_t site_count;
	struct plan *plans; /* plans of all sites in one array; freed with free() */
	bool *matched;	    /* for each pattern: the pattern has matched a probe */
	size_t pattern_count;
	/* Error for the first probe that lacks an argument (select_check_arguments()), or NULL. */
	struct probe_error *lacking;
};

/*
 * Selects the probes that match a pattern, or all if `count` is 0. Reads all modules' notes.
 * Errors: as sdt_read(), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *select_probes(struct modules *modules,
	const struct probe_pattern *const *patterns, size_t count, struct selection *ret);
void selection_deinit(struct selection *selection);

/*
 * select_refuse() refuses a site for one reason, which replaces others. The other adds a reason
 * that the site does not have.
 */
void select_refuse(struct select_site *site, const char *reason);
void select_add_reason(struct select_site *site, const char *reason);
/* Returns all reasons in one text, which the caller frees; NULL if out of memory. */
char *select_reason_text(const struct select_site *site);

void selection_drop_unwanted(struct selection *selection);

/*
 * Returns a probe's key, a hash of provider, name, and the run-time address of its module's first
 * note. All controllers compute the same key.
 */
uint64_t select_key(
	const struct sdt_notes *notes, uint64_t bias, const char *provider, const char *name);

/*
 * Inverts select_key(): returns the address of the first note. The result is right only if provider
 * and name are right.
 */
uint64_t select_key_place(uint64_t key, const char *provider, const char *name);

/* Returns notes sorted by provider and name; the caller frees the array. NULL if out of memory. */
const struct sdt_note **select_by_name(
	const struct sdt_notes *notes, const struct sdt_functions *functions, size_t *count_ret);
/* Returns the index after the last note of the same probe, in an array from select_by_name(). */
size_t select_probe_end(const struct sdt_note *const *sorted, size_t count, size_t from);

/*
 * Returns PROBE_ERROR_USAGE if a site lacks an argument of the pattern. `notes` are all of the
 * probe, from a file for `machine` (EM_).
 */
PROBE_MUST_CHECK struct probe_error *select_lacking(const struct probe_pattern *pattern,
	uint16_t machine, const struct sdt_note *const *notes, size_t count);

/*
 * Returns the error for the first probe that lacks a pattern's argument, or NULL. The caller owns
 * it. If the pattern has wildcards, one matching probe must have the argument. Errors:
 * PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *select_check_arguments(struct selection *selection);

/*
 * Returns the error for the first pattern that matched nothing, or NULL. error->err is EIO if files
 * were unreadable, else 0.
 */
PROBE_MUST_CHECK struct probe_error *select_unmatched(struct modules *modules,
	const struct selection *selection, const struct probe_pattern *const *patterns, pid_t pid);

/* ---- Pairs ----------------------------------------------------------------------------------- */

/* Says which probes are start events of pairs, and which are end events. */

enum pair_role { PAIR_NONE, PAIR_BEGIN, PAIR_END };

/* A probe's role in its pair, which may have several start events and end events. */
struct pair_part {
	enum pair_role role;
	uint32_t pair;
	bool single; /* the pair does not nest (see probe_meaning.takes) */
	/* The probe is a start event that takes the arguments of another probe, its giver. */
	bool takes;
	/*
	 * The probe is the giver of a start event. Its role is PAIR_BEGIN, but its hits start
	 * nothing.
	 */
	bool gives;
	/*
	 * `compares`: the pair's start and end events must have certain equal arguments, or the
	 * same frame, if they are a function's entry and exits. `same` is the catalogue's entry of
	 * the start event, which lists the arguments, or NULL if this probe's are not compared.
	 */
	bool compares;
	const struct probe_meaning *same;
};

/*
 * Sets parts[] for each probe of a selection. Pairs found by name are numbered from *pairs on,
 * pairs of patterns in the patterns' order. Afterwards *pairs is above all numbers. For pairs by
 * name, the catalogue (may be NULL) has precedence. A probe without a partner gets PAIR_NONE.
 *
 * Errors: PROBE_ERROR_USAGE (an odd number of patterns, or a probe that is begin and end),
 * PROBE_ERROR_NOT_FOUND (no names pair), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *pairs_assign(const struct selection *selection,
	const struct probe_pattern *const *patterns, enum probe_pairing pairing,
	const struct probe_catalogue *catalogue, struct pair_part *parts, uint32_t *pairs);

/*
 * Returns a pattern's position among the patterns that list start and end events. Returns
 * PAIRS_GIVER if it names a giver, whose arguments another pattern's start event takes.
 */
#define PAIRS_GIVER SIZE_MAX
size_t pairs_place(const struct probe_pattern *const *patterns, size_t count,
	const struct probe_catalogue *catalogue, size_t pattern);

/* ---- Names -------------------------------------------------------------------------- */

/* Copies a name with `__` for `-`; the caller frees it. NULL if out of memory. */
char *pair_plain_name(const char *name);

/*
 * Sets parts[] for plain names of one provider and module. Pairs are numbered from *pairs on;
 * afterwards *pairs is above all numbers. Each pair has one start event.
 */
void pairs_by_name(
	char *const *plain_names, size_t count, struct pair_part *parts, uint32_t *pairs);

/*
 * Returns a probe's possible role, judged by the last word of its plain name. *stem_ret is the
 * length before this word; it is not set for PAIR_NONE.
 */
enum pair_role pair_may_be(const char *plain_name, size_t *stem_ret);

/* Returns true if the names look swapped, like x__done and x__start. */
bool pair_looks_reversed(const char *begin, const char *end);

/* ---- Pairing --------------------------------------------------------------------------------- */

/*
 * Finds pairs of probes that become known one by one, as in a recording. The order does not matter:
 * the result is that of pairs_assign() by name for all known probes.
 */

struct pairing_probe {
	const char *provider;  /* provider of the probe; borrowed */
	bool is_function;      /* the probe is the entry, or the exits, of a function */
	char *plain;	       /* the name as pair_plain_name() spells it; a function's own name */
	enum pair_role may_be; /* role that the name alone suggests */
	/* bytes of `plain` before the word with the role */
	size_t stem;
	/* bytes of the prefix that it shares with its kin; see pair_kin() */
	size_t kin;
	/* Index of the first probe with this plain name. */
	size_t same;
	enum pair_role role; /* role among the probes known so far */
	size_t begin;	     /* for PAIR_END: index of the probe that is the begin of the pair */
};

/* The probes in the order of pairing_add(). Initialise with {0}. */
struct pairing {
	struct pairing_probe *probes;
	size_t count;
};

void pairing_deinit(struct pairing *pairing);

/*
 * Adds a probe, which may change other probes' roles. `provider` is borrowed until
 * pairing_deinit(). Errors: PROBE_ERROR_MEMORY (not added).
 */
PROBE_MUST_CHECK struct probe_error *pairing_add(
	struct pairing *pairing, const char *provider, const char *name);

/* ---- Tree ------------------------------------------------------------------------------------ */

/*
 * A type of C after promotions: int, unsigned int, long, unsigned long or double (64 bits), which
 * can only be compared, or be a whole key or value.
 */
struct expr_type {
	bool wide, is_signed, is_double;
};

static const struct expr_type expr_double = {.wide = true, .is_double = true};

/* The error for a word that must be a whole key. */
#define EXPR_ONLY_KEYS "comm, ustack and probe are whole keys (-k), and no part of an expression"

/*
 * A node of an expression, while arguments' types are unknown. Operands come before their operator.
 */
struct expr_node {
	enum arch_expr_kind kind; /* ARCH_EXPR_CAPTURE for an argument */
	/* str(argN), not compared with a text yet */
	bool is_string;
	bool is_norm;	     /* the argument is norm(str(argN)), which has no operators */
	bool is_symbol;	     /* the argument is sym(argN), which is the whole expression */
	enum expr_word word; /* the word, if the node is a whole key; is_string is set, too */
	bool of_begin;	     /* the argument is begin.argN or begin.str(argN) */
	uint8_t left, right;
	uint8_t arg;
	signed char cast; /* as in struct capture */
	/* The steps from the argument, a pointer, to the wanted data. */
	struct arch_step steps[ARCH_STEPS_MAX];
	uint8_t step_count;
	bool has_index;	 /* the steps use an array; argument number `index` is the array's index */
	uint8_t index;	 /* number of the argument that is the array's index */
	bool has_length; /* the string has a maximum length, which is argument number `length` */
	uint8_t length;	 /* number of the argument that is the maximum length */
	uint8_t depth;
	uint8_t text_length;
	struct expr_type type; /* type of a constant, or common type of the numbers in a list */
	uint64_t value;	       /* value of a constant, in the form that arch/expr.h defines */
	/* the text with which a string is compared; in expr->literals */
	const char *text;
	const uint64_t *list; /* numbers of a list; points into expr->numbers */
	uint8_t list_count;
	const char *at; /* position in expr->text, for messages */
};

struct expr {
	char *what, *text;
	char *literals; /* the texts of all nodes, one after another */
	size_t literals_length;
	uint64_t *numbers; /* the numbers of all lists, one after another */
	size_t numbers_length;
	struct expr_node nodes[ARCH_EXPR_NODES_MAX]; /* the last node is the root */
	uint8_t count;
	/* The expression's first word that is valid for pairs only, or NULL. */
	const char *of_pair;
	/* The first argument without `begin.` or `end.`, or NULL. */
	const char *of_hit;
};

/* Returns "WHAT 'TEXT', column N: ..."; `at` is in expr->text. */
struct probe_error *expr_error(const struct expr *expr, enum probe_error_code code, const char *at,
	const char *format, ...) __attribute__((format(printf, 4, 5), warn_unused_result));

/* Returns the capture that a node reads: str(argN), str(argN, argM) or argN. */
struct capture expr_operand(const struct expr_node *node);

/* ---- Constants (literal.c): parse at *at and advance it --------------------------------- */

/* Parses a number from its first digit on. A double's value is its bits. */
PROBE_MUST_CHECK struct probe_error *expr_integer(
	const struct expr *expr, const char **at, struct expr_node *node);
/* Parses a character constant from its quote on. */
PROBE_MUST_CHECK struct probe_error *expr_character(
	const struct expr *expr, const char **at, struct expr_node *node);
/* Parses a text from its quote on into expr->literals, and sets the node's text and text_length. */
PROBE_MUST_CHECK struct probe_error *expr_text(
	struct expr *expr, const char **at, struct expr_node *node);

/* ---- Arithmetic (evaluate.c) ----------------------------------------------------------- */

uint64_t expr_convert(struct expr_type type, uint64_t value);
/* Returns the type in which an operator is computed, from its operands' types. */
struct expr_type expr_operator_type(
	enum arch_expr_kind kind, struct expr_type left, struct expr_type right);
/* Returns the type of the result of a node computed in `type`. */
struct expr_type expr_result_type(enum arch_expr_kind kind, struct expr_type type);
/*
 * Returns true if an operator's operands are first converted to the type in which it is computed.
 */
bool expr_converts(enum arch_expr_kind kind);
/*
 * Computes an operator on converted numbers. Returns NULL, or a text that says why C has no result.
 * In that case *ret is the result that arch/expr.h defines; a division by 0 does not set it.
 */
const char *expr_compute(enum arch_expr_kind kind, struct expr_type type, uint64_t left,
	uint64_t right, uint64_t *ret);

/* ---- Parser ---------------------------------------------------------------------------------- */

/* The parser of expr_parse.c: the expression that it builds, and its position in the text. */

struct parser {
	struct expr *expr;
	const char *at;
	unsigned int nesting; /* how deeply operands are nested at this position */
};
