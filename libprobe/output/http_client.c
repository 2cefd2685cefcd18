/* SPDX-License-Identifier: MIT */
/*
 * Uses libcurl's multi interface, which says for which descriptors it waits, and until when; one
 * epoll(7) descriptor stands for all. Names are looked up in libcurl's own thread if it was built
 * so, as in Debian.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/output/output.h"

/* ---- Headers --------------------------------------------------------------------------- */

/*
 * Users' headers, such as a collector's API key, in the format of OTEL_EXPORTER_OTLP_HEADERS:
 * https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */

/* Returns true if these characters may be in a header's name (RFC 9110, 5.6.2). */
static bool is_name(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("!#$%&'*+-.^_`|~", text[i]))
			return false;
	return length > 0;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Appends a decoded value. Returns false if a byte would end the header. */
static bool decode(const char *from, size_t length, char *to)
{
	for (size_t i = 0; i < length; i++) {
		bool is_code = from[i] == '%' && i + 2 < length;
		int high = is_code ? digit_of(from[i + 1]) : -1;
		int low = is_code ? digit_of(from[i + 2]) : -1;
		char c = from[i];

		if (high >= 0 && low >= 0) {
			c = (char)(high * 16 + low);
			i += 2;
		}
		if (c == '\r' || c == '\n' || c == '\0')
			return false;
		*to++ = c;
	}
	*to = '\0';
	return true;
}

static size_t trimmed(const char **text, size_t length)
{
	while (length && strchr(" \t", **text)) {
		++*text;
		length--;
	}
	while (length && strchr(" \t", (*text)[length - 1]))
		length--;
	return length;
}

bool http_next_header(const char **headers, char **ret, struct probe_error **error_ret)
{
	const char *name, *value, *end;
	size_t name_length, value_length;
	char *to;

	if (!*headers || !*(*headers += strspn(*headers, ", \t")))
		return false;
	name = *headers;
	end = name + strcspn(name, ",");
	*headers = end;
	name_length = strcspn(name, "=");
	value = name + name_length + 1;
	if (value > end) {
		*error_ret = probe_error_new(PROBE_ERROR_USAGE,
			"OTEL_EXPORTER_OTLP_HEADERS is NAME=VALUE,NAME=VALUE...");
		return false;
	}
	value_length = trimmed(&value, (size_t)(end - value));
	name_length = trimmed(&name, name_length);
	*ret = to = malloc(name_length + value_length + sizeof(": "));
	if (!to) {
		*error_ret = probe_error_no_memory();
		return false;
	}
	to = stpcpy(mempcpy(to, name, name_length), ": ");
	if (is_name(name, name_length) && decode(value, value_length, to))
		return true;
	free(*ret);
	/* Do not show the value, which may be a secret. */
	*error_ret = probe_error_new(PROBE_ERROR_USAGE,
		"OTEL_EXPORTER_OTLP_HEADERS: header %.*s has a byte that is not allowed there",
		(int)name_length, name);
	return false;
}

#ifdef HTTP_CLIENT_BUILT
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/library.h"

/* ---- libcurl, which is loaded when the first message is to be sent ------------------- */

/* clang-format off */
#define LIBCURL(X) \
	X(multi_init, curl_multi_init) X(multi_cleanup, curl_multi_cleanup) \
	X(multi_setopt, curl_multi_setopt) X(add, curl_multi_add_handle) \
	X(remove, curl_multi_remove_handle) X(act, curl_multi_socket_action) \
	X(info_read, curl_multi_info_read) X(easy_init, curl_easy_init) \
	X(easy_cleanup, curl_easy_cleanup) X(setopt, curl_easy_setopt) \
	X(getinfo, curl_easy_getinfo) X(strerror, curl_easy_strerror) \
	X(append, curl_slist_append) X(free_all, curl_slist_free_all)
/* clang-format on */

struct libcurl {
	LIBCURL(LIBRARY_MEMBER)
};

static const char *const curl_names[] = {LIBCURL(LIBRARY_NAME) NULL};
static const struct library libcurl = {
	"libcurl.so.4", "OTLP needs libcurl (Debian: libcurl4)", "OTLP needs a newer libcurl"};

enum {
	QUEUE_MAX = 256,
	QUEUE_BYTES = 16 << 20,
	TIMEOUT_MS = 10000,
	EVENTS = 8,
	ANSWER_BYTES = 4096,
	/*
	 * After these answers a message may be sent again (OTLP 1.9, "Retryable Response Codes").
	 */
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
	/* Move the first message to this place, because it may be on its way. */
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
	AUTO_FREE char *url = NULL;

	if (asprintf(&url, "%s%s", client->url, message->path) < 0) {
		client->next_ns = clock_monotonic_ns() + NS_PER_S;
		return;
	}
	client->answer_length = 0;
	client->answer[0] = '\0';
	curl->setopt(client->easy, CURLOPT_URL, url);
	curl->setopt(client->easy, CURLOPT_POSTFIELDS, message->body);
	curl->setopt(client->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)message->length);
	client->is_sending = curl->add(client->multi, client->easy) == CURLM_OK;
	if (!client->is_sending)
		client->next_ns = clock_monotonic_ns() + NS_PER_S;
}

/*
 * Returns how many items the collector has rejected, from an answer such as
 * {"partialSuccess":{"rejectedSpans":"3"}}, whose number may lack quotes.
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

static void finish(struct http_client *client, CURLcode code)
{
	curl_off_t after = 0;
	long status = 0;

	client->curl.getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status);
	client->curl.remove(client->multi, client->easy);
	client->is_sending = false;
	if (code != CURLE_OK)
		snprintf(client->why, sizeof(client->why), "%s", client->curl.strerror(code));
	else if (status < 200 || status >= 300)
		snprintf(client->why, sizeof(client->why), "it answers with status %ld", status);
	if (code != CURLE_OK || status == TOO_MANY || status == BAD_GATEWAY ||
		status == UNAVAILABLE || status == GATEWAY_TIMEOUT) {
		client->pause_ns = client->pause_ns ? 2 * client->pause_ns : NS_PER_S;
		if (client->pause_ns > PAUSE_MAX_NS)
			client->pause_ns = PAUSE_MAX_NS;
		client->curl.getinfo(client->easy, CURLINFO_RETRY_AFTER, &after);
		client->next_ns = clock_monotonic_ns() + client->pause_ns;
		if (after > 0 && after < (curl_off_t)(PAUSE_MAX_NS / NS_PER_S))
			client->next_ns = clock_monotonic_ns() + (uint64_t)after * NS_PER_S;
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
		/*
		 * Act at once, because libcurl may say only after this function has returned that
		 * it is due.
		 */
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

/* Appends a header. If memory is short, the list is unchanged. */
static bool add_header(struct http_client *client, const char *header)
{
	struct curl_slist *grown = client->curl.append(client->headers, header);

	client->headers = grown ? grown : client->headers;
	return grown != NULL;
}

static bool configure(struct http_client *client)
{
	const struct libcurl *curl = &client->curl;

	client->multi = curl->multi_init();
	client->easy = curl->easy_init();
	/* Remove the header "Expect:", because some servers do not answer it. */
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
	const char *host = strstr(url, "://");
	size_t scheme = host ? (size_t)(host - url) : 0;
	struct probe_error *error;
	char *header;

	if (!client)
		return probe_error_no_memory();
	client->epoll_fd = -1;
	client->due_ns = UINT64_MAX;
	if (((scheme == 4 && !strncmp(url, "http", 4)) ||
		    (scheme == 5 && !strncmp(url, "https", 5))) &&
		host[3] && host[3] != '/' && !strpbrk(host, "?# \t\r\n"))
		error = library_load(&libcurl, curl_names, &client->curl);
	else
		error = probe_error_new(PROBE_ERROR_USAGE,
			"'%s' is no place for OTLP: use the URL of a collector, such as "
			"http://localhost:4318; /v1/metrics and /v1/traces are added",
			url);
	if (!error) {
		client->url = strdup(url);
		client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		if (client->epoll_fd < 0)
			error = probe_error_system(errno, "cannot send OTLP");
		else if (!client->url)
			error = probe_error_no_memory();
		while (!error && http_next_header(&headers, &header, &error)) {
			if (!add_header(client, header))
				error = probe_error_no_memory();
			free(header);
		}
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
	cleanup_fd(&client->epoll_fd);
	free(client->url);
	free(client);
}
#endif
