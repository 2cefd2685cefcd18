/* SPDX-License-Identifier: MIT */
/*
 * The HTTP server of the page /metrics, for scrapers, which can be read (GET, HEAD). It has no
 * thread, because a thread would need locks, and is dangerous in a program that forks.
 *
 * It uses libmicrohttpd with an external loop: one epoll(7) descriptor stands for the listening
 * socket and all connections.
 *
 * Clients are not trusted. At most CONNECTIONS_MAX connect at once; others wait in the kernel's
 * queue. A connection gets one answer within DEADLINE_NS: libmicrohttpd's timeout would begin again
 * with every byte. A page is generated once for all clients, until
 * probe_metrics_server_renew().
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/output/output.h"

/* ==== The page ================================================================================ */

/* Parses a weight such as "0.75", in any locale, into thousandths. */
static unsigned int parse_weight(const char *text)
{
	unsigned int weight = *text == '1' ? 1000 : 0;

	if (text[0] != '0' || text[1] != '.')
		return weight;
	text += 2;
	for (unsigned int unit = 100; unit && *text >= '0' && *text <= '9'; unit /= 10)
		weight += unit * (unsigned int)(*text++ - '0');
	return weight;
}

/* Returns the highest weight of a type in a client's `Accept` (RFC 9110, 12.4.2), or 0. */
static unsigned int wish(const char *accept, const char *type)
{
	size_t length = strlen(type);
	unsigned int most = 0;

	if (!accept)
		return 0;
	while (*accept) {
		const char *at = accept + strspn(accept, " \t,");
		const char *end = at + strcspn(at, ",");
		unsigned int wanted = 1000;

		accept = end;
		if ((size_t)(end - at) < length || strncasecmp(at, type, length) ||
			(at[length] && !strchr(" \t;,", at[length])))
			continue;
		for (at += length; at < end; at++)
			if (*at == 'q' && at[1] == '=' && strchr(" \t;", at[-1]))
				wanted = parse_weight(at + 2);
		most = wanted > most ? wanted : most;
	}
	return most;
}

/* Clients that ask for no format, such as browsers, get the older one. */
int metrics_find_page(const char *path, const char *accept)
{
	unsigned int openmetrics = wish(accept, "application/openmetrics-text");

	if (strcmp(path, "/metrics") != 0)
		return -1;
	return openmetrics > 0 && openmetrics >= wish(accept, "text/plain")
		       ? PROBE_METRICS_OPENMETRICS
		       : PROBE_METRICS_TEXT;
}

#ifdef HTTP_SERVER_BUILT
#include <microhttpd.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/library.h"

/* ==== Address ================================================================================= */

/* The maximum length of an address in a URL. It is never a name, whose look-up might take long. */
enum { HTTP_ADDRESS_BYTES = 64 };

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static bool parse_host(const char *host, union address *ret)
{
	char inner[INET6_ADDRSTRLEN] = "";
	size_t length = strlen(host);

	*ret = (union address){.v4 = {.sin_family = AF_INET}};
	if (!*host || !strcmp(host, "localhost"))
		host = "127.0.0.1";
	else if (!strcmp(host, "*"))
		host = "0.0.0.0";
	if (*host != '[')
		return inet_pton(AF_INET, host, &ret->v4.sin_addr) == 1;
	*ret = (union address){.v6 = {.sin6_family = AF_INET6}};
	if (host[length - 1] != ']' || length - 2 >= sizeof(inner))
		return false;
	memcpy(inner, host + 1, length - 2);
	return inet_pton(AF_INET6, inner, &ret->v6.sin6_addr) == 1;
}

static bool parse_address(const char *text, union address *ret)
{
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2] = "";
	unsigned long port;

	/* strtoul(3) also accepts signs and blanks. */
	if (!colon || (size_t)(colon - text) >= sizeof(host) || !colon[1] ||
		colon[1 + strspn(colon + 1, "0123456789")])
		return false;
	errno = 0;
	port = strtoul(colon + 1, NULL, 10);
	if (errno || port > UINT16_MAX)
		return false;
	memcpy(host, text, (size_t)(colon - text));
	if (!parse_host(host, ret))
		return false;
	/* sin_port and sin6_port have the same offset. */
	ret->v4.sin_port = htons((uint16_t)port);
	return true;
}

_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
	"one assignment is for both");

static struct probe_error *cannot_listen(const char *text, int err)
{
	switch (err) {
	case EADDRINUSE:
		return probe_error_system(err,
			"cannot listen at %s; take another port, or 0 for any that is free", text);
	case EADDRNOTAVAIL:
		return probe_error_system(err,
			"cannot listen at %s, which is no address of this machine (`ip addr` "
			"lists them)",
			text);
	case EACCES:
		return probe_error_system(
			err, "cannot listen at %s; ports from 1024 on are for everyone", text);
	default:
		return probe_error_system(err, "cannot listen at %s", text);
	}
}

static struct probe_error *http_listen(
	const char *text, int *fd_ret, char shown[HTTP_ADDRESS_BYTES])
{
	char host[INET6_ADDRSTRLEN] = "";
	union address address;
	socklen_t length = sizeof(address);
	int fd, one = 1;
	bool is_v6;

	if (!parse_address(text, &address))
		return probe_error_new(PROBE_ERROR_USAGE,
			"'%s' is no address to listen at: use 127.0.0.1:9100, [::1]:9100, "
			":9100 (of localhost) or *:9100 (of every interface)",
			text);
	fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return cannot_listen(text, errno);
	/* Without this, connections of a server that has just ended would block the port. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &address.any,
		    address.any.sa_family == AF_INET6 ? sizeof(address.v6) : sizeof(address.v4)) ||
		listen(fd, SOMAXCONN)) {
		struct probe_error *error = cannot_listen(text, errno);

		close(fd);
		return error;
	}
	/* The kernel may have chosen the port. */
	getsockname(fd, &address.any, &length);
	is_v6 = address.any.sa_family == AF_INET6;
	inet_ntop(address.any.sa_family,
		is_v6 ? (const void *)&address.v6.sin6_addr : (const void *)&address.v4.sin_addr,
		host, sizeof(host));
	snprintf(shown, HTTP_ADDRESS_BYTES, is_v6 ? "[%s]:%u" : "%s:%u", host,
		ntohs(address.v4.sin_port));
	*fd_ret = fd;
	return NULL;
}

/* ---- Host names ---------------------------------------------------------------- */

/* Returns true if `host` is `name`, or NAME.DOMAIN with a domain that the resolver searches. */
static bool is_in_domain(const char *host, const char *name)
{
	struct __res_state resolver = {0};
	size_t length = strlen(name);
	bool ret = false;

	if (strncasecmp(host, name, length) != 0)
		return false;
	if (!host[length])
		return true;
	if (host[length] != '.' || res_ninit(&resolver) != 0)
		return false;
	for (char **domain = resolver.dnsrch; *domain && !ret; domain++)
		ret = strcasecmp(host + length + 1, *domain) == 0;
	res_nclose(&resolver);
	return ret;
}

/*
 * Returns true if a request's `Host` (HOST or HOST:PORT) names this machine: an address, localhost,
 * or the host name, alone or in a domain of resolv.conf(5). If other names were allowed, another
 * site's web page could read ours through a browser, if its name resolves to this machine ("DNS
 * rebinding").
 */
static bool http_host_is_ours(const char *host)
{
	const char *colon = strrchr(host, ':'), *bracket = strrchr(host, ']');
	size_t length =
		colon && (!bracket || colon > bracket) ? (size_t)(colon - host) : strlen(host);
	char name[NI_MAXHOST] = "", own[HOST_NAME_MAX + 1] = "";
	union address address;

	if (length >= sizeof(name))
		return false;
	memcpy(name, host, length);
	if (length && name[length - 1] == '.')
		name[length - 1] = '\0';
	if (!strcasecmp(name, "localhost") || (*name && parse_host(name, &address)))
		return true;
	if (gethostname(own, sizeof(own) - 1) || !*own)
		return false;
	if (is_in_domain(name, own))
		return true;
	own[strcspn(own, ".")] = '\0';
	return is_in_domain(name, own);
}

/* ==== The server ============================================================================== */

enum { CONNECTIONS_MAX = 64, CONNECTION_BYTES = 16 << 10 };

static const char *const types[] = {
	[PROBE_METRICS_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
	[PROBE_METRICS_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
};
enum { PAGES = sizeof(types) / sizeof(types[0]) };
#define DEADLINE_NS UINT64_C(10000000000)
#define NS_PER_MS UINT64_C(1000000)

/* clang-format off */
#define LIBMICROHTTPD(X) \
	X(start, MHD_start_daemon) X(stop, MHD_stop_daemon) X(run, MHD_run) \
	X(timeout, MHD_get_timeout) X(daemon_info, MHD_get_daemon_info) \
	X(connection_info, MHD_get_connection_info) X(value, MHD_lookup_connection_value) \
	X(response, MHD_create_response_from_buffer) X(header, MHD_add_response_header) \
	X(queue, MHD_queue_response) X(destroy, MHD_destroy_response)
/* clang-format on */

struct libmicrohttpd {
	LIBMICROHTTPD(LIBRARY_MEMBER)
};

static const char *const mhd_names[] = {LIBMICROHTTPD(LIBRARY_NAME) NULL};
static const struct library libmicrohttpd = {"libmicrohttpd.so.12",
	"serving metrics needs libmicrohttpd (Debian: libmicrohttpd12)",
	"serving metrics needs another libmicrohttpd"};

/* fd is -1 in an unused slot. */
struct connection {
	int fd;
	uint64_t until_ns;
};

struct probe_metrics_server {
	struct libmicrohttpd mhd;
	const struct probe_metrics *metrics;
	struct MHD_Daemon *daemon;
	int epoll_fd;
	struct connection connections[CONNECTIONS_MAX];
	struct MHD_Response *made[PAGES]; /* by enum probe_metrics_format */
	char url[HTTP_ADDRESS_BYTES + sizeof("http:///metrics")];
};

/* ---- Answers ------------------------------------------------------------------- */

static struct MHD_Response *respond(
	const struct probe_metrics_server *server, char *body, size_t length, const char *type)
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

/* Sends an answer of one line. */
static enum MHD_Result refuse(const struct probe_metrics_server *server,
	struct MHD_Connection *connection, unsigned int status, const char *line)
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

static enum MHD_Result answer(void *data, struct MHD_Connection *connection, const char *path,
	const char *method, const char *version, const char *upload, size_t *upload_bytes,
	void **request)
{
	struct probe_metrics_server *server = data;
	const char *host = server->mhd.value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
	struct probe_error *error;
	char *body = NULL;
	size_t length = 0;
	int page;

	(void)version, (void)upload, (void)upload_bytes, (void)request;
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return refuse(server, connection, MHD_HTTP_METHOD_NOT_ALLOWED,
			"Only GET and HEAD are served here.\n");
	if (host && !http_host_is_ours(host))
		return refuse(server, connection, MHD_HTTP_MISDIRECTED_REQUEST,
			"This is no name of this machine: use its address, localhost or its host "
			"name.\n");
	page = metrics_find_page(
		path, server->mhd.value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT));
	if (page < 0)
		return refuse(server, connection, MHD_HTTP_NOT_FOUND,
			"There is nothing here; metrics are at /metrics.\n");
	/* Connections that still send an older page keep it. */
	if (!server->made[page]) {
		error = probe_metrics_text(
			server->metrics, (enum probe_metrics_format)page, &body, &length);
		if (!error)
			server->made[page] = respond(server, body, length, types[page]);
		/* Report any error as lack of memory, because nothing else can fail. */
		probe_error_free(error);
	}
	if (!server->made[page])
		return refuse(server, connection, MHD_HTTP_SERVICE_UNAVAILABLE,
			"There is no memory for this page.\n");
	return server->mhd.queue(connection, MHD_HTTP_OK, server->made[page]);
}

/* ---- Connections ---------------------------------------------------------------- */

static void watch(void *data, struct MHD_Connection *connection, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	struct probe_metrics_server *server = data;
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

/* ---- The caller's loop ---------------------------------------------------------- */

int probe_metrics_server_fd(const struct probe_metrics_server *server)
{
	return server->epoll_fd;
}

uint64_t probe_metrics_server_due_ns(const struct probe_metrics_server *server)
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

void probe_metrics_server_run(struct probe_metrics_server *server)
{
	uint64_t now = clock_monotonic_ns();

	/* libmicrohttpd forgets a connection after it has been shut down. */
	for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
		struct connection *slot = &server->connections[i];

		if (slot->fd >= 0 && slot->until_ns <= now) {
			shutdown(slot->fd, SHUT_RDWR);
			slot->until_ns = UINT64_MAX;
		}
	}
	server->mhd.run(server->daemon);
}

void probe_metrics_server_renew(struct probe_metrics_server *server)
{
	for (size_t i = 0; i < PAGES; i++) {
		if (server->made[i])
			server->mhd.destroy(server->made[i]);
		server->made[i] = NULL;
	}
}

/* ---- Life ------------------------------------------------------------------------ */

struct probe_error *probe_metrics_listen(
	const struct probe_metrics *metrics, const char *address, struct probe_metrics_server **ret)
{
	struct probe_metrics_server *server = calloc(1, sizeof(*server));
	char shown[HTTP_ADDRESS_BYTES];
	struct probe_error *error;
	int fd = -1;

	if (!server)
		return probe_error_no_memory();
	server->metrics = metrics;
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		server->connections[i].fd = -1;
	error = library_load(&libmicrohttpd, mhd_names, &server->mhd)
			?: http_listen(address, &fd, shown);
	if (!error) {
		server->daemon = server->mhd.start(MHD_USE_EPOLL, 0, NULL, NULL, answer, server,
			MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
			(unsigned int)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
			(size_t)CONNECTION_BYTES, MHD_OPTION_NOTIFY_CONNECTION, watch, server,
			MHD_OPTION_END);
		if (!server->daemon)
			error = probe_error_new(
				PROBE_ERROR_SYSTEM, "libmicrohttpd cannot serve at %s", shown);
	}
	if (error) {
		cleanup_fd(&fd);
		probe_metrics_server_close(server);
		return error;
	}
	server->epoll_fd =
		server->mhd.daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	snprintf(server->url, sizeof(server->url), "http://%s/metrics", shown);
	*ret = server;
	return NULL;
}

const char *probe_metrics_server_url(const struct probe_metrics_server *server)
{
	return server->url;
}

void probe_metrics_server_close(struct probe_metrics_server *server)
{
	if (!server)
		return;
	probe_metrics_server_renew(server);
	if (server->daemon)
		server->mhd.stop(server->daemon);
	free(server);
}
#endif
