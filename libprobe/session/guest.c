/* SPDX-License-Identifier: MIT */
/*
 * Runs a loaded tracer in a child: reads messages, calls the tracer, and answers. The child has no
 * memory or descriptors of the controller or the program, and so cannot hurt them. The tracer is
 * not in a sandbox, because it is the user's own code.
 *
 * The controller handles the terminal's signals, so a tracer can report its results. The child dies
 * with the controller.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/event.h"
#include "libprobe/base/procfs.h"
#include "libprobe/session/session.h"

/* ==== Wire ==================================================================================== */

void wire_put(struct buffer *out, enum wire_type type)
{
	struct wire_header header = {type, sizeof(header)};

	buffer_bytes(out, &header, sizeof(header));
}

void wire_put_look(struct buffer *out, pid_t pid)
{
	struct wire_tracee look = {.header = {WIRE_LOOK, sizeof(look)}, .pid = pid};

	buffer_bytes(out, &look, sizeof(look));
}

bool wire_put_hit(struct buffer *out, enum probe_tracer_tag tag, size_t rule,
	const struct probe_value *label, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm)
{
	struct probe_event event = probe_event_of_hit(hit, probe, comm);
	struct probe_value args[PROBE_ARGS_MAX + 1];
	bool has_label = label && event.arg_count <= PROBE_ARGS_MAX;
	struct wire_hit *wire;
	size_t length;

	if (has_label) {
		for (size_t i = 0; i < event.arg_count; i++)
			args[i] = event.args[i];
		args[event.arg_count++] = *label;
		event.args = args;
	}
	length = sizeof(struct wire_hit) + event_packed_size(&event);
	/* Append a whole message, or none. */
	wire = length > WIRE_MESSAGE_MAX ? NULL : (void *)buffer_reserve(out, length);
	if (!wire)
		return false;
	*wire = (struct wire_hit){{WIRE_HIT, (uint32_t)length}, tag, probe->pair, (uint32_t)rule,
		has_label, hit->filter};
	event_pack(&event, wire + 1);
	out->length += length;
	return true;
}

static bool is_number(const struct probe_value *value)
{
	return value->kind == PROBE_VALUE_SIGNED || value->kind == PROBE_VALUE_UNSIGNED ||
	       value->kind == PROBE_VALUE_FLOAT;
}

bool wire_get_hit(char *message, size_t length, struct wire_got *ret)
{
	const struct wire_hit *wire = (const struct wire_hit *)(void *)message;
	const struct probe_event *event;

	if (length < sizeof(*wire) || wire->tag >= PROBE_TAG_STATUS)
		return false;
	event = event_unpack(message + sizeof(*wire), length - sizeof(*wire));
	if (!event || !event->provider || !event->name)
		return false;
	*ret = (struct wire_got){
		.tag = wire->tag,
		.tracee = {event->pid, event->tid},
		.term = {.provider = event->provider,
			.name = event->name,
			.pc = event->pc,
			.args = event->args,
			.arg_count = event->arg_count},
		.options = {.time_ns = event->time_ns, .cpu = event->cpu, .comm = event->comm},
		.pair = wire->pair,
		.rule = wire->rule,
		.filter = wire->filter,
	};
	if (wire->has_label && ret->term.arg_count)
		ret->options.label = &ret->term.args[--ret->term.arg_count];
	if (is_number(&ret->filter))
		ret->options.filter_result = &ret->filter;
	/* The first number is the extra value, except for ends (note_pair()). */
	if (ret->tag == PROBE_TAG_OBSERVE || ret->tag == PROBE_TAG_COUNT)
		for (size_t i = 0; i < ret->term.arg_count && !ret->options.extra; i++)
			if (is_number(&ret->term.args[i]))
				ret->options.extra = &ret->term.args[i];
	return true;
}

/* ==== Open pairs ============================================================================== */

static uint32_t hash(pid_t pid, pid_t tid, uint32_t pair)
{
	return ((uint32_t)pid * 31 + (uint32_t)tid + pair * 2654435761u) % OPEN_PAIRS_PLACES;
}

static struct open_pair *find(struct open_pairs *pairs, pid_t pid, pid_t tid, uint32_t pair)
{
	uint32_t first = hash(pid, tid, pair);

	for (uint32_t i = 0; i < OPEN_PAIRS_TRIES; i++) {
		struct open_pair *place = &pairs->places[(first + i) % OPEN_PAIRS_PLACES];

		if (place->depth && place->pid == pid && place->tid == tid && place->pair == pair)
			return place;
	}
	return NULL;
}

void open_pairs_push(
	struct open_pairs *pairs, pid_t pid, pid_t tid, uint32_t pair, uint64_t time_ns)
{
	uint32_t first = hash(pid, tid, pair);
	struct open_pair *place = find(pairs, pid, tid, pair);

	if (!place) {
		/* Take a free place, or that of the oldest start event. */
		place = &pairs->places[first];
		for (uint32_t i = 0; i < OPEN_PAIRS_TRIES && place->depth; i++) {
			struct open_pair *other = &pairs->places[(first + i) % OPEN_PAIRS_PLACES];

			if (!other->depth || other->times_ns[0] < place->times_ns[0])
				place = other;
		}
		*place = (struct open_pair){.pid = pid, .tid = tid, .pair = pair};
	}
	if (place->depth < OPEN_PAIRS_DEPTH)
		place->times_ns[place->depth] = time_ns;
	if (place->depth < UINT32_MAX)
		place->depth++;
}

bool open_pairs_pop(
	struct open_pairs *pairs, pid_t pid, pid_t tid, uint32_t pair, uint64_t *time_ns_ret)
{
	struct open_pair *place = find(pairs, pid, tid, pair);

	if (!place || --place->depth >= OPEN_PAIRS_DEPTH)
		return false;
	*time_ns_ret = place->times_ns[place->depth];
	return true;
}

/* ==== Tags ==================================================================================== */

static const char *const tag_names[] = {[PROBE_TAG_POINT] = "point",
	[PROBE_TAG_BEGIN] = "begin",
	[PROBE_TAG_END] = "end",
	[PROBE_TAG_OBSERVE] = "observe",
	[PROBE_TAG_COUNT] = "count",
	[PROBE_TAG_STATUS] = "status"};

struct probe_error *tags_add(struct tags *tags, const char *text)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	size_t length = strcspn(text, "@");
	struct tag_rule rule = {.tag = PROBE_TAG_NAMED};
	struct probe_error *error = NULL;

	rule.name = strndup(text, length);
	if (!rule.name || !ARRAY_ROOM(tags->rules, tags->count)) {
		free(rule.name);
		return probe_error_no_memory();
	}
	for (size_t i = 0; i < sizeof(tag_names) / sizeof(tag_names[0]); i++)
		if (tag_names[i] && !strcmp(tag_names[i], rule.name))
			rule.tag = (enum probe_tracer_tag)i;
	if (!length || strspn(text, letters) != length || rule.tag == PROBE_TAG_BEGIN ||
		rule.tag == PROBE_TAG_END || rule.tag == PROBE_TAG_STATUS)
		error = probe_error_new(PROBE_ERROR_USAGE,
			"tag=%s: a tag is point, observe, count or a name of your own, of letters, "
			"digits, '_' and '-', and not begin, end or status",
			text);
	else if (text[length])
		error = probe_error_prefix(
			probe_pattern_parse(text + length + 1, &rule.pattern), "tag=%s", text);
	if (error)
		free(rule.name);
	else
		tags->rules[tags->count++] = rule;
	return error;
}

const struct tag_rule *tags_find(struct tags *tags, const struct probe_session_probe *probe)
{
	for (size_t i = tags->count; i-- > 0;) {
		const struct probe_pattern *pattern = tags->rules[i].pattern;

		if (pattern && !probe_pattern_matches(pattern, probe->path ? probe->path : "",
				       probe->provider, probe->name))
			continue;
		tags->rules[i].applied = true;
		return &tags->rules[i];
	}
	return NULL;
}

const char *tags_idle(const struct tags *tags)
{
	for (size_t i = 0; i < tags->count; i++)
		if (tags->rules[i].pattern && !tags->rules[i].applied)
			return probe_pattern_text(tags->rules[i].pattern);
	return NULL;
}

void tags_deinit(struct tags *tags)
{
	for (size_t i = 0; i < tags->count; i++) {
		probe_pattern_free(tags->rules[i].pattern);
		free(tags->rules[i].name);
	}
	free(tags->rules);
	*tags = (struct tags){0};
}

/* ==== Guest =================================================================================== */

/*
 * A process that the tracer was asked about, or a process, thread or probe from which it was
 * removed.
 */
struct noted {
	uint64_t started;    /* start of the process or thread, in clock ticks; 0 if it had ended */
	uint64_t checked_ns; /* time of the last look at it */
	bool is_removed;
};

/* The bytes of a WIRE_REMOVE between header and names. */
enum {
	REMOVAL_BYTES = sizeof(struct wire_tracee) - sizeof(struct wire_header),
	CHECK_NS = 100000000,
	NOTED_MAX = 65536 /* above this number, those that have ended are forgotten */
};

struct guest {
	const struct probe_tracer_ops *ops;
	void *state;
	int input, replies;
	const struct tags *tags;
	/* struct noted; a key is a pid, a tid or 0, and a probe's provider and name or "" */
	struct map noted;
	size_t noted_max;
	bool off;	  /* the tracer was removed from everything */
	bool has_removed; /* the tracer was removed from some thread or probe */
	struct open_pairs pairs;
};

/* ---- Answers ---------------------------------------------------------------------- */

/* Sends a reply. If that fails, the controller is gone: exits. */
static void reply(const struct guest *guest, enum wire_type type, const void *text, size_t length)
{
	char message[1024];
	struct wire_header header = {type, (uint32_t)(sizeof(header) + length)};

	if (length > sizeof(message) - sizeof(header))
		header.length = sizeof(message);
	memcpy(message, &header, sizeof(header));
	memcpy(message + sizeof(header), text, header.length - sizeof(header));
	if (write(guest->replies, message, header.length) != (ssize_t)header.length)
		_exit(EXIT_FAILURE);
}

static __attribute__((noreturn)) void refuse(
	const struct guest *guest, const char *format, const char *detail)
{
	char text[900];
	int length = snprintf(text, sizeof(text), format, detail);

	reply(guest, WIRE_ERROR, text,
		length < (int)sizeof(text) ? (size_t)length : sizeof(text) - 1);
	fflush(NULL);
	_exit(EXIT_FAILURE);
}

/* ---- Operations ------------------------------------------------------------------- */

static const struct probe_tracer_term no_probe = {.provider = "", .name = "", .tag = "status"};

static enum probe_tracer_verdict check(
	const struct guest *guest, enum probe_tracer_verdict verdict, const char *operation)
{
	if ((unsigned int)verdict > PROBE_TRACER_REMOVE_PROBE)
		refuse(guest, "its operation '%s' returned no verdict of probe/tracer.h",
			operation);
	return verdict;
}

static enum probe_tracer_verdict ask_enabled(const struct guest *guest, enum probe_tracer_tag tag,
	const struct probe_tracee *tracee, const struct probe_tracer_term *term)
{
	const struct probe_tracer_ops *ops = guest->ops;
	struct probe_tracer_term bare = *term;

	bare.args = NULL;
	bare.arg_count = 0;
	return check(guest,
		(ops->enabled_tag[tag] ? ops->enabled_tag[tag] : ops->enabled)(
			tag, guest->state, tracee, &bare),
		"enabled");
}

/* Calls `enabled` and, if that wants it, `trace`. */
static enum probe_tracer_verdict ask_both(const struct guest *guest, const struct wire_got *hit)
{
	const struct probe_tracer_ops *ops = guest->ops;
	enum probe_tracer_tag tag = hit->tag;
	enum probe_tracer_verdict verdict = ask_enabled(guest, tag, &hit->tracee, &hit->term);

	if (verdict != PROBE_TRACER_TRACE)
		return verdict;
	return check(guest,
		(ops->trace_tag[tag] ? ops->trace_tag[tag] : ops->trace)(
			tag, guest->state, &hit->tracee, &hit->term, &hit->options),
		"trace");
}

/* ---- Tracees ---------------------------------------------------------------------- */

static uint64_t start_of(pid_t pid, pid_t tid)
{
	return tid ? procfs_start_time_of(procfs_path("/proc/%d/task/%d/stat", pid, tid).text)
		   : procfs_start_time(pid);
}

#define NOTED_KEY(pid, tid, term)                                                                  \
	MAP_KEY(MAP_OBJECT(pid), MAP_OBJECT(tid), map_text((term)->provider),                      \
		map_text((term)->name))

/*
 * Finds what is noted of a process, a thread or a probe, or returns NULL. Forgets it if the id is
 * that of another process or thread by now; hits may come from one that has ended.
 */
static struct noted *find_noted(struct guest *guest, pid_t pid, pid_t tid,
	const struct probe_tracer_term *term, uint64_t now_ns)
{
	struct noted *noted = map_find(&guest->noted, NOTED_KEY(pid, tid, term));
	uint64_t started;

	if (!noted || now_ns < noted->checked_ns + CHECK_NS)
		return noted;
	noted->checked_ns = now_ns;
	started = start_of(pid, tid);
	if (!started || started == noted->started)
		return noted;
	map_remove(&guest->noted, noted);
	return NULL;
}

static void forget_ended(struct guest *guest)
{
	struct noted *noted;
	pid_t ids[2];

	for (size_t i = 0; (noted = map_next(&guest->noted, &i));) {
		memcpy(ids, map_key(noted), sizeof(ids));
		if (!start_of(ids[0], ids[1]))
			map_remove(&guest->noted, noted);
	}
	guest->noted_max = 2 * guest->noted.count + NOTED_MAX;
}

static struct noted *note(
	struct guest *guest, pid_t pid, pid_t tid, const struct probe_tracer_term *term)
{
	struct noted *noted;

	if (guest->noted.count > guest->noted_max)
		forget_ended(guest);
	noted = map_add(&guest->noted, sizeof(*noted), NOTED_KEY(pid, tid, term));
	if (!noted)
		_exit(EXIT_FAILURE);
	noted->started = start_of(pid, tid);
	return noted;
}

/* Reports a removal. If the names are too long for a reply, the probe's hits are dropped here. */
static void send_removal(const struct guest *guest, pid_t pid, const char *names, size_t length)
{
	struct wire_tracee tracee = {.pid = pid};
	char text[900];

	memcpy(text, (char *)&tracee + sizeof(tracee.header), REMOVAL_BYTES);
	if (length > sizeof(text) - REMOVAL_BYTES)
		return;
	memcpy(text + REMOVAL_BYTES, names, length);
	reply(guest, WIRE_REMOVE, text, REMOVAL_BYTES + length);
}

/* Removes the tracer from the probe `term` in a process. */
static void remove_probe(struct guest *guest, pid_t pid, const struct probe_tracer_term *term)
{
	char names[900];
	int length = snprintf(names, sizeof(names), "%s%c%s", term->provider, 0, term->name) + 1;

	note(guest, pid, 0, term)->is_removed = guest->has_removed = true;
	send_removal(guest, pid, names, (size_t)length);
}

/* Asks whether the tracer wants the hits of a process. Without them, says so to the controller. */
static struct noted *ask_process(struct guest *guest, pid_t pid)
{
	const struct probe_tracee process = {.pid = pid};
	struct noted *noted = note(guest, pid, 0, &no_probe);

	if (!noted->is_removed)
		noted->is_removed = ask_enabled(guest, PROBE_TAG_STATUS, &process, &no_probe) >=
				    PROBE_TRACER_REMOVE;
	if (noted->is_removed)
		send_removal(guest, pid, "", 0);
	return noted;
}

static void remove_all(struct guest *guest)
{
	if (!guest->off)
		send_removal(guest, 0, "", 0);
	guest->off = true;
}

/* Passes a pair's duration to its end event as the extra value. */
static void note_pair(struct guest *guest, struct wire_got *got)
{
	pid_t pid = got->tracee.pid, tid = got->tracee.tid;
	uint64_t begun_ns;

	if (got->tag == PROBE_TAG_BEGIN)
		open_pairs_push(&guest->pairs, pid, tid, got->pair, got->options.time_ns);
	if (got->tag != PROBE_TAG_END ||
		!open_pairs_pop(&guest->pairs, pid, tid, got->pair, &begun_ns) ||
		begun_ns > got->options.time_ns)
		return;
	got->extra = (struct probe_value){
		.kind = PROBE_VALUE_UNSIGNED, .u = got->options.time_ns - begun_ns};
	got->options.extra = &got->extra;
}

static bool is_removed(struct guest *guest, const struct wire_got *got)
{
	const struct probe_tracee *tracee = &got->tracee;
	uint64_t now_ns = got->options.time_ns;
	const struct noted *noted = find_noted(guest, tracee->pid, 0, &no_probe, now_ns);

	/* The process was forked, and has the probes of its parent. */
	if (!noted)
		noted = ask_process(guest, tracee->pid);
	if (noted->is_removed || !guest->has_removed)
		return noted->is_removed;
	return find_noted(guest, tracee->pid, tracee->tid, &no_probe, now_ns) ||
	       find_noted(guest, tracee->pid, 0, &got->term, now_ns);
}

static void take_hit(struct guest *guest, char *message, size_t length)
{
	struct wire_got got;

	if (guest->off || !wire_get_hit(message, length, &got) || got.rule > guest->tags->count ||
		is_removed(guest, &got))
		return;
	got.term.tag = got.rule ? guest->tags->rules[got.rule - 1].name : tag_names[got.tag];
	note_pair(guest, &got);
	switch (ask_both(guest, &got)) {
	case PROBE_TRACER_REMOVE:
		note(guest, got.tracee.pid, got.tracee.tid, &no_probe)->is_removed = true;
		guest->has_removed = true;
		break;
	case PROBE_TRACER_REMOVE_PROBE:
		remove_probe(guest, got.tracee.pid, &got.term);
		break;
	default:
		break;
	}
}

/* Asks whether the tracer stays, and lets it print. */
static void take_look(struct guest *guest)
{
	const struct wire_got got = {.tag = PROBE_TAG_STATUS, .term = no_probe};

	if (ask_both(guest, &got) >= PROBE_TRACER_REMOVE)
		remove_all(guest);
	fflush(NULL);
}

/* ---- Loading ---------------------------------------------------------------------- */

static const struct probe_tracer_ops *load(const char *path, const struct guest *guest)
{
	const struct probe_tracer_ops *ops;
	void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	char number[16];

	if (!object)
		refuse(guest, "cannot load it: %s", dlerror());
	ops = dlsym(object, "probe_tracer");
	if (!ops) {
		refuse(guest, "it defines no 'probe_tracer' (struct probe_tracer_ops)%s", "");
	} else if (ops->abi != PROBE_TRACER_ABI || ops->size < sizeof(*ops)) {
		snprintf(number, sizeof(number), "%u", (unsigned int)ops->abi);
		refuse(guest, "it was built for version %s of probe/tracer.h: build it again",
			number);
	} else if (!ops->enabled || !ops->trace) {
		refuse(guest, "it lacks the operation '%s', which every tracer must have",
			ops->enabled ? "trace" : "enabled");
	}
	return ops;
}

/* Sends the filters that the tracer declares. */
static void declare_filters(const struct guest *guest)
{
	const struct tags *tags = guest->tags;
	const size_t count = guest->ops->filter ? TAGS_FILTERS + tags->count : 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct tag_rule *rule =
			i < TAGS_FILTERS ? NULL : &tags->rules[i - TAGS_FILTERS];
		enum probe_tracer_tag tag = rule ? rule->tag : (enum probe_tracer_tag)i;
		const char *name = rule ? rule->name : tag_names[tag], *filter;
		char message[1000];
		size_t length;

		filter = guest->ops->filter(tag, name, guest->state);
		if (!filter)
			continue;
		length = strlen(filter);
		if (length >= sizeof(message) - sizeof(i))
			refuse(guest, "its filter of the tag %s is too long", name);
		memcpy(message, &i, sizeof(i));
		memcpy(message + sizeof(i), filter, length);
		reply(guest, WIRE_FILTER, message, sizeof(i) + length);
	}
}

/* ---- Serving ---------------------------------------------------------------------- */

static _Noreturn void end(struct guest *guest, bool is_orderly)
{
	if (is_orderly)
		take_look(guest);
	if (guest->ops->destroy)
		guest->ops->destroy(guest->state);
	fflush(NULL);
	if (is_orderly)
		reply(guest, WIRE_DONE, "", 0);
	_exit(EXIT_SUCCESS);
}

static void take(struct guest *guest, char *message, const struct wire_header *header)
{
	struct wire_tracee tracee = {0};

	switch ((enum wire_type)header->type) {
	case WIRE_HIT:
		take_hit(guest, message, header->length);
		break;
	case WIRE_LOOK:
		if (header->length != sizeof(tracee))
			_exit(EXIT_FAILURE);
		memcpy(&tracee, message, sizeof(tracee));
		if (!tracee.pid)
			take_look(guest);
		/* Find out whether the tracer wants a process's hits, now or later. */
		else if (!guest->off) {
			/* Another process may have the id by now. */
			find_noted(guest, tracee.pid, 0, &no_probe, UINT64_MAX);
			ask_process(guest, tracee.pid);
		}
		reply(guest, WIRE_PONG, "", 0);
		break;
	case WIRE_PING:
		reply(guest, WIRE_PONG, "", 0);
		break;
	case WIRE_END:
		end(guest, true);
	default:
		_exit(EXIT_FAILURE);
	}
}

/* Processes a block's complete messages. Returns their bytes. */
static size_t take_all(struct guest *guest, char *block, size_t length)
{
	struct wire_header header;
	size_t at = 0;

	while (length - at >= sizeof(header)) {
		memcpy(&header, block + at, sizeof(header));
		if (header.length < sizeof(header) || header.length > WIRE_MESSAGE_MAX)
			_exit(EXIT_FAILURE);
		if (length - at < header.length)
			break;
		take(guest, block + at, &header);
		at += header.length;
	}
	return at;
}

static _Noreturn void serve(struct guest *guest)
{
	char *block = malloc(2 * WIRE_MESSAGE_MAX);
	size_t length = 0, taken;
	ssize_t got;

	if (!block)
		_exit(EXIT_FAILURE);
	for (;;) {
		/* Flush output when no message waits. */
		if (poll(&(struct pollfd){.fd = guest->input, .events = POLLIN}, 1, 0) == 0)
			fflush(NULL);
		got = read(guest->input, block + length, 2 * WIRE_MESSAGE_MAX - length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			end(guest, false);
		length += (size_t)got;
		taken = take_all(guest, block, length);
		memmove(block, block + taken, length - taken);
		length -= taken;
	}
}

/* Moves the descriptors to their places, and closes all others. */
static void take_descriptors(struct guest *guest, int output)
{
	enum { INPUT = 3, REPLIES = 4, FIRST_FREE = 5 };
	int input = fcntl(guest->input, F_DUPFD, FIRST_FREE + 1);
	int replies = fcntl(guest->replies, F_DUPFD, FIRST_FREE + 1);

	if (input < 0 || replies < 0 || dup2(output, STDOUT_FILENO) < 0 || dup2(input, INPUT) < 0 ||
		dup2(replies, REPLIES) < 0)
		_exit(EXIT_FAILURE);
	guest->input = INPUT;
	guest->replies = REPLIES;
	/* close_range(2) came with Linux 5.9. */
	if (syscall(SYS_close_range, FIRST_FREE, ~0u, 0) < 0)
		for (int fd = FIRST_FREE; fd < 1024; fd++)
			close(fd);
	fcntl(INPUT, F_SETFD, FD_CLOEXEC);
	fcntl(REPLIES, F_SETFD, FD_CLOEXEC);
}

_Noreturn void guest_run(const char *path, const char *options, const struct tags *tags, int input,
	int replies, int output)
{
	static const int ignored[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGUSR1};
	struct guest *guest = calloc(1, sizeof(*guest));
	const struct probe_tracer_ops *ops;
	const char *why;
	sigset_t none;

	if (!guest)
		_exit(EXIT_FAILURE);
	*guest = (struct guest){
		.input = input, .replies = replies, .tags = tags, .noted_max = NOTED_MAX};
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	take_descriptors(guest, output);
	guest->ops = ops = load(path, guest);
	why = ops->create ? ops->create(options, &guest->state) : NULL;
	if (why)
		refuse(guest, "%s", why);
	if (ask_enabled(guest, PROBE_TAG_STATUS, &(struct probe_tracee){0}, &no_probe) >=
		PROBE_TRACER_REMOVE)
		remove_all(guest);
	declare_filters(guest);
	fflush(NULL);
	reply(guest, WIRE_READY, "", 0);
	serve(guest);
}
