/* SPDX-License-Identifier: MIT */
/*
 * A controller outside a process stops one of its threads to have a system call made in it. Here a
 * thread of the process waits for the change anyway, so the copy asks that thread: no thread is
 * stopped for it, and nothing is written into the process.
 *
 *	copy                            caller
 *	request  ---- socket ---->      makes the call
 *	         <--- the result -      waits for the next request, or the reply
 *
 * The caller waits where it answered until the copy continues, like a thread that is stopped after
 * the call.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/self/proxy.h"

#define REQUEST_MAGIC UINT64_C(0x31747365757165f2)

static bool send_whole(int socket, const void *bytes, size_t size)
{
	ssize_t sent;

	do
		sent = send(socket, bytes, size, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)size;
}

bool proxy_ask(void *socket, struct control_call *call)
{
	int fd = *(const int *)socket;
	struct proxy_request request = {
		.magic = REQUEST_MAGIC, .number = call->number, .has_text = call->text != NULL};
	ssize_t got;

	memcpy(request.args, call->args, sizeof(request.args));
	if (call->text)
		strncpy(request.text, call->text, sizeof(request.text) - 1);
	if (!send_whole(fd, &request, sizeof(request)))
		return false;
	do
		got = recv(fd, &call->result, sizeof(call->result), MSG_WAITALL);
	while (got < 0 && errno == EINTR);
	return got == sizeof(call->result);
}

bool proxy_serve(int socket, const void *message, size_t length)
{
	const struct proxy_request *request = message;
	const uint64_t *args = request->args;
	int64_t result;

	if (length != sizeof(*request) || request->magic != REQUEST_MAGIC)
		return false;
	result = syscall(request->number,
		request->has_text ? (uint64_t)(uintptr_t)request->text : args[0], args[1], args[2],
		args[3], args[4], args[5]);
	if (result == -1)
		result = -errno;
	/* If the copy is gone, that shows when it is read from. */
	(void)send_whole(socket, &result, sizeof(result));
	return true;
}
