/* SPDX-License-Identifier: MIT */
/* Where a server listens, and under which names it answers. */
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

#include "libprobe/output/output.h"

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static bool parse_port(const char *text, in_port_t *ret)
{
	char *end;
	unsigned long port;

	/* strtoul(3) takes signs and blanks, too. */
	if (strspn(text, "0123456789") != strlen(text) || !*text)
		return false;
	errno = 0;
	port = strtoul(text, &end, 10);
	*ret = htons((uint16_t)port);
	return !errno && port <= UINT16_MAX;
}

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
	in_port_t port;

	if (!colon || (size_t)(colon - text) >= sizeof(host) || !parse_port(colon + 1, &port))
		return false;
	memcpy(host, text, (size_t)(colon - text));
	if (!parse_host(host, ret))
		return false;
	/* Both have it in the same place. */
	ret->v4.sin_port = port;
	return true;
}

_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
	"one assignment is for both");

static socklen_t length_of(const union address *address)
{
	return address->any.sa_family == AF_INET6 ? sizeof(address->v6) : sizeof(address->v4);
}

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

/* The kernel may have chosen the port. */
static void show(int fd, char shown[HTTP_ADDRESS_BYTES])
{
	union address address = {0};
	socklen_t length = sizeof(address);
	bool is_v6;
	char host[INET6_ADDRSTRLEN] = "";

	getsockname(fd, &address.any, &length);
	is_v6 = address.any.sa_family == AF_INET6;
	inet_ntop(address.any.sa_family,
		is_v6 ? (const void *)&address.v6.sin6_addr : (const void *)&address.v4.sin_addr,
		host, sizeof(host));
	snprintf(shown, HTTP_ADDRESS_BYTES, is_v6 ? "[%s]:%u" : "%s:%u", host,
		ntohs(address.v4.sin_port));
}

struct probe_error *http_listen(const char *text, int *fd_ret, char shown[HTTP_ADDRESS_BYTES])
{
	union address address;
	int fd, one = 1;

	if (!parse_address(text, &address))
		return probe_error_new(PROBE_ERROR_USAGE,
			"'%s' is no address to listen at: use 127.0.0.1:9100, [::1]:9100, "
			":9100 (of localhost) or *:9100 (of every interface)",
			text);
	fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return cannot_listen(text, errno);
	/* Connections of a server that has just ended do not keep its port. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &address.any, length_of(&address)) || listen(fd, SOMAXCONN)) {
		struct probe_error *error = cannot_listen(text, errno);

		close(fd);
		return error;
	}
	show(fd, shown);
	*fd_ret = fd;
	return NULL;
}

/* ---- Host names ---------------------------------------------------------------- */

/* Whether a name is NAME or NAME.DOMAIN, with one of the domains that are searched. */
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

bool http_host_is_ours(const char *host)
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
