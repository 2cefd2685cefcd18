/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/arch.h"
#include "elf/unwind.h"
#include "libprobe/base/buffer.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/error.h"
#include "libprobe/base/map.h"
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

/*
 * The parts of a call stack as a key, and the keys with PROBE_STACK_FRAMES: return addresses; the
 * site; and the return address of the site's function if it has no stack frame, so that
 * BIND_STACK_FRAMES lacks this address, else 0.
 */
enum { BIND_STACK_FRAMES, BIND_STACK_SITE, BIND_STACK_CALLER, BIND_STACK_KEYS };

/*
 * The parts of keys that stubs compute: one, or BIND_STACK_KEYS for a call stack. The key `probe`
 * has no part, because each entry of the table names its probe.
 */
struct asked_parts {
	size_t count;
	bool is_string[ARCH_KEYS_MAX];
	bool is_norm[ARCH_KEYS_MAX]; /* a string that the stub brings to its normal form */
	uint8_t string_count;
	uint16_t string_bytes; /* length of the longest string */
};

/* A session's expressions; each is NULL if the user gave none. */
struct asked {
	struct expr *filter, *value, *match, *match_end;
	struct expr *keys[PROBE_KEYS_MAX];
	size_t key_count;
	bool stack;  /* the keys are return addresses and a site, not keys[] */
	bool ustack; /* one of the keys is a call stack */
	enum expr_word key_word[PROBE_KEYS_MAX];
	bool key_string[PROBE_KEYS_MAX]; /* the key's values are strings */
	bool key_symbol[PROBE_KEYS_MAX]; /* the key is sym(argN): one row for each symbol name */
	struct asked_parts parts;
	uint16_t string_bytes; /* maximum number of bytes captured from each string argument */
	bool match_string;     /* start and end events are matched by a string */
	bool of_pair;	       /* the filter or a key needs a whole pair, such as its duration */
	/*
	 * Start events' arguments for expressions at the end event, and the number of their bytes.
	 */
	struct record_layout_kept kept[ARCH_KEPT_MAX];
	uint8_t kept_count;
	uint16_t kept_bytes;
	struct asked_names *names; /* expressions with names (named.c), or NULL */
	/* The rules of options.filters that probes have, once for each meaning of names. */
	struct asked_rule {
		const struct probe_filter_rule *rule;
		const struct probe_meaning *meaning;
		struct expr *filter;
	} * rules;
	size_t rule_count;
};

/*
 * Parses a session's expressions, and checks that the options go together. Errors:
 * PROBE_ERROR_USAGE.
 */
PROBE_MUST_CHECK struct probe_error *asked_init(
	struct asked *asked, const struct probe_session_options *options);
void asked_deinit(struct asked *asked);

/* Types of a probe's values, the same at all sites. */
struct bound_types {
	bool value_signed;
	bool value_double, value_whole; /* some site has a double; some site has an integer */
	bool key_signed[PROBE_KEYS_MAX];
	/* the same for keys: some site has a double; some site has an integer */
	bool key_double[PROBE_KEYS_MAX], key_whole[PROBE_KEYS_MAX];
};

/* The expressions for a site's stub. If one is missing, its `count` is 0. */
struct bound {
	struct arch_expr filter, value, match;
	uint8_t filter_own;	      /* nodes of `filter` before those of options.filters */
	struct arch_expr pair_filter; /* applied at an end event */
	struct arch_kept kept[ARCH_KEPT_MAX];	 /* stored at a start event; kept_count of them */
	uint8_t same[ARCH_SAME_MAX], same_count; /* captures that must be equal in both events */
	struct arch_arg frame;			 /* a function's frame (arch_flights.frame) */
	struct arch_expr key_numbers[ARCH_KEYS_MAX]; /* one for each part of the keys */
	uint8_t key_strings[ARCH_KEYS_MAX];
	uint8_t match_string; /* the captured string by which pairs are matched */
	struct arch_expr_node nodes[];
};

/*
 * Notes the types of kept arguments. Call it for all known start events before end events are
 * bound: if one start event declares an argument as unsigned and 64-bit, it is unsigned for all end
 * events.
 */
void asked_note_begin(struct asked *asked, const struct record_layout_site *site);

/*
 * Binds a probe's expressions (role `part` in its pair) to a site, with their captures after the
 * recorded ones in `layout`. Widens *types: some signed arguments make all values signed. The
 * caller frees *ret before `asked`. `rule` is of asked_rule(), or NULL. Errors, with the probe's
 * name: PROBE_ERROR_USAGE, PROBE_ERROR_UNSUPPORTED; PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *bind_site(const struct asked *asked, struct pair_part part,
	const struct select_probe *probe, const struct record_layout_site *site,
	const struct expr *rule, struct record_layout *layout, struct bound_types *types,
	struct bound **ret);

/* ---- Gather ---------------------------------------------------------------------------------- */

/*
 * Returns the number of open start events of each pair; the caller frees the array. NULL if memory
 * is short.
 */
uint64_t *gather_flights(struct probe_session *session);

/*
 * If the table of start events fills up, frees entries of ended threads of forked children. Looks
 * at intervals.
 */
void session_give_back_flights(struct probe_session *session);

/* ---- Guest ----------------------------------------------------------------------------------- */

/*
 * Loads a tracer and serves it until the controller ends. Does not return. `input` and `replies`
 * are pipes; the tracer's own output goes to `output`. Closes all other descriptors.
 */
struct tags;
_Noreturn void guest_run(const char *path, const char *options, const struct tags *tags, int input,
	int replies, int output);

/* ---- Named ----------------------------------------------------------------------------------- */

/*
 * Like asked_init(), with names of options->catalogue, which may mean other arguments for each
 * probe. They are resolved for one probe, which tells the kinds of all expressions.
 */
PROBE_MUST_CHECK struct probe_error *asked_init_named(struct asked *asked,
	const struct probe_session_options *options, const struct probe_pattern *const *patterns,
	size_t pattern_count);

/*
 * Finds a probe's expressions, by its role `part` and its `arg_count` arguments, which the
 * catalogue names. Without names, *ret is `asked`. In any case `asked` owns *ret. Errors, with the
 * probe's name: PROBE_ERROR_USAGE (it has no such name; or a string for one probe is a number for
 * another); PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *asked_for(const struct asked *asked, struct pair_part part,
	const struct select_probe *probe, size_t arg_count, const struct asked **ret);

/*
 * Finds the filter that options.filters has for a probe: *ret is owned by `asked`; NULL if there is
 * none. Errors: as asked_for(), and of the expression.
 */
PROBE_MUST_CHECK struct probe_error *asked_rule(struct asked *asked,
	const struct probe_session_options *options, struct pair_part part,
	const struct select_probe *probe, size_t arg_count, const struct expr **ret);

/*
 * Replaces names in the options by arguments, in texts that `asked` owns. Errors: PROBE_ERROR_USAGE
 * (a name means different arguments).
 */
PROBE_MUST_CHECK struct probe_error *asked_plain(
	const struct asked *asked, struct probe_session_options *options);

/* ---- Naming ---------------------------------------------------------------------------------- */

/* Names for the addresses of a process: symbols of files, and names of generated code. */

struct naming;

struct naming_options {
	bool lines; /* frames get source lines if there is debug information */
};

/* Reads the modules, to name addresses. Errors: as modules_read(); PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *naming_create(
	pid_t pid, struct naming_options options, struct naming **ret);
void naming_free(struct naming *naming);

/* Reads the modules again. If that fails, the known ones stay. */
void naming_refresh(struct naming *naming);

/*
 * Names the code or data at an address: a demangled symbol, generated code's name or, without
 * symbols, file and function start (postgres+0x472280). All addresses of a function have one name,
 * owned by `naming`, valid until naming_free(). NULL if unknown.
 */
const char *naming_name(struct naming *naming, uint64_t address);

/* ---- Unwinder -------------------------------------------------------------------------------- */

/* Call stacks of a process, from stack bytes that stubs have copied. */

struct unwinder;

/*
 * `naming` is borrowed. Errors: PROBE_ERROR_UNSUPPORTED (stacks of this machine cannot be unwound,
 * or libdw is missing), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *unwinder_create(
	const struct arch *arch, struct naming *naming, struct unwinder **ret);
void unwinder_free(struct unwinder *unwinder);

/* A thread that hit a site. All members but `pc` come from the target, and are not trusted. */
struct unwinder_thread {
	uint64_t pc;
	const void *registers; /* the registers of arch->unwind_registers, a u64 each */
	const uint8_t *bytes;  /* stack bytes from the stack pointer up */
	size_t length;
};

/* Unwinds a copy; *ret is valid until the next call. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *unwinder_copy(
	struct unwinder *unwinder, const struct unwinder_thread *thread, struct probe_stack *ret);

/*
 * Makes a stack of return addresses, innermost first. `caller` is the return address that returns[]
 * lacks, or 0. *ret and errors: as unwinder_copy().
 */
PROBE_MUST_CHECK struct probe_error *unwinder_frames(struct unwinder *unwinder, uint64_t pc,
	uint64_t caller, const void *returns, size_t count, struct probe_stack *ret);

/* ---- Session --------------------------------------------------------------------------------- */

/* A site of a session. Records name it by its number. */
struct session_site {
	uint64_t pc;
	uint8_t keep;	 /* bytes of instructions there that have run when the stub runs */
	size_t probe;	 /* index of the site's probe in the session */
	uint32_t number; /* number in records: the index, except in an opened session */
	bool is_apart;	 /* only forked children have the site; the target may have another there */
	const char *args; /* arguments in the site's note; owned by the target */
	enum sdt_exit exit;
	struct record_layout layout;
	struct bound *bound; /* owned */
};

/* A session's probe, as callers do not see it. */
struct session_probe {
	struct pair_part part;
	struct bound_types types;
	uint64_t key;	   /* see select_key() */
	uint64_t consumed; /* records handed to the caller */
	uint32_t slot;
	bool off; /* switched off (probe_session_select()) */
};

/* Sites whose bytes are checked (look.c). Initialise with {0}. */
struct watched_site;
struct session_watch {
	struct watched_site *sites;
	size_t count;
	struct edits edits;	/* one for each site, in the same order */
	struct registry memory; /* memory that the session needs: arenas, its data, the guard */
};

/* Gates where threads of the target wait for the controller (gates.c). */
struct session_gates {
	int event;	    /* an eventfd(2) that the gates raise, or -1 */
	struct gate loader; /* where threads wait that have opened a library */
	struct waiters_place loader_place;
	uint64_t since_ns; /* since when a thread waits at the loader's gate, or 0 if none waits */
	bool lapsed;	   /* a thread gave up waiting there: look for new libraries */
	bool lapse_told, child_told;
	uint64_t catch_up_ns;	 /* when to probe missed libraries, or 0 */
	struct launch_gate exec; /* the gate in execve(); served by options.watch */
	struct gate room;	 /* where hits wait for room in a ring */
	uint32_t room_seen;	 /* number of waits that had begun when the event was last raised */
	uint64_t room_ticks;	 /* options.wait_ns in ticks of the clock of records */
};

/* The seccomp filters of the target, which may forbid system calls of the stubs (session.c). */
struct session_filters {
	struct seccomp known;	 /* filters of the target's threads when last read */
	uint64_t look_again_ns;	 /* when they may be checked next (CLOCK_MONOTONIC) */
	unsigned int stub_calls; /* system calls that the stubs make: bits of enum seccomp_kind */
};

/* Names and call stacks of addresses in the target (naming.c). */
struct session_names {
	struct naming *naming;	   /* set with options.stack, and if addresses have names: sym() */
	struct unwinder *unwinder; /* set with options.stack, or if ustack is a key */
	/* texts (struct kept_text, gather.c) of addresses, and of stacks: site, caller, returns */
	struct map texts;
	struct probe_stack stack; /* stack of the hit that is being handed over */
};

/* The memory that stubs write, and what is read from it (read.c, gather.c). */
struct session_data {
	int fd; /* or -1 */
	struct rings rings;
	struct snapshot view;
	struct served served;	 /* storage for view.served, which is NULL or points here */
	bool counts_damaged;	 /* the target has overwritten its counts of lost hits */
	uint64_t count_again_ns; /* when hits may be summed up next (CLOCK_MONOTONIC) */
};

/* Pairs of start and end events. */
struct session_pairs {
	uint32_t count;
	size_t keep_bytes; /* bytes kept of each start event (struct probe_begun) */
	uint64_t *left;	   /* by pair: start events of threads that are gone (gather.c); owned */
	uint32_t left_count;
	uint64_t look_again_ns; /* when to look next for gone threads (CLOCK_MONOTONIC) */
	bool open_counted;	/* in_flight of the probes is set */
};

/*
 * Sessions that share stubs (session.c). The stubs of the leader also act for its members, which
 * have the same probes and sites, at the same indices. Only the leader is in the registry. A member
 * has its part of the leader's memory.
 */
struct session_group {
	struct probe_session *leader; /* NULL for a leader, and for a session without members */
	struct probe_session *members[ARCH_ACTIONS_MAX - 1];
	size_t member_count;
	/*
	 * For a leader: the session whose sites' layouts have the captures of all. It is the one
	 * that records, if there is one. NULL for a session without members.
	 */
	struct probe_session *recorder;
	struct data_part part;
	struct probe_error *ended; /* why the leader has ended; for the next poll of a member */
};

enum { SESSION_COMMAND_BYTES = 16 /* TASK_COMM_LEN of the kernel */ };

/* A session whose process is gone, so that all data is read from a file (remains.c). */
struct session_remains {
	bool dead;
	char command[SESSION_COMMAND_BYTES]; /* name of the process */
	void *notes;			     /* texts with the names of the probes, or NULL */
};

struct probe_session {
	uint32_t id;
	struct probe_target *target; /* borrowed */
	uint32_t target_pid;	     /* pid in the target's own namespace; 0 if unknown */
	bool stopped;
	bool opened; /* opened for reading: another process started the session */
	/* the program has unmapped or replaced memory that the session needs; reported */
	bool lost;
	bool goes_on;	/* counted by patch/inherited.c as running */
	uint64_t image; /* inherited_image() of the target */
	void *reserve;	/* address space reserved for the end (look.c), or NULL */

	struct probe_request request;
	struct probe_session_options options;
	const struct probe_pattern **patterns; /* an owned array of borrowed patterns */
	bool *matched;
	struct asked asked;
	struct probe_report report; /* about libraries that were opened later */

	struct probe_session_probe *probes;
	struct session_probe *known; /* one for each of probes[] */
	size_t probe_count;
	struct session_site *sites;
	size_t site_count;
	uint32_t slot_count; /* counters given in the target and in forked children */
	size_t record_max;   /* largest record of any site in bytes, without a span's start event */

	struct clock clock;
	uint64_t tick_ns32;	  /* nanoseconds in a tick, times 2^32; set if stubs need it */
	uint64_t rate_ticks;	  /* ticks in a second, for options.sample_rate */
	struct writers processes; /* the process of each thread id */

	struct session_data data;
	struct session_watch watch;
	struct session_gates gates;
	struct session_filters filters;
	struct session_pairs pairs;
	struct session_names names;
	struct session_group group;
	struct session_remains remains;
};

/* Returns true if stubs match start and end events. If not, records only name the roles. */
static inline bool session_has_pairs(const struct probe_session *session)
{
	return session->options.kind == PROBE_SESSION_GATHER || session->options.spans;
}

/* ---- What its stubs do (stubs.c) ------------------------------------------------ */

/*
 * Decides what each selected site's stub does. Drops and reports probes that are not needed.
 * Errors: as pairs_assign() and bind_site(); PROBE_ERROR_USAGE (too long records).
 */
PROBE_MUST_CHECK struct probe_error *session_prepare(struct probe_session *session,
	const struct change *change, struct selection *selection, struct probe_report *report);
/* Like session_prepare(), for a listed session, whose selection has only probes. */
PROBE_MUST_CHECK struct probe_error *session_resume(struct probe_session *session,
	const struct arch *arch, struct selection *selection, const struct registry *registry);
/* Undoes session_prepare(), back to these counts, for a selection that will not be attached. */
void session_unprepare(struct probe_session *session, size_t probes, size_t sites);

/* Encodes a probe's part of a pair for reg_probe.part. */
uint32_t session_part_word(const struct pair_part *part);

static inline size_t session_record_max(const struct probe_session *session)
{
	return session->record_max + (session->options.spans ? 8 + session->pairs.keep_bytes : 0);
}

/* Returns the memory that the session needs. */
struct data_needs session_needs(const struct probe_session *session);

/*
 * Reduces sizes that the user did not set, and reports this (room.c), so that a session with
 * `probes` counters fits into the control group. Errors: PROBE_ERROR_REFUSED (it does not fit).
 */
PROBE_MUST_CHECK struct probe_error *session_fit(const struct probe_session *session,
	struct data_needs *needs, size_t probes, struct probe_report *report);

/* ---- Names and call stacks of addresses (naming.c) ------------------------------- */

/*
 * Prepares to unwind stacks and name addresses, if asked. Errors: as naming_create() and
 * unwinder_create().
 */
PROBE_MUST_CHECK struct probe_error *session_stack_start(
	struct probe_session *session, const struct arch *arch);
/* Reads the modules again, if there are names. */
void session_names_refresh(struct session_names *names);
void session_names_deinit(struct session_names *names);
/*
 * Finds where, relative to the stack pointer, a site's function has saved its return address and
 * its caller's frame pointer, if wanted. The frame pointer need not point to them.
 */
struct unwind_saved session_stack_saved(const struct probe_session *session, uint64_t pc);

enum { SESSION_NAME_ROOM = 24 /* an address in hex */ };

/*
 * Returns an address's name, valid as long as the session. If it has none, writes the address to
 * `room` as text.
 */
const char *session_name(
	const struct session_names *names, uint64_t address, char room[SESSION_NAME_ROOM]);

/* Describes how to install a prepared selection. */
struct install session_attach(struct probe_session *session, struct transaction *transaction,
	struct selection *selection);

/* ---- Its sites (look.c) --------------------------------------------------------- */

/* Makes the session check all its listed sites. */
PROBE_MUST_CHECK struct probe_error *session_watch(
	struct probe_session *session, const struct registry *registry);

/*
 * Reserves address space for the session's end, because ending fails if memory is short, and the
 * probes would stay on. If it fails, the address space is released, and the session is ended again.
 */
PROBE_MUST_CHECK struct probe_error *session_reserve(struct probe_session *session);

/* ---- Parts of a session (session.c) ----------------------------------------------------- */

/* Creates a session without probes from copied options. Free it with probe_session_free(). */
PROBE_MUST_CHECK struct probe_error *session_create(struct probe_target *target,
	uint64_t (*counter)(void), const struct probe_request *request,
	const struct probe_session_options *options, struct probe_session **ret);

/* Appends the probes of a selection, as in the registry, to those of the session. */
PROBE_MUST_CHECK struct probe_error *session_take_probes(struct probe_session *session,
	const struct registry *registry, const struct selection *selection);

/*
 * Installs probes that the session had at the same address of the same file, because their library
 * was opened again (select.c), or another process has it there, and drops them from the selection.
 * The selection has no probe that the process has now.
 */
PROBE_MUST_CHECK struct probe_error *session_install_returned(struct probe_session *session,
	struct change *change, struct selection *selection, struct probe_report *report);

/* Attaches a selection; the first one creates the session. */
PROBE_MUST_CHECK struct probe_error *session_install(struct probe_session *session,
	struct change *change, struct selection *selection, struct probe_report *report);
/*
 * Selects the requested probes. Without patterns, selects none: the session only follows libraries.
 */
PROBE_MUST_CHECK struct probe_error *session_select_asked(
	const struct probe_session *session, struct change *change, struct selection *ret);

/* Takes the seccomp filters as they were when the stubs were made. */
void session_keep_filters(struct probe_session *session, struct change *change);

/* ---- What is opened later (follow.c) ----------------------------------------------------- */

/*
 * Drops an error if the program was replaced while its libraries were being probed. The session
 * keeps its records.
 */
PROBE_MUST_CHECK struct probe_error *session_unless_replaced(
	const struct probe_target *target, struct probe_error *error);
/*
 * Target and forked children share the counters, and each has a registry: takes over the numbers
 * that were given in another one.
 */
void session_share_slots(struct probe_session *session, struct change *change);
/* Probes libraries opened since the last call. With `hurry`, other processes may wait. */
PROBE_MUST_CHECK struct probe_error *session_follow(struct probe_session *session, bool hurry);
/*
 * Handles the result of an attempt to probe new libraries. Goes on while the target cannot be
 * changed, because of a slow controller or debugger: the report says that hits in new libraries are
 * missed, until those libraries are probed.
 */
PROBE_MUST_CHECK struct probe_error *session_settle(
	struct probe_session *session, struct probe_error *error);
/*
 * Releases threads that wait after opening a library, in the target or a forked child: it is probed
 * first.
 */
PROBE_MUST_CHECK struct probe_error *session_serve_gate(struct probe_session *session);

/* ---- Gates (gates.c) --------------------------------------------------------------------- */

/* Checks options.wait_ns. Errors: PROBE_ERROR_USAGE (it contradicts other options). */
PROBE_MUST_CHECK struct probe_error *session_take_wait(struct probe_session *session);
/*
 * Starts the threads for gates and for waits for room. Call it before a change, because a new
 * thread would inherit the change's high priority.
 */
PROBE_MUST_CHECK struct probe_error *session_prepare_gates(struct probe_session *session);
/*
 * Opens the gate for hits that wait for room. Call it when memory is mapped, and before a stub can
 * run. Errors: PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *session_open_wait(struct probe_session *session);
/*
 * Installs the gates for libraries and programs, and begins to serve them. The target's state is
 * read and locked.
 */
PROBE_MUST_CHECK struct probe_error *session_add_gates(
	struct probe_session *session, struct change *change, struct probe_report *report);
/* Raises the event again if more hits have begun to wait since it was cleared. */
void session_note_waiting(struct probe_session *session);
/*
 * Notes that a thread gave up waiting, and that later threads were not held: new libraries may
 * exist although no thread waits. Reports this once. Later threads are held again.
 */
PROBE_MUST_CHECK struct probe_error *session_note_lapse(struct probe_session *session);
void session_close_gates(struct probe_session *session);
void session_close_wait(struct probe_session *session);

/* ---- Reading (read.c) ------------------------------------------------------------ */

/* Sets probes' lost hits, and end events without a start. */
void session_count_lost(struct probe_session *session);

/* Checks that the data can still be read. Errors: PROBE_ERROR_NOT_FOUND. */
PROBE_MUST_CHECK struct probe_error *session_check_there(const struct probe_session *session);

/*
 * Copies the records of a session with options.overwrite (recording_read()), for
 * recording_deinit(). Errors: as probe_session_snapshot().
 */
PROBE_MUST_CHECK struct probe_error *session_take_recording(
	struct probe_session *session, struct ring_since *since, struct recording *ret);
/* Hands over copied records from `from` on, until `visit` returns false. Returns the next index. */
size_t session_visit_recording(struct probe_session *session, const struct recording *recording,
	size_t from, bool (*visit)(const struct probe_hit *hit, void *data), void *data);

void session_update_counts(struct probe_session *session);

/* Hands over records whose order is certain. Skips overwritten rings. True if any were there. */
bool session_read_rings(struct probe_session *session,
	bool (*visit)(const struct probe_hit *hit, void *data), void *data);

/* ---- Notes ----------------------------------------------------------------------------------- */

/*
 * The description that a flight recorder keeps in its own memory. With it, the recorder can be read
 * from its file or from a core file when the process and its files are gone (remains.c).
 */

enum { NOTES_BYTES_MAX = 64 << 20 };
/* Thirty years: no session lasts longer, and two such times fit into 63 bits. */
#define NOTES_YEARS_NS 1e18

/* Returns the size of the notes in bytes; 0 if the session has none, or if memory is short. */
size_t notes_bytes(const struct probe_session *session);

/*
 * Writes the notes of a session that records into its memory. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *notes_write(struct probe_session *session);
/*
 * Takes the layout of records from the notes: the starting controller chose it, perhaps with
 * another catalogue. Errors: PROBE_ERROR_FORMAT (the notes are damaged); PROBE_ERROR_STATE (other
 * probes than in the notes); PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *notes_take_layouts(struct probe_session *session);

/* ---- Open pairs ------------------------------------------------------------------------------ */

/* Open start events of a loaded tracer, which give end events a duration. */

enum { OPEN_PAIRS_PLACES = 4096, OPEN_PAIRS_DEPTH = 16, OPEN_PAIRS_TRIES = 8 };

/*
 * Open start events of a thread and pair, innermost last. Start events that are nested deeper are
 * not stored.
 */
struct open_pair {
	pid_t pid, tid;
	uint32_t pair, depth;
	uint64_t times_ns[OPEN_PAIRS_DEPTH];
};

/* The table's size is fixed. If it is full, the oldest start event is dropped. */
struct open_pairs {
	struct open_pair places[OPEN_PAIRS_PLACES];
};

void open_pairs_push(
	struct open_pairs *pairs, pid_t pid, pid_t tid, uint32_t pair, uint64_t time_ns);
/* Removes the innermost start event; returns false if it is unknown. */
bool open_pairs_pop(
	struct open_pairs *pairs, pid_t pid, pid_t tid, uint32_t pair, uint64_t *time_ns_ret);

/* ---- Remains --------------------------------------------------------------------------------- */

/* Like probe_remains_open(), for a descriptor, which it closes. `path` is for messages. */
PROBE_MUST_CHECK struct probe_error *remains_of(
	int fd, const char *path, struct probe_remains **ret);

/* ---- Table ----------------------------------------------------------------------------------- */

struct probe_table {
	struct probe_table_row *rows;
	size_t count;
	size_t key_count;
	size_t rows_max; /* from probe_table_limit(); 0 if unlimited */
	uint64_t lost, unmatched;
	uint64_t in_flight; /* start events without an end, for sessions with keys */
};

/* Adds rows of probe_session_rows(). Errors: as probe_table_add(). */
PROBE_MUST_CHECK struct probe_error *table_add_rows(struct probe_table *table,
	const struct probe_row *rows, size_t count, const struct probe_session_probe *probes,
	size_t probe_count);

/* Returns true if an end event's name reports a failure: abort, rollback, error, fail. */
bool table_name_aborts(const char *name);

/* ---- Tags ------------------------------------------------------------------------------------ */

/*
 * tag=TAG and tag=TAG@PROBE set the tag of a probe's hits in a loaded tracer: point, observe,
 * count, or a name of the user's own.
 */

/* The last rule that matches a probe wins. */
struct tag_rule {
	struct probe_pattern *pattern; /* NULL for all probes */
	char *name;
	enum probe_tracer_tag tag;
	bool applied; /* some hit got the tag */
};

/* Initialise with {0}. */
struct tags {
	struct tag_rule *rules;
	size_t count;
};

/* Adds TAG or TAG@PROBE. Errors: PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *tags_add(struct tags *tags, const char *text);
/* Returns NULL if no rule matches. */
const struct tag_rule *tags_find(struct tags *tags, const struct probe_session_probe *probe);
/* Returns a rule's pattern that no hit has used, or NULL. */
const char *tags_idle(const struct tags *tags);
void tags_deinit(struct tags *tags);
/*
 * A tracer's filters: of the tags point, begin and end, whose numbers are those of the roles, and
 * of each rule.
 */
enum { TAGS_FILTERS = 3 };
_Static_assert((int)PROBE_TAG_POINT == PROBE_ROLE_NONE &&
		       (int)PROBE_TAG_BEGIN == PROBE_ROLE_BEGIN &&
		       (int)PROBE_TAG_END == PROBE_ROLE_END,
	"tags before those of rules");

/* ---- Tracer ---------------------------------------------------------------------------------- */

/*
 * A tracer, built-in or loaded. If stubs support what it gathers, it needs only a row in tracers.c.
 */

struct tracer_kind {
	const char *name;  /* NULL in the last row */
	const char *usage; /* the text after -t; NULL if it is only the name */
	const char *help;
	enum probe_tracer_output output;
	bool needs_value; /* an expression follows the name */
	bool has_pairs;
	bool has_spans;	 /* its hits are pairs (probe_session_options.spans) */
	bool is_several; /* see probe_tracer_part() */
	/* With has_pairs: how patterns form pairs by default. */
	enum probe_pairing pairing;
	struct probe_gather gather; /* the flags of the gathered values */
	struct probe_view view;	    /* its columns, order, chart and times */
	/*
	 * Numbers of its metrics in PCP, from 1, and those of pmtrace(3); 0 if it has none. PCP's
	 * archives contain them, so they must never change.
	 */
	unsigned int pcp, pcp_tags;
	const char *pcp_tags_name; /* pmdatrace(1)'s name for it, if that is a different one */
};

/* A parsed option -t. */
struct probe_tracer_spec {
	const struct tracer_kind *kind;
	char *text;			    /* owned; the strings below point into it */
	char *name;			    /* the path, for a loaded tracer */
	char *operand;			    /* the text after the first comma, or NULL */
	const struct tracer_kind *exporter; /* exports the tracer's rows as metrics, or NULL */
};

/* Finds a tracer by name, or NULL. */
const struct tracer_kind *tracer_find(const char *name);

/* Options after the name `stack` or `heap` (tracers.c). */
struct tracer_stack_options {
	bool frames, folded, flamegraph, pprof;
	bool live, total; /* for a heap */
	uint16_t bytes;	  /* copied stack bytes; 0 for the default */
};
/* Is the output call stacks? Such a tracer has these options. */
static inline bool tracer_has_stacks(const struct tracer_kind *kind)
{
	return kind->output == PROBE_TRACER_STACKS || kind->output == PROBE_TRACER_HEAP;
}

/* In the order that users see. The last row, without a name, is for shared objects. */
extern const struct tracer_kind tracer_builtin[];

/* ---- Wire ------------------------------------------------------------------------------------ */

/*
 * Messages in the pipe to a loaded tracer, a header and parts. Both ends are the same program, so
 * nothing is packed. Lengths are checked, because a tracer may read from its own pipe.
 */

enum wire_type {
	/* To the tracer: */
	WIRE_HIT,  /* struct wire_hit and the packed event */
	WIRE_LOOK, /* struct wire_tracee: asks whether the tracer stays in a process */
	WIRE_PING, /* asks for a sign of life */
	WIRE_END,  /* the last message */
	/* From the tracer: */
	WIRE_READY,
	WIRE_FILTER, /* a u32, an index as for TAGS_FILTERS, and an expression */
	WIRE_ERROR,  /* a text: why the tracer cannot run */
	WIRE_PONG,   /* answers a WIRE_LOOK or WIRE_PING */
	WIRE_REMOVE, /* struct wire_tracee, provider, NUL, name, NUL; no names for all probes */
	WIRE_DONE
};

enum { WIRE_MESSAGE_MAX = 1 << 20 };

struct wire_header {
	uint32_t type;
	uint32_t length; /* bytes of the whole message */
};

/* A hit. The packed event follows (probe/event.h). */
struct wire_hit {
	struct wire_header header;
	uint32_t tag;
	uint32_t pair;	    /* for start and end events */
	uint32_t rule;	    /* number of a rule in struct tags, from 1 on; 0: no rule applies */
	uint32_t has_label; /* the event's last argument is the label */
	struct probe_value filter;
};

/* A process id, or 0 for all. */
struct wire_tracee {
	struct wire_header header;
	int32_t pid;
	uint32_t unused;
};

void wire_put(struct buffer *out, enum wire_type type);

void wire_put_look(struct buffer *out, pid_t pid);

/* `label` may be NULL. Returns false if it is too long for a message, or without memory. */
bool wire_put_hit(struct buffer *out, enum probe_tracer_tag tag, size_t rule,
	const struct probe_value *label, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm);

/* A hit as received; pointers lead into the message. */
struct wire_got {
	enum probe_tracer_tag tag;
	uint32_t pair;
	size_t rule;
	struct probe_value filter, extra; /* `options` points to them, so do not copy this struct */
	struct probe_tracee tracee;
	struct probe_tracer_term term;
	struct probe_tracer_options options;
};

/* Reads a hit in place. Returns false if it is malformed. */
bool wire_get_hit(char *message, size_t length, struct wire_got *ret);
