/* SPDX-License-Identifier: MIT */
/*
 * Finds source lines with libdwfl in a child process.
 *
 *	lines_find()  -- addresses -->  libdwfl in a child
 *	              <-- line, file --  for each, as many in a message as it has room for
 *
 * The child packs as many answers into a message as fit, because on a busy machine each message may
 * have to wait for a processor.
 *
 * libdwfl needs a process of its own because it may crash. It maps the files that it reads, so it
 * gets a SIGBUS if such a file is truncated. When memory runs out, it crashes at the next look-up
 * or fails an assertion. Malformed debug information may do anything to it. Source lines are
 * optional: if the child ends or does not answer, no lines are found.
 *
 * A separate debug file is searched by build id only. By default libdw would also try names and
 * checksums, for which it reads whole files, and would ask debuginfod servers, which a tracer
 * should not do unasked.
 */
#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elf/internal.h"
#include "elf/lines.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/map.h"
#include "libprobe/base/worker.h"

/* ==== Libdw =================================================================================== */

/*
 * Loading libdw and its dependencies (decompressors) takes longer than listing probes, so this is
 * done at the first request. The build needs only its headers.
 */

struct probe_error *libdw_load(
	const char *purpose, const struct libdw_function *functions, size_t count)
{
	/* libdw is never unloaded, because the next module needs it again. */
	void *libdw = dlopen("libdw.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);

	if (!libdw)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"%s libdw (elfutils), which cannot be loaded: %s", purpose, dlerror());
	for (size_t i = 0; i < count; i++) {
		*functions[i].address = dlsym(libdw, functions[i].name);
		if (!*functions[i].address)
			return probe_error_new(PROBE_ERROR_UNSUPPORTED,
				"%s a newer libdw (elfutils), with %s()", purpose,
				functions[i].name);
	}
	return NULL;
}

/* ==== Lines =================================================================================== */

/* time limit for an answer: enough for gigabytes of debug information */
#define ANSWER_NS UINT64_C(20000000000)

enum { LOOK_MS = 100, FILE_BYTES = 4096, MESSAGE_BYTES = 4 * FILE_BYTES };

struct libdw {
	typeof(dwfl_begin) *begin;
	typeof(dwfl_end) *end;
	typeof(dwfl_report_offline) *report_offline;
	typeof(dwfl_report_end) *report_end;
	typeof(dwfl_module_getelf) *module_getelf;
	typeof(dwfl_module_getsrc) *module_getsrc;
	typeof(dwfl_lineinfo) *lineinfo;
	typeof(dwfl_build_id_find_debuginfo) *find_debuginfo;
	typeof(dwfl_offline_section_address) *section_address;
};

static struct probe_error *functions_load(struct libdw *libdw)
{
	const struct libdw_function functions[] = {
		{"dwfl_begin", (void **)&libdw->begin},
		{"dwfl_end", (void **)&libdw->end},
		{"dwfl_report_offline", (void **)&libdw->report_offline},
		{"dwfl_report_end", (void **)&libdw->report_end},
		{"dwfl_module_getelf", (void **)&libdw->module_getelf},
		{"dwfl_module_getsrc", (void **)&libdw->module_getsrc},
		{"dwfl_lineinfo", (void **)&libdw->lineinfo},
		{"dwfl_build_id_find_debuginfo", (void **)&libdw->find_debuginfo},
		{"dwfl_offline_section_address", (void **)&libdw->section_address},
	};

	return libdw_load("source lines need", functions, sizeof(functions) / sizeof(functions[0]));
}

/* ---- In the child ----------------------------------------------------------------- */

/* The answer for one address. In a message, it ends with the NUL of its file name. */
struct answer {
	int32_t line; /* 0 if the line is unknown */
	char file[FILE_BYTES];
};

struct server {
	const struct libdw *libdw;
	Dwfl_Callbacks callbacks; /* `dwfl` points to this member */
	Dwfl *dwfl;
	Dwfl_Module *module; /* NULL if libdw cannot read the file */
	GElf_Addr bias;	     /* to add to an address of the file to get an address of libdw */
};

/* Hands the file to libdwfl. On failure `module` stays NULL, and no line is found. */
static void report(struct server *server, const struct object *object)
{
	/* libdwfl owns this descriptor and closes it. */
	int fd = fcntl(object->fd, F_DUPFD_CLOEXEC, 0);

	server->callbacks = (Dwfl_Callbacks){
		.find_debuginfo = server->libdw->find_debuginfo,
		.section_address = server->libdw->section_address,
	};
	server->dwfl = server->libdw->begin(&server->callbacks);
	if (fd < 0 || !server->dwfl)
		return;
	server->module =
		server->libdw->report_offline(server->dwfl, object->path, object->path, fd);
	server->libdw->report_end(server->dwfl, NULL, NULL);
	if (server->module && !server->libdw->module_getelf(server->module, &server->bias))
		server->module = NULL;
}

static void find(const struct server *server, uint64_t address, struct answer *ret)
{
	Dwfl_Line *line = NULL;
	const char *file;
	int number = 0;

	ret->line = 0;
	ret->file[0] = '\0';
	if (server->module)
		line = server->libdw->module_getsrc(server->module, address + server->bias);
	if (!line)
		return;
	file = server->libdw->lineinfo(line, NULL, &number, NULL, NULL, NULL);
	/* Line 0 means that the code belongs to no line (DWARF 5, 6.2.2). */
	if (!file || number <= 0 || strlen(file) >= sizeof(ret->file))
		return;
	ret->line = number;
	strcpy(ret->file, file);
}

/* Lets the child crash quietly, without a core file, and kills it when its parent ends. */
static void set_up(pid_t parent)
{
	static const int ending[] = {SIGABRT, SIGTRAP, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	const struct rlimit none = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* the parent ended before prctl() */
		_exit(EXIT_FAILURE);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		signal(ending[i], SIG_DFL);
	setrlimit(RLIMIT_CORE, &none);
	if (null >= 0)
		dup2(null, STDERR_FILENO);
}

static void send_all(int channel, const char *message, size_t length)
{
	if (send(channel, message, length, MSG_NOSIGNAL) != (ssize_t)length)
		_exit(EXIT_FAILURE);
}

static _Noreturn void serve(
	const struct libdw *libdw, const struct object *object, int channel, pid_t parent)
{
	struct server server = {.libdw = libdw};
	uint64_t addresses[LINES_AT_ONCE];
	char message[MESSAGE_BYTES];
	struct answer answer;
	ssize_t got;

	set_up(parent);
	report(&server, object);
	while ((got = recv(channel, addresses, sizeof(addresses), 0)) > 0) {
		size_t used = 0;

		for (size_t i = 0; i < (size_t)got / sizeof(*addresses); i++) {
			size_t length;

			find(&server, addresses[i], &answer);
			length = offsetof(struct answer, file) + strlen(answer.file) + 1;
			if (used + length > sizeof(message)) {
				send_all(channel, message, used);
				used = 0;
			}
			memcpy(message + used, &answer, length);
			used += length;
		}
		send_all(channel, message, used);
	}
	_exit(EXIT_SUCCESS);
}

/* ---- In the parent ----------------------------------------------------------------- */

struct lines {
	pid_t pid; /* 0 if the child has ended */
	int channel;
	struct map files; /* the names of source files that were received */
};

static void give_up(struct lines *lines)
{
	if (lines->channel >= 0)
		close(lines->channel);
	lines->channel = -1;
	if (!lines->pid)
		return;
	worker_end_child(lines->pid, 0, &(int){0});
	lines->pid = 0;
}

static struct probe_error *start(
	struct lines *lines, const struct libdw *libdw, const struct object *object)
{
	pid_t parent = getpid();
	int channel[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel))
		return probe_error_system(errno, "%s: cannot look for source lines", object->path);
	lines->pid = fork();
	if (lines->pid == 0) {
		close(channel[0]);
		serve(libdw, object, channel[1], parent);
	}
	close(channel[1]);
	lines->channel = channel[0];
	if (lines->pid > 0)
		return NULL;
	lines->pid = 0;
	return probe_error_system(errno, "%s: cannot look for source lines", object->path);
}

struct probe_error *lines_open(struct object *object, struct lines **ret)
{
	struct lines *lines = calloc(1, sizeof(*lines));
	struct probe_error *error;
	struct libdw libdw;

	if (!lines)
		return probe_error_no_memory();
	lines->channel = -1;
	/* Load libdw before fork(), so that the child inherits it. */
	error = functions_load(&libdw);
	if (!error)
		error = start(lines, &libdw, object);
	if (error) {
		lines_close(lines);
		return error;
	}
	*ret = lines;
	return NULL;
}

void lines_close(struct lines *lines)
{
	if (!lines)
		return;
	give_up(lines);
	map_clear(&lines->files);
	free(lines);
}

/* Receives a message. Returns its length, or 0 if the child is gone or silent. */
static size_t receive(const struct lines *lines, char message[MESSAGE_BYTES])
{
	struct patience patience = patience_of(ANSWER_NS);
	struct pollfd channel = {.fd = lines->channel, .events = POLLIN};
	ssize_t got;
	int ready;

	do {
		ready = poll(&channel, 1, LOOK_MS);
	} while (ready <= 0 && !patience_is_over(&patience));
	got = ready > 0 ? recv(lines->channel, message, MESSAGE_BYTES, 0) : 0;
	return got > 0 ? (size_t)got : 0;
}

/* Returns the one copy of a file name that `lines` keeps; NULL if out of memory. */
static const char *keep(struct lines *lines, const char *file)
{
	const void *known = map_add(&lines->files, 0, MAP_KEY(map_text(file)));

	return known ? map_key(known) : NULL;
}

/* Stores a message's answers, at most `count`. Returns their number. */
static size_t take(
	struct lines *lines, const char *message, size_t length, struct line *ret, size_t count)
{
	const size_t head = offsetof(struct answer, file);
	size_t taken = 0;

	while (taken < count && length > head) {
		size_t bytes = head + strnlen(message + head, length - head) + 1;
		int32_t line;

		if (bytes > length)
			break;
		memcpy(&line, message, sizeof(line));
		if (line > 0)
			ret[taken] = (struct line){keep(lines, message + head), line};
		taken++;
		message += bytes;
		length -= bytes;
	}
	return taken;
}

void lines_find(struct lines *lines, const uint64_t *addresses, size_t count, struct line *ret)
{
	size_t bytes = count * sizeof(*addresses), found = 0, length, took;
	char message[MESSAGE_BYTES];

	for (size_t i = 0; i < count; i++)
		ret[i] = (struct line){0};
	if (!lines->pid)
		return;
	if (send(lines->channel, addresses, bytes, MSG_NOSIGNAL) == (ssize_t)bytes)
		for (; found < count && (length = receive(lines, message)); found += took)
			if (!(took = take(lines, message, length, ret + found, count - found)))
				break;
	if (found < count)
		give_up(lines);
}
