/* SPDX-License-Identifier: MIT */
/*
 * The controller's side of a loaded tracer.
 *
 *	controller                                  tracer's process (guest.c)
 *	rings -> hits -> sink -- pipe: messages --> enabled, trace ...
 *	         removed probes <-- pipe: replies --
 *
 * The controller waits for the tracer only at the start and at the end, and only for a bounded
 * time. If the tracer is too slow, hits stay in the rings. When the rings are full, further hits
 * are counted as lost. The controller pings the tracer once a second, and kills a tracer that does
 * not answer for long.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/worker.h"
#include "libprobe/output/output.h"
#include "libprobe/session/session.h"

enum { NSEC_PER_SEC = 1000000000, NSEC_PER_MSEC = 1000000, PIPE_BYTES = 1 << 20, TIMEOUT_S = 10 };

struct probe_tracer_host {
	char *path, *options;
	struct tags tags; /* tags that are sent with hits that belong to no pair */
	int label_arg;	  /* number of the argument that is the label, or -1 */
	struct probe_filter_rule *filters;
	size_t filter_count;
	uint64_t timeout_ns; /* time after which a silent tracer is killed; 0 means never */
	pid_t pid;
	int input, replies, output;
	struct probe_sink *sink;
	bool ready, done, off;
	unsigned int unanswered;
	uint64_t asked_ns; /* when the first unanswered ping was sent */
	struct patience
		patience; /* limit of the wait for an answer; timeout_ns is checked separately */
	uint64_t heard_ns;
	char reply[1024];
	size_t reply_length;
};

/* ---- Options ---------------------------------------------------------------------- */

/* Takes tag=, label= and timeout= out of the user's text; the rest is for the tracer. */
static struct probe_error *host_options(struct probe_tracer_host *host, const char *text)
{
	AUTO_FREE char *copy = strdup(text);
	char *rest = copy, *word;
	struct probe_error *error = NULL;

	host->options = calloc(1, strlen(text) + 1);
	if (!copy || !host->options)
		error = probe_error_no_memory();
	while (!error && *text && (word = strsep(&rest, ","))) {
		if (!strncmp(word, "tag=", 4)) {
			error = probe_error_prefix(
				tags_add(&host->tags, word + 4), "tracer %s", host->path);
		} else if (!strncmp(word, "label=", 6)) {
			if (sscanf(word, "label=arg%2d%c", &host->label_arg, &(char){0}) != 1 ||
				host->label_arg < 0 || host->label_arg >= PROBE_ARGS_MAX)
				error = probe_error_new(PROBE_ERROR_USAGE,
					"tracer %s: '%s' is no argument (label=arg0)", host->path,
					word + 6);
		} else if (!strncmp(word, "timeout=", 8)) {
			char *end;
			unsigned long seconds = strtoul(word + 8, &end, 10);

			if (end == word + 8 || *end || seconds > 86400)
				error = probe_error_new(PROBE_ERROR_USAGE,
					"tracer %s: '%s' is not a number of seconds (timeout=10; "
					"0: for ever)",
					host->path, word + 8);
			host->timeout_ns = seconds * (uint64_t)NSEC_PER_SEC;
		} else {
			if (*host->options)
				strcat(host->options, ",");
			strcat(host->options, word);
		}
	}
	return error;
}

/* ---- The end of the process ------------------------------------------------------- */

/* Waits for the end of a tracer that has closed its replies, and kills it if it does not end. */
static struct probe_error *reap(struct probe_tracer_host *host, uint64_t patience_ns)
{
	int status = 0;
	bool got = worker_end_child(host->pid, patience_ns, &status);

	host->pid = 0;
	if (host->done)
		return NULL;
	if (got && WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE)
		return probe_error_system(EPIPE, "tracer %s", host->path);
	if (got && WIFSIGNALED(status))
		return probe_error_new(PROBE_ERROR_STATE, "tracer %s was ended by signal %d (%s)",
			host->path, WTERMSIG(status), strsignal(WTERMSIG(status)));
	return probe_error_new(PROBE_ERROR_STATE, "tracer %s ended by itself, with status %d",
		host->path, got ? WEXITSTATUS(status) : 0);
}

static struct probe_error *give_up(struct probe_tracer_host *host, bool interrupted)
{
	host->done = true; /* set, so that nothing more is sent */
	probe_error_free(reap(host, 0));
	if (interrupted)
		return probe_error_new(PROBE_ERROR_STATE,
			"tracer %s had not answered when a signal came, and was ended", host->path);
	return probe_error_new(PROBE_ERROR_STATE,
		"tracer %s did not answer for %llu s, and was ended (its option timeout=SECONDS "
		"allows more; 0: for ever)",
		host->path, (unsigned long long)(host->timeout_ns / NSEC_PER_SEC));
}

/* ---- Replies ---------------------------------------------------------------------- */

/* removed() is called for each probe that the tracer has left. May be NULL. */
struct listener {
	void (*removed)(pid_t pid, const char *provider, const char *name, void *data);
	void *data;
};

static struct probe_error *damaged(const struct probe_tracer_host *host)
{
	return probe_error_new(PROBE_ERROR_FORMAT, "tracer %s damaged its replies", host->path);
}

static struct probe_error *take_removal(struct probe_tracer_host *host,
	const struct wire_header *header, const char *text, const struct listener *listener)
{
	enum { AT = sizeof(struct wire_tracee) - sizeof(struct wire_header) };
	size_t length = header->length - sizeof(*header), provider;
	int32_t pid;

	if (length < AT)
		return damaged(host);
	memcpy(&pid, text, sizeof(pid));
	text += AT;
	length -= AT;
	provider = strnlen(text, length);
	if (!pid)
		host->off = true;
	else if (listener->removed && !length)
		listener->removed(pid, NULL, NULL, listener->data);
	else if (listener->removed && provider + 1 < length && !text[length - 1])
		listener->removed(pid, text, text + provider + 1, listener->data);
	return NULL;
}

/* Makes a rule for each role, and for each tag= of the user. They have no filter yet. */
static bool make_filters(struct probe_tracer_host *host)
{
	size_t count = TAGS_FILTERS + host->tags.count;

	host->filters = calloc(count, sizeof(*host->filters));
	if (!host->filters)
		return false;
	host->filter_count = count;
	for (size_t i = 0; i < count; i++) {
		if (i < TAGS_FILTERS)
			host->filters[i].role = (enum probe_role)i;
		else
			host->filters[i].pattern = host->tags.rules[i - TAGS_FILTERS].pattern;
	}
	return true;
}

static struct probe_error *take_filter(
	struct probe_tracer_host *host, const char *text, size_t length)
{
	struct probe_error *error = NULL;
	struct expr *expr = NULL;
	uint32_t index;
	char *filter;

	if (length < sizeof(index) || host->ready)
		return damaged(host);
	memcpy(&index, text, sizeof(index));
	if (!host->filters && !make_filters(host))
		return probe_error_no_memory();
	if (index >= host->filter_count || host->filters[index].filter)
		return damaged(host);
	host->filters[index].filter = filter =
		strndup(text + sizeof(index), length - sizeof(index));
	if (!filter)
		return probe_error_no_memory();
	/* Names of arguments have a meaning only for a probe. */
	if (!meaning_names_used(filter))
		error = expr_parse("the tracer's filter", filter, &expr);
	expr_free(expr);
	return probe_error_prefix(error, "tracer %s", host->path);
}

static struct probe_error *take_reply(struct probe_tracer_host *host,
	const struct wire_header *header, const char *text, const struct listener *listener)
{
	size_t length = header->length - sizeof(*header);

	switch ((enum wire_type)header->type) {
	case WIRE_READY:
		host->ready = true;
		return NULL;
	case WIRE_FILTER:
		return take_filter(host, text, length);
	case WIRE_ERROR:
		return probe_error_new(
			PROBE_ERROR_STATE, "tracer %s: %.*s", host->path, (int)length, text);
	case WIRE_PONG:
		if (host->unanswered && --host->unanswered)
			host->asked_ns = clock_monotonic_ns();
		return NULL;
	case WIRE_REMOVE:
		return take_removal(host, header, text, listener);
	case WIRE_DONE:
		host->done = true;
		return NULL;
	default:
		return damaged(host);
	}
}

/* Handles all complete replies in the buffer. */
static struct probe_error *take_replies(
	struct probe_tracer_host *host, const struct listener *listener)
{
	struct wire_header header;
	struct probe_error *error = NULL;
	size_t at = 0;

	while (!error && host->reply_length - at >= sizeof(header)) {
		memcpy(&header, host->reply + at, sizeof(header));
		if (header.length < sizeof(header) || header.length > sizeof(host->reply))
			return damaged(host);
		if (host->reply_length - at < header.length)
			break;
		error = take_reply(host, &header, host->reply + at + sizeof(header), listener);
		at += header.length;
	}
	memmove(host->reply, host->reply + at, host->reply_length - at);
	host->reply_length -= at;
	return error;
}

/* Reads and handles replies. *end_ret is true if no more will come. */
static struct probe_error *read_replies(
	struct probe_tracer_host *host, const struct listener *listener, bool *end_ret)
{
	struct probe_error *error = NULL;

	*end_ret = false;
	while (!error) {
		ssize_t got = read(host->replies, host->reply + host->reply_length,
			sizeof(host->reply) - host->reply_length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return NULL;
		if (got <= 0) {
			*end_ret = true;
			return NULL;
		}
		host->heard_ns = clock_monotonic_ns();
		host->reply_length += (size_t)got;
		error = take_replies(host, listener);
	}
	return error;
}

static bool is_late(struct probe_tracer_host *host)
{
	struct pollfd output = {.fd = host->output, .events = POLLOUT};
	uint64_t now = clock_monotonic_ns();

	if (!host->unanswered || !host->timeout_ns || now - host->asked_ns < host->timeout_ns)
		return false;
	/* If nobody reads the tracer's output, its delay is not its fault. */
	if (poll(&output, 1, 0) != 0)
		return true;
	host->asked_ns = now;
	return false;
}

/* ---- Start ------------------------------------------------------------------------ */

/* Returns the buffer for a message that the tracer will answer. */
static struct buffer *host_ask(struct probe_tracer_host *host)
{
	if (!host->unanswered++)
		host->asked_ns = clock_monotonic_ns();
	host->patience = patience_of(UINT64_MAX / 2);
	return &sink_context(host->sink)->out;
}

static struct probe_error *fork_guest(struct probe_tracer_host *host)
{
	int input[2], replies[2] = {-1, -1};

	if (pipe2(input, O_CLOEXEC) < 0)
		return probe_error_system(errno, "cannot start tracer %s", host->path);
	host->input = input[1];
	if (pipe2(replies, O_CLOEXEC) < 0) {
		close(input[0]);
		return probe_error_system(errno, "cannot start tracer %s", host->path);
	}
	host->replies = replies[0];
	fcntl(host->input, F_SETPIPE_SZ, PIPE_BYTES);
	fcntl(host->replies, F_SETFL, O_NONBLOCK);
	fflush(NULL);
	host->pid = fork();
	if (host->pid == 0)
		guest_run(
			host->path, host->options, &host->tags, input[0], replies[1], host->output);
	close(input[0]);
	close(replies[1]);
	if (host->pid < 0) {
		host->pid = 0;
		return probe_error_system(errno, "cannot start tracer %s", host->path);
	}
	return NULL;
}

static struct probe_error *wait_for_replies(
	struct probe_tracer_host *host, const struct listener *listener)
{
	struct pollfd fds[] = {{.fd = host->replies, .events = POLLIN},
		{.fd = probe_sink_pending(host->sink) ? host->input : -1, .events = POLLOUT}};
	struct probe_error *error;
	bool ended, interrupted;

	poll(fds, 2, 100);
	error = read_replies(host, listener, &ended);
	if (!error && ended)
		return reap(host, NSEC_PER_SEC);
	interrupted = patience_is_over(&host->patience);
	if (!error && !host->done && (interrupted || is_late(host)))
		return give_up(host, interrupted);
	return error;
}

struct probe_error *probe_tracer_host_start(
	const struct probe_tracer_spec *spec, int output, struct probe_tracer_host **ret)
{
	struct probe_tracer_host *host = calloc(1, sizeof(*host));
	struct probe_error *error = NULL;

	if (!host)
		return probe_error_no_memory();
	host->input = host->replies = -1;
	host->output = output;
	host->label_arg = -1;
	host->timeout_ns = TIMEOUT_S * (uint64_t)NSEC_PER_SEC;
	/* Without a slash, dlopen(3) would search the system's library folders. */
	if (asprintf(&host->path, "%s%s", strchr(spec->name, '/') ? "" : "./", spec->name) < 0) {
		host->path = NULL;
		error = probe_error_no_memory();
	}
	if (!error)
		error = host_options(host, spec->operand ? spec->operand : "");
	error = error ?: fork_guest(host)
		?: sink_create(&format_silent, host->input, host->path, &host->sink);
	host->unanswered = 1;
	host->asked_ns = clock_monotonic_ns();
	host->patience = patience_of(UINT64_MAX / 2);
	while (!error && !host->ready)
		error = wait_for_replies(host, &(struct listener){0});
	host->unanswered = 0;
	if (error)
		probe_tracer_host_free(host);
	else
		*ret = host;
	return error;
}

/* ---- Use -------------------------------------------------------------------------- */

struct probe_sink *probe_tracer_host_sink(const struct probe_tracer_host *host)
{
	return host->sink;
}

int probe_tracer_host_input(const struct probe_tracer_host *host)
{
	return host->input;
}

int probe_tracer_host_fd(const struct probe_tracer_host *host)
{
	return host->replies;
}

bool probe_tracer_host_off(const struct probe_tracer_host *host)
{
	return host->off;
}

/* Finds the label of a hit; *ids and *room are for a trace id. Returns NULL if it has none. */
static const struct probe_value *label_of(const struct probe_tracer_host *host,
	const struct probe_hit *hit, struct otlp_ids *ids, struct probe_value *room)
{
	const struct probe_event event = {.args = hit->args, .arg_count = hit->arg_count};
	const unsigned int number = (unsigned int)host->label_arg;
	const struct probe_value *text;

	if (host->label_arg >= 0) {
		text = probe_event_arg(&event, number, true);
		return text ? text : probe_event_arg(&event, number, false);
	}
	if (!otlp_find_id(hit, ids))
		return NULL;
	*room = (struct probe_value){
		.kind = PROBE_VALUE_STRING, .bytes = ids->trace, .length = strlen(ids->trace)};
	return room;
}

void probe_tracer_host_hit(struct probe_tracer_host *host, enum probe_tracer_tag tag,
	const struct probe_hit *hit, const struct probe_session_probe *probe, const char *comm)
{
	const struct tag_rule *rule = tag == PROBE_TAG_POINT ? tags_find(&host->tags, probe) : NULL;
	struct otlp_ids ids = {0};
	struct probe_value room;

	wire_put_hit(&sink_context(host->sink)->out, rule ? rule->tag : tag,
		rule ? (size_t)(rule - host->tags.rules) + 1 : 0, label_of(host, hit, &ids, &room),
		hit, probe, comm);
}

const struct probe_filter_rule *probe_tracer_host_filters(
	const struct probe_tracer_host *host, size_t *count_ret)
{
	*count_ret = host->filter_count;
	return host->filters;
}

const char *probe_tracer_host_idle_tag(const struct probe_tracer_host *host)
{
	return tags_idle(&host->tags);
}

void probe_tracer_host_look(struct probe_tracer_host *host, pid_t pid)
{
	if (host->pid && !host->off)
		wire_put_look(host_ask(host), pid);
}

/* Writes pending output. EPIPE is no error: replies or the exit status tell the reason. */
static struct probe_error *flush(struct probe_tracer_host *host)
{
	struct probe_error *error = probe_sink_flush(host->sink);

	if (!error || error->err != EPIPE)
		return error;
	probe_error_free(error);
	return NULL;
}

static void is_removed(pid_t pid, const char *provider, const char *name, void *data)
{
	(void)pid, (void)name;
	*(bool *)data |= !provider;
}

struct probe_error *probe_tracer_host_ask(
	struct probe_tracer_host *host, pid_t pid, bool *wanted_ret)
{
	bool removed = false;
	const struct listener listener = {is_removed, &removed};
	struct probe_error *error = NULL;

	/* Ask again, because unanswered messages may be about other processes. */
	probe_tracer_host_look(host, pid);
	while (!error && host->pid && !host->off && host->unanswered && !removed)
		error = flush(host) ?: wait_for_replies(host, &listener);
	*wanted_ret = !error && !removed && !host->off;
	return error;
}

struct probe_error *probe_tracer_host_poll(struct probe_tracer_host *host,
	void (*removed)(pid_t pid, const char *provider, const char *name, void *data), void *data)
{
	const struct listener listener = {removed, data};
	struct probe_error *error;
	bool ended;

	if (!host->pid)
		return NULL;
	error = read_replies(host, &listener, &ended);
	if (error)
		return error;
	if (ended)
		return reap(host, NSEC_PER_SEC);
	if (is_late(host))
		return give_up(host, false);
	if (!host->unanswered && clock_monotonic_ns() - host->heard_ns >= NSEC_PER_SEC)
		wire_put(host_ask(host), WIRE_PING);
	return NULL;
}

struct probe_error *probe_tracer_host_finish(struct probe_tracer_host *host)
{
	struct probe_error *error = NULL;

	if (!host->pid)
		return NULL;
	wire_put(host_ask(host), WIRE_END);
	host->asked_ns = clock_monotonic_ns();
	while (!error && host->pid && !host->done) {
		error = flush(host) ?: wait_for_replies(host, &(struct listener){0});
	}
	return error || !host->pid ? error : reap(host, NSEC_PER_SEC);
}

void probe_tracer_host_free(struct probe_tracer_host *host)
{
	if (!host)
		return;
	if (host->pid)
		probe_error_free(reap(host, 0));
	cleanup_fd(&host->input);
	cleanup_fd(&host->replies);
	probe_sink_free(host->sink);
	for (size_t i = 0; i < host->filter_count; i++)
		free((char *)host->filters[i].filter);
	free(host->filters);
	tags_deinit(&host->tags);
	free(host->path);
	free(host->options);
	free(host);
}
