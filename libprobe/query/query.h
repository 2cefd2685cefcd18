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

/* Arguments of probes as users name them. */

enum { ARGUMENT_TEXT = 512 };

/*
 * Parses the name of an argument, "arg0" to "arg31", at the start of a text. Returns a pointer
 * past it, or NULL if there is no complete name ("arg01", "arg32", "arg1x").
 */
const char *argument_parse(const char *text, uint8_t *ret);

/*
 * Writes "2 arguments: -4@%edi 8@%rsi", as the note has them, or "no arguments". A list that is
 * too long ends with "...".
 */
void argument_list(const struct arch_arg *specs, size_t count, char text[ARGUMENT_TEXT]);

/* ---- Builtin --------------------------------------------------------------------------------- */

/*
 * The text of the files that are part of the library, libprobe/query/probes/NAME.probes, one
 * after the other. The makefile makes the source of it.
 */

extern const char catalogue_builtin[];
extern const size_t catalogue_builtin_length;

/* ---- Captures -------------------------------------------------------------------------------- */

/* Lists of arguments, as patterns end with them: (arg0, str(arg1)). */

enum { CAPTURES_MAX = 32 };

/* An argument, or what it points to, that a list or an expression requests. */
struct capture {
	unsigned char arg;			/* counted from 0, below 32 */
	struct arch_step steps[ARCH_STEPS_MAX]; /* from it to what is wanted */
	uint8_t step_count;
	bool has_index; /* steps count items of an array, as another argument says */
	unsigned char index;
	bool is_string;
	bool is_symbol;	       /* sym(argN): of a list, shown as the name of that address */
	bool has_length;       /* str(argN,argM) or, if it is not a string, bytes(argN,argM) */
	unsigned char length;  /* M; or arg, if the length is a number: */
	uint16_t fixed_length; /* not 0: str(argN,32) or bytes(argN,32) */
	bool of_begin;	       /* in expressions of pairs: begin.argN */
	bool beside;	       /* the string beside the number, and not in its place */
};

bool capture_is(const struct capture *a, const struct capture *b);

/* ---- Catalogue ------------------------------------------------------------------------------- */

/* The contents of a catalogue; private to libprobe. */

enum {
	CATALOGUE_ARGS_MAX = 32,
	CATALOGUE_OFFSET_MAX = 4095,
	CATALOGUE_FILE_MAX = 1024 * 1024 /* bytes */
};

/* Numbers and their words, as one line of a file has them. */
struct catalogue_words {
	const char *name;
	struct probe_word *words; /* owned */
	size_t count;
};

/*
 * One file. Its strings are parts of its text; each probe owns its arrays of arguments, ends and
 * names that are the same.
 */
struct catalogue_file {
	char *text;
	struct probe_meaning *probes;
	size_t probe_count;
	struct catalogue_words *words;
	size_t words_count;
};

/* A file that was added, or what the library's own text says of one provider. */
struct catalogue_source {
	_Atomic(struct catalogue_file *) file; /* owned; NULL: not parsed yet */
	const char *text;		       /* the library's, from a line "provider" on */
	size_t length;
};

struct probe_catalogue {
	struct catalogue_source *sources; /* the last goes first */
	size_t source_count;
};

/*
 * Parses `length` bytes, of which the file owns a copy. `path` is for messages. Errors:
 * PROBE_ERROR_FORMAT, PROBE_ERROR_MEMORY; then there is nothing to be freed.
 */
PROBE_MUST_CHECK struct probe_error *catalogue_parse(
	const char *path, const char *text, size_t length, struct catalogue_file *ret);
void catalogue_file_deinit(struct catalogue_file *file);

/*
 * Returns the file of a source. The library's text is parsed when a provider is first asked for:
 * NULL if it is about another provider than this one (NULL: any), or without memory.
 */
const struct catalogue_file *catalogue_file_of(
	const struct probe_catalogue *catalogue, size_t source, const char *provider);

/*
 * The argument that a word of probe_meaning.same is for this probe: the one of that name, or, of
 * argN, number N. Returns its index, or -1. *number_ret: a string's pointer is meant, as by argN.
 */
int catalogue_same_arg(const struct probe_meaning *meaning, const char *word, bool *number_ret);

/* Whether a name, in which `-` is the same as `__`, matches one that may have `*`. */
bool catalogue_name_matches(const char *pattern, const char *name);

/* Whether a word means something else in an expression, so that no argument can have the name. */
bool catalogue_is_reserved(const char *word, size_t length);

/* ---- Pattern --------------------------------------------------------------------------------- */

/* The arguments that a pattern names. */

/* Does it name probes, and not match names by wildcards, a regex or a function? */
bool pattern_is_exact(const struct probe_pattern *pattern);

/*
 * Of several patterns that match a probe, the one with the highest value decides which arguments
 * are wanted: one that names it, and of those one that says which.
 */
int pattern_precision(const struct probe_pattern *pattern);

/* The one provider and name that it means, borrowed; false if it leaves either open. */
bool pattern_names(
	const struct probe_pattern *pattern, const char **provider_ret, const char **name_ret);

/* The function of probe_pattern_predicate() and its data, as addresses; 0 and 0: there is none. */
void pattern_predicate(
	const struct probe_pattern *pattern, uint64_t *function_ret, uint64_t *data_ret);

/* Whether it has a list in parentheses; else all arguments are wanted. */
bool pattern_has_captures(const struct probe_pattern *pattern);
/* Whether its list has sym(argN). */
bool pattern_has_symbols(const struct probe_pattern *pattern);
/*
 * What its list asks for of a probe with so many arguments, by whose meaning names in the list are
 * replaced. With absent_ok, a name that the probe does not have is an argument that it does not
 * have. Errors: PROBE_ERROR_USAGE (there is no such name; what it stands for makes no list),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *pattern_captures(const struct probe_pattern *pattern,
	const char *provider, const char *name, size_t arg_count, bool absent_ok,
	struct capture captures[CAPTURES_MAX], size_t *count_ret);

/* As probe_pattern_matches(), for any module; true for a pattern with a predicate. */
bool pattern_may_name(const struct probe_pattern *pattern, const char *provider, const char *name);

/* ---- Record layout --------------------------------------------------------------------------- */

/* The contents of a site's record: how arguments are captured, and read back. */

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

/* The stack in a record: a copy of it, or return addresses. */
struct record_layout_stack {
	/* u64 each, those in arch->unwind_registers; NULL: return addresses */
	const void *registers;
	const uint8_t *bytes; /* from the stack pointer on; or the addresses, u64 each */
	size_t length;
	uint64_t caller; /* that of the site's function, where it is not among them; else 0 */
};

/* The arguments that begins keep for expressions of their ends. All sites of a session keep the
 * same. */
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

/* One capture in a record. */
struct record_layout_captured {
	uint64_t word;	      /* of a number, extended to 64 bits */
	const uint8_t *bytes; /* of strings and aggregates, in the record */
	size_t length;
	bool is_null; /* could not be read */
};

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

/* ---- Expr ------------------------------------------------------------------------------------ */

/*
 * The language of filters, keys and values.
 *
 *   expr      C's operators on integers, with C's precedence, but no assignment,
 *             no comma, no ?:, no casts:  ( ) ! ~ - + * / % << >> < <= > >= == !=
 *             & ^ | && ||
 *   lists     in (1, 3, 5), not in (1, 3, 5), and of strings, in ("a", "b")
 *   operands  decimal, hexadecimal (0x), octal (0) and character ('a') constants,
 *             with suffixes u, l, ul, or units ns, us, ms, s; doubles (1.5, 2e3);
 *             arg0 ... arg31, or numbers that they point to; tid, pid, cpu;
 *             of pairs, duration, begin.argN, end.argN
 *   strings   str(argN) == "text", str(argN) != "text", starts_with(str(argN), "text")
 *             with C's escapes, and in no other operation; str(argN, argM) has argM bytes
 *             at most; norm(str(argN)) is a whole key, and nothing else, and so are
 *             sym(argN), the name of an address, and comm, ustack and probe
 *
 * Types are C's on x86-64 Linux: an argument has the type that its note declares, int8_t to
 * uint64_t; tid, pid and cpu are int. Floating-point arguments can only be compared, or be a whole
 * key or value. Aggregates are errors.
 *
 * A text is parsed once, and bound to each site, because sites may have their arguments
 * elsewhere and declare other types.
 */

struct expr;

/*
 * Parses. `what` names the text in messages ("the filter"). Errors: PROBE_ERROR_USAGE, with the
 * column (from 1), the text, and what was expected there.
 */
PROBE_MUST_CHECK struct probe_error *expr_parse(
	const char *what, const char *text, struct expr **ret);
void expr_free(struct expr *expr);

/*
 * Whether the whole text is one string, perhaps of the begin of a pair. Then *ret says which, and
 * it cannot be bound.
 */
bool expr_is_string(const struct expr *expr, struct capture *ret);

/* Whether that string is to be brought into its normal form (norm.h) when it is read. */
bool expr_is_norm(const struct expr *expr);

/* Whether the whole text is sym(argN): a number, but read as the name of an address. */
bool expr_is_symbol(const struct expr *expr);
/* The error for such an expression that is no key. */
PROBE_MUST_CHECK struct probe_error *expr_no_symbol(const struct expr *expr);
/* Words that are whole keys. */
enum expr_word {
	EXPR_NO_WORD,
	EXPR_COMM,   /* the name of the thread */
	EXPR_USTACK, /* its call stack */
	EXPR_PROBE   /* the probe */
};

/* The word that the whole text is; it cannot be bound. */
enum expr_word expr_word(const struct expr *expr);

/*
 * Whether it is about a pair that has ended: it names `duration`, `begin.` or `end.`, and is then
 * bound to the end's sites.
 */
bool expr_is_of_pair(const struct expr *expr);
/* The error for such an expression without a pair. */
PROBE_MUST_CHECK struct probe_error *expr_no_pair(const struct expr *expr);

/*
 * Puts what the expression asks of the begin into kept[], behind the *count that are there, each
 * once. A string that is a key by itself has at most `string_bytes`. Returns false if that would
 * be more than ARCH_KEPT_MAX.
 */
bool expr_ask_begin(const struct expr *expr, uint16_t string_bytes, struct record_layout_kept *kept,
	uint8_t *count);
/* Can a site of a begin give what the expression asks of the begin? Errors: as expr_bind(). */
PROBE_MUST_CHECK struct probe_error *expr_check_begin(
	const struct expr *expr, const struct record_layout_site *site);

/*
 * Whether the whole text is one argument, argN, and that is a double or a float at this site: then
 * expr_bind_double() binds it, and nothing else can.
 */
bool expr_is_double(const struct expr *expr, const struct record_layout_site *site);
/* As expr_bind(). The value is the bits of a double. */
PROBE_MUST_CHECK struct probe_error *expr_bind_double(const struct expr *expr,
	struct record_layout *layout, const struct record_layout_site *site,
	struct arch_expr_node *nodes, uint8_t *count_ret);

/* Can a site give the string that the whole text is? Errors: as expr_bind(). */
PROBE_MUST_CHECK struct probe_error *expr_check_string(
	const struct expr *expr, const struct record_layout_site *site);

/*
 * Binds to a site: adds the captures that it needs to the site's layout (see
 * record_layout_capture()) and puts the typed tree into nodes[ARCH_EXPR_NODES_MAX], which refer
 * to the expr's texts. Errors, which do not name the probe: PROBE_ERROR_USAGE (no such
 * argument, not an integer, too many operators), PROBE_ERROR_UNSUPPORTED (it cannot be
 * captured).
 */
PROBE_MUST_CHECK struct probe_error *expr_bind(const struct expr *expr,
	struct record_layout *layout, const struct record_layout_site *site,
	struct arch_expr_node *nodes, uint8_t *count_ret);

/* Whether the value of a bound tree, whose last node this is, has a signed type. */
bool expr_is_signed(const struct arch_expr_node *last);

/* ---- Interpret ------------------------------------------------------------------------------- */

/* The value of a bound expression for one hit, according to arch/expr.h. */

struct expr_string {
	const char *bytes;
	size_t length;
};

/* A hit. Arrays have an element for each capture of the stub. */
struct expr_input {
	const uint64_t *words;		   /* of scalars, as they are recorded */
	const struct expr_string *strings; /* of strings */
	uint64_t unreadable;		   /* bit i: capture i could not be read */
	int32_t tid, pid, cpu;
	uint64_t duration;
};

/* False: the hit is rejected, since something could not be read, or was divided by 0. */
bool expr_interpret(const struct arch_expr *expr, const struct expr_input *input, uint64_t *ret);

/*
 * The value of an expression for a hit whose record holds everything that it needs
 * (record_layout_record_all()), and which record_layout_read() has accepted. Its kind is
 * PROBE_VALUE_NULL where something could not be read. `tid`, `pid` and `cpu` are as the
 * target's own stub saw them.
 */
struct probe_value expr_record_value(const struct arch_expr *expr,
	const struct record_layout *layout, const uint8_t *record, int32_t tid, int32_t pid,
	int32_t cpu);

/* ---- Meaning --------------------------------------------------------------------------------- */

/* Arguments by the names that the catalogue has for them. */

/*
 * The list of arguments that a pattern without one stands for, if the meaning of the probe is
 * known: strings as strings, without the arguments that are only their lengths. Returns their
 * number.
 */
size_t meaning_captures(const struct probe_meaning *meaning, size_t arg_count,
	struct capture captures[CAPTURES_MAX]);
/* The same for programs to read: all arguments as numbers, and the texts of strings beside them. */
size_t meaning_captures_all(const struct probe_meaning *meaning, size_t arg_count,
	struct capture captures[CAPTURES_MAX]);

/*
 * What is compared at a hit of this meaning to tell whose begin an end belongs to, as the meaning
 * of the begin says, in its order. Returns how many; 0 unless the hit has all of it.
 */
size_t meaning_same(const struct probe_meaning *begin, const struct probe_meaning *meaning,
	struct capture captures[PROBE_SAME_MAX]);

/* Whether a text, an expression or a list of arguments, has words that can only be names. */
bool meaning_names_used(const char *text);
/* Whether one of them is of the begin of a pair (begin.NAME). */
bool meaning_begin_used(const char *text);

/*
 * Replaces such words by what they stand for: an argument's by argN, str(argN), str(argN,argM) or
 * bytes(argN,argM); in str() and bytes() by argN; a word for a number by the number. `what` names
 * the text in messages, `meaning` is NULL if nothing is known of the probe, and so is `begin`,
 * which names after `begin.` are of. A name that the probe does not have becomes `absent`, or is an
 * error if that is NULL; the begin must have its names. The caller frees *ret. Errors:
 * PROBE_ERROR_USAGE (there is no such name), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *meaning_replace(const char *what, const char *text,
	const struct probe_meaning *meaning, const struct probe_meaning *begin, const char *absent,
	char **ret);

/* ---- Operand --------------------------------------------------------------------------------- */

/* An argument, or what it points to, as users write it. */

/*
 * Parses argN or *(TYPE *)ADDRESS at *at, and sets the argument of *ret and the steps from it.
 * Returns NULL, with *at after it; or what was expected at *at.
 */
const char *operand_parse(const char **at, struct capture *ret);
/* The same of a string or bytes, which may be at an ADDRESS without parentheses: arg0 + 8. */
const char *operand_parse_address(const char **at, struct capture *ret);

/* ---- Select ---------------------------------------------------------------------------------- */

/* The probes and sites of a process that a request names. */

enum { SELECT_REASONS = 3 };

struct plan; /* how a site can be patched; only patch knows it */
struct plan_ops;

/* One site. Addresses are run-time; 0 if the note has none. */
struct select_site {
	const struct sdt_note *note; /* owned by the module */
	uint64_t pc;
	uint64_t semaphore;
	size_t probe;	   /* index of its probe */
	struct plan *plan; /* one of `plans` of the selection; NULL until install_make_plans() */
	const struct plan_ops *chosen; /* NULL: it is refused */
	/* Why it is refused: one reason for each plan that was tried, then NULL. */
	const char *reasons[SELECT_REASONS];
};

/* One probe: the sites of one provider:name in one module, in file order. */
struct select_probe {
	struct module *module;
	const char *provider, *name;
	enum sdt_kind kind;
	size_t first_site, site_count;
	size_t pattern; /* index of the most precise pattern that matches, or the first of them */
	uint64_t key;	/* see select_key() */
	bool refused;	/* none of its sites can be patched */
	bool unwanted;	/* see selection_drop_unwanted() */
	bool lacking;	/* a site has not all arguments that the patterns name which match it */
	bool exact;	/* a pattern names it; else only wildcards match it, or there are none */
	uint16_t times; /* how much its count is to change by; 0 is the same as 1 */
};

static inline uint16_t select_times(const struct select_probe *probe)
{
	return probe->times ? probe->times : 1;
}

/* Sites are sorted by probe. Initialise with {0}. */
struct selection {
	struct select_probe *probes;
	size_t probe_count;
	struct select_site *sites;
	size_t site_count;
	struct plan *plans; /* freed with free() */
	bool *matched;	    /* per pattern */
	size_t pattern_count;
	struct probe_error *lacking; /* of the first such probe; see select_check_arguments() */
};

/*
 * Selects by patterns; no patterns (count 0) selects everything. Reads the notes of all
 * modules. Errors: those of sdt_read(), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *select_probes(struct modules *modules,
	const struct probe_pattern *const *patterns, size_t count, struct selection *ret);
void selection_deinit(struct selection *selection);

/* Refuses a site for one reason, replacing earlier ones; or adds a reason if it is new. */
void select_refuse(struct select_site *site, const char *reason);
void select_add_reason(struct select_site *site, const char *reason);
/* All reasons in one text, which the caller frees; NULL without memory. */
char *select_reason_text(const struct select_site *site);

/* Drops the probes marked as unwanted, with their sites. */
void selection_drop_unwanted(struct selection *selection);

/*
 * A probe's key in the registry: a hash of its name and of the address of its module's first
 * note, so all controllers compute the same key.
 */
uint64_t select_key(
	const struct sdt_notes *notes, uint64_t bias, const char *provider, const char *name);

/*
 * The address of the first note of the module from which a probe of that name has its key. If it
 * has another name, the result is some number.
 */
uint64_t select_key_place(uint64_t key, const char *provider, const char *name);

/*
 * A file's notes by provider and name; equal ones stay in file order. The caller frees the array;
 * NULL without memory.
 */
const struct sdt_note **select_by_name(const struct sdt_notes *notes);
/* Where, in such an array, the notes end that have the name of the one at `from`. */
size_t select_probe_end(const struct sdt_note *const *sorted, size_t count, size_t from);

/*
 * PROBE_ERROR_USAGE if a site of a probe lacks an argument that a pattern names. The notes are
 * all of the probe, in a file for this machine (EM_).
 */
PROBE_MUST_CHECK struct probe_error *select_lacking(const struct probe_pattern *pattern,
	uint16_t machine, const struct sdt_note *const *notes, size_t count);

/*
 * Takes the error for the first probe that lacks an argument which a pattern names; NULL: none
 * does. Of the probes that wildcards match, one must have it. Errors: PROBE_ERROR_USAGE,
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *select_check_arguments(struct selection *selection);

/*
 * The error for the first pattern that matched nothing; NULL if all patterns matched. error->err is
 * EIO if some files could not be read, otherwise 0.
 */
PROBE_MUST_CHECK struct probe_error *select_unmatched(struct modules *modules,
	const struct selection *selection, const struct probe_pattern *const *patterns, pid_t pid);

/* ---- Pairs ----------------------------------------------------------------------------------- */

/* Which probes begin something, and which end it. */

enum pair_role { PAIR_NONE, PAIR_BEGIN, PAIR_END };

/* A probe's part in its pair. A pair may have several begins, and several ends. */
struct pair_part {
	enum pair_role role;
	uint32_t pair;
	bool single; /* the pair does not nest: see probe_meaning.takes */
	bool takes;  /* it is a begin whose arguments are those of... */
	bool gives;  /* ...this probe, a begin by its role, which begins nothing */
	/*
	 * Begins and ends of the pair are compared. What is compared is said by what is known of
	 * this probe's begin, which the catalogue owns; NULL: it says nothing, so this probe's hits
	 * are taken for those of any begin or end.
	 */
	bool compares;
	const struct probe_meaning *same;
};

/*
 * Sets parts[] for each probe of a selection. Pairs found by name are numbered from *pairs on,
 * the others by their patterns; *pairs becomes greater than all numbers used.
 *
 * Pairs by name are, first, those that the catalogue (or NULL) lists. Found by name, a probe
 * without a partner is PAIR_NONE. Errors: PROBE_ERROR_USAGE (an odd number of patterns, or a probe
 * that both begins and ends), PROBE_ERROR_NOT_FOUND (no names pair), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *pairs_assign(const struct selection *selection,
	const struct probe_pattern *const *patterns, enum probe_pairing pairing,
	const struct probe_catalogue *catalogue, struct pair_part *parts, uint32_t *pairs);

/*
 * The place of a pattern among those that begin and end pairs, if the user lists these; PAIRS_GIVER
 * if it names the probe whose arguments a begin takes that another pattern names.
 */
#define PAIRS_GIVER SIZE_MAX
size_t pairs_place(const struct probe_pattern *const *patterns, size_t count,
	const struct probe_catalogue *catalogue, size_t pattern);

/* ---- Names -------------------------------------------------------------------------- */

/* A name with every `-` as `__`, which the caller frees; NULL without memory. */
char *pair_plain_name(const char *name);

/*
 * Sets parts[] for `count` plain names of one provider and module. Pairs are numbered from
 * *pairs on, which becomes greater than all numbers used. A pair has one begin.
 */
void pairs_by_name(
	char *const *plain_names, size_t count, struct pair_part *parts, uint32_t *pairs);

/*
 * What a plain name alone can be, by its last word. *stem_ret: the number of bytes before that
 * word, unless it is PAIR_NONE.
 */
enum pair_role pair_may_be(const char *plain_name, size_t *stem_ret);

/* Whether names say that the end begins what the begin ends: x__done and x__start. */
bool pair_looks_reversed(const char *begin, const char *end);

/* ---- Pairing --------------------------------------------------------------------------------- */

/*
 * Pairs of probes that become known one after another, as in a record. They are the pairs that
 * pairs_assign() finds by name among all probes known so far, in whatever order they appear.
 */

struct pairing_probe {
	const char *provider;  /* borrowed */
	char *plain;	       /* the name, spelled by pair_plain_name() */
	enum pair_role may_be; /* by its name alone */
	size_t stem;	       /* bytes of `plain` before the word that makes it so */
	size_t kin;	       /* pair_kin() */
	size_t same;	       /* the first probe of this plain name: the index, its own or lower */
	enum pair_role role;   /* with the probes known so far */
	size_t begin;	       /* of PAIR_END: the index of the probe that begins */
};

/* Initialise with {0}. Probes keep their indices, in the order in which they were added. */
struct pairing {
	struct pairing_probe *probes;
	size_t count;
};

void pairing_deinit(struct pairing *pairing);

/*
 * Adds a probe; the roles of others may change. `provider` is borrowed as long as *pairing is
 * used. Errors: PROBE_ERROR_MEMORY; the probe is then not added.
 */
PROBE_MUST_CHECK struct probe_error *pairing_add(
	struct pairing *pairing, const char *provider, const char *name);

/* ---- Tree ------------------------------------------------------------------------------------ */

/* A parsed expression, and C's arithmetic on it. Shared by the files of expr/. */

/*
 * int, unsigned int, long or unsigned long: what C's promotions leave; or double, which has 64 bits
 * and can only be compared, or be a whole key or value.
 */
struct expr_type {
	bool wide, is_signed, is_double;
};

static const struct expr_type expr_double = {.wide = true, .is_double = true};

/* The message for a word that can only be a whole key. */
#define EXPR_ONLY_KEYS "comm, ustack and probe are whole keys (-k), and no part of an expression"

/* A node before the types of arguments are known. Operands precede their operator. */
struct expr_node {
	enum arch_expr_kind kind; /* an argument is ARCH_EXPR_CAPTURE */
	bool is_string;		  /* of an argument: str(argN), not compared with anything yet */
	bool is_norm;		  /* and norm(str(argN)), which is compared with nothing */
	bool is_symbol;		  /* of an argument: sym(argN), which is the whole expression */
	enum expr_word word;	  /* a word that is a whole key; is_string is set, too */
	bool of_begin;		  /* of an argument: begin.argN, begin.str(argN) */
	uint8_t left, right;
	uint8_t arg;
	struct arch_step steps[ARCH_STEPS_MAX]; /* from the argument to what is wanted */
	uint8_t step_count;
	bool has_index;	 /* of steps: items are counted by... */
	uint8_t index;	 /* ...this argument */
	bool has_length; /* of a string: it ends at the latest behind as many bytes as... */
	uint8_t length;	 /* ...this argument says */
	uint8_t depth;
	uint8_t text_length;
	struct expr_type type; /* of a constant; what the numbers of a list have in common */
	uint64_t value;	       /* of a constant, held as described in arch/expr.h */
	const char *text;      /* in expr->literals */
	const uint64_t *list;  /* in expr->numbers */
	uint8_t list_count;
	const char *at; /* in expr->text, for messages */
};

struct expr {
	char *what, *text;
	char *literals; /* the concatenated bytes of all texts */
	size_t literals_length;
	uint64_t *numbers; /* those of all lists */
	size_t numbers_length;
	struct expr_node nodes[ARCH_EXPR_NODES_MAX]; /* the last one is the root */
	uint8_t count;
	const char *of_pair; /* where it first names what only a pair has; or NULL */
	const char *of_hit;  /* where it first names an argument without saying of which end */
};

/* "WHAT 'TEXT', column N: ...", for `at` in expr->text. */
struct probe_error *expr_error(const struct expr *expr, enum probe_error_code code, const char *at,
	const char *format, ...) __attribute__((format(printf, 4, 5), warn_unused_result));

/* The arguments of the site that a node reads: str(argN), str(argN, argM) or argN. */
struct capture expr_operand(const struct expr_node *node);

/* ---- Constants (literal.c): parse at *at and advance it --------------------------------- */

/* *at points to a digit. Sets the node's type and value, which may be the bits of a double. */
PROBE_MUST_CHECK struct probe_error *expr_integer(
	const struct expr *expr, const char **at, struct expr_node *node);
/* *at points to the opening quote. */
PROBE_MUST_CHECK struct probe_error *expr_character(
	const struct expr *expr, const char **at, struct expr_node *node);
/* Also; adds the bytes to expr->literals. Sets the node's text and its length. */
PROBE_MUST_CHECK struct probe_error *expr_text(
	struct expr *expr, const char **at, struct expr_node *node);

/* ---- Arithmetic (compute.c) ------------------------------------------------------------ */

/* `value`, converted to the type. */
uint64_t expr_convert(struct expr_type type, uint64_t value);
/* The type in which an operator is computed, given those of its operands. */
struct expr_type expr_operator_type(
	enum arch_expr_kind kind, struct expr_type left, struct expr_type right);
/* The type of the result of a node that is computed in `type`. */
struct expr_type expr_result_type(enum arch_expr_kind kind, struct expr_type type);
/* Whether both operands are converted to the type in which the operator is computed. */
bool expr_converts(enum arch_expr_kind kind);
/* Computes an operator on converted constants. Returns NULL, or why there is no result. */
const char *expr_compute(enum arch_expr_kind kind, struct expr_type type, uint64_t left,
	uint64_t right, uint64_t *ret);

/* ---- Parser ---------------------------------------------------------------------------------- */

/* The parser of expressions (expr_parse.c): its place in the text, words, and new nodes. */

struct parser {
	struct expr *expr;
	const char *at;
	unsigned int nesting; /* depth of nested operands */
};

/* ---- Messages: the error for what stands at `at` ---------------------------------------- */

/* ---- Words ----------------------------------------------------------------------------- */

/* ---- Nodes: appended when complete ------------------------------------------------------- */

/* ---- The grammar ------------------------------------------------------------------------- */

#endif
