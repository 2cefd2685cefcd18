/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_QUERY_QUERY_H
#define LIBPROBE_QUERY_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "arch/expr.h"
#include "arch/general.h"
#include "arch/layout.h"
#include "elf/unwind.h"
#include "libprobe/base/error.h"
#include "libprobe/process/process.h"
#include "probe/catalogue.h"
#include "probe/pattern.h"
#include "probe/target.h"

/* ---- Argument -------------------------------------------------------------------------------- */

/* Parses and writes arguments as users type them. */

enum { ARGUMENT_TEXT = 512 };

/*
 * Parses the name of an argument, "arg0" to "arg31", at the start of a text. Returns a pointer
 * past the name, or NULL if the text does not start with a complete name ("arg01", "arg32",
 * "arg1x").
 */
const char *argument_parse(const char *text, uint8_t *ret);

/*
 * Writes a text that lists the specifications of a note's arguments, such as "2 arguments: -4@%edi
 * 8@%rsi", or "no arguments". If there are too many, the text ends with "...".
 */
void argument_list(const struct arch_arg *specs, size_t count, char text[ARGUMENT_TEXT]);

/* ---- Builtin --------------------------------------------------------------------------------- */

/*
 * The text of the catalogue files that are built into the library: all of
 * libprobe/query/probes/NAME.probes, concatenated. The makefile generates the source file.
 */

extern const char catalogue_builtin[];
extern const size_t catalogue_builtin_length;

/* ---- Captures -------------------------------------------------------------------------------- */

/* Lists of arguments at the end of a pattern: (arg0, str(arg1)). */

enum { CAPTURES_MAX = 32 };

/* A request of a list or an expression: one argument, or the data that it points to. */
struct capture {
	unsigned char arg; /* number of the argument, from 0 to 31 */
	/* The steps from the argument, a pointer, to the wanted data. */
	struct arch_step steps[ARCH_STEPS_MAX];
	uint8_t step_count;
	/* the steps use an array; the argument with number `index` is the array's index */
	bool has_index;
	unsigned char index;
	bool is_string;
	bool is_symbol;	      /* sym(argN) in a list: the value is shown as the name of a symbol */
	bool has_length;      /* str(argN,argM) or, if is_string is false, bytes(argN,argM) */
	unsigned char length; /* the number M; equal to `arg` if the length is a constant */
	/* Length, if it is a constant as in str(argN,32) or bytes(argN,32), otherwise 0. */
	uint16_t fixed_length;
	bool of_begin; /* the argument is begin.argN, in an expression on pairs */
	bool beside;   /* show the string in addition to the number, not instead of it */
};

bool capture_is(const struct capture *a, const struct capture *b);

/* ---- Catalogue ------------------------------------------------------------------------------- */

/* The contents of a catalogue. Private to libprobe. */

enum {
	CATALOGUE_ARGS_MAX = 32,
	CATALOGUE_OFFSET_MAX = 4095,
	CATALOGUE_FILE_MAX = 1024 * 1024 /* maximum size of a file, in bytes */
};

/* A type whose numbers have words, from one line `words` of a file. */
struct catalogue_words {
	const char *name;
	struct probe_word *words; /* the numbers and their words; owned */
	size_t count;
};

/*
 * One parsed file. All strings point into `text`. Each probe owns its arrays `args`, `ends` and
 * `same`.
 */
struct catalogue_file {
	char *text;
	struct probe_meaning *probes;
	size_t probe_count;
	struct catalogue_words *words;
	size_t words_count;
};

/*
 * A file that a user has added, or the part of the library's own text that is about one provider.
 */
struct catalogue_source {
	_Atomic(struct catalogue_file *) file; /* the parsed file, owned; NULL if not parsed yet */
	/* For the library's text: the part of it that begins with a "provider" line. */
	const char *text;
	size_t length;
};

struct probe_catalogue {
	/* The sources, in rising precedence. The last source is searched first. */
	struct catalogue_source *sources;
	size_t source_count;
};

/*
 * Parses `length` bytes of text; *ret keeps a copy of the text. `path` is named in error messages.
 * Errors: PROBE_ERROR_FORMAT, PROBE_ERROR_MEMORY. After an error, *ret needs no
 * catalogue_file_deinit().
 */
PROBE_MUST_CHECK struct probe_error *catalogue_parse(
	const char *path, const char *text, size_t length, struct catalogue_file *ret);
void catalogue_file_deinit(struct catalogue_file *file);

/*
 * Returns the parsed file of a source. The library's text about a provider is parsed when it is
 * first requested. Returns NULL if the text was not parsed yet and is about another provider than
 * `provider` (NULL stands for any provider), or if out of memory.
 */
const struct catalogue_file *catalogue_file_of(
	const struct probe_catalogue *catalogue, size_t source, const char *provider);

/*
 * Returns the index of the argument that a word of probe_meaning.same names: the argument that has
 * this name or, for the word argN, argument N. Returns -1 if there is no such argument. Sets
 * *number_ret to true for argN: then the argument counts as a number, even if it points to a
 * string.
 */
int catalogue_same_arg(const struct probe_meaning *meaning, const char *word, bool *number_ret);

/*
 * Returns true if a name matches a pattern, which may contain `*`. `-` and `__` match each other.
 */
bool catalogue_name_matches(const char *pattern, const char *name);

/*
 * Returns true if a word has a meaning in expressions. An argument cannot have such a word as its
 * name.
 */
bool catalogue_is_reserved(const char *word, size_t length);

/* ---- Pattern --------------------------------------------------------------------------------- */

/* Properties of parsed patterns, and the arguments that a pattern requests. */

/*
 * Returns true if the pattern names one probe, without wildcards, regular expression or predicate.
 */
bool pattern_is_exact(const struct probe_pattern *pattern);

/*
 * Returns the precision of a pattern. If several patterns match a probe, the pattern with the
 * highest precision decides which arguments are captured. An exact name counts most, and after that
 * a list of arguments.
 */
int pattern_precision(const struct probe_pattern *pattern);

/*
 * Finds the provider and the name if the pattern matches only one of each; both are borrowed.
 * Returns false if it matches several providers or names.
 */
bool pattern_names(
	const struct probe_pattern *pattern, const char **provider_ret, const char **name_ret);

/*
 * Finds the function and its data that were passed to probe_pattern_predicate(), as addresses. Both
 * are 0 if the pattern has no predicate.
 */
void pattern_predicate(
	const struct probe_pattern *pattern, uint64_t *function_ret, uint64_t *data_ret);

/*
 * Returns true if the pattern has a list in parentheses. Without a list, all arguments are
 * captured.
 */
bool pattern_has_captures(const struct probe_pattern *pattern);
/* Returns true if the pattern's list contains sym(argN). */
bool pattern_has_symbols(const struct probe_pattern *pattern);
/*
 * Finds the captures that the pattern's list requests from a probe with `arg_count` arguments.
 * Names are replaced as the catalogue says. With absent_ok, a name that the probe lacks is replaced
 * by an argument that does not exist. Errors: PROBE_ERROR_USAGE (a name is unknown, or the list
 * with replaced names is invalid), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *pattern_captures(const struct probe_pattern *pattern,
	const char *provider, const char *name, size_t arg_count, bool absent_ok,
	struct capture captures[CAPTURES_MAX], size_t *count_ret);

/* Like probe_pattern_matches(), but for any module. Returns true if the pattern has a predicate. */
bool pattern_may_name(const struct probe_pattern *pattern, const char *provider, const char *name);

/* ---- Record layout --------------------------------------------------------------------------- */

/*
 * The layout of a site's records: which arguments are captured, and how they are read from a
 * record.
 */

/*
 * One argument that is shown to the user. `value` and `string` are indices into captures[], or -1
 * if there is no such capture.
 */
struct record_layout_arg {
	int8_t value, string;
	bool is_signed, is_float;
	bool is_guess;	/* show the string only if its bytes are printable text */
	bool is_known;	/* show the string in addition to the number, whatever its bytes are */
	bool is_symbol; /* the value is an address, shown as a symbol name */
	bool is_bytes;	/* `string` has a given length and need not end with NUL */
	uint8_t size;
	uint8_t number; /* number of the argument in the note */
};

struct record_layout {
	struct record_layout_arg args[ARCH_ARGS_MAX];
	uint8_t arg_count;
	struct arch_capture captures[ARCH_ARGS_MAX];
	uint8_t capture_count;
	/*
	 * Number of captures that are in the record. The captures after them only serve
	 * expressions.
	 */
	uint8_t recorded;
	bool checked; /* records have a bit mask that says which captures were readable */
	/* Index of the capture of the stack, plus 1; 0 if the stack is not captured. */
	uint8_t stack;
};

/* The stack in a record: a copy of stack memory, or return addresses. */
struct record_layout_stack {
	/*
	 * The registers of arch->unwind_registers, each a u64. NULL if the record has return
	 * addresses.
	 */
	const void *registers;
	/* A copy of the stack from the stack pointer up, or return addresses, each a u64. */
	const uint8_t *bytes;
	size_t length;
	/*
	 * the function's return address if the return addresses in `bytes` may lack it, otherwise 0
	 */
	uint64_t caller;
};

/*
 * An argument that start events keep, so that expressions at the end events can use it. All sites
 * of a session keep the same arguments.
 */
struct record_layout_kept {
	struct capture what;
	uint16_t bytes;	 /* maximum length of a string; 0 for a number, which has 64 bits */
	uint16_t offset; /* offset of the value in struct probe_begun, in bytes */
	bool is_unsigned;
};

/* The arguments of a site, parsed from its note. */
struct record_layout_site {
	const struct arch *arch;
	struct module *module;
	struct arch_arg specs[ARCH_ARGS_MAX];
	size_t count;
	/*
	 * For a site at the end of a pair: the arguments that the start event has kept. Borrowed
	 * from the session.
	 */
	const struct record_layout_kept *kept;
	uint8_t kept_count;
	/* The captures by which end events are matched with start events (arch_flights.same). */
	struct capture same[ARCH_SAME_MAX];
	uint8_t same_count;
	enum probe_stack_kind stack; /* the form of the stack in the site's records */
	/*
	 * For stacks as keys, and for PROBE_STACK_FRAMES: where the caller's registers are saved at
	 * the site.
	 */
	uint64_t pc; /* run-time address of the site */
	struct unwind_saved saved;
};
void record_layout_site_init(struct record_layout_site *site, const struct arch *arch,
	struct module *module, const char *args);

/*
 * Decides which arguments of a site are captured: those in `wanted`, or all arguments if `wanted`
 * is NULL. Symbols are looked up in the site's module. If an argument cannot be captured, its value
 * is shown as null.
 */
void record_layout_init(struct record_layout *layout, const struct record_layout_site *site,
	const struct capture *wanted, size_t wanted_count,
	const struct probe_session_options *options);

/*
 * Captures an argument for an expression. Uses an existing capture if possible; otherwise adds a
 * capture that is not recorded. Reads up to `bytes` bytes of a string; a string with a given length
 * still ends at a NUL. Returns the index of the capture, or -1 if the argument cannot be captured.
 * Must be called after all recorded captures were added.
 */
int record_layout_capture(struct record_layout *layout, const struct record_layout_site *site,
	const struct capture *wanted, uint16_t bytes);

/*
 * Captures an argument that the start event has kept: a string of at most `bytes` bytes, or a
 * number if `bytes` is 0. Returns the index of the capture, or -1 if the argument was not kept or
 * the layout is full.
 */
int record_layout_capture_begun(struct record_layout *layout, const struct record_layout_site *site,
	const struct capture *what, uint16_t bytes);

/* Returns the element of kept[] that has an argument, or NULL. */
const struct record_layout_kept *record_layout_find_kept(const struct record_layout_kept *kept,
	uint8_t count, const struct capture *what, uint16_t bytes);

/*
 * Captures `bytes` bytes of stack memory or of return addresses. Returns the index of the capture,
 * or -1 if this is impossible. The caller's frame pointer is saved `frame_at` bytes above the stack
 * pointer; -1 if it was not saved and is still in its register.
 */
int record_layout_capture_stack(struct record_layout *layout, const struct arch *arch,
	enum arch_capture_stack kind, uint16_t bytes, int32_t frame_at);

/*
 * Captures the name of the thread, which is used as a key. Returns the index of the capture, or -1
 * if the layout is full.
 */
int record_layout_capture_comm(struct record_layout *layout);

/*
 * Captures the return address of the function that contains a site. The address may be signed
 * (pointer authentication). Returns the index of the capture, or -1 if the capture is impossible or
 * unnecessary, because the chain of frame pointers has the address.
 */
int record_layout_capture_return(
	struct record_layout *layout, const struct record_layout_site *site);

/*
 * Makes the captures for expressions part of the records. Must be called after all captures were
 * added. The arguments that are shown stay the same.
 */
void record_layout_record_all(struct record_layout *layout, const struct arch *arch);

/* Returns the maximum length of a record, in bytes. */
size_t record_layout_bytes(const struct record_layout *layout);

/*
 * Reads the arguments from a record, which has at most `size` bytes. `record` points to the fixed
 * header of the record. Returns the length of the whole record, or 0 if the record is invalid. The
 * values of strings point into the record.
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
 * record_layout_read_plain() can be called instead of record_layout_read_frame(). It uses only
 * general registers (arch/general.h).
 */
bool record_layout_is_plain(const struct record_layout *layout);

/*
 * Sets a value to the integer `word`, which the stub has extended to 64 bits. `word` is 0 if the
 * integer was unreadable.
 */
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
	/* the last of these words is the mask of readable captures */
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

/*
 * Finds the stack in a record that record_layout_read() has accepted. Returns false if the record
 * has no stack.
 */
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
 * Parses an expression. `what` says in messages what the text is ("the filter"). Errors:
 * PROBE_ERROR_USAGE. Its message has the text, the column (from 1), and what was expected there.
 */
PROBE_MUST_CHECK struct probe_error *expr_parse(
	const char *what, const char *text, struct expr **ret);
void expr_free(struct expr *expr);

/*
 * Returns true if the whole expression is one string, perhaps of the begin of a pair. Then sets
 * *ret to the string. Such an expression cannot be bound.
 */
bool expr_is_string(const struct expr *expr, struct capture *ret);

/*
 * Returns true if the whole expression is norm(STRING), so that the string is normalized (norm.h)
 * when it is read.
 */
bool expr_is_norm(const struct expr *expr);

/* Returns true if the whole expression is sym(argN): a number that is shown as a symbol name. */
bool expr_is_symbol(const struct expr *expr);
/* Returns the error for sym() in an expression that is not used as a key. */
PROBE_MUST_CHECK struct probe_error *expr_no_symbol(const struct expr *expr);
/* Words that form a whole key. */
enum expr_word {
	EXPR_NO_WORD,
	EXPR_COMM,   /* comm: the thread's name */
	EXPR_USTACK, /* ustack: the thread's call stack */
	EXPR_PROBE   /* probe: the probe that was hit */
};

/*
 * Returns the word if it forms the whole expression, so that the expression cannot be bound;
 * otherwise EXPR_NO_WORD.
 */
enum expr_word expr_word(const struct expr *expr);

/*
 * Returns true if the expression is about a complete pair, because it contains `duration`, `begin.`
 * or `end.`. Such an expression is bound to the sites of the end.
 */
bool expr_is_of_pair(const struct expr *expr);
/* Returns the error for an expression on pairs in a request without pairs. */
PROBE_MUST_CHECK struct probe_error *expr_no_pair(const struct expr *expr);

/*
 * Adds the arguments of the start event that the expression uses to kept[], each only once. kept[]
 * has *count elements already. A string that is itself the key has at most `string_bytes` bytes.
 * Returns false if kept[] would have more than ARCH_KEPT_MAX elements.
 */
bool expr_ask_begin(const struct expr *expr, uint16_t string_bytes, struct record_layout_kept *kept,
	uint8_t *count);
/*
 * Checks that a site of a begin has the arguments of the start event that the expression uses.
 * Errors: those of expr_bind().
 */
PROBE_MUST_CHECK struct probe_error *expr_check_begin(
	const struct expr *expr, const struct record_layout_site *site);

/*
 * Returns true if the whole expression is argN, and this argument is a double or a float at this
 * site. Then expr_bind_double() must be called instead of expr_bind(), which would fail.
 */
bool expr_is_double(const struct expr *expr, const struct record_layout_site *site);
/*
 * Like expr_bind(), but for an expression that is one argument of type float or double. The value
 * of the bound expression is the bits of a double.
 */
PROBE_MUST_CHECK struct probe_error *expr_bind_double(const struct expr *expr,
	struct record_layout *layout, const struct record_layout_site *site,
	struct arch_expr_node *nodes, uint8_t *count_ret);

/*
 * Checks that a site has the string that forms the whole expression. Errors: those of expr_bind().
 */
PROBE_MUST_CHECK struct probe_error *expr_check_string(
	const struct expr *expr, const struct record_layout_site *site);

/*
 * Binds an expression to a site. Adds the captures that the expression needs to the site's layout
 * (see record_layout_capture()), and writes the tree with types to nodes[ARCH_EXPR_NODES_MAX]. The
 * nodes point to texts that `expr` owns. The messages of errors do not name the probe. Errors:
 * PROBE_ERROR_USAGE (no such argument, not an integer, too many operators), PROBE_ERROR_UNSUPPORTED
 * (the argument cannot be captured).
 */
PROBE_MUST_CHECK struct probe_error *expr_bind(const struct expr *expr,
	struct record_layout *layout, const struct record_layout_site *site,
	struct arch_expr_node *nodes, uint8_t *count_ret);

/*
 * Returns true if the value of a bound expression has a signed type. `last` is the last node of the
 * expression's tree.
 */
bool expr_is_signed(const struct arch_expr_node *last);

/* ---- Evaluate -------------------------------------------------------------------------------- */

/*
 * Computes the value of a bound expression for one hit, outside the target, as arch/expr.h defines
 * it.
 */

struct expr_string {
	const char *bytes;
	size_t length;
};

/* A hit. The arrays have one element for each capture of the stub. */
struct expr_input {
	const uint64_t *words;		   /* values of scalars, as recorded */
	const struct expr_string *strings; /* values of strings */
	uint64_t unreadable;		   /* bit i is set if capture i was unreadable */
	int32_t tid, pid, cpu;
	uint64_t duration;
};

/*
 * Computes the value of an expression. Returns false if the hit is rejected, because an operand was
 * unreadable or a divisor was 0.
 */
bool expr_evaluate(const struct arch_expr *expr, const struct expr_input *input, uint64_t *ret);

/*
 * Computes the value of an expression from a record that record_layout_read() has accepted. The
 * record must have all operands of the expression (record_layout_record_all()). If an operand was
 * unreadable, the kind of the value is PROBE_VALUE_NULL. `tid`, `pid` and `cpu` are the ids that
 * the stub found in the target.
 */
struct probe_value expr_record_value(const struct arch_expr *expr,
	const struct record_layout *layout, const uint8_t *record, int32_t tid, int32_t pid,
	int32_t cpu);

/* ---- Meaning --------------------------------------------------------------------------------- */

/* Lets users refer to arguments by the names that the catalogue gives them. */

/*
 * Finds the captures for a pattern without a list, if the catalogue has the probe: strings are
 * captured as strings, and arguments that are only the lengths of others are left out. Returns the
 * number of captures.
 */
size_t meaning_captures(const struct probe_meaning *meaning, size_t arg_count,
	struct capture captures[CAPTURES_MAX]);
/*
 * Finds the captures for machine-readable output: all arguments as numbers, and strings in addition
 * to their numbers. Returns the number of captures.
 */
size_t meaning_captures_all(const struct probe_meaning *meaning, size_t arg_count,
	struct capture captures[CAPTURES_MAX]);

/*
 * Finds the captures by which end events are matched with start events. `begin` is the catalogue's
 * entry of the pair's begin, which lists the arguments; the captures are in the same order.
 * `meaning` is the entry of the probe that is hit. Returns the number of captures, or 0 if the
 * probe lacks one of the arguments.
 */
size_t meaning_same(const struct probe_meaning *begin, const struct probe_meaning *meaning,
	struct capture captures[PROBE_SAME_MAX]);

/*
 * Returns true if an expression or a list of arguments contains words that can only be names of
 * arguments.
 */
bool meaning_names_used(const char *text);
/* Returns true if one of these words names an argument of the begin of a pair (begin.NAME). */
bool meaning_begin_used(const char *text);

/*
 * Replaces names of arguments in a text. A name becomes argN, str(argN), str(argN,argM) or
 * bytes(argN,argM); inside str() and bytes(), argN. A word for a number becomes the number. `what`
 * says in messages what the text is. `meaning` is the catalogue's entry of the probe. `begin` is
 * the entry of the begin of the probe's pair, for names after `begin.`; both entries may be NULL. A
 * name that the probe lacks becomes `absent`, or is an error if `absent` is NULL. A name after
 * `begin.` must always exist. The caller frees *ret. Errors: PROBE_ERROR_USAGE (unknown name),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *meaning_replace(const char *what, const char *text,
	const struct probe_meaning *meaning, const struct probe_meaning *begin, const char *absent,
	char **ret);

/* ---- Operand --------------------------------------------------------------------------------- */

/* Parses an argument, or the data that it points to, as users write it. */

/*
 * Parses argN or *(TYPE *)ADDRESS at *at, and sets the argument and the steps of *ret. Moves *at
 * past the operand, and returns NULL. If there is no such operand, returns a text that says what
 * was expected at *at.
 */
const char *operand_parse(const char **at, struct capture *ret);
/*
 * Like operand_parse(), but for the address of a string or of bytes. Such an address needs no
 * parentheses, as in `arg0 + 8`.
 */
const char *operand_parse_address(const char **at, struct capture *ret);

/* ---- Select ---------------------------------------------------------------------------------- */

/* Selects the probes and sites of a process that a request names. */

enum { SELECT_REASONS = 3 };

struct plan; /* describes how a site can be patched; private to libprobe/patch */
struct plan_ops;

/* One site. Addresses are run-time addresses; they are 0 if the note has none. */
struct select_site {
	const struct sdt_note *note; /* the site's note; owned by the module */
	uint64_t pc;
	uint64_t semaphore;
	size_t probe;	   /* index of the site's probe in selection.probes */
	struct plan *plan; /* points into selection.plans; NULL until install_make_plans() */
	/* the plan by which the site is patched; NULL if the site is refused */
	const struct plan_ops *chosen;
	/*
	 * Why the site is refused: the distinct reasons of the plans that were tried. Unused
	 * elements are NULL.
	 */
	const char *reasons[SELECT_REASONS];
};

/* One probe: all sites with the same provider and name in one module, in the order of the file. */
struct select_probe {
	struct module *module;
	const char *provider, *name;
	enum sdt_kind kind;
	size_t first_site, site_count;
	/*
	 * Index of the pattern that matches most precisely. Of several such patterns, the first
	 * counts.
	 */
	size_t pattern;
	uint64_t key;  /* key in the registry; see select_key() */
	bool refused;  /* no site of the probe can be patched */
	bool unwanted; /* the probe is to be dropped; see selection_drop_unwanted() */
	bool lacking;  /* a site lacks an argument that a matching pattern names */
	/*
	 * A pattern names the probe exactly. False if only patterns with wildcards match it, or if
	 * there are no patterns.
	 */
	bool exact;
	uint16_t times; /* by how much the reference count changes; 0 stands for 1 */
};

static inline uint16_t select_times(const struct select_probe *probe)
{
	return probe->times ? probe->times : 1;
}

/* The selected probes and their sites, which are sorted by probe. Initialise with {0}. */
struct selection {
	struct select_probe *probes;
	size_t probe_count;
	struct select_site *sites;
	size_t site_count;
	struct plan *plans; /* plans of all sites in one array; freed with free() */
	bool *matched;	    /* for each pattern: the pattern has matched a probe */
	size_t pattern_count;
	/*
	 * Error for the first probe that lacks an argument, or NULL; see select_check_arguments().
	 */
	struct probe_error *lacking;
};

/*
 * Selects the probes that match a pattern. If `count` is 0, selects all probes. Reads the notes of
 * all modules. Errors: those of sdt_read(), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *select_probes(struct modules *modules,
	const struct probe_pattern *const *patterns, size_t count, struct selection *ret);
void selection_deinit(struct selection *selection);

/*
 * select_refuse() refuses a site for one reason, and discards earlier reasons. select_add_reason()
 * adds a reason that the site does not have yet.
 */
void select_refuse(struct select_site *site, const char *reason);
void select_add_reason(struct select_site *site, const char *reason);
/* Returns one text with all reasons, which the caller frees. Returns NULL if out of memory. */
char *select_reason_text(const struct select_site *site);

/* Drops the probes that are marked as unwanted, and their sites. */
void selection_drop_unwanted(struct selection *selection);

/*
 * Returns the key of a probe in the registry: a hash of the probe's provider and name, and of the
 * run-time address of the first note in the probe's module. All controllers compute the same key.
 */
uint64_t select_key(
	const struct sdt_notes *notes, uint64_t bias, const char *provider, const char *name);

/*
 * Inverts select_key(): returns the run-time address of the first note in the probe's module. The
 * result is meaningless if the key is not that of a probe with this provider and name.
 */
uint64_t select_key_place(uint64_t key, const char *provider, const char *name);

/*
 * Returns the notes of a file, sorted by provider and name. Notes with the same provider and name
 * stay in the order of the file. The caller frees the array. Returns NULL if out of memory.
 */
const struct sdt_note **select_by_name(const struct sdt_notes *notes);
/*
 * Returns the index past the last note that has the same provider and name as the note at `from`.
 * `sorted` is an array from select_by_name().
 */
size_t select_probe_end(const struct sdt_note *const *sorted, size_t count, size_t from);

/*
 * Returns PROBE_ERROR_USAGE if a site of a probe lacks an argument that the pattern names. `notes`
 * are all notes of the probe, which come from a file for `machine` (an EM_ constant).
 */
PROBE_MUST_CHECK struct probe_error *select_lacking(const struct probe_pattern *pattern,
	uint16_t machine, const struct sdt_note *const *notes, size_t count);

/*
 * Returns the error for the first probe that lacks an argument that a pattern names, or NULL. The
 * error is then removed from the selection. If a pattern has wildcards, it is enough that one
 * matching probe has the argument. Errors: PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *select_check_arguments(struct selection *selection);

/*
 * Returns the error for the first pattern that matched no probe, or NULL if all patterns matched.
 * If some files were unreadable, error->err is EIO, otherwise 0.
 */
PROBE_MUST_CHECK struct probe_error *select_unmatched(struct modules *modules,
	const struct selection *selection, const struct probe_pattern *const *patterns, pid_t pid);

/* ---- Pairs ----------------------------------------------------------------------------------- */

/* Decides which probes are the begins of pairs, and which are the ends. */

enum pair_role { PAIR_NONE, PAIR_BEGIN, PAIR_END };

/* The role of a probe in its pair. A pair may have several begins and several ends. */
struct pair_part {
	enum pair_role role;
	uint32_t pair;
	bool single; /* the pair does not nest (see probe_meaning.takes) */
	/* The probe is a begin that takes the arguments of another probe, its giver. */
	bool takes;
	/*
	 * The probe is the giver of a begin. Its role is PAIR_BEGIN, but its own hits start
	 * nothing.
	 */
	bool gives;
	/*
	 * `compares`: start and end events of the pair belong together only if certain arguments
	 * are equal. `same` is the catalogue's entry that lists these arguments, that of the pair's
	 * begin; borrowed from the catalogue. If `same` is NULL, the arguments of this probe's
	 * events are not compared.
	 */
	bool compares;
	const struct probe_meaning *same;
};

/*
 * Sets parts[] for each probe of a selection. Pairs that are found by name are numbered from *pairs
 * on. Pairs that patterns list are numbered in the order of the patterns. On return, *pairs is
 * greater than all used numbers.
 *
 * If pairs are found by name, those of the catalogue come first; `catalogue` may be NULL. A probe
 * without a partner gets PAIR_NONE. Errors: PROBE_ERROR_USAGE (an odd number of patterns, or a
 * probe that is both begin and end), PROBE_ERROR_NOT_FOUND (no names pair), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *pairs_assign(const struct selection *selection,
	const struct probe_pattern *const *patterns, enum probe_pairing pairing,
	const struct probe_catalogue *catalogue, struct pair_part *parts, uint32_t *pairs);

/*
 * Returns the position of a pattern among the patterns that list begins and ends. Returns
 * PAIRS_GIVER if the pattern names a giver: another pattern then names a begin that takes the
 * giver's arguments.
 */
#define PAIRS_GIVER SIZE_MAX
size_t pairs_place(const struct probe_pattern *const *patterns, size_t count,
	const struct probe_catalogue *catalogue, size_t pattern);

/* ---- Names -------------------------------------------------------------------------- */

/*
 * Returns a copy of a name with each `-` replaced by `__`. The caller frees it. Returns NULL if out
 * of memory.
 */
char *pair_plain_name(const char *name);

/*
 * Sets parts[] for `count` plain names, which belong to one provider and module. Pairs are numbered
 * from *pairs on. On return, *pairs is greater than all used numbers. Each pair has one begin.
 */
void pairs_by_name(
	char *const *plain_names, size_t count, struct pair_part *parts, uint32_t *pairs);

/*
 * Returns the role that a probe may have, as the last word of its plain name says. *stem_ret is the
 * number of bytes before that word; it is not set for PAIR_NONE.
 */
enum pair_role pair_may_be(const char *plain_name, size_t *stem_ret);

/* Returns true if the names suggest that begin and end are swapped, as in x__done and x__start. */
bool pair_looks_reversed(const char *begin, const char *end);

/* ---- Pairing --------------------------------------------------------------------------------- */

/*
 * Finds the pairs of probes that become known one after another, as in a recording. The result does
 * not depend on their order: it is what pairs_assign() would find by name in all probes that are
 * known so far.
 */

struct pairing_probe {
	const char *provider;  /* provider of the probe; borrowed */
	char *plain;	       /* the name as pair_plain_name() spells it */
	enum pair_role may_be; /* role that the name alone suggests */
	/* number of bytes of `plain` before the word that decides the role */
	size_t stem;
	/* length in bytes of the prefix that the names of all its kin have; see pair_kin() */
	size_t kin;
	/* Index of the first probe with this plain name, perhaps of this probe itself. */
	size_t same;
	enum pair_role role; /* role among the probes known so far */
	size_t begin;	     /* for PAIR_END: index of the probe that is the begin of the pair */
};

/* The probes that are known so far, in the order of pairing_add(). Initialise with {0}. */
struct pairing {
	struct pairing_probe *probes;
	size_t count;
};

void pairing_deinit(struct pairing *pairing);

/*
 * Adds a probe, which may change the roles of earlier probes. `provider` is borrowed until
 * pairing_deinit(). Errors: PROBE_ERROR_MEMORY (the probe was not added).
 */
PROBE_MUST_CHECK struct probe_error *pairing_add(
	struct pairing *pairing, const char *provider, const char *name);

/* ---- Tree ------------------------------------------------------------------------------------ */

/* A parsed expression, and C's arithmetic. Shared by literal.c, expr_parse.c and bind.c. */

/*
 * A type of C that is left after promotions: int, unsigned int, long, unsigned long or double. A
 * double has 64 bits. It can only be compared, or be a whole key or value.
 */
struct expr_type {
	bool wide, is_signed, is_double;
};

static const struct expr_type expr_double = {.wide = true, .is_double = true};

/* The text of the error for a word that is only allowed as a whole key. */
#define EXPR_ONLY_KEYS "comm, ustack and probe are whole keys (-k), and no part of an expression"

/*
 * A node of an expression, before the types of arguments are known. The nodes of operands precede
 * the node of their operator.
 */
struct expr_node {
	enum arch_expr_kind kind; /* ARCH_EXPR_CAPTURE for an argument */
	/* the argument is str(argN), and was not compared with a text yet */
	bool is_string;
	bool is_norm;	     /* the argument is norm(str(argN)), which has no operators */
	bool is_symbol;	     /* the argument is sym(argN), which is the whole expression */
	enum expr_word word; /* the word, if the node is a whole key; is_string is set, too */
	bool of_begin;	     /* the argument is begin.argN or begin.str(argN) */
	uint8_t left, right;
	uint8_t arg;
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
	/* text with which a string is compared; points into expr->literals */
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
	/*
	 * Where the text first uses a word that only expressions on pairs have; NULL if it uses
	 * none.
	 */
	const char *of_pair;
	/*
	 * Where the text first uses an argument without `begin.` or `end.`; NULL if it uses none.
	 */
	const char *of_hit;
};

/* Returns the error "WHAT 'TEXT', column N: ...". `at` is a position in expr->text. */
struct probe_error *expr_error(const struct expr *expr, enum probe_error_code code, const char *at,
	const char *format, ...) __attribute__((format(printf, 4, 5), warn_unused_result));

/* Returns what a node reads of the site's arguments: str(argN), str(argN, argM) or argN. */
struct capture expr_operand(const struct expr_node *node);

/* ---- Constants (literal.c): parse at *at and advance it --------------------------------- */

/*
 * Parses a number; *at points to its first digit. Sets the type and the value of the node. The
 * value of a double is its bits.
 */
PROBE_MUST_CHECK struct probe_error *expr_integer(
	const struct expr *expr, const char **at, struct expr_node *node);
/* Parses a character constant; *at points to the opening quote. */
PROBE_MUST_CHECK struct probe_error *expr_character(
	const struct expr *expr, const char **at, struct expr_node *node);
/*
 * Parses a text; *at points to the opening quote. Adds the bytes to expr->literals. Sets the
 * node's text and text_length.
 */
PROBE_MUST_CHECK struct probe_error *expr_text(
	struct expr *expr, const char **at, struct expr_node *node);

/* ---- Arithmetic (evaluate.c) ----------------------------------------------------------- */

/* Converts `value` to a type. */
uint64_t expr_convert(struct expr_type type, uint64_t value);
/* Returns the type in which an operator is computed, given the types of its operands. */
struct expr_type expr_operator_type(
	enum arch_expr_kind kind, struct expr_type left, struct expr_type right);
/* Returns the type of the result of a node that is computed in `type`. */
struct expr_type expr_result_type(enum arch_expr_kind kind, struct expr_type type);
/*
 * Returns true if the operands of an operator are first converted to the type in which it is
 * computed.
 */
bool expr_converts(enum arch_expr_kind kind);
/*
 * Computes an operator on numbers that were already converted. Returns NULL, or why C leaves the
 * result undefined. *ret is then what arch/expr.h defines; a division by 0 does not set it.
 */
const char *expr_compute(enum arch_expr_kind kind, struct expr_type type, uint64_t left,
	uint64_t right, uint64_t *ret);

/* ---- Parser ---------------------------------------------------------------------------------- */

/*
 * The state of the parser in expr_parse.c: the expression that it builds, and its position in the
 * text.
 */

struct parser {
	struct expr *expr;
	const char *at;
	unsigned int nesting; /* how deeply operands are nested at this position */
};

#endif
