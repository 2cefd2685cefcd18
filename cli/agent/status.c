/* SPDX-License-Identifier: MIT */
/*
 * The answer has a line for each session, and a last one, without which it is not complete:
 *
 *	NAME \t STATE \t PID \t SINCE \t RESTARTS \t MESSAGE \n
 *	. \n
 *
 * Messages are made printable, so they hold neither tabs nor newlines. It fits a socket's buffer
 * (SET_SESSIONS lines), so that the agent waits for nobody.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cli/agent/place.h"
#include "cli/agent/session.h"
#include "cli/agent/status.h"
#include "cli/print/out.h"
#include "cli/print/print.h"
#include "libprobe/base/buffer.h"

enum { ANSWER_BYTES = SET_SESSIONS * 2048, FIELDS = 6, TIMEOUT_SECONDS = 5 };
enum { NAME, STATE, PID, SINCE, RESTARTS, MESSAGE };

/* ---- The agent's side ------------------------------------------------------- */

struct probe_error *status_open(struct status_server *server)
{
	struct probe_error *error = place_take(&server->folder);

	return error ? error : place_listen(server->folder, &server->fd);
}

void status_close(struct status_server *server)
{
	if (server->fd >= 0) {
		place_remove(server->folder);
		close(server->fd);
	}
	if (server->folder >= 0)
		close(server->folder);
}

static void add_session(struct buffer *out, const struct agent_session *session)
{
	buffer_string(out, session->entry.name);
	buffer_char(out, '\t');
	buffer_string(out, agent_session_state_text(session));
	buffer_char(out, '\t');
	buffer_signed(out, session->pid);
	buffer_char(out, '\t');
	buffer_signed(out, session->since);
	buffer_char(out, '\t');
	buffer_unsigned(out, session->restarts);
	buffer_char(out, '\t');
	out_printable(out, agent_session_message(session));
	buffer_char(out, '\n');
}

void status_answer(
	struct status_server *server, struct agent_session *const *sessions, size_t count)
{
	struct buffer out = {0};
	int asker, bytes = 2 * ANSWER_BYTES;

	while ((asker = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		out.length = 0;
		for (size_t i = 0; i < count; i++)
			add_session(&out, sessions[i]);
		buffer_string(&out, ".\n");
		setsockopt(asker, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
		/* What does not fit lacks its last line. */
		if (!out.no_memory)
			send(asker, out.data, out.length, MSG_NOSIGNAL);
		close(asker);
	}
	buffer_deinit(&out);
}

/* ---- The asker's side ------------------------------------------------------- */

static struct probe_error *read_answer(int fd, char *answer, size_t size)
{
	size_t length = 0;
	ssize_t got;

	do {
		got = read(fd, answer + length, size - 1 - length);
		length += got > 0 ? (size_t)got : 0;
	} while (got > 0 || (got < 0 && errno == EINTR));
	if (got < 0)
		return probe_error_system(errno, "the agent does not answer");
	answer[length] = '\0';
	if (length < 2 || strcmp(answer + length - 2, ".\n") != 0)
		return probe_error_new(PROBE_ERROR_FORMAT, "the agent's answer is not complete");
	answer[length - 2] = '\0';
	return NULL;
}

/* Cuts the next line into its fields; false at the end, or where there are too few. */
static bool take_fields(char **at, char *fields[FIELDS])
{
	char *line = strsep(at, "\n");

	for (int i = 0; i < FIELDS; i++) {
		fields[i] = strsep(&line, "\t");
		if (!fields[i])
			return false;
	}
	return true;
}

/* "2026-11-26 15:04:05", of the local time. */
static void time_text(const char *seconds, char *text, size_t size)
{
	time_t when = (time_t)strtoll(seconds, NULL, 10);
	struct tm tm;

	if (!localtime_r(&when, &tm) || !strftime(text, size, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(text, size, "?");
}

static struct probe_error *print_table(char *answer)
{
	static const struct table_column columns[] = {{.title = "SESSION"}, {.title = "STATE"},
		{.title = "PID", .is_number = true}, {.title = "SINCE"},
		{.title = "RESTARTS", .is_number = true}, {.title = "MESSAGE", .shrinks = true}};
	struct table *table = table_create(columns, FIELDS);
	struct probe_error *error;
	char *fields[FIELDS], since[32];

	while (take_fields(&answer, fields)) {
		time_text(fields[SINCE], since, sizeof(since));
		fields[SINCE] = since;
		if (strcmp(fields[PID], "0") == 0)
			fields[PID] = "-";
		table_add(table, (const char *const *)fields);
	}
	error = table_print(table);
	table_free(table);
	return error;
}

static struct probe_error *print_json(char *answer)
{
	struct buffer out = {0};
	struct probe_error *error;
	char *fields[FIELDS];

	while (take_fields(&answer, fields)) {
		out_text_field(&out, "{\"session\":", fields[NAME]);
		out_text_field(&out, ",\"state\":", fields[STATE]);
		out_number_field(&out, ",\"pid\":", strtoull(fields[PID], NULL, 10));
		out_number_field(&out, ",\"since\":", strtoull(fields[SINCE], NULL, 10));
		out_number_field(&out, ",\"restarts\":", strtoull(fields[RESTARTS], NULL, 10));
		out_text_field(&out, ",\"message\":", fields[MESSAGE]);
		buffer_json_end(&out);
	}
	error = out_flush(&out, stdout);
	buffer_deinit(&out);
	return error;
}

struct probe_error *status_print(bool json)
{
	const struct timeval limit = {.tv_sec = TIMEOUT_SECONDS};
	char *answer = malloc(ANSWER_BYTES);
	struct probe_error *error;
	int fd = -1;

	if (!answer)
		return probe_error_no_memory();
	error = place_connect(&fd);
	if (!error) {
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		error = read_answer(fd, answer, ANSWER_BYTES);
	}
	if (!error)
		error = json ? print_json(answer) : print_table(answer);
	if (fd >= 0)
		close(fd);
	free(answer);
	return error;
}
