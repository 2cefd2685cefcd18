/* SPDX-License-Identifier: MIT */
/*
 * Replaces the HTTP server, the HTTP client, or Performance Co-Pilot if a library's headers were
 * missing at build time. Opening one fails, so its other functions are never called.
 */
#include "libprobe/output/output.h"
#include "probe/pcp.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define FAILS(function, parameters, why)                                                           \
	struct probe_error *function parameters                                                    \
	{                                                                                          \
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,                                    \
			"built without " why " and rebuild (make clean all)");                     \
	}

#define NEVER(type, function, parameters, value)                                                   \
	type function parameters                                                                   \
	{                                                                                          \
		return value;                                                                      \
	}

/* clang-format off */
#ifndef HTTP_SERVER_BUILT
FAILS(probe_metrics_listen, (const struct probe_metrics *metrics, const char *address,
	struct probe_metrics_server **ret),
	"libmicrohttpd: to serve metrics, install its headers (Debian: libmicrohttpd-dev)")
NEVER(void, probe_metrics_server_close, (struct probe_metrics_server *server), )
NEVER(const char *, probe_metrics_server_url, (const struct probe_metrics_server *server), "")
NEVER(int, probe_metrics_server_fd, (const struct probe_metrics_server *server), -1)
NEVER(uint64_t, probe_metrics_server_due_ns, (const struct probe_metrics_server *server),
	UINT64_MAX)
NEVER(void, probe_metrics_server_run, (struct probe_metrics_server *server), )
NEVER(void, probe_metrics_server_renew, (struct probe_metrics_server *server), )
#endif

#ifndef HTTP_CLIENT_BUILT
FAILS(http_client_open, (const char *url, const char *headers, struct http_client **ret),
	"libcurl: to send OTLP, install its headers (Debian: libcurl4-openssl-dev)")
NEVER(void, http_client_close, (struct http_client *client), )
NEVER(void, http_client_post, (struct http_client *client, const struct http_message *message), )
NEVER(int, http_client_fd, (const struct http_client *client), -1)
NEVER(uint64_t, http_client_due_ns, (const struct http_client *client),
	UINT64_MAX)
NEVER(void, http_client_run, (struct http_client *client), )
NEVER(void, http_client_give_up, (struct http_client *client), )
NEVER(bool, http_client_is_busy, (const struct http_client *client), false)
NEVER(struct http_sent, http_client_sent, (const struct http_client *client, unsigned int kind),
	(struct http_sent){0})
NEVER(const char *, http_client_why, (const struct http_client *client), "")
#endif

#ifndef PCP_BUILT
FAILS(probe_pcp_open, (const struct probe_view *view, size_t key_count, struct probe_pcp **ret),
	"Performance Co-Pilot: to export metrics, install its headers "
	"(Debian: libpcp-mmv1-dev, libpcp3-dev)")
NEVER(struct probe_error *, probe_pcp_add, (struct probe_pcp *pcp, pid_t pid, const char *program,
	struct probe_table *table), NULL)
NEVER(struct probe_error *, probe_pcp_renew, (struct probe_pcp *pcp, pid_t pid,
	const char *program, struct probe_table *table), NULL)
NEVER(void, probe_pcp_end, (struct probe_pcp *pcp, pid_t pid), )
NEVER(struct probe_error *, probe_pcp_update, (struct probe_pcp *pcp), NULL)
NEVER(const char *, probe_pcp_name, (const struct probe_pcp *pcp), "")
NEVER(size_t, probe_pcp_left_out, (const struct probe_pcp *pcp), 0)
NEVER(void, probe_pcp_close, (struct probe_pcp *pcp), )
#endif
/* clang-format on */
