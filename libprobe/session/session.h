/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SESSION_SESSION_H
#define LIBPROBE_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "elf/unwind.h"
#include "libprobe/base/buffer.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/error.h"
#include "libprobe/follow/follow.h"
#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"
#include "libprobe/query/query.h"
#include "libprobe/registry/registry.h"
#include "probe/hit.h"
#include "probe/pattern.h"
#include "probe/remains.h"
#include "probe/stacks.h"
#include "probe/table.h"
#include "probe/target.h"
#include "probe/tracer.h"

/* ---- Asked ----------------------------------------------------------------------------------- */

/* The expressions of a session, and how they are bound to its sites. */

/*
 * The parts of a key that is a call stack, and the keys of a session with PROBE_STACK_FRAMES:
 * return addresses; the site's address; and the return address of the site's function if that
 * function has no frame, so that the first part lacks it, else 0.
 */
enum { BIND_STACK_FRAMES, BIND_STACK_SITE, BIND_STACK_CALLER, BIND_STACK_KEYS };

/*
 * What stubs have of the keys: a part for each, but of a call stack those above, and of the probe
 * none, since entries of the table say whose they are.
 */
struct asked_parts {
	size_t count;
	bool is_string[ARCH_KEYS_MAX];
	bool is_norm[ARCH_KEYS_MAX]; /* a string in its normal form, which the stub makes */
	uint8_t string_count;
	uint16_t string_bytes; /* of the longest string */
};

/* A session's expressions; NULL if there is none. */
struct asked {
	struct expr *filter, *value, *match, *match_end;
	struct expr *keys[PROBE_KEYS_MAX];
	size_t key_count;
	bool stack;  /* the keys are return addresses and a site instead of those above */
	bool ustack; /* one of the keys is a call stack */
	enum expr_word key_word[PROBE_KEYS_MAX];
	bool key_string[PROBE_KEYS_MAX]; /* whether its values are no numbers */
	bool key_symbol[PROBE_KEYS_MAX]; /* whether it is sym(argN): its rows are by name */
	struct asked_parts parts;
	uint16_t string_bytes; /* of each argument that is a string */
	bool match_string;     /* pairs are matched by a text */
	bool of_pair;	       /* the filter or a key asks for what only a pair has */
	/* What they ask of the begins of pairs, and the bytes that this takes in all. */
	struct record_layout_kept kept[ARCH_KEPT_MAX];
	uint8_t kept_count;
	uint16_t kept_bytes;
	struct asked_names *names; /* see named.h; NULL: there are none */
};

/*
 * Parses the expressions of a session's options, and checks that the options go together.
 * Errors: PROBE_ERROR_USAGE.
 */
PROBE_MUST_CHECK struct probe_error *asked_init(
	struct asked *asked, const struct probe_session_options *options);
void asked_deinit(struct asked *asked);

/* Facts about a probe's values, the same for all of its sites. */
struct bound_types {
	bool value_signed;
	bool value_double, value_whole; /* some site's value is a double; is none */
	bool key_signed[PROBE_KEYS_MAX];
	bool key_double[PROBE_KEYS_MAX], key_whole[PROBE_KEYS_MAX]; /* likewise */
};

/* The expressions as a site's stub uses them; `count` is 0 if there is none. */
struct bound {
	struct arch_expr filter, value, match;
	struct arch_expr pair_filter;		     /* of an end */
	struct arch_kept kept[ARCH_KEPT_MAX];	     /* of a begin: asked.kept_count of them */
	uint8_t same[ARCH_SAME_MAX], same_count;     /* captures that begins and ends have */
	struct arch_expr key_numbers[ARCH_KEYS_MAX]; /* by part */
	uint8_t key_strings[ARCH_KEYS_MAX];
	uint8_t match_string; /* the capture, if pairs are matched by a text */
	struct arch_expr_node nodes[];
};

/*
 * Notes the types of what a site of a begin keeps. To be called with all that are known before the
 * ends are bound: if one of them declares a number of 64 bits without a sign, it has none for ends.
 */
void asked_note_begin(struct asked *asked, const struct record_layout_site *site);

/*
 * Binds everything that a probe with this part needs to one of its sites, and adds the captures
 * for it after the recorded ones. *types is widened: if some sites have signed arguments, all
 * sites have signed values. The caller frees *ret, before `asked`. Errors: PROBE_ERROR_USAGE
 * and PROBE_ERROR_UNSUPPORTED, which name the probe; PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *bind_site(const struct asked *asked, struct pair_part part,
	const struct select_probe *probe, const struct record_layout_site *site,
	struct record_layout *layout, struct bound_types *types, struct bound **ret);

/* ---- Gather ---------------------------------------------------------------------------------- */

/* Reading what a session has gathered; see also probe_session_rows(). */

/* Sets the hits of all probes of a PROBE_SESSION_GATHER. */
void gather_count(struct probe_session *session);

/* The number of begins without an end, for each pair. The caller frees it; NULL without memory. */
uint64_t *gather_flights(struct probe_session *session);

/* ---- Guest ----------------------------------------------------------------------------------- */

/* The process in which a loaded tracer runs. */

/*
 * Loads the tracer and serves it until the controller ends it, or is gone. Does not return.
 * `input` and `replies` are pipes; what the tracer prints goes to `output`; every other
 * descriptor is closed.
 */
_Noreturn void guest_run(const char *path, const char *options, int input, int replies, int output);

/* ---- Named ----------------------------------------------------------------------------------- */

/* A session's expressions with the names of arguments, which mean something else for each probe. */

/*
 * As asked_init(); names of options->catalogue are replaced as for some probe that the patterns
 * match, which is enough to know what kinds of expressions there are.
 */
PROBE_MUST_CHECK struct probe_error *asked_init_named(struct asked *asked,
	const struct probe_session_options *options, const struct probe_pattern *const *patterns,
	size_t pattern_count);

/*
 * Finds the expressions for a probe with this part, which has `arg_count` arguments; the catalogue
 * gives them their names. Without names, *ret is `asked` itself; it is always owned by `asked`.
 * Errors: PROBE_ERROR_USAGE (the probe has no such name; it is a string for one probe and a number
 * for another), which name the probe; PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *asked_for(const struct asked *asked, struct pair_part part,
	const struct select_probe *probe, size_t arg_count, const struct asked **ret);

/*
 * Replaces the expressions of the options by what their names stand for, if that is the same for
 * all probes that were asked for. The texts are those of `asked`. Errors: PROBE_ERROR_USAGE (it is
 * not).
 */
PROBE_MUST_CHECK struct probe_error *asked_plain(
	const struct asked *asked, struct probe_session_options *options);

/* ---- Naming ---------------------------------------------------------------------------------- */

/* Names of one process's addresses: symbols of its files, and of code that it generates. */

struct naming;
struct unwind;

struct naming_options {
	bool lines; /* frames have source lines, where there is debug information */
};

/*
 * Prepares for a process whose modules are read now. Errors: those of modules_read();
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *naming_create(
	pid_t pid, struct naming_options options, struct naming **ret);
/* NULL is allowed. */
void naming_free(struct naming *naming);

/* Reads the process's modules again. If that fails, the known ones stay. */
void naming_refresh(struct naming *naming);

/*
 * The name of what is at an address: the symbol of a function or of data, demangled, or the name of
 * generated code; in a file without symbols, the file and where the function begins, such as
 * postgres+0x472280. All addresses in one function have the same. Owned by `naming`, and valid
 * until its end; NULL: nobody knows it.
 */
const char *naming_name(struct naming *naming, uint64_t address);

/* ---- Unwinder -------------------------------------------------------------------------------- */

/* Call stacks of one process: from the copies of its stubs to frames. */

struct unwinder;

/*
 * Prepares for the process of `naming`, which is borrowed. Errors: PROBE_ERROR_UNSUPPORTED (stacks
 * of this machine cannot be unwound; libdw is missing), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *unwinder_create(
	const struct arch *arch, struct naming *naming, struct unwinder **ret);
/* NULL is allowed. */
void unwinder_free(struct unwinder *unwinder);

/* A thread at a site. Everything except `pc` comes from the target and is not trusted. */
struct unwinder_thread {
	uint64_t pc;
	const void *registers; /* u64 each, those of arch->unwind_registers */
	const uint8_t *bytes;  /* from the stack pointer on */
	size_t length;
};

/* Unwinds. *ret is valid until the next call. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *unwinder_copy(
	struct unwinder *unwinder, const struct unwinder_thread *thread, struct probe_stack *ret);

/*
 * The same of return addresses (u64), the innermost first. `caller` is that of the
 * site's function, where it is not among them; else 0.
 */
PROBE_MUST_CHECK struct probe_error *unwinder_frames(struct unwinder *unwinder, uint64_t pc,
	uint64_t caller, const void *returns, size_t count, struct probe_stack *ret);

/* ---- Session --------------------------------------------------------------------------------- */

/* A site as records name it, by its index. */
struct session_site {
	uint64_t pc;
	size_t probe;	  /* index of the session's probe */
	uint32_t number;  /* in records: its index, except in a session that was opened */
	const char *args; /* as its note has them; owned by the target */
	struct record_layout layout;
	struct bound *bound; /* owned */
};

/* A probe of a session: the part that callers do not see. */
struct session_probe {
	struct pair_part part;
	struct bound_types types;
	uint64_t key;	   /* see select_key() */
	uint64_t consumed; /* records handed over */
	uint32_t slot;
	bool off; /* by probe_session_select() */
};

/* The sites whose bytes are checked (look.c). Initialise with {0}. */
struct watched_site;
struct session_watch {
	struct watched_site *sites;
	size_t count;
	struct edits edits;	/* one for each, in the same order */
	struct registry memory; /* memory that the session needs: arenas, its data, the guard */
};

enum { SESSION_COMMAND_BYTES = 16 /* of the kernel's TASK_COMM_LEN */ };

struct probe_session {
	struct probe_target *target; /* borrowed */
	struct probe_request request;
	struct probe_session_options options;
	const struct probe_pattern **patterns; /* a copy of the array; patterns are borrowed */
	bool *matched;
	uint32_t id;
	bool stopped;
	bool lost;	  /* the program has taken memory that it needed; reported */
	bool goes_on;	  /* counted by patch/inherited.c */
	uint64_t image;	  /* of the target: inherited_image() */
	int event;	  /* an eventfd(2) that its gate raises, or -1 */
	struct gate gate; /* at the loader */
	struct waiters_place gate_place;
	uint64_t gate_since_ns; /* a thread waits there that could not be served yet; or 0 */
	bool lapsed;		/* one was not served in time: libraries are to be looked for */
	bool lapse_told;
	uint64_t catch_up_ns; /* libraries are to be probed that could not be in time: when; or 0 */
	struct launch_gate exec_gate; /* served by options.watch */
	struct gate wait;	      /* where hits wait for room (wait.c) */
	uint32_t wait_seen;	      /* how many had begun to when the event was raised last */
	uint64_t wait_ticks;	      /* options.wait_ns, by the clock of records */
	struct probe_report report;   /* of libraries that were opened later */
	struct seccomp seccomp;	      /* its threads, as they were seen last */
	uint64_t look_again_ns;	      /* not checked again before (CLOCK_MONOTONIC) */
	unsigned int calls;	      /* system calls that stubs make: bits of enum seccomp_kind */
	struct clock clock;
	struct rings rings;
	struct writers processes; /* of threads */
	int data;		  /* descriptor of the session's data, or -1 */
	struct snapshot view;
	struct served served;	 /* what view.served points to, if that is set */
	bool counts_damaged;	 /* the target has written over its counts of losses */
	uint64_t count_again_ns; /* hits are not added up before (CLOCK_MONOTONIC) */
	struct asked asked;
	bool opened;			     /* for reading: another process has started it */
	char command[SESSION_COMMAND_BYTES]; /* of a dead one: what its process was called */
	bool dead;	    /* ... and is gone: all there is was read from a file (notes.h) */
	void *notes;	    /* what the names of its probes point into; or NULL */
	uint32_t pairs;	    /* numbers of pairs that are in use */
	uint64_t tick_ns32; /* nanoseconds of a tick, times 2^32, if stubs need it */
	uint64_t *left;	    /* of each pair: begins whose threads are gone (flights.c); owned */
	uint32_t left_count;
	uint64_t flights_again_ns; /* not looked for again before (CLOCK_MONOTONIC) */
	bool flights_counted;	   /* likewise: in_flight of its probes is set */
	size_t keep_bytes;	   /* likewise: what is kept of each begin (struct probe_begun) */
	uint64_t rate_ticks;	   /* in a second, where options.sample_rate asks for them */
	uint32_t target_pid; /* in the target's namespace; 0: not known, or of several processes */
	struct session_site *sites;
	size_t site_count;
	struct probe_session_probe *probes;
	struct session_probe *known; /* of each of them */
	size_t probe_count;
	size_t record_max; /* bytes of the largest record of any site, without a span's begin */
	struct session_watch watch;
	struct naming *naming;	   /* with options.stack, and where addresses have names: sym() */
	struct unwinder *unwinder; /* with options.stack, or ustack among the keys */
	void *key_texts;	   /* see keys.c */
	struct probe_stack stack;  /* of the hit that is being handed over */
	void *reserve;		   /* memory for its end, or NULL; see end.c */
};

/* Do its stubs match begins with ends? Records may only name the role of a probe. */
static inline bool session_has_pairs(const struct probe_session *session)
{
	return session->options.kind == PROBE_SESSION_GATHER || session->options.spans;
}

/* ---- What its stubs do (stubs.c) ------------------------------------------------ */

/*
 * Decides what the stub of each site of a selection does. Probes that are not needed are dropped
 * from the selection and reported. Errors: those of pairs_assign() and bind_site(),
 * PROBE_ERROR_USAGE (records that are too long).
 */
PROBE_MUST_CHECK struct probe_error *session_prepare(struct probe_session *session,
	const struct change *change, struct selection *selection, struct probe_report *report);
/*
 * The same to read a session that is in the registry; the selection holds only its probes.
 */
PROBE_MUST_CHECK struct probe_error *session_resume(struct probe_session *session,
	const struct arch *arch, struct selection *selection, const struct registry *registry);
/* Undoes it if the selection is not attached after all; the arguments are the former counts. */
void session_unprepare(struct probe_session *session, size_t probes, size_t sites);

/* The role of a probe in pairs, from reg_probe.part. */
uint32_t session_part_word(const struct pair_part *part);

/* Bytes of the largest record. */
static inline size_t session_record_max(const struct probe_session *session)
{
	return session->record_max + (session->options.spans ? 8 + session->keep_bytes : 0);
}

/* The memory that the session needs. */
struct data_needs session_needs(const struct probe_session *session);

/*
 * Reduces sizes that the user did not set, so that a new session with counters for `probes` fits
 * into the target's control group, and notes this in the report (room.c). Errors:
 * PROBE_ERROR_REFUSED (it does not fit).
 */
PROBE_MUST_CHECK struct probe_error *session_fit(const struct probe_session *session,
	struct data_needs *needs, size_t probes, struct probe_report *report);

/* ---- Call stacks (stack.c) ------------------------------------------------------ */

/*
 * Prepares for them, and for names, if they are asked for. Errors: those of naming_create() and
 * unwinder_create().
 */
PROBE_MUST_CHECK struct probe_error *session_stack_start(
	struct probe_session *session, const struct arch *arch);
/* There may be other modules now. */
void session_stack_refresh(struct probe_session *session);
/* If return addresses are wanted: see unwinder_saved(). */
struct unwind_saved session_stack_saved(const struct probe_session *session, uint64_t pc);
/* The stack in a record that record_layout_read() has found whole; NULL: it has none. */
const struct probe_stack *session_stack_read(struct probe_session *session,
	const struct session_site *site, const struct ring_record *record);

/* ---- Names of addresses (names.c) ----------------------------------------------- */

enum { SESSION_NAME_ROOM = 24 /* an address in hex */ };

/* The name of an address, valid as long as the session; or, in `room`, the address itself. */
const char *session_name(
	const struct probe_session *session, uint64_t address, char room[SESSION_NAME_ROOM]);
/* Turns the values of sym() in a record into texts; `rooms` has an element for each value. */
void session_name_values(const struct probe_session *session, const struct record_layout *layout,
	struct probe_value *values, char (*rooms)[SESSION_NAME_ROOM]);

/* An install for a prepared selection, from the session's state. */
struct install session_attach(struct probe_session *session, struct transaction *transaction,
	struct selection *selection);

/* ---- Begins without an end (flights.c) ------------------------------------------ */

/*
 * Now and then, if the table of begins fills up: gives back the entries of threads of forked
 * children that are gone.
 */
void session_give_back_flights(struct probe_session *session);

/* ---- Seccomp filters (filters.c) ------------------------------------------------ */

/* ---- Its sites (look.c) --------------------------------------------------------- */

/* From now on, checks all sites that the registry has of the session. */
PROBE_MUST_CHECK struct probe_error *session_watch(
	struct probe_session *session, const struct registry *registry);

/* ---- Its parts (session.c) -------------------------------------------------------------- */

/*
 * Creates a session without probes: copies and parses the options. Free it with
 * probe_session_free().
 */
PROBE_MUST_CHECK struct probe_error *session_create(struct probe_target *target,
	uint64_t (*counter)(void), const struct probe_request *request,
	const struct probe_session_options *options, struct probe_session **ret);

/* Sets what the registry says about the probes of a selection, which were added last. */
PROBE_MUST_CHECK struct probe_error *session_take_probes(struct probe_session *session,
	const struct registry *registry, const struct selection *selection);

/*
 * Of a selection that the session does not have now, installs and drops the probes that it has had
 * at the same address, of the same file: a library that was closed and opened again (select.c).
 */
PROBE_MUST_CHECK struct probe_error *session_install_returned(
	struct probe_session *session, struct change *change, struct selection *selection);

/* ---- What it follows (follow.c) ---------------------------------------------------------- */

/*
 * If a thread was not served in time, adds a note to the session's report, once; those that come
 * are held again.
 */
PROBE_MUST_CHECK struct probe_error *session_note_lapse(struct probe_session *session);

/* ---- Hits that wait for room (wait.c) ---------------------------------------------------- */

/* Checks options.wait_ns. Errors: PROBE_ERROR_USAGE (it does not go with the others). */
PROBE_MUST_CHECK struct probe_error *session_take_wait(struct probe_session *session);
/* Before its first stub is reached, with its memory mapped. Errors: PROBE_ERROR_SYSTEM. */
PROBE_MUST_CHECK struct probe_error *session_open_wait(struct probe_session *session);
/* After its event was cleared: raises it again if more hits wait than when the rings were read. */
void session_note_waiting(struct probe_session *session);

/* ---- Its end (end.c) --------------------------------------------------------------------- */

/*
 * A session that cannot be ended for lack of memory would leave its probes on. So some address
 * space is reserved from the start, and released if the end has failed; then it is tried again.
 */
PROBE_MUST_CHECK struct probe_error *session_reserve(struct probe_session *session);

/* ---- Forked children (child.c) --------------------------------------------------- */

/* ---- Reading (read.c) ------------------------------------------------------------ */

/* Sets the lost hits of all probes, and their ends without a begin. */
void session_count_lost(struct probe_session *session);

/* Is there anything to read? PROBE_ERROR_NOT_FOUND: not any more. */
PROBE_MUST_CHECK struct probe_error *session_check_there(const struct probe_session *session);

/*
 * Copies what is in the rings of a session that overwrites them; see recording_read().
 * Free *ret with recording_deinit(). Errors: as probe_session_snapshot().
 */
PROBE_MUST_CHECK struct probe_error *session_take_recording(
	struct probe_session *session, struct ring_since *since, struct recording *ret);
/*
 * Hands over the copied records, from index `from` on, until `visit` returns false. Returns the
 * index to continue with.
 */
size_t session_visit_recording(struct probe_session *session, const struct recording *recording,
	size_t from, bool (*visit)(const struct probe_hit *hit, void *data), void *data);

/* Sets all counts of all probes. */
void session_update_counts(struct probe_session *session);

/*
 * Hands over the records in the rings whose order is certain, except in rings that are overwritten.
 * Returns whether there were any.
 */
bool session_read_rings(struct probe_session *session,
	bool (*visit)(const struct probe_hit *hit, void *data), void *data);

/* ---- Keys ------------------------------------------------------------------------------------ */

/* The keys of rows, from what stubs have of them (struct asked_parts). */

/* Frees what was kept of the session's keys. */
void keys_deinit(struct probe_session *session);

/* ---- Notes ----------------------------------------------------------------------------------- */

/*
 * What a flight recorder says about itself, in its own memory, so that it can be read when
 * neither the process nor its files are there any more: from a file that outlives it, or from a
 * core file.
 *
 *	first page of the data, at DATA_NOTES_OFFSET: struct data_notes
 *	at its offset, 8-byte aligned:
 *		struct notes_header
 *		each probe:  struct notes_probe, provider, name, path; padded to 8
 *		each site:   struct notes_site, struct notes_arg[], struct notes_capture[]
 */

enum {
	NOTES_VERSION = 4,
	NOTES_BYTES_MAX = 64 << 20,
	NOTES_BOOT_BYTES = 40, /* /proc/sys/kernel/random/boot_id */
	NOTES_COMMAND_BYTES = SESSION_COMMAND_BYTES
};
/* Thirty years: no session lasts longer, and sums of two such times fit 63 bits. */
#define NOTES_YEARS_NS 1e18
#define NOTES_MAGIC UINT64_C(0x7365746f6e6f7270) /* "pronotes" */

struct notes_header {
	uint64_t magic;
	uint32_t version;
	uint32_t bytes; /* of everything, with this header */
	uint64_t data_size;
	uint64_t rings; /* offset in the data */
	uint32_t cpus, ring_bytes;
	uint32_t rings_shift;
	uint32_t flags; /* REG_SESSION_KERNEL_TIME */
	uint32_t session;
	int32_t pid; /* as the process sees itself; as the threads of its records are */
	uint64_t record_max;
	struct data_clock clock;
	double tick_ns;			   /* as it was measured when the session was left */
	char boot[NOTES_BOOT_BYTES];	   /* in which boot time stamps count */
	char command[NOTES_COMMAND_BYTES]; /* of the process (/proc/PID/comm); or "" */
	uint32_t probes, sites;
};

struct notes_probe {
	uint32_t provider, name, path; /* bytes, each with its NUL */
	uint32_t unused;
};

struct notes_site {
	uint64_t pc;
	uint32_t number, probe;
	uint8_t arg_count, recorded, checked;
	uint8_t unused[5];
};

enum notes_text { NOTES_GUESS = 1, NOTES_KNOWN };

struct notes_arg {
	int8_t value, string;
	uint8_t is_signed, is_float;
	uint8_t text; /* 0: there is none beside the number; else enum notes_text */
	uint8_t is_bytes;
	uint8_t size;
	uint8_t is_symbol;
};

struct notes_capture {
	uint32_t size, bytes_max;
	uint8_t is_string, has_length;
	uint8_t unused[6];
};

/* How many bytes they take; 0: the session has none, or no memory. */
size_t notes_bytes(const struct probe_session *session);

/*
 * Makes a session from notes, to read the data beside them. Sets everything except where the data
 * is (session->view). `file_bytes` of the data exist. The bytes are not trusted. Errors:
 * PROBE_ERROR_FORMAT, PROBE_ERROR_MEMORY; the session is then to be freed all the same.
 */
PROBE_MUST_CHECK struct probe_error *notes_read(
	struct probe_session *session, const uint8_t *bytes, size_t size, uint64_t file_bytes);

/* ---- Open pairs ------------------------------------------------------------------------------ */

/* Begins that a loaded tracer's threads have not ended yet: an end says how long it took. */

enum { OPEN_PAIRS_PLACES = 4096, OPEN_PAIRS_DEPTH = 16, OPEN_PAIRS_TRIES = 8 };

/*
 * The begins of one thread and pair that have no end yet, the innermost last. Of a recursion
 * that goes deeper than OPEN_PAIRS_DEPTH, the innermost are not known.
 */
struct open_pair {
	pid_t pid, tid;
	uint32_t pair, depth;
	uint64_t times_ns[OPEN_PAIRS_DEPTH];
};

/* A table of a fixed size: if it is full, the oldest begin gives way. */
struct open_pairs {
	struct open_pair places[OPEN_PAIRS_PLACES];
};

/* Notes a begin. */
void open_pairs_push(
	struct open_pairs *pairs, pid_t pid, pid_t tid, uint32_t pair, uint64_t time_ns);
/* Takes the innermost begin out; false: none is known. */
bool open_pairs_pop(
	struct open_pairs *pairs, pid_t pid, pid_t tid, uint32_t pair, uint64_t *time_ns_ret);

/* ---- Remains --------------------------------------------------------------------------------- */

/* probe_remains_open() of a descriptor, which it closes. `path` is for messages. */
PROBE_MUST_CHECK struct probe_error *remains_of(
	int fd, const char *path, struct probe_remains **ret);

/* ---- Stacks ---------------------------------------------------------------------------------- */

/* Counts by call stack: what the table of allocations (heap.c) is made of. */

/* ---- Table ----------------------------------------------------------------------------------- */

/* Shared by the parts of tables. */

struct probe_table {
	struct probe_table_row *rows;
	size_t count;
	size_t key_count;
	size_t rows_max; /* of probe_table_limit(); 0: no limit */
	uint64_t lost, unmatched;
	uint64_t in_flight; /* of sessions with keys: begins without an end */
};

/* Adds rows as probe_session_rows() gives them. Errors as probe_table_add(). */
PROBE_MUST_CHECK struct probe_error *table_add_rows(struct probe_table *table,
	const struct probe_row *rows, size_t count, const struct probe_session_probe *probes,
	size_t probe_count);

/* Whether the name of an end says that what began has failed: abort, rollback, error, fail. */
bool table_name_aborts(const char *name);

/*
 * The row of a table that has the names and keys of this one, or NULL. Only the first `count` rows
 * are searched, which must be in the order of table_compare().
 */
struct probe_table_row *table_find(
	const struct probe_table *table, size_t count, const struct probe_table_row *row);

/* ---- Tags ------------------------------------------------------------------------------------ */

/* tag=TAG and tag=TAG@PROBE: which tag hits of a probe get in a loaded tracer. */

/* The last one that matches is the probe's. */
struct tag_rule {
	struct probe_pattern *pattern; /* NULL: all probes */
	enum probe_tracer_tag tag;
	bool applied; /* to a hit */
};

/* Initialise with {0}. */
struct tags {
	struct tag_rule *rules;
	size_t count;
};

/* Adds TAG or TAG@PROBE. Errors: PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *tags_add(struct tags *tags, const char *text);
/* The tag of a probe's hits; PROBE_TAG_POINT if nothing was said. */
enum probe_tracer_tag tags_find(struct tags *tags, const struct probe_session_probe *probe);
/* The pattern of a rule that was applied to no hit; or NULL. */
const char *tags_idle(const struct tags *tags);
void tags_deinit(struct tags *tags);

/* ---- Tracer ---------------------------------------------------------------------------------- */

/*
 * Tracers, built-in or loaded. To add one that gathers or records what stubs already
 * support, add a row to builtin.c.
 */

struct tracer_kind {
	const char *name;  /* NULL in the last row */
	const char *usage; /* what is typed after -t */
	const char *help;
	enum probe_tracer_output output;
	bool needs_value; /* an expression follows the name */
	bool has_pairs;
	bool has_spans;	 /* its hits are pairs (probe_session_options.spans) */
	bool is_several; /* see probe_tracer_part() */
	/* With has_pairs: how operands pair by default. */
	enum probe_pairing pairing;
	struct probe_gather gather; /* its flags: what is gathered */
	struct probe_view view;	    /* its columns, order, chart and times */
};

/* A parsed -t. */
struct probe_tracer_spec {
	const struct tracer_kind *kind;
	char *text;			    /* the others point into it */
	char *name;			    /* of a loaded tracer, its path */
	char *operand;			    /* after the first comma, or NULL */
	const struct tracer_kind *exporter; /* its rows are metrics (exported.c); else NULL */
};

/* The tracer with this name, or NULL. */
const struct tracer_kind *tracer_find(const char *name);

/* Parses the text after the name `stack` or `heap` (tracer_stack.c). Errors: PROBE_ERROR_USAGE. */
struct tracer_stack_options {
	bool frames, folded, flamegraph, pprof;
	bool live, total; /* of a heap */
	uint16_t bytes;	  /* of the copies; 0: default */
};
/* Whether its output is call stacks, with the options above. */
static inline bool tracer_has_stacks(const struct tracer_kind *kind)
{
	return kind->output == PROBE_TRACER_STACKS || kind->output == PROBE_TRACER_HEAP;
}

/* In the order of the list that users see. The last one has no name: shared objects. */
extern const struct tracer_kind tracer_builtin[];

/* ---- Wire ------------------------------------------------------------------------------------ */

/*
 * The messages in the pipe to a loaded tracer's process, each a header and its parts. Both ends
 * are the same program, so nothing is packed or byte-swapped; but the reader checks lengths all
 * the same, because a tracer that misbehaves may read from its own pipe.
 */

enum wire_type {
	/* To the tracer: */
	WIRE_HIT,  /* struct wire_hit, and the packed event */
	WIRE_LOOK, /* struct wire_tracee: does the tracer stay there? */
	WIRE_PING, /* asks for a sign of life */
	WIRE_END,  /* the last message */
	/* From the tracer: */
	WIRE_READY,
	WIRE_ERROR,  /* a text: why the tracer cannot run */
	WIRE_PONG,   /* answers each look and ping */
	WIRE_REMOVE, /* struct wire_tracee, then provider, NUL, name, NUL; or nothing: all probes */
	WIRE_DONE
};

enum { WIRE_MESSAGE_MAX = 1 << 20 };

struct wire_header {
	uint32_t type;
	uint32_t length; /* of the whole message */
};

/* The hit follows as a packed event (probe/event.h). */
struct wire_hit {
	struct wire_header header;
	uint32_t tag;
	uint32_t pair; /* of begins and ends */
	struct probe_value filter;
};

/* A process, or 0: all. */
struct wire_tracee {
	struct wire_header header;
	int32_t pid;
	uint32_t unused;
};

/* Appends a message without parts. */
void wire_put(struct buffer *out, enum wire_type type);

/* Appends a WIRE_LOOK. */
void wire_put_look(struct buffer *out, pid_t pid);

/* Appends a hit; false if it is too long for a message, or without memory. */
bool wire_put_hit(struct buffer *out, enum probe_tracer_tag tag, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm);

/* A hit as the tracer receives it; points into the message. */
struct wire_got {
	enum probe_tracer_tag tag;
	uint32_t pair;
	struct probe_value filter, extra; /* `options` points to them; do not copy it */
	struct probe_tracee tracee;
	struct probe_tracer_term term;
	struct probe_tracer_options options;
};

/* Reads a hit in place and sets the pointers of its values. False if it is malformed. */
bool wire_get_hit(char *message, size_t length, struct wire_got *ret);

#endif
