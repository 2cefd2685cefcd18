/* SPDX-License-Identifier: MIT */
/* Sends messages to a collector, one after the other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/value.h"
#include "libprobe/output/curl.h"
#include "libprobe/output/output.h"
#include "libprobe/session/session.h"

/* ==== Otlp json =============================================================================== */

/* Parts of all messages: attributes, resources, scopes. */

static void quoted(struct buffer *out, const char *name, const char *text, size_t length)
{
	struct buffer printable = {0};

	buffer_c_escaped(&printable, text, length, 0);
	json_bytes(out, name, printable.data, printable.length);
	out->no_memory |= printable.no_memory;
	buffer_deinit(&printable);
}

/* Writes a number as protobuf does in JSON: 64 bits are a string. */
static void otlp_number(struct buffer *out, const char *name, uint64_t value)
{
	json_begin(out, name);
	buffer_char(out, '"');
	buffer_unsigned(out, value);
	buffer_char(out, '"');
}

static void otlp_text(struct buffer *out, const char *name, const char *text)
{
	quoted(out, name, text, strlen(text));
}

static void open_attribute(struct buffer *out, const char *key)
{
	json_open(out, NULL, '{');
	otlp_text(out, "key", key);
	json_open(out, "value", '{');
}

/* Writes a text attribute into an open list. Bytes that are not text become C escapes. */
static void otlp_text_attribute(
	struct buffer *out, const char *key, const char *text, size_t length)
{
	open_attribute(out, key);
	quoted(out, "stringValue", text, length);
	buffer_string(out, "}}");
}

static void otlp_pid_attribute(struct buffer *out, pid_t pid)
{
	open_attribute(out, "process.pid");
	otlp_number(out, "intValue", (uint64_t)pid);
	buffer_string(out, "}}");
}

/* JSON has only finite numbers: others are strings, as for protobuf. */
static void otlp_double(struct buffer *out, const char *name, double value)
{
	json_begin(out, name);
	if (isfinite(value))
		buffer_float(out, value);
	else
		buffer_string(out, isnan(value) ? "\"NaN\""
				   : value > 0	? "\"Infinity\""
						: "\"-Infinity\"");
}

/* Writes a value as an attribute into an open list, likewise. */
static void otlp_value_attribute(
	struct buffer *out, const char *key, const struct probe_value *value)
{
	open_attribute(out, key);
	switch (value->kind) {
	case PROBE_VALUE_NULL:
		break; /* an attribute without a value */
	case PROBE_VALUE_SIGNED:
	case PROBE_VALUE_UNSIGNED:
		/* intValue is signed: larger numbers are strings. */
		json_begin(out, value->kind == PROBE_VALUE_UNSIGNED && value->u > INT64_MAX
					? "stringValue"
					: "intValue");
		buffer_char(out, '"');
		value_add_number(out, value);
		buffer_char(out, '"');
		break;
	case PROBE_VALUE_FLOAT:
		otlp_double(out, "doubleValue", value->f);
		break;
	case PROBE_VALUE_BYTES:
		json_hex_bytes(out, "stringValue", value->bytes, value->length);
		break;
	case PROBE_VALUE_OTHER:
	case PROBE_VALUE_STACK:
	case PROBE_VALUE_STRING:
	case PROBE_VALUE_TEXT:
		quoted(out, "stringValue", value->bytes, value->length);
	}
	buffer_string(out, "}}");
}

/* Writes "resource":{...}, and opens `scopes`, a scope, and its list `items`. */
static void otlp_open_resource(
	struct buffer *out, pid_t pid, const char *program, const char *scopes, const char *items)
{
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	json_open(out, NULL, '{');
	json_open(out, "resource", '{');
	json_open(out, "attributes", '[');
	otlp_text_attribute(out, "service.name", program, strlen(program));
	otlp_text_attribute(out, "host.name", host, strlen(host));
	if (pid)
		otlp_pid_attribute(out, pid);
	buffer_string(out, "]}");
	json_open(out, scopes, '[');
	json_open(out, NULL, '{');
	json_open(out, "scope", '{');
	json_text(out, "name", "probectl");
	json_text(out, "version", PROBE_VERSION);
	json_close(out, '}');
	json_open(out, items, '[');
}

static void otlp_close_resource(struct buffer *out)
{
	buffer_string(out, "]}]}");
}

/* ==== Client ================================================================================== */

/*
 * Uses libcurl's multi interface, which says for which descriptors it waits, and until when; one
 * epoll(7) descriptor stands for all. Names are looked up in libcurl's own thread if it was built
 * so, as in Debian.
 */

#ifdef HTTP_CLIENT_BUILT
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "libprobe/base/clock.h"

enum {
	QUEUE_MAX = 256,
	QUEUE_BYTES = 16 << 20,
	TIMEOUT_MS = 10000,
	EVENTS = 8,
	ANSWER_BYTES = 4096,
	/* After these a message may be sent again (OTLP 1.9, "Retryable Response Codes"). */
	TOO_MANY = 429,
	BAD_GATEWAY = 502,
	UNAVAILABLE = 503,
	GATEWAY_TIMEOUT = 504
};
#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define PAUSE_MAX_NS (30 * NS_PER_S)

struct http_client {
	struct libcurl curl;
	char *url; /* without a trailing slash */
	int epoll_fd;
	CURLM *multi;
	CURL *easy;
	struct curl_slist *headers;

	/* A ring buffer; `first` is the oldest. */
	struct http_message queue[QUEUE_MAX];
	size_t first, count, bytes;
	bool is_sending; /* the first message is being sent */
	uint64_t pause_ns, next_ns, due_ns;
	char answer[ANSWER_BYTES];
	size_t answer_length;

	struct http_sent sent[HTTP_KINDS_MAX];
	char why[HTTP_WHY_BYTES];
};

/* ---- The queue ------------------------------------------------------------------ */

static struct http_message *at(struct http_client *client, size_t index)
{
	return &client->queue[(client->first + index) % QUEUE_MAX];
}

/* Removes message `index` (0 or 1); `lost` of its items count as lost. */
static void drop(struct http_client *client, size_t index, uint64_t lost)
{
	struct http_message *message = at(client, index);
	struct http_sent *sent = &client->sent[message->kind];

	lost = lost < message->items ? lost : message->items;
	sent->lost += lost;
	sent->done += message->items - lost;
	client->bytes -= message->length;
	free(message->body);
	/* The first message takes its place: it may be on its way. */
	if (index)
		*message = *at(client, 0);
	client->first = (client->first + 1) % QUEUE_MAX;
	client->count--;
}

void http_client_post(struct http_client *client, const struct http_message *message)
{
	/* Keep the message that is being sent. */
	size_t oldest = client->is_sending;

	while (client->count > oldest &&
		(client->count == QUEUE_MAX || client->bytes + message->length > QUEUE_BYTES))
		drop(client, oldest, UINT64_MAX);
	*at(client, client->count++) = *message;
	client->bytes += message->length;
}

/* ---- One message ------------------------------------------------------------------ */

static size_t take_answer(char *data, size_t size, size_t count, void *to)
{
	struct http_client *client = to;
	size_t length = size * count, room = sizeof(client->answer) - 1 - client->answer_length;
	size_t taken = length < room ? length : room;

	memcpy(client->answer + client->answer_length, data, taken);
	client->answer_length += taken;
	client->answer[client->answer_length] = '\0';
	return length;
}

static void send_first(struct http_client *client)
{
	const struct http_message *message = at(client, 0);
	const struct libcurl *curl = &client->curl;
	char *url = NULL;

	if (asprintf(&url, "%s%s", client->url, message->path) < 0) {
		client->next_ns = clock_monotonic_ns() + NS_PER_S;
		return;
	}
	client->answer_length = 0;
	client->answer[0] = '\0';
	curl->setopt(client->easy, CURLOPT_URL, url);
	curl->setopt(client->easy, CURLOPT_POSTFIELDS, message->body);
	curl->setopt(client->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)message->length);
	free(url);
	client->is_sending = curl->add(client->multi, client->easy) == CURLM_OK;
	if (!client->is_sending)
		client->next_ns = clock_monotonic_ns() + NS_PER_S;
}

/*
 * Returns how many items the collector has rejected: {"partialSuccess":{"rejectedSpans":"3"}},
 * maybe without quotes.
 */
static uint64_t rejected(const struct http_client *client, const struct http_message *message)
{
	const char *found = strstr(client->answer, message->rejected);

	if (!found)
		return 0;
	found += strlen(message->rejected);
	found += strspn(found, "\": \t\r\n");
	return strtoull(found, NULL, 10);
}

static bool may_try_again(CURLcode code, long status)
{
	return code != CURLE_OK || status == TOO_MANY || status == BAD_GATEWAY ||
	       status == UNAVAILABLE || status == GATEWAY_TIMEOUT;
}

static void pause_sending(struct http_client *client)
{
	curl_off_t after = 0;

	client->pause_ns = client->pause_ns ? 2 * client->pause_ns : NS_PER_S;
	if (client->pause_ns > PAUSE_MAX_NS)
		client->pause_ns = PAUSE_MAX_NS;
	client->curl.getinfo(client->easy, CURLINFO_RETRY_AFTER, &after);
	client->next_ns = clock_monotonic_ns() + client->pause_ns;
	if (after > 0 && after < (curl_off_t)(PAUSE_MAX_NS / NS_PER_S))
		client->next_ns = clock_monotonic_ns() + (uint64_t)after * NS_PER_S;
}

static void finish(struct http_client *client, CURLcode code)
{
	long status = 0;

	client->curl.getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status);
	client->curl.remove(client->multi, client->easy);
	client->is_sending = false;
	if (code != CURLE_OK)
		snprintf(client->why, sizeof(client->why), "%s", client->curl.strerror(code));
	else if (status < 200 || status >= 300)
		snprintf(client->why, sizeof(client->why), "it answers with status %ld", status);
	if (may_try_again(code, status)) {
		pause_sending(client);
		return;
	}
	client->pause_ns = 0;
	if (status >= 200 && status < 300) {
		uint64_t lost = rejected(client, at(client, 0));

		if (lost)
			snprintf(client->why, sizeof(client->why), "it rejects some of them");
		drop(client, 0, lost);
	} else {
		drop(client, 0, UINT64_MAX);
	}
}

/* ---- What libcurl waits for ---------------------------------------------------------- */

static int watch(CURL *easy, curl_socket_t fd, int what, void *data, void *known)
{
	struct http_client *client = data;
	struct epoll_event event = {.data.fd = fd};

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		epoll_ctl(client->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
		return 0;
	}
	event.events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
	if (epoll_ctl(client->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) &&
		errno == EEXIST)
		epoll_ctl(client->epoll_fd, EPOLL_CTL_MOD, fd, &event);
	return 0;
}

static int set_timer(CURLM *multi, long ms, void *data)
{
	struct http_client *client = data;

	(void)multi;
	client->due_ns = ms < 0 ? UINT64_MAX : clock_monotonic_ns() + (uint64_t)ms * NS_PER_MS;
	return 0;
}

/* ---- The caller's loop ---------------------------------------------------------------- */

int http_client_fd(const struct http_client *client)
{
	return client->epoll_fd;
}

uint64_t http_client_due_ns(const struct http_client *client)
{
	if (!client->count)
		return UINT64_MAX;
	return client->is_sending ? client->due_ns : client->next_ns;
}

static void act(struct http_client *client)
{
	struct epoll_event events[EVENTS];
	int running, left, count = epoll_wait(client->epoll_fd, events, EVENTS, 0);
	const CURLMsg *done;

	for (int i = 0; i < count; i++)
		client->curl.act(client->multi, events[i].data.fd,
			(events[i].events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
				(events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
				(events[i].events & EPOLLERR ? CURL_CSELECT_ERR : 0),
			&running);
	if (client->due_ns <= clock_monotonic_ns()) {
		client->due_ns = UINT64_MAX;
		client->curl.act(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	}
	done = client->curl.info_read(client->multi, &left);
	if (done && done->msg == CURLMSG_DONE)
		finish(client, done->data.result);
}

void http_client_run(struct http_client *client)
{
	act(client);
	if (client->count && !client->is_sending && client->next_ns <= clock_monotonic_ns()) {
		send_first(client);
		/* Now: otherwise libcurl may say that it is due only after this has returned. */
		act(client);
	}
}

void http_client_give_up(struct http_client *client)
{
	if (client->is_sending)
		client->curl.remove(client->multi, client->easy);
	client->is_sending = false;
	while (client->count)
		drop(client, 0, UINT64_MAX);
}

bool http_client_is_busy(const struct http_client *client)
{
	return client->count != 0;
}

struct http_sent http_client_sent(const struct http_client *client, unsigned int kind)
{
	return client->sent[kind];
}

const char *http_client_why(const struct http_client *client)
{
	return client->why;
}

/* ---- Life ------------------------------------------------------------------------------ */

static struct probe_error *check_url(const char *url)
{
	const char *host = strstr(url, "://");
	size_t scheme = host ? (size_t)(host - url) : 0;

	if (((scheme == 4 && !strncmp(url, "http", 4)) ||
		    (scheme == 5 && !strncmp(url, "https", 5))) &&
		host[3] && host[3] != '/' && !strpbrk(host, "?# \t\r\n"))
		return NULL;
	return probe_error_new(PROBE_ERROR_USAGE,
		"'%s' is no place for OTLP: use the URL of a collector, such as "
		"http://localhost:4318; /v1/metrics and /v1/traces are added",
		url);
}

/* Appends a header. Without memory, the list stays. */
static bool add_header(struct http_client *client, const char *header)
{
	struct curl_slist *grown = client->curl.append(client->headers, header);

	client->headers = grown ? grown : client->headers;
	return grown != NULL;
}

static struct probe_error *add_headers(struct http_client *client, const char *headers)
{
	struct probe_error *error = NULL;
	char *header;

	while (!error && http_next_header(&headers, &header, &error)) {
		if (!add_header(client, header))
			error = probe_error_no_memory();
		free(header);
	}
	return error;
}

static bool configure(struct http_client *client)
{
	const struct libcurl *curl = &client->curl;

	client->multi = curl->multi_init();
	client->easy = curl->easy_init();
	/* libcurl would send "Expect:", which some servers do not answer. */
	if (!client->multi || !client->easy ||
		!add_header(client, "Content-Type: application/json") ||
		!add_header(client, "Expect:"))
		return false;
	curl->multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, watch);
	curl->multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
	curl->multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl->multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
	curl->setopt(client->easy, CURLOPT_HTTPHEADER, client->headers);
	curl->setopt(client->easy, CURLOPT_WRITEFUNCTION, take_answer);
	curl->setopt(client->easy, CURLOPT_WRITEDATA, client);
	curl->setopt(client->easy, CURLOPT_TIMEOUT_MS, (long)TIMEOUT_MS);
	curl->setopt(client->easy, CURLOPT_NOSIGNAL, 1L);
	curl->setopt(client->easy, CURLOPT_USERAGENT, "probectl/" PROBE_VERSION);
	return true;
}

struct probe_error *http_client_open(const char *url, const char *headers, struct http_client **ret)
{
	struct http_client *client = calloc(1, sizeof(*client));
	struct probe_error *error;

	if (!client)
		return probe_error_no_memory();
	client->epoll_fd = -1;
	client->due_ns = UINT64_MAX;
	error = check_url(url);
	if (!error)
		error = curl_load(&client->curl);
	if (!error) {
		client->url = strdup(url);
		client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		if (client->epoll_fd < 0)
			error = probe_error_system(errno, "cannot send OTLP");
		else if (!client->url)
			error = probe_error_no_memory();
		else
			error = add_headers(client, headers);
		if (!error && !configure(client))
			error = probe_error_no_memory();
	}
	if (error) {
		http_client_close(client);
		return error;
	}
	while (client->url[strlen(client->url) - 1] == '/')
		client->url[strlen(client->url) - 1] = '\0';
	*ret = client;
	return NULL;
}

void http_client_close(struct http_client *client)
{
	if (!client)
		return;
	http_client_give_up(client);
	if (client->easy)
		client->curl.easy_cleanup(client->easy);
	if (client->multi)
		client->curl.multi_cleanup(client->multi);
	if (client->headers)
		client->curl.free_all(client->headers);
	if (client->epoll_fd >= 0)
		close(client->epoll_fd);
	free(client->url);
	free(client);
}
#endif

/* ==== Points ================================================================================== */

/*
 * Metrics as OTLP names them: probectl_latency_seconds is probectl.latency with the unit seconds,
 * from which a collector restores Prometheus's name.
 */

enum { CUMULATIVE = 2 };

struct points {
	struct buffer *out;
	uint64_t start_ns, now_ns;
	uint64_t count;
	const struct metric_source *source;
};

/* Writes a family's name without its unit. The first two underscores become dots. */
static void write_name(struct buffer *out, const struct metric_family *family)
{
	char name[sizeof(family->name)];
	char *at = name;

	snprintf(name, sizeof(name), "%s", family->name);
	if (family->unit)
		name[strlen(name) - strlen(family->unit) - 1] = '\0';
	for (int i = 0; i < 2 && (at = strchr(at, '_')); i++)
		*at = '.';
	otlp_text(out, "name", name);
	otlp_text(out, "description", family->help);
	otlp_text(out, "unit", family->unit ? "s" : "1");
}

static bool take_label(const struct metric_label *label, void *data)
{
	otlp_text_attribute(data, label->name, label->text, label->length);
	return true;
}

static void write_attributes(struct points *points, const struct metric_sample *sample)
{
	const struct metric_source *source = points->source;

	json_open(points->out, "attributes", '[');
	if (sample->row)
		metric_row_labels(
			sample->row, &source->view, source->key_count, take_label, points->out);
	else if (source->view.value)
		otlp_text_attribute(
			points->out, "value", source->view.value, strlen(source->view.value));
	buffer_char(points->out, ']');
}

/* Writes a whole number that fits as an integer, others as doubles. */
static void write_value(struct points *points, const struct metric_sample *sample)
{
	struct buffer *out = points->out;
	const long double limit = 9223372036854775808.0L; /* 2^63 */
	long double value = sample->value;

	if (!sample->family->unit && value > -limit && value < limit &&
		value == (long double)(int64_t)value) {
		json_begin(out, "asInt");
		buffer_char(out, '"');
		buffer_signed(out, (int64_t)value);
		buffer_char(out, '"');
	} else {
		otlp_double(out, "asDouble", metric_in_unit(sample->family, value));
	}
}

static void write_histogram(struct points *points, const struct metric_sample *sample)
{
	struct buffer *out = points->out;
	uint64_t count = 0;

	for (size_t i = 0; i <= sample->bound_count; i++)
		count += sample->hits[i];
	otlp_number(out, "count", count);
	otlp_double(out, "sum", metric_in_unit(sample->family, sample->value));
	json_open(out, "bucketCounts", '[');
	for (size_t i = 0; i <= sample->bound_count; i++)
		otlp_number(out, NULL, sample->hits[i]);
	json_close(out, ']');
	json_open(out, "explicitBounds", '[');
	for (size_t i = 0; i < sample->bound_count; i++)
		otlp_double(out, NULL, metric_in_unit(sample->family, sample->bounds[i]));
	json_close(out, ']');
}

static void write_point(const struct metric_sample *sample, void *data)
{
	struct points *points = data;
	struct buffer *out = points->out;

	json_open(out, NULL, '{');
	otlp_number(out, "startTimeUnixNano", points->start_ns);
	otlp_number(out, "timeUnixNano", points->now_ns);
	if (sample->family->kind == METRIC_HISTOGRAM)
		write_histogram(points, sample);
	else
		write_value(points, sample);
	write_attributes(points, sample);
	buffer_char(out, '}');
	points->count++;
}

static void open_metric(struct buffer *out, const struct metric_family *family)
{
	static const char *const kinds[] = {[METRIC_COUNTER] = "sum",
		[METRIC_GAUGE] = "gauge",
		[METRIC_HISTOGRAM] = "histogram"};

	json_open(out, NULL, '{');
	write_name(out, family);
	json_open(out, kinds[family->kind], '{');
	if (family->kind != METRIC_GAUGE)
		json_unsigned(out, "aggregationTemporality", CUMULATIVE);
	if (family->kind == METRIC_COUNTER)
		json_boolean(out, "isMonotonic", true);
	json_open(out, "dataPoints", '[');
}

static void write_process(struct points *points, const struct metric_source *source,
	const struct metric_process *process)
{
	if (!process->program)
		return;
	points->source = source;
	otlp_open_resource(points->out, process->pid, process->program, "scopeMetrics", "metrics");
	for (size_t i = 0; i < source->family_count; i++) {
		open_metric(points->out, &source->families[i]);
		metric_samples(source, &source->families[i], process, write_point, points);
		buffer_string(points->out, "]}}");
	}
	otlp_close_resource(points->out);
}

static void write_left_out(struct points *points, const struct probe_metrics *metrics)
{
	static const struct metric_source none = {.labels = ""};
	const struct metric_sample sample = {
		.family = &metric_left_out, .value = (long double)probe_metrics_left_out(metrics)};

	points->source = &none;
	otlp_open_resource(points->out, 0, "probectl", "scopeMetrics", "metrics");
	open_metric(points->out, &metric_left_out);
	write_point(&sample, points);
	buffer_string(points->out, "]}}");
	otlp_close_resource(points->out);
}

uint64_t otlp_write_points(struct buffer *out, const struct probe_metrics *metrics, uint64_t now_ns)
{
	struct points points = {.out = out, .start_ns = metrics->start_ns, .now_ns = now_ns};

	json_open(out, NULL, '{');
	json_open(out, "resourceMetrics", '[');
	for (size_t i = 0; i < metrics->source_count; i++)
		for (size_t k = 0; k < metrics->sources[i].process_count; k++)
			write_process(
				&points, &metrics->sources[i], &metrics->sources[i].processes[k]);
	write_left_out(&points, metrics);
	buffer_string(out, "]}");
	return points.count;
}

/* ==== Spans =================================================================================== */

/* Writes pairs as spans. */

enum { INTERNAL = 1, STATUS_ERROR = 2 };

/* Writes arguments as begin.arg0, end.arg1 and so on, by the probe's numbers. */
static void write_args(struct buffer *out, const char *side, const struct probe_hit *hit)
{
	for (size_t i = 0; i < hit->arg_count; i++) {
		const struct probe_value *value = &hit->args[i];
		char key[32];

		snprintf(key, sizeof(key), "%s.arg%zu", side,
			value->number ? value->number - (size_t)1 : i);
		otlp_value_attribute(out, key, value);
	}
}

static void spans_write_attributes(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end)
{
	const struct probe_value tid = {.kind = PROBE_VALUE_SIGNED, .i = hit->tid};

	json_open(out, "attributes", '[');
	otlp_text_attribute(out, "provider", end->provider, strlen(end->provider));
	otlp_text_attribute(out, "begin", begin->name, strlen(begin->name));
	otlp_text_attribute(out, "probe", end->name, strlen(end->name));
	otlp_value_attribute(out, "thread.id", &tid);
	write_args(out, "begin", hit->begin);
	write_args(out, "end", hit);
	buffer_char(out, ']');
}

/* Opens a new process's block, after closing the last span's. */
static void open_batch(struct otlp_batch *batch, const struct probe_hit *hit, const char *program)
{
	if (batch->count && batch->pid == hit->pid)
		return;
	if (batch->count) {
		otlp_close_resource(&batch->out);
	} else {
		json_open(&batch->out, NULL, '{');
		json_open(&batch->out, "resourceSpans", '[');
	}
	otlp_open_resource(&batch->out, hit->pid, program, "scopeSpans", "spans");
	batch->pid = hit->pid;
}

void otlp_write_span(struct otlp_batch *batch, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *program, const struct otlp_ids *ids)
{
	struct buffer *out = &batch->out;
	char name[256];

	open_batch(batch, hit, program);
	snprintf(name, sizeof(name), "%s:%s..%s", begin->provider, begin->name, end->name);
	json_open(out, NULL, '{');
	otlp_text(out, "traceId", ids->trace);
	otlp_text(out, "spanId", ids->span);
	if (*ids->parent)
		otlp_text(out, "parentSpanId", ids->parent);
	otlp_text(out, "name", name);
	json_unsigned(out, "kind", INTERNAL);
	otlp_number(out, "startTimeUnixNano", hit->begin->time_ns);
	otlp_number(out, "endTimeUnixNano", hit->begin->time_ns + hit->duration_ns);
	spans_write_attributes(out, hit, begin, end);
	if (table_name_aborts(end->name)) {
		json_open(out, "status", '{');
		json_unsigned(out, "code", STATUS_ERROR);
		json_close(out, '}');
	}
	buffer_char(out, '}');
	batch->count++;
}

void otlp_end_spans(struct otlp_batch *batch)
{
	otlp_close_resource(&batch->out);
	buffer_string(&batch->out, "]}");
}

/* ==== Otlp ==================================================================================== */

enum { SPANS_MAX = 512, SPANS_BYTES = 1 << 20 };

struct probe_error *probe_otlp_open(
	const char *url, const char *headers, int trace_arg, struct probe_otlp **ret)
{
	struct probe_otlp *otlp = calloc(1, sizeof(*otlp));
	struct probe_error *error;

	if (!otlp)
		return probe_error_no_memory();
	otlp->trace_arg = trace_arg;
	/* Another exporter may start at the same time. */
	otlp->random = clock_now_ns();
	if (getrandom(&otlp->random, sizeof(otlp->random), GRND_NONBLOCK) < 0)
		otlp->random ^= (uint64_t)getpid() << 32;
	error = http_client_open(url, headers, &otlp->http);
	if (error) {
		free(otlp);
		return error;
	}
	*ret = otlp;
	return NULL;
}

void probe_otlp_close(struct probe_otlp *otlp)
{
	if (!otlp)
		return;
	http_client_close(otlp->http);
	buffer_deinit(&otlp->spans.out);
	free(otlp);
}

/* Queues a buffer's contents, and empties it. Returns false without memory. */
static bool post(struct probe_otlp *otlp, struct buffer *out, const struct http_message *message)
{
	struct http_message its = *message;
	bool done = !out->no_memory;

	if (done) {
		its.body = out->data;
		its.length = out->length;
		out->data = NULL;
		http_client_post(otlp->http, &its);
	}
	buffer_deinit(out);
	return done;
}

struct probe_error *probe_otlp_metrics(struct probe_otlp *otlp, const struct probe_metrics *metrics)
{
	struct http_message message = {
		.kind = OTLP_POINTS, .path = "/v1/metrics", .rejected = "\"rejectedDataPoints\""};
	struct buffer out;

	if (!buffer_init(&out))
		return probe_error_no_memory();
	message.items = otlp_write_points(&out, metrics, clock_now_ns());
	return post(otlp, &out, &message) ? NULL : probe_error_no_memory();
}

void probe_otlp_span(struct probe_otlp *otlp, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *program)
{
	struct otlp_batch *batch = &otlp->spans;
	struct otlp_ids ids;

	if (!batch->count && !buffer_init(&batch->out)) {
		otlp->lost_spans++;
		return;
	}
	otlp_ids_of(otlp, hit, &ids);
	otlp_write_span(batch, hit, begin, end, program ? program : "unknown", &ids);
	if (batch->count >= SPANS_MAX || batch->out.length >= SPANS_BYTES)
		probe_otlp_flush(otlp);
}

void probe_otlp_flush(struct probe_otlp *otlp)
{
	struct otlp_batch *batch = &otlp->spans;
	const struct http_message message = {.kind = OTLP_SPANS,
		.path = "/v1/traces",
		.rejected = "\"rejectedSpans\"",
		.items = batch->count};

	if (!batch->count)
		return;
	otlp_end_spans(batch);
	if (!post(otlp, &batch->out, &message))
		otlp->lost_spans += batch->count;
	batch->count = 0;
}

int probe_otlp_fd(const struct probe_otlp *otlp)
{
	return http_client_fd(otlp->http);
}

uint64_t probe_otlp_due_ns(const struct probe_otlp *otlp)
{
	return http_client_due_ns(otlp->http);
}

void probe_otlp_run(struct probe_otlp *otlp)
{
	http_client_run(otlp->http);
}

void probe_otlp_give_up(struct probe_otlp *otlp)
{
	probe_otlp_flush(otlp);
	http_client_give_up(otlp->http);
}

bool probe_otlp_is_busy(const struct probe_otlp *otlp)
{
	return otlp->spans.count || http_client_is_busy(otlp->http);
}

struct probe_otlp_sent probe_otlp_sent(const struct probe_otlp *otlp)
{
	struct http_sent points = http_client_sent(otlp->http, OTLP_POINTS);
	struct http_sent spans = http_client_sent(otlp->http, OTLP_SPANS);

	return (struct probe_otlp_sent){.spans = spans.done,
		.points = points.done,
		.lost_spans = spans.lost + otlp->lost_spans,
		.lost_points = points.lost,
		.why = http_client_why(otlp->http)};
}
