/* SPDX-License-Identifier: MIT */
/*
 * Finds source lines with libdwfl in a child process.
 *
 *	lines_find()    -- addresses -->   libdwfl in a child
 *	                <-- line, file --  for each, as many in a message as it has room for
 *	lines_breaks()  -- a function -->
 *	                <-- offsets --     where debuggers break
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
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "elf/internal.h"
#include "elf/lines.h"
#include "libprobe/base/array.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/base/map.h"
#include "libprobe/base/worker.h"

/* ==== Lines =================================================================================== */

/* time limit for an answer: enough for gigabytes of debug information */
#define ANSWER_NS UINT64_C(20000000000)

enum { LOOK_MS = 100, FILE_BYTES = 4096, MESSAGE_BYTES = 4 * FILE_BYTES };

/* clang-format off */
#define FUNCTIONS(X) \
	X(begin, dwfl_begin) X(end, dwfl_end) X(report_offline, dwfl_report_offline) \
	X(report_end, dwfl_report_end) X(module_getelf, dwfl_module_getelf) \
	X(module_getsrc, dwfl_module_getsrc) X(lineinfo, dwfl_lineinfo) \
	X(find_debuginfo, dwfl_build_id_find_debuginfo) \
	X(section_address, dwfl_offline_section_address) X(dwarf_begin, dwarf_begin) \
	X(nextcu, dwarf_nextcu) X(offdie, dwarf_offdie) X(ranges, dwarf_ranges) \
	X(getsrclines, dwarf_getsrclines) X(onesrcline, dwarf_onesrcline) \
	X(lineaddr, dwarf_lineaddr) X(lineno, dwarf_lineno) X(linesrc, dwarf_linesrc) \
	X(ends_sequence, dwarf_lineendsequence) X(ends_prologue, dwarf_lineprologueend)
/* clang-format on */

struct libdw {
	FUNCTIONS(LIBRARY_MEMBER)
};

/* ---- In the child ----------------------------------------------------------------- */

/* The answer for one address. In a message, it ends with the NUL of its file name. */
struct answer {
	int32_t line; /* 0 if the line is unknown */
	char file[FILE_BYTES];
};

/* A message to the child has a question, and what it is about. */
enum { ASK_LINES, ASK_BREAKS };

struct question {
	uint64_t kind; /* ASK_... */
	union {
		uint64_t addresses[LINES_AT_ONCE];
		struct lines_function function;
	};
};

/* Code of one compilation unit. */
struct unit {
	uint64_t start, end;
	Dwarf_Off offset; /* of the unit's DIE */
};

struct server {
	const struct libdw *libdw;
	const struct object *debug; /* the file with the line table */
	Dwfl_Callbacks callbacks;   /* `dwfl` points to this member */
	Dwfl *dwfl;
	Dwfl_Module *module; /* NULL if libdw cannot read the file */
	GElf_Addr bias;	     /* to add to an address of the file to get an address of libdw */
	/* The code of all units, for breaks: read at the first question. */
	bool units_read;
	Dwarf *dwarf; /* NULL without debug information */
	struct unit *units;
	size_t unit_count;
};

/* Hands the file to libdwfl. On failure `module` stays NULL, and no line is found. */
static void report(struct server *server)
{
	/* libdwfl owns this descriptor and closes it. */
	int fd = fcntl(server->debug->fd, F_DUPFD_CLOEXEC, 0);

	server->callbacks = (Dwfl_Callbacks){
		.find_debuginfo = server->libdw->find_debuginfo,
		.section_address = server->libdw->section_address,
	};
	server->dwfl = server->libdw->begin(&server->callbacks);
	if (fd < 0 || !server->dwfl)
		return;
	server->module = server->libdw->report_offline(
		server->dwfl, server->debug->path, server->debug->path, fd);
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

/* ---- Where debuggers break --------------------------------------------------------- */

/*
 * For `break FUNCTION`, a debugger looks for the end of the function's prologue:
 *
 *	gdb	the entry, or the end of what it knows of prologues (struct arch_entry); if that is
 *		amid a line's code, the next line (skip_prologue_sal()). In clang's code, the end of
 *		the first line's code, and of lines with smaller numbers behind it
 *		(skip_prologue_using_sal()); newer versions use the table's mark.
 *	lldb	the table's mark of the prologue's end; else the first other line; else the end of
 *		the first line's code (Function::GetPrologueByteSize()).
 *
 * A second row for the entry says that the prologue is empty. Which debugger will come is unknown,
 * so all these places are told.
 */

enum { ROWS_MAX = 16, LLDB_ROWS = 6 };

/* The rows of a line table for one address. */
struct row {
	uint64_t address;
	int line;	  /* the last row's */
	const char *file; /* the same; owned by libdw */
	bool is_marked;	  /* as the end of the prologue */
	bool is_double;
};

/* Lists the code of all units: .debug_aranges may lack some, and clang writes none. */
static void list_units(struct server *s)
{
	Dwarf_Off offset = 0, next;
	size_t header;

	s->units_read = true;
	s->dwarf = s->libdw->dwarf_begin(s->debug->fd, DWARF_C_READ);
	for (; s->dwarf &&
		s->libdw->nextcu(s->dwarf, offset, &next, &header, NULL, NULL, NULL) == 0 &&
		next > offset;
		offset = next) {
		Dwarf_Addr base, start, end;
		ptrdiff_t at = 0;
		Dwarf_Die unit;

		if (!s->libdw->offdie(s->dwarf, offset + header, &unit))
			continue;
		while ((at = s->libdw->ranges(&unit, at, &base, &start, &end)) > 0) {
			if (!ARRAY_ROOM(s->units, s->unit_count))
				_exit(EXIT_FAILURE);
			s->units[s->unit_count++] = (struct unit){start, end, offset + header};
		}
	}
	ARRAY_SORT(s->units, s->unit_count, start);
}

/* Reads the rows of a function, from its entry on. Returns their number. */
static size_t read_rows(const struct server *s, struct object_range range, struct row ret[ROWS_MAX])
{
	size_t i = ARRAY_SEARCH_ABOVE(s->units, s->unit_count, start, range.start);
	size_t low = 0, high, count = 0, all;
	Dwarf_Lines *lines;
	Dwarf_Addr address;
	Dwarf_Die unit;

	if (!i || s->units[i - 1].end <= range.start ||
		!s->libdw->offdie(s->dwarf, s->units[i - 1].offset, &unit) ||
		s->libdw->getsrclines(&unit, &lines, &all))
		return 0;
	for (high = all; low < high;) {
		size_t middle = low + (high - low) / 2;

		if (s->libdw->lineaddr(s->libdw->onesrcline(lines, middle), &address))
			return 0;
		if (address < range.start)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < all; low++) {
		Dwarf_Line *line = s->libdw->onesrcline(lines, low);
		bool ends = false, is_marked = false, is_double;
		const char *file = s->libdw->linesrc(line, NULL, NULL);
		int number;

		if (s->libdw->lineaddr(line, &address) || s->libdw->lineno(line, &number) ||
			s->libdw->ends_sequence(line, &ends) ||
			s->libdw->ends_prologue(line, &is_marked) || address >= range.end)
			break;
		is_double = count && ret[count - 1].address == address;
		if (ends || (!is_double && count == ROWS_MAX))
			continue;
		if (is_double)
			is_marked |= ret[--count].is_marked;
		ret[count++] = (struct row){address, number, file, is_marked, is_double};
	}
	return count;
}

static uint64_t bit_of(const struct row *row, uint64_t start)
{
	return row->address - start < LINES_BREAKS_BYTES ? UINT64_C(1) << (row->address - start)
							 : 0;
}

/* Returns where lldb breaks. */
static uint64_t break_of_lldb(const struct row *rows, size_t count, uint64_t start)
{
	size_t seen = count < LLDB_ROWS ? count : LLDB_ROWS, at = 0;
	uint64_t ret = 0;

	while (at < seen && !rows[at].is_marked && !rows[at].is_double)
		at++;
	for (size_t i = 1; at == seen && i < seen; i++)
		if (rows[i].line != rows[0].line)
			at = i;
	if (at == seen)
		at = 1;
	/* It skips rows of no line, which some versions do not. */
	for (bool more = true; more && at < count; at++) {
		ret |= bit_of(&rows[at], start);
		more = !rows[at].line;
	}
	return ret;
}

static uint64_t find_breaks(struct server *s, const struct lines_function *function)
{
	const uint64_t start = function->range.start;
	struct row rows[ROWS_MAX];
	uint64_t ret;
	size_t count, i = 1;

	if (!s->units_read)
		list_units(s);
	count = read_rows(s, function->range, rows);
	if (!count)
		return 0;
	ret = break_of_lldb(rows, count, start);
	for (bool more = !rows[0].is_double; more && i < count; i++) {
		ret |= bit_of(&rows[i], start);
		more = rows[i].line && rows[i].line < rows[i - 1].line &&
		       rows[i].file == rows[i - 1].file;
	}
	for (i = 0; i < count && rows[i].address < function->by_code; i++)
		;
	/* Rows of one line may count as one. */
	for (bool more = function->by_code && i && i < count && rows[i].address > function->by_code;
		more && i < count; i++) {
		ret |= bit_of(&rows[i], start);
		more = rows[i].line == rows[i - 1].line;
	}
	for (i = 0; i < count; i++)
		if (rows[i].is_marked)
			ret |= bit_of(&rows[i], start);
	return ret & ~UINT64_C(1);
}

/* ---- Serving ------------------------------------------------------------------------ */

/* memory that debug information may take, decompressed: a hostile file would take all there is */
#define MEMORY_MAX (UINT64_C(4) << 30)

/* RLIMIT_DATA counts private writable memory, as the sixth number of statm does. */
static void limit_memory(void)
{
	struct rlimit limit;
	unsigned long pages;
	char text[128];
	uint64_t most;

	if (!file_read("/proc/self/statm", text, sizeof(text)) ||
		sscanf(text, "%*u %*u %*u %*u %*u %lu", &pages) != 1 ||
		getrlimit(RLIMIT_DATA, &limit))
		_exit(EXIT_FAILURE);
	most = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) + MEMORY_MAX;
	if (limit.rlim_cur > most)
		limit.rlim_cur = most;
	setrlimit(RLIMIT_DATA, &limit);
}

/* Lets this child process crash quietly, without a core file, and end with its parent. */
static void be_child(pid_t parent)
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
	limit_memory();
	if (null >= 0)
		dup2(null, STDERR_FILENO);
}

pid_t libdw_fork(int type, int *channel_ret)
{
	pid_t parent = getpid(), child;
	int channel[2];

	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, channel))
		return -1;
	child = fork();
	*channel_ret = child > 0 ? channel[0] : channel[1];
	close(child > 0 ? channel[1] : channel[0]);
	if (child == 0)
		be_child(parent);
	if (child < 0)
		close(*channel_ret);
	return child;
}

static void send_all(int channel, const char *message, size_t length)
{
	if (send(channel, message, length, MSG_NOSIGNAL) != (ssize_t)length)
		_exit(EXIT_FAILURE);
}

static void answer_lines(
	const struct server *server, int channel, const uint64_t *addresses, size_t count)
{
	char message[MESSAGE_BYTES];
	struct answer answer;
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		size_t length;

		find(server, addresses[i], &answer);
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

static _Noreturn void serve(const struct libdw *libdw, struct object *object, int channel)
{
	struct server server = {.libdw = libdw};
	struct question question;
	ssize_t got;
	uint64_t breaks;

	while ((got = recv(channel, &question, sizeof(question), 0)) > 0) {
		if (!server.debug)
			server.debug = object_of_debug(object, "line");
		if (question.kind == ASK_BREAKS) {
			breaks = find_breaks(&server, &question.function);
			send_all(channel, (const char *)&breaks, sizeof(breaks));
			continue;
		}
		if (!server.dwfl)
			report(&server);
		answer_lines(&server, channel, question.addresses,
			((size_t)got - offsetof(struct question, addresses)) / sizeof(uint64_t));
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
	struct lines *lines, const struct libdw *libdw, struct object *object)
{
	int channel;
	pid_t child = libdw_fork(SOCK_SEQPACKET, &channel);

	if (child == 0)
		serve(libdw, object, channel);
	if (child < 0)
		return probe_error_system(errno, "%s: cannot look for source lines", object->path);
	lines->pid = child;
	lines->channel = channel;
	return NULL;
}

struct probe_error *lines_open(struct object *object, struct lines **ret)
{
	struct lines *lines = calloc(1, sizeof(*lines));
	static const char *const names[] = {FUNCTIONS(LIBRARY_NAME) NULL};
	struct probe_error *error;
	struct libdw libdw;

	if (!lines)
		return probe_error_no_memory();
	lines->channel = -1;
	/* Load libdw before fork(), so that the child inherits it. */
	error = library_load(&LIBDW("source lines need"), names, &libdw)
			?: start(lines, &libdw, object);
	if (error)
		lines_close(lines);
	else
		*ret = lines;
	return error;
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

static bool ask(const struct lines *lines, const struct question *question, size_t about)
{
	size_t bytes = offsetof(struct question, addresses) + about;

	return lines->pid && send(lines->channel, question, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

void lines_find(struct lines *lines, const uint64_t *addresses, size_t count, struct line *ret)
{
	struct question question = {.kind = ASK_LINES};
	size_t bytes = count * sizeof(*addresses), found = 0, length, took;
	char message[MESSAGE_BYTES];

	for (size_t i = 0; i < count; i++)
		ret[i] = (struct line){0};
	memcpy(question.addresses, addresses, bytes);
	if (ask(lines, &question, bytes))
		for (; found < count && (length = receive(lines, message)); found += took)
			if (!(took = take(lines, message, length, ret + found, count - found)))
				break;
	if (found < count)
		give_up(lines);
}

bool lines_breaks(struct lines *lines, const struct lines_function *function, uint64_t *ret)
{
	struct question question = {.kind = ASK_BREAKS, .function = *function};
	char message[MESSAGE_BYTES];

	*ret = 0;
	if (!ask(lines, &question, sizeof(*function)) || receive(lines, message) != sizeof(*ret)) {
		give_up(lines);
		return false;
	}
	memcpy(ret, message, sizeof(*ret));
	return true;
}

bool lines_exist(struct object *object)
{
	struct object *with = object_of_debug(object, "line");
	bool ret = object_has_debug(with, "line");

	if (with != object)
		object_close(with);
	return ret;
}
