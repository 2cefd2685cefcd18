/* SPDX-License-Identifier: MIT */
/* /metrics, for scrapers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "libprobe/output/output.h"

struct probe_metrics_server {
	struct http_pages pages;
	struct http_server *http;
	char url[HTTP_ADDRESS_BYTES + sizeof("http:///metrics")];
};

/* A weight, "0.75", in thousandths, whatever the locale. */
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

/* How much a client wants this type: the highest weight (RFC 9110, 12.4.2); 0: not at all. */
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

/* The older format is what clients get that ask for nothing in particular, as people do. */
int metrics_find_page(const char *path, const char *accept)
{
	unsigned int openmetrics = wish(accept, "application/openmetrics-text");

	if (strcmp(path, "/metrics") != 0)
		return -1;
	return openmetrics > 0 && openmetrics >= wish(accept, "text/plain")
		       ? PROBE_METRICS_OPENMETRICS
		       : PROBE_METRICS_TEXT;
}

static struct probe_error *make_page(int page, void *data, char **ret, size_t *length_ret)
{
	return probe_metrics_text(data, (enum probe_metrics_format)page, ret, length_ret);
}

struct probe_error *probe_metrics_listen(
	const struct probe_metrics *metrics, const char *address, struct probe_metrics_server **ret)
{
	struct probe_metrics_server *server = malloc(sizeof(*server));
	struct probe_error *error;

	if (!server)
		return probe_error_no_memory();
	*server = (struct probe_metrics_server){
		.pages = {
			.types = {[PROBE_METRICS_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
				[PROBE_METRICS_OPENMETRICS] =
					"application/openmetrics-text; version=1.0.0; "
					"charset=utf-8"},
			.find = metrics_find_page,
			.make = make_page,
			/* It is only read. */
			.data = (void *)(uintptr_t)metrics}};
	error = http_server_open(address, &server->pages, &server->http);
	if (error) {
		free(server);
		return error;
	}
	snprintf(server->url, sizeof(server->url), "http://%s/metrics",
		http_server_address(server->http));
	*ret = server;
	return NULL;
}

void probe_metrics_server_close(struct probe_metrics_server *server)
{
	if (!server)
		return;
	http_server_close(server->http);
	free(server);
}

const char *probe_metrics_server_url(const struct probe_metrics_server *server)
{
	return server->url;
}

int probe_metrics_server_fd(const struct probe_metrics_server *server)
{
	return http_server_fd(server->http);
}

uint64_t probe_metrics_server_due_ns(const struct probe_metrics_server *server)
{
	return http_server_due_ns(server->http);
}

void probe_metrics_server_run(struct probe_metrics_server *server)
{
	http_server_run(server->http);
}

void probe_metrics_server_renew(struct probe_metrics_server *server)
{
	http_server_renew(server->http);
}
