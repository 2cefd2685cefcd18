/* SPDX-License-Identifier: MIT */
/* Replaces the HTTP server or client if its library's headers were missing at build time. */
#include "libprobe/output/output.h"

#ifndef HTTP_SERVER_BUILT
struct probe_error *probe_metrics_listen(
	const struct probe_metrics *metrics, const char *address, struct probe_metrics_server **ret)
{
	(void)metrics, (void)address, (void)ret;
	return probe_error_new(PROBE_ERROR_UNSUPPORTED,
		"built without libmicrohttpd: to serve metrics, install its headers (Debian: "
		"libmicrohttpd-dev) and rebuild (make clean all)");
}

/* Never called: no struct probe_metrics_server exists. */
void probe_metrics_server_close(struct probe_metrics_server *server)
{
	(void)server;
}

const char *probe_metrics_server_url(const struct probe_metrics_server *server)
{
	(void)server;
	return "";
}

int probe_metrics_server_fd(const struct probe_metrics_server *server)
{
	(void)server;
	return -1;
}

uint64_t probe_metrics_server_due_ns(const struct probe_metrics_server *server)
{
	(void)server;
	return UINT64_MAX;
}

void probe_metrics_server_run(struct probe_metrics_server *server)
{
	(void)server;
}

void probe_metrics_server_renew(struct probe_metrics_server *server)
{
	(void)server;
}
#endif

#ifndef HTTP_CLIENT_BUILT
struct probe_error *http_client_open(const char *url, const char *headers, struct http_client **ret)
{
	(void)url, (void)headers, (void)ret;
	return probe_error_new(PROBE_ERROR_UNSUPPORTED,
		"built without libcurl: to send OTLP, install its headers (Debian: "
		"libcurl4-openssl-dev) and rebuild (make clean all)");
}

/* Never called: no struct http_client exists. */
void http_client_close(struct http_client *client)
{
	(void)client;
}

void http_client_post(struct http_client *client, const struct http_message *message)
{
	(void)client, (void)message;
}

int http_client_fd(const struct http_client *client)
{
	(void)client;
	return -1;
}

uint64_t http_client_due_ns(const struct http_client *client)
{
	(void)client;
	return UINT64_MAX;
}

void http_client_run(struct http_client *client)
{
	(void)client;
}

void http_client_give_up(struct http_client *client)
{
	(void)client;
}

bool http_client_is_busy(const struct http_client *client)
{
	(void)client;
	return false;
}

struct http_sent http_client_sent(const struct http_client *client, unsigned int kind)
{
	(void)client, (void)kind;
	return (struct http_sent){0};
}

const char *http_client_why(const struct http_client *client)
{
	(void)client;
	return "";
}
#endif
