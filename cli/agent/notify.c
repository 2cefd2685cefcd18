/* SPDX-License-Identifier: MIT */
/* The protocol is a datagram to the socket that $NOTIFY_SOCKET names: sd_notify(3). */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/agent/notify.h"

int notify_service(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = path ? strlen(path) : 0;
	int fd, err = 0;

	if (!length)
		return 0;
	if ((path[0] != '/' && path[0] != '@') || length >= sizeof(address.sun_path))
		return EINVAL;
	memcpy(address.sun_path, path, length);
	if (path[0] == '@') /* a name of the abstract namespace */
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
		err = errno;
	close(fd);
	return err;
}
