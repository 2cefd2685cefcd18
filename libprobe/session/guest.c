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

bool wire_put_hit(struct buffer *out, enum probe_tracer_tag tag, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm)
{
	const struct probe_event event = probe_event_of_hit(hit, probe, comm);
	size_t length = sizeof(struct wire_hit) + event_packed_size(&event);
	struct wire_hit *wire;

	/* Append a whole message, or none. */
	wire = length > WIRE_MESSAGE_MAX ? NULL : (void *)buffer_reserve(out, length);
	if (!wire)
		return false;
	*wire = (struct wire_hit){{WIRE_HIT, (uint32_t)length}, tag, probe->pair, hit->filter};
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
		.filter = wire->filter,
	};
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

struct probe_error *tags_add(struct tags *tags, const char *text)
{
	static const struct {
		const char *name;
		enum probe_tracer_tag tag;
	} known[] = {{"point", PROBE_TAG_POINT}, {"observe", PROBE_TAG_OBSERVE},
		{"count", PROBE_TAG_COUNT}};
	size_t length = strcspn(text, "@"), i = 0;
	struct tag_rule rule = {0};
	struct probe_error *error = NULL;

	while (i < sizeof(known) / sizeof(known[0]) &&
		(strlen(known[i].name) != length || memcmp(known[i].name, text, length) != 0))
		i++;
	if (i == sizeof(known) / sizeof(known[0]))
		return probe_error_new(PROBE_ERROR_USAGE,
			"there is no tag '%.*s'; there are point, observe, count", (int)length,
			text);
	rule.tag = known[i].tag;
	if (!ARRAY_ROOM(tags->rules, tags->count))
		return probe_error_no_memory();
	if (text[length])
		error = probe_error_prefix(
			probe_pattern_parse(text + length + 1, &rule.pattern), "tag=%s", text);
	if (!error)
		tags->rules[tags->count++] = rule;
	return error;
}

enum probe_tracer_tag tags_find(struct tags *tags, const struct probe_session_probe *probe)
{
	for (size_t i = tags->count; i-- > 0;) {
		const struct probe_pattern *pattern = tags->rules[i].pattern;

		if (pattern && !probe_pattern_matches(pattern, probe->path ? probe->path : "",
				       probe->provider, probe->name))
			continue;
		tags->rules[i].applied = true;
		return tags->rules[i].tag;
	}
	return PROBE_TAG_POINT;
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
	for (size_t i = 0; i < tags->count; i++)
		probe_pattern_free(tags->rules[i].pattern);
	free(tags->rules);
	*tags = (struct tags){0};
}

/* ==== Guest =================================================================================== */

/* The removal of a tracer from one probe, or from all probes, of a process. */
struct removed {
	struct removed *next;
	pid_t pid;
	size_t length; /* bytes of the names; 0 for all probes */
	char names[];  /* provider, NUL, name, NUL */
};

/* The bytes of a WIRE_REMOVE between header and names. */
enum { REMOVAL_BYTES = sizeof(struct wire_tracee) - sizeof(struct wire_header) };

struct guest {
	const struct probe_tracer_ops *ops;
	void *state;
	int input, replies;
	struct removed *removed;
	bool off; /* the tracer was removed from everything */
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

/* Calls an operation of the tracer for a tag: `enabled` without a hit, else `trace`. */
static enum probe_tracer_verdict ask(const struct guest *guest, enum probe_tracer_tag tag,
	const struct probe_tracee *tracee, const struct wire_got *hit)
{
	const struct probe_tracer_ops *ops = guest->ops;
	enum probe_tracer_verdict verdict =
		hit ? (ops->trace_tag[tag] ? ops->trace_tag[tag] : ops->trace)(
			      tag, guest->state, tracee, &hit->term, &hit->options)
		    : (ops->enabled_tag[tag] ? ops->enabled_tag[tag] : ops->enabled)(
			      tag, guest->state, tracee);

	if ((unsigned int)verdict > PROBE_TRACER_REMOVE)
		refuse(guest, "its operation '%s' returned no verdict of probe/tracer.h",
			hit ? "trace" : "enabled");
	return verdict;
}

/* Was the tracer removed from the process, or from the probe `term` (may be NULL) in it? */
static bool is_removed(const struct guest *guest, pid_t pid, const struct probe_tracer_term *term)
{
	for (const struct removed *it = guest->removed; it; it = it->next) {
		if (it->pid != pid)
			continue;
		if (!it->length)
			return true;
		if (term && !strcmp(it->names, term->provider) &&
			!strcmp(it->names + strlen(it->names) + 1, term->name))
			return true;
	}
	return false;
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

/* Removes the tracer from the probe `term` in a process; NULL means all probes. */
static void remove_from(struct guest *guest, pid_t pid, const struct probe_tracer_term *term)
{
	size_t provider = term ? strlen(term->provider) + 1 : 0;
	size_t name = term ? strlen(term->name) + 1 : 0;
	struct removed *removed = malloc(sizeof(*removed) + provider + name);

	if (!removed)
		_exit(EXIT_FAILURE);
	*removed = (struct removed){guest->removed, pid, provider + name};
	if (term) {
		memcpy(removed->names, term->provider, provider);
		memcpy(removed->names + provider, term->name, name);
	}
	guest->removed = removed;
	send_removal(guest, pid, removed->names, removed->length);
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

static void take_hit(struct guest *guest, char *message, size_t length)
{
	struct wire_got got;
	enum probe_tracer_verdict verdict;

	if (guest->off || !wire_get_hit(message, length, &got) ||
		is_removed(guest, got.tracee.pid, &got.term))
		return;
	note_pair(guest, &got);
	verdict = ask(guest, got.tag, &got.tracee, NULL);
	if (verdict == PROBE_TRACER_TRACE)
		verdict = ask(guest, got.tag, &got.tracee, &got);
	if (verdict == PROBE_TRACER_REMOVE)
		remove_from(guest, got.tracee.pid, &got.term);
}

/* Asks whether the tracer stays, and lets it print. */
static void take_look(struct guest *guest)
{
	struct wire_got got = {.tag = PROBE_TAG_STATUS, .term = {.provider = "", .name = ""}};
	enum probe_tracer_verdict verdict = ask(guest, PROBE_TAG_STATUS, &got.tracee, NULL);

	if (verdict == PROBE_TRACER_TRACE)
		verdict = ask(guest, PROBE_TAG_STATUS, &got.tracee, &got);
	if (verdict == PROBE_TRACER_REMOVE)
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
		else if (!guest->off && !is_removed(guest, tracee.pid, NULL) &&
			 ask(guest, PROBE_TAG_STATUS, &(struct probe_tracee){.pid = tracee.pid},
				 NULL) == PROBE_TRACER_REMOVE)
			remove_from(guest, tracee.pid, NULL);
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

_Noreturn void guest_run(const char *path, const char *options, int input, int replies, int output)
{
	static const int ignored[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGUSR1};
	struct guest *guest = calloc(1, sizeof(*guest));
	const struct probe_tracer_ops *ops;
	const char *why;
	sigset_t none;

	if (!guest)
		_exit(EXIT_FAILURE);
	*guest = (struct guest){.input = input, .replies = replies};
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
	if (ask(guest, PROBE_TAG_STATUS, &(struct probe_tracee){0}, NULL) == PROBE_TRACER_REMOVE)
		remove_all(guest);
	fflush(NULL);
	reply(guest, WIRE_READY, "", 0);
	serve(guest);
}
