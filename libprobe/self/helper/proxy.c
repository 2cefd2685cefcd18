/* SPDX-License-Identifier: MIT */
/*
 * A controller outside a process stops one of its threads to have a system call made in it. Here a
 * thread of the process waits for the change anyway, so the controller asks that thread: no thread
 * is stopped for it, and nothing is written into the process.
 *
 *	controller                      caller
 *	call     ---- socket ---->      makes the call
 *	         <--- the result -      waits for the next one, or the reply
 *
 * The caller waits where it answered until the controller continues, like a thread that is stopped
 * after the call. Functions of the program that say which probes are meant are called there, too.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/self/helper/proxy.h"

struct request {
	int64_t number;
	uint64_t args[6];
	bool has_text; /* instead of the first argument */
};

/* ---- In the controller -------------------------------------------------------------------- */

/* Sends a question and receives its answer. */
static bool ask(int socket, enum message_kind kind, struct buffer *question, int64_t *ret)
{
	struct message answer = {0};
	bool ok = message_send(socket, kind, question) &&
		  message_receive(socket, -1, 0, &answer) == MESSAGE_GOT &&
		  answer.kind == MESSAGE_ANSWER;

	if (ok)
		message_read(&answer, ret, sizeof(*ret));
	ok = ok && !answer.is_bad;
	message_deinit(&answer);
	buffer_deinit(question);
	return ok;
}

bool proxy_ask(void *socket, struct control_call *call)
{
	struct request request = {.number = call->number, .has_text = call->text != NULL};
	struct buffer question = {0};

	memcpy(request.args, call->args, sizeof(request.args));
	buffer_bytes(&question, &request, sizeof(request));
	if (call->text)
		message_add_text(&question, call->text);
	return ask(*(const int *)socket, MESSAGE_CALL, &question, &call->result);
}

bool proxy_matches(const char *path, const char *provider, const char *name, void *predicate)
{
	const struct proxy_predicate *p = predicate;
	struct buffer question = {0};
	int64_t matches;

	buffer_bytes(&question, &p->function, sizeof(p->function));
	buffer_bytes(&question, &p->data, sizeof(p->data));
	message_add_text(&question, path);
	message_add_text(&question, provider);
	message_add_text(&question, name);
	return ask(p->socket, MESSAGE_MATCH, &question, &matches) && matches;
}

/* ---- In the caller ------------------------------------------------------------------------ */

static int64_t make_call(struct message *message)
{
	const char *text = "";
	struct request r;
	int64_t result;

	message_read(message, &r, sizeof(r));
	if (r.has_text)
		text = message_text(message);
	if (message->is_bad)
		return -EINVAL;
	result = syscall(r.number, r.has_text ? (uint64_t)(uintptr_t)text : r.args[0], r.args[1],
		r.args[2], r.args[3], r.args[4], r.args[5]);
	return result == -1 ? -errno : result;
}

static int64_t match(struct message *message)
{
	bool (*function)(const char *path, const char *provider, const char *name, void *data);
	const char *path, *provider, *name;
	uint64_t address, data;

	message_read(message, &address, sizeof(address));
	message_read(message, &data, sizeof(data));
	path = message_text(message);
	provider = message_text(message);
	name = message_text(message);
	function = (__typeof__(function))(uintptr_t)address;
	return !message->is_bad && function(path, provider, name, (void *)(uintptr_t)data);
}

bool proxy_serve(int socket, struct message *message)
{
	struct buffer answer = {0};
	int64_t result;

	if (message->kind != MESSAGE_CALL && message->kind != MESSAGE_MATCH)
		return false;
	result = message->kind == MESSAGE_CALL ? make_call(message) : match(message);
	buffer_bytes(&answer, &result, sizeof(result));
	/* If the controller is gone, that shows when it is read from. */
	(void)message_send(socket, MESSAGE_ANSWER, &answer);
	buffer_deinit(&answer);
	return true;
}
