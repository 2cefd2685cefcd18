/* SPDX-License-Identifier: MIT */
/*
 * libmicrohttpd in its mode for an external loop: one epoll(7) descriptor stands for the listening
 * socket and all connections.
 *
 * Clients are not trusted. There are CONNECTIONS_MAX at once; later ones wait in the kernel's
 * queue. Each has one answer, and DEADLINE_NS from its begin to its end: libmicrohttpd's own
 * timeout begins again with every byte, so somebody who sends one now and then would stay forever.
 * A page is made once, however many ask for it, until http_server_renew().
 */
#include "libprobe/output/output.h"

#ifdef HTTP_SERVER_BUILT
#include <dlfcn.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/library.h"

enum { CONNECTIONS_MAX = 64, CONNECTION_BYTES = 16 << 10 };
#define DEADLINE_NS UINT64_C(10000000000)
#define NS_PER_MS UINT64_C(1000000)

struct libmicrohttpd {
	typeof(MHD_start_daemon) *start;
	typeof(MHD_stop_daemon) *stop;
	typeof(MHD_run) *run;
	typeof(MHD_get_timeout) *timeout;
	typeof(MHD_get_daemon_info) *daemon_info;
	typeof(MHD_get_connection_info) *connection_info;
	typeof(MHD_lookup_connection_value) *value;
	typeof(MHD_create_response_from_buffer) *response;
	typeof(MHD_add_response_header) *header;
	typeof(MHD_queue_response) *queue;
	typeof(MHD_destroy_response) *destroy;
};

/* fd -1: unused */
struct connection {
	int fd;
	uint64_t until_ns;
};

struct http_server {
	struct libmicrohttpd mhd;
	const struct http_pages *pages;
	struct MHD_Daemon *daemon;
	int epoll_fd;
	struct connection connections[CONNECTIONS_MAX];
	struct MHD_Response *made[HTTP_PAGES_MAX];
	char address[HTTP_ADDRESS_BYTES];
};

static struct probe_error *mhd_load(struct libmicrohttpd *mhd)
{
	static const struct library_function functions[] = {
		{"MHD_start_daemon", offsetof(struct libmicrohttpd, start)},
		{"MHD_stop_daemon", offsetof(struct libmicrohttpd, stop)},
		{"MHD_run", offsetof(struct libmicrohttpd, run)},
		{"MHD_get_timeout", offsetof(struct libmicrohttpd, timeout)},
		{"MHD_get_daemon_info", offsetof(struct libmicrohttpd, daemon_info)},
		{"MHD_get_connection_info", offsetof(struct libmicrohttpd, connection_info)},
		{"MHD_lookup_connection_value", offsetof(struct libmicrohttpd, value)},
		{"MHD_create_response_from_buffer", offsetof(struct libmicrohttpd, response)},
		{"MHD_add_response_header", offsetof(struct libmicrohttpd, header)},
		{"MHD_queue_response", offsetof(struct libmicrohttpd, queue)},
		{"MHD_destroy_response", offsetof(struct libmicrohttpd, destroy)},
	};
	static const char soname[] = "libmicrohttpd.so.12";
	const char *missing =
		library_load(soname, functions, sizeof(functions) / sizeof(functions[0]), mhd);

	if (missing == soname)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"serving metrics needs libmicrohttpd (Debian: libmicrohttpd12), which "
			"cannot be loaded: %s",
			dlerror());
	if (missing)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"serving metrics needs another libmicrohttpd, with %s()", missing);
	return NULL;
}

/* ---- Answers ------------------------------------------------------------------- */

static struct MHD_Response *respond(
	const struct http_server *server, char *body, size_t length, const char *type)
{
	struct MHD_Response *response = server->mhd.response(length, body, MHD_RESPMEM_MUST_FREE);

	if (!response) {
		free(body);
		return NULL;
	}
	server->mhd.header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	server->mhd.header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	return response;
}

/* An answer of one line. */
static enum MHD_Result refuse(const struct http_server *server, struct MHD_Connection *connection,
	unsigned int status, const char *line)
{
	char *body = strdup(line);
	struct MHD_Response *response =
		body ? respond(server, body, strlen(line), "text/plain; charset=utf-8") : NULL;
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		server->mhd.header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = server->mhd.queue(connection, status, response);
	server->mhd.destroy(response);
	return result;
}

/* Connections that still send an older one keep that. */
static struct MHD_Response *page_of(struct http_server *server, int page)
{
	struct probe_error *error;
	char *body = NULL;
	size_t length = 0;

	if (server->made[page])
		return server->made[page];
	error = server->pages->make(page, server->pages->data, &body, &length);
	if (!error)
		server->made[page] = respond(server, body, length, server->pages->types[page]);
	/* It is memory, and the client's answer says so. */
	probe_error_free(error);
	return server->made[page];
}

static enum MHD_Result answer(void *data, struct MHD_Connection *connection, const char *path,
	const char *method, const char *version, const char *upload, size_t *upload_bytes,
	void **request)
{
	struct http_server *server = data;
	const char *host = server->mhd.value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
	struct MHD_Response *response;
	int page;

	(void)version, (void)upload, (void)upload_bytes, (void)request;
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return refuse(server, connection, MHD_HTTP_METHOD_NOT_ALLOWED,
			"Only GET and HEAD are served here.\n");
	if (host && !http_host_is_ours(host))
		return refuse(server, connection, MHD_HTTP_MISDIRECTED_REQUEST,
			"This is no name of this machine: use its address, localhost or its host "
			"name.\n");
	page = server->pages->find(
		path, server->mhd.value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT));
	if (page < 0)
		return refuse(server, connection, MHD_HTTP_NOT_FOUND,
			"There is nothing here; metrics are at /metrics.\n");
	response = page_of(server, page);
	if (!response)
		return refuse(server, connection, MHD_HTTP_SERVICE_UNAVAILABLE,
			"There is no memory for this page.\n");
	return server->mhd.queue(connection, MHD_HTTP_OK, response);
}

/* ---- Connections ---------------------------------------------------------------- */

static void watch(void *data, struct MHD_Connection *connection, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	struct http_server *server = data;
	struct connection *slot = server->connections;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		slot = *context;
		if (slot)
			slot->fd = -1;
		return;
	}
	while (slot < server->connections + CONNECTIONS_MAX && slot->fd >= 0)
		slot++;
	if (slot == server->connections + CONNECTIONS_MAX)
		return;
	slot->fd = server->mhd.connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
			   ->connect_fd;
	slot->until_ns = clock_monotonic_ns() + DEADLINE_NS;
	*context = slot;
}

/* libmicrohttpd then sees that the connection is closed, and forgets it. */
static void end_late(struct http_server *server)
{
	uint64_t now = clock_monotonic_ns();

	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		if (server->connections[i].fd >= 0 && server->connections[i].until_ns <= now) {
			shutdown(server->connections[i].fd, SHUT_RDWR);
			server->connections[i].until_ns = UINT64_MAX;
		}
}

/* ---- The caller's loop ---------------------------------------------------------- */

int http_server_fd(const struct http_server *server)
{
	return server->epoll_fd;
}

uint64_t http_server_due_ns(const struct http_server *server)
{
	MHD_UNSIGNED_LONG_LONG ms;
	uint64_t due = UINT64_MAX;

	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		if (server->connections[i].fd >= 0 && server->connections[i].until_ns < due)
			due = server->connections[i].until_ns;
	if (server->mhd.timeout(server->daemon, &ms) == MHD_YES) {
		uint64_t at = clock_monotonic_ns() + ms * NS_PER_MS;

		due = at < due ? at : due;
	}
	return due;
}

void http_server_run(struct http_server *server)
{
	end_late(server);
	server->mhd.run(server->daemon);
}

void http_server_renew(struct http_server *server)
{
	for (size_t i = 0; i < HTTP_PAGES_MAX; i++) {
		if (server->made[i])
			server->mhd.destroy(server->made[i]);
		server->made[i] = NULL;
	}
}

/* ---- Life ------------------------------------------------------------------------ */

static struct probe_error *start(struct http_server *server, int fd)
{
	const union MHD_DaemonInfo *info;

	server->daemon = server->mhd.start(MHD_USE_EPOLL, 0, NULL, NULL, answer, server,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned int)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_BYTES, MHD_OPTION_NOTIFY_CONNECTION, watch, server,
		MHD_OPTION_END);
	if (!server->daemon)
		return probe_error_new(
			PROBE_ERROR_SYSTEM, "libmicrohttpd cannot serve at %s", server->address);
	info = server->mhd.daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	server->epoll_fd = info->epoll_fd;
	return NULL;
}

struct probe_error *http_server_open(
	const char *address, const struct http_pages *pages, struct http_server **ret)
{
	struct http_server *server = calloc(1, sizeof(*server));
	struct probe_error *error;
	int fd = -1;

	if (!server)
		return probe_error_no_memory();
	server->pages = pages;
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		server->connections[i].fd = -1;
	error = mhd_load(&server->mhd);
	if (!error)
		error = http_listen(address, &fd, server->address);
	if (!error)
		error = start(server, fd);
	if (!error) {
		*ret = server;
		return NULL;
	}
	if (fd >= 0)
		close(fd);
	http_server_close(server);
	return error;
}

const char *http_server_address(const struct http_server *server)
{
	return server->address;
}

void http_server_close(struct http_server *server)
{
	if (!server)
		return;
	http_server_renew(server);
	if (server->daemon)
		server->mhd.stop(server->daemon);
	free(server);
}
#endif
