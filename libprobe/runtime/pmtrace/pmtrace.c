/* SPDX-License-Identifier: MIT */
/*
 * Performance Co-Pilot's libpcp_trace sends trace data to its agent; this library reports the same
 * at probes, and returns what libpcp_trace 6.0 returns with an agent
 * (tests/integration/runtime/pmtrace.sh calls both). A transaction belongs to a thread in its
 * manual pages, but to the process in libpcp_trace and here.
 *
 * The objects are linked twice: as libprobe_pmtrace, and as libpcp_trace.so.2 for programs that are
 * linked already.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "arch/runtime.h"
#include "libprobe/runtime/pmtrace/tags.h"
#include "probe/pmtrace.h"

/* ==== Tags ==================================================================================== */

/*
 * A table of tags that only grows, so look-ups need no lock. The state of a tag's transaction is
 * one word, changed by compare and exchange:
 *
 *	generation << 1 | in progress
 *
 * Each process has a generation. The generation of a forked child is one higher than its parent's.
 * A transaction with an older generation was begun by the parent, and counts as never begun.
 */

enum { HEADS = 1024 };

struct tag {
	struct tag *next; /* never changes after the tag is added */
	uint64_t number;
	_Atomic uint64_t state;
	char text[];
};

static _Atomic(struct tag *) heads[HEADS];
static _Atomic uint64_t generation = 1;
static uint64_t count;

/* Taken to add a tag, and during a fork. */
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
	pthread_mutex_lock(&adding);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&adding);
}

static void in_child(void)
{
	atomic_fetch_add(&generation, 1);
	pthread_mutex_unlock(&adding);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* Returns 0, or the error of an invalid tag. */
static int tags_check(const char *tag)
{
	if (!tag || !*tag)
		return PMTRACE_ERR_TAGNAME;
	return strnlen(tag, PMTRACE_TAG_MAX + 1) > PMTRACE_TAG_MAX ? PMTRACE_ERR_TAGLENGTH : 0;
}

/* FNV-1a */
static _Atomic(struct tag *) *head_of(const char *tag)
{
	uint32_t hash = 2166136261u;

	for (; *tag; tag++)
		hash = (hash ^ (unsigned char)*tag) * 16777619u;
	return &heads[(hash ^ hash >> 16) % HEADS];
}

static struct tag *find(_Atomic(struct tag *) *head, const char *text)
{
	/* Pairs with the store in add(). */
	struct tag *tag = atomic_load_explicit(head, memory_order_acquire);

	while (tag && strcmp(tag->text, text) != 0)
		tag = tag->next;
	return tag;
}

static struct tag *add(_Atomic(struct tag *) *head, const char *text)
{
	size_t size = strlen(text) + 1;
	struct tag *tag;

	pthread_mutex_lock(&adding);
	/* Another thread may have added the tag meanwhile. */
	tag = find(head, text);
	if (!tag && (tag = malloc(sizeof(*tag) + size))) {
		memcpy(tag->text, text, size);
		tag->number = ++count;
		atomic_init(&tag->state, 0);
		tag->next = atomic_load_explicit(head, memory_order_relaxed);
		atomic_store_explicit(head, tag, memory_order_release);
	}
	pthread_mutex_unlock(&adding);
	return tag;
}

int tags_begin(const char *text, uint64_t *number_ret)
{
	_Atomic(struct tag *) *head;
	uint64_t idle, busy;
	struct tag *tag;
	int err = tags_check(text);

	if (err)
		return err;
	head = head_of(text);
	tag = find(head, text);
	if (!tag)
		tag = add(head, text);
	if (!tag)
		return -ENOMEM;
	busy = atomic_load(&generation) << 1 | 1;
	idle = atomic_load(&tag->state);
	if (idle == busy || !atomic_compare_exchange_strong(&tag->state, &idle, busy))
		return PMTRACE_ERR_INPROGRESS;
	*number_ret = tag->number;
	return 0;
}

int tags_end(const char *text, uint64_t *number_ret)
{
	uint64_t now, busy;
	struct tag *tag;
	int err = tags_check(text);

	if (err)
		return err;
	tag = find(head_of(text), text);
	now = atomic_load(&generation);
	if (!tag || atomic_load(&tag->state) >> 1 != now)
		return PMTRACE_ERR_NOSUCHTAG;
	busy = now << 1 | 1;
	if (!atomic_compare_exchange_strong(&tag->state, &busy, now << 1))
		return PMTRACE_ERR_NOPROGRESS;
	*number_ret = tag->number;
	return 0;
}

/* ==== Pmtrace ================================================================================= */

#define SEMAPHORE(name)                                                                            \
	__extension__ unsigned short pmtrace_##name##_semaphore                                    \
		__attribute__((section(".probes"), visibility("hidden")))
SEMAPHORE(begin);
SEMAPHORE(end);
SEMAPHORE(abort);
SEMAPHORE(point);
SEMAPHORE(obs);
SEMAPHORE(counter);
SEMAPHORE(state);

/* Arguments of probes are computed only while they are traced. */
#define TRACED(name) __builtin_expect(pmtrace_##name##_semaphore != 0, 0)

static atomic_int flags;
static atomic_bool has_started; /* by a call with a valid tag */

/* The first call with a tag decides, or PMTRACE_STATE_ASYNC before it. */
enum { UNDECIDED, SYNCHRONOUS, ASYNCHRONOUS };
static atomic_int protocol;

/* ---- The agent -------------------------------------------------------------------------- */

/*
 * If the environment names Performance Co-Pilot's own library, that library gets each call as well,
 * and its results are returned. Its variables and flags then mean what they mean there. Both
 * libraries may have the same soname and functions: dlopen(3) loads another file by its path, and
 * dlsym(3) finds the functions of that file.
 */
#define AGENT "PROBE_PMTRACE_AGENT"

static const char *const agent_names[] = {"pmtracebegin", "pmtraceend", "pmtraceabort",
	"pmtracepoint", "pmtraceobs", "pmtracecounter", "pmtracestate"};
enum { AGENT_NAMES = sizeof(agent_names) / sizeof(agent_names[0]) };

static union agent {
	void *functions[AGENT_NAMES];
	struct {
		int (*begin)(const char *tag), (*end)(const char *tag), (*abort)(const char *tag);
		int (*point)(const char *tag);
		int (*obs)(const char *tag, double value),
			(*counter)(const char *tag, double value);
		int (*state)(int code);
	};
} agent;

enum { AGENT_UNKNOWN, AGENT_NONE, AGENT_OPEN };
static atomic_int agent_state;

static void agent_open(void)
{
	const char *path = secure_getenv(AGENT);
	void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	/* A copy of this library would report each call again. It lacks what pmdatrace(1) calls. */
	bool is_complete = library && dlsym(library, "__pmtracedecodedata");

	for (size_t i = 0; i < AGENT_NAMES && is_complete; i++) {
		agent.functions[i] = dlsym(library, agent_names[i]);
		is_complete = agent.functions[i];
	}
	if (path && !is_complete)
		fprintf(stderr, "libprobe_pmtrace: nothing is sent to an agent: %s=%s: %s\n", AGENT,
			path, library ? "not Performance Co-Pilot's libpcp_trace.so" : dlerror());
	/* Pairs with the load in agent_get(). */
	atomic_store_explicit(
		&agent_state, is_complete ? AGENT_OPEN : AGENT_NONE, memory_order_release);
}

/* Returns the functions of Performance Co-Pilot's library, or NULL if calls are only probes. */
static const union agent *agent_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int state = atomic_load_explicit(&agent_state, memory_order_acquire);

	if (__builtin_expect(state == AGENT_NONE, 1))
		return NULL;
	pthread_once(&once, agent_open);
	return atomic_load(&agent_state) == AGENT_OPEN ? &agent : NULL;
}

/* Prints one line about the variables that only a library with an agent honours. */
static void tell_ignored(void)
{
	static const char *const names[] = {"PCP_TRACE_HOST", "PCP_TRACE_PORT", "PCP_TRACE_TIMEOUT",
		"PCP_TRACE_REQTIMEOUT", "PCP_TRACE_RECONNECT"};
	char list[128] = "";

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (getenv(names[i]))
			strcat(strcat(list, *list ? ", " : ""), names[i]);
	if (*list)
		fprintf(stderr,
			"libprobe_pmtrace: no effect of %s: nothing is sent to an agent (to send "
			"it, set "
			"%s to the path of Performance Co-Pilot's libpcp_trace.so.2)\n",
			list, AGENT);
}

/* ---- Diagnostics ---------------------------------------------------------------------- */

/* With PMTRACE_STATE_API, prints the call and its result. Returns the result. */
__attribute__((format(printf, 3, 4))) static int told(
	int result, const char *function, const char *format, ...)
{
	char arguments[PMTRACE_TAG_MAX + 64];
	va_list list;

	if (__builtin_expect(
		    !(atomic_load_explicit(&flags, memory_order_relaxed) & PMTRACE_STATE_API), 1))
		return result;
	va_start(list, format);
	vsnprintf(arguments, sizeof(arguments), format, list);
	va_end(list);
	if (result < 0)
		fprintf(stderr, "%s(%s) = %d (%s)\n", function, arguments, result,
			pmtraceerrstr(result));
	else
		fprintf(stderr, "%s(%s) = %d\n", function, arguments, result);
	return result;
}

/* Returns the tag for %s, or "(null)". */
static const char *shown(const char *tag)
{
	return tag ? tag : "(null)";
}

/* At the first successful call with a tag, libpcp_trace fixes the protocol and reads variables. */
static void start(void)
{
	int undecided = UNDECIDED;

	if (__builtin_expect(atomic_load_explicit(&has_started, memory_order_relaxed), 1) ||
		atomic_exchange(&has_started, true) || agent_get())
		return;
	atomic_compare_exchange_strong(&protocol, &undecided, SYNCHRONOUS);
	if (getenv("PCP_TRACE_NOAGENT"))
		atomic_fetch_or(&flags, PMTRACE_STATE_NOAGENT);
	tell_ignored();
}

/* ---- Transactions --------------------------------------------------------------------- */

int pmtracebegin(const char *tag)
{
	const union agent *real = agent_get();
	int theirs = real ? real->begin(tag) : 0;
	uint64_t number = 0;
	int err = theirs < 0 ? theirs : tags_begin(tag, &number);

	if (!err) {
		start();
		if (TRACED(begin)) {
			STAP_PROBE2(pmtrace, begin, tag, number);
			ARCH_JUMP_ROOM();
		}
	}
	return told(real ? theirs : err, __func__, "\"%s\"", shown(tag));
}

int pmtraceend(const char *tag)
{
	const union agent *real = agent_get();
	uint64_t number = 0;
	int err = tags_end(tag, &number);

	if (!err && TRACED(end)) {
		STAP_PROBE2(pmtrace, end, tag, number);
		ARCH_JUMP_ROOM();
	}
	if (real)
		return real->end(tag);
	return told(err, __func__, "\"%s\"", shown(tag));
}

int pmtraceabort(const char *tag)
{
	const union agent *real = agent_get();
	uint64_t number = 0;
	int err = tags_end(tag, &number);

	if (!err && TRACED(abort)) {
		STAP_PROBE2(pmtrace, abort, tag, number);
		ARCH_JUMP_ROOM();
	}
	if (real)
		return real->abort(tag);
	return told(err, __func__, "\"%s\"", shown(tag));
}

/* ---- Points and values ------------------------------------------------------------------ */

/* Truncates to an integer, clamped to int64_t. */
static int64_t whole(double value)
{
	if (value >= 0x1p63)
		return INT64_MAX;
	if (value < -0x1p63)
		return INT64_MIN;
	return value == value ? (int64_t)value : 0;
}

int pmtracepoint(const char *tag)
{
	const union agent *real = agent_get();
	int err = real ? real->point(tag) : tags_check(tag);

	if (err >= 0) {
		start();
		if (TRACED(point)) {
			STAP_PROBE1(pmtrace, point, tag);
			ARCH_JUMP_ROOM();
		}
	}
	return told(err, __func__, "\"%s\"", shown(tag));
}

int pmtraceobs(const char *tag, double value)
{
	const union agent *real = agent_get();
	int err = real ? real->obs(tag, value) : tags_check(tag);

	if (err >= 0) {
		start();
		if (TRACED(obs)) {
			STAP_PROBE3(pmtrace, obs, tag, value, whole(value));
			ARCH_JUMP_ROOM();
		}
	}
	return told(err, __func__, "\"%s\", %g", shown(tag), value);
}

int pmtracecounter(const char *tag, double value)
{
	const union agent *real = agent_get();
	int err = real ? real->counter(tag, value) : tags_check(tag);

	if (err >= 0) {
		start();
		if (TRACED(counter)) {
			STAP_PROBE3(pmtrace, counter, tag, value, whole(value));
			ARCH_JUMP_ROOM();
		}
	}
	return told(err, __func__, "\"%s\", %g", shown(tag), value);
}

/* ---- State and errors -------------------------------------------------------------------- */

/* Prints a line for each new, documented flag that has no effect here. */
static void tell_ineffective(int code)
{
	static const struct {
		unsigned int flag;
		const char *name, *why;
	} known[] = {
		{PMTRACE_STATE_COMMS, "PMTRACE_STATE_COMMS", "there is no agent to connect to"},
		{PMTRACE_STATE_PDU, "PMTRACE_STATE_PDU", "nothing is sent to an agent"},
		{PMTRACE_STATE_PDUBUF, "PMTRACE_STATE_PDUBUF", "nothing is sent to an agent"},
		{PMTRACE_STATE_ASYNC, "PMTRACE_STATE_ASYNC", "nothing is sent to an agent"},
	};
	unsigned int rest = (unsigned int)code & ~(unsigned int)PMTRACE_STATE_API &
			    ~(unsigned int)PMTRACE_STATE_NOAGENT;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (rest & known[i].flag)
			fprintf(stderr, "pmtracestate: %s has no effect in libprobe_pmtrace: %s\n",
				known[i].name, known[i].why);
		rest &= ~known[i].flag;
	}
	if (rest)
		fprintf(stderr, "pmtracestate: 0x%x has no effect: there are no such flags\n",
			rest);
}

int pmtracestate(int code)
{
	const union agent *real = agent_get();
	int previous, undecided = UNDECIDED;

	if (!real && code & PMTRACE_STATE_ASYNC &&
		!atomic_compare_exchange_strong(&protocol, &undecided, ASYNCHRONOUS) &&
		undecided == SYNCHRONOUS)
		return told(-EINVAL, __func__, "%d", code);
	previous = real ? real->state(code) : atomic_exchange(&flags, code);
	if (!real)
		tell_ineffective(code & ~previous);
	if (previous >= 0 && TRACED(state)) {
		STAP_PROBE2(pmtrace, state, code, previous);
		ARCH_JUMP_ROOM();
	}
	return told(previous, __func__, "%d", code);
}

char *pmtraceerrstr(int code)
{
	static char *const texts[] = {
		"Invalid tag name - tag names cannot be NULL",
		"Transaction is already in progress - cannot begin",
		"Transaction is not currently in progress - cannot end",
		"Transaction tag was not successfully initialised",
		"Tag is already in use for a different type of tracing",
		"Tag name is too long (maximum 256 characters)",
		"IPC protocol failure",
		"Unrecognised environment variable format",
		"Application timed out connecting to the PMDA",
		"Incompatible versions between application and PMDA",
		"Cannot connect to PMDA - permission denied",
		"Cannot connect to PMDA - connection limit reached",
	};
	static char none[] = "No error.", unknown[] = "Unknown error code.";
	const int count = sizeof(texts) / sizeof(texts[0]);

	if (code == 0)
		return none;
	if (code > 0 || code <= -PMTRACE_ERR_BASE - count)
		return unknown;
	return code > -PMTRACE_ERR_BASE ? strerror(-code) : texts[-PMTRACE_ERR_BASE - code];
}

/* ==== Fortran ================================================================================= */

/*
 * pmtrace(3) for Fortran, as gfortran and f77 call it: names end with an underscore, arguments are
 * addresses, lengths of texts come last, as int or 64 bits (the register's lower half is the same).
 *
 * In libpcp_trace 6.0, pmtraceobs expects the tag's length before the value, so Fortran's calls
 * fail with -ENOMEM. Here both orders succeed: no value's address is as small as a tag's length.
 */

/* One byte longer than the longest tag, so that too long a tag stays so. */
struct fortran_tag {
	char text[PMTRACE_TAG_MAX + 2];
};

static const char *tag_of(struct fortran_tag *tag, const char *text, int length)
{
	size_t bytes =
		length < 0 || length > PMTRACE_TAG_MAX ? PMTRACE_TAG_MAX + 1 : (size_t)length;

	memcpy(tag->text, text, bytes);
	tag->text[bytes] = '\0';
	return tag->text;
}

#define FORTRAN(name)                                                                              \
	int name##_(const char *tag, int tag_length)                                               \
	{                                                                                          \
		struct fortran_tag copy;                                                           \
                                                                                                   \
		return name(tag_of(&copy, tag, tag_length));                                       \
	}

FORTRAN(pmtracebegin)
FORTRAN(pmtraceend)
FORTRAN(pmtraceabort)
FORTRAN(pmtracepoint)

int pmtraceobs_(const char *tag, const double *value, uintptr_t tag_length)
{
	uintptr_t second = (uintptr_t)value;
	struct fortran_tag copy;

	if (second < 4096) {
		value = (const double *)tag_length;
		tag_length = second;
	}
	return pmtraceobs(tag_of(&copy, tag, (int)tag_length), *value);
}

int pmtracecounter_(const char *tag, const double *value, int tag_length)
{
	struct fortran_tag copy;

	return pmtracecounter(tag_of(&copy, tag, tag_length), *value);
}

int pmtracestate_(const int *code)
{
	return pmtracestate(*code);
}

void pmtraceerrstr_(const int *code, char *message, int message_length)
{
	const char *text = pmtraceerrstr(*code);
	size_t room = message_length > 0 ? (size_t)message_length : 0, length = strlen(text);

	if (length > room)
		length = room;
	memcpy(message, text, length);
	memset(message + length, ' ', room - length);
}
