/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/print/print.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/event.h"
#include "libprobe/base/file.h"

/* ==== Print =================================================================================== */

enum { TIME_BYTES = 32 };

/* ---- Text --------------------------------------------------------------------- */

void print_probe(const char *provider, const char *name)
{
	AUTO(buffer_deinit) struct buffer text = {0};

	event_put_probe(&text, provider, name);
	fwrite(text.data, 1, text.length, stderr);
}

/* Prints the start of a message: "probectl: process 12: slow:tick at 0x... in PATH: ". */
static void print_site(const struct probe_bad_site *site, pid_t pid)
{
	fprintf(stderr, "probectl: process %d: ", (int)pid);
	if (site->name) {
		print_probe(site->provider, site->name);
	} else {
		fputs("the gate that notices libraries and programs", stderr);
	}
	fprintf(stderr, " at 0x%" PRIx64, site->pc);
	if (site->path) {
		fputs(" in ", stderr);
		print_printable(stderr, site->path);
	}
	fputs(": ", stderr);
}

void print_bad_site(const struct probe_bad_site *site, pid_t pid, const char *consequence)
{
	char fault[PROBE_FAULT_BYTES];

	probe_fault_text(fault, site->fault, site->bytes, site->length);
	print_site(site, pid);
	fprintf(stderr, "%s%s\n", fault, consequence);
}

/* Writes the local time as "15:04:05.123", or "?" if the time is unknown. */
static void time_text(char text[TIME_BYTES], uint64_t ns)
{
	time_t seconds = (time_t)(ns / NSEC_PER_SEC);
	char clock[16] = "";
	struct tm tm;

	if (!ns || !localtime_r(&seconds, &tm) || !strftime(clock, sizeof(clock), "%H:%M:%S", &tm))
		snprintf(text, TIME_BYTES, "?");
	else
		snprintf(text, TIME_BYTES, "%s.%03u", clock,
			(unsigned int)(ns % NSEC_PER_SEC / (NSEC_PER_SEC / 1000)));
}

void print_site_news(const struct probe_site_news *news, pid_t pid)
{
	char good[TIME_BYTES], bad[TIME_BYTES], now[TIME_BYTES], text[160];

	time_text(good, news->good_ns);
	time_text(bad, news->bad_ns);
	time_text(now, news->now_ns);
	switch (news->event) {
	case PROBE_SITE_BAD:
		snprintf(text, sizeof(text),
			"; its hits are not counted, since %s at the latest (in order at %s)", bad,
			good);
		print_bad_site(&news->site, pid, text);
		break;
	case PROBE_SITE_BACK:
		print_site(&news->site, pid);
		fprintf(stderr, "patched again at %s; its hits since %s are missing\n", now, bad);
		break;
	case PROBE_SITE_LEFT:
		print_bad_site(&news->site, pid,
			"; it is left as it is, and so is the code that its jump leads to "
			"(probectl repair)");
		break;
	}
}

void print_printable(FILE *stream, const char *text)
{
	AUTO(buffer_deinit) struct buffer out = {0};

	buffer_printable(&out, text);
	if (out.no_memory)
		fputs("(out of memory)", stream);
	else
		fwrite(out.data, 1, out.length, stream);
}

void add_count(struct buffer *out, size_t count, const char *what)
{
	if (!count)
		return;
	if (out->length && out->data[out->length - 1] != ' ')
		buffer_string(out, ", ");
	buffer_print(out, "%zu %s%s", count, what, count == 1 ? "" : "s");
}

/* ==== Standard output ========================================================================= */

struct probe_error *out_failed(FILE *stream)
{
	int err = errno;

	__fpurge(stream);
	clearerr(stream);
	return err == EPIPE ? NULL : probe_error_system(err, "cannot write the output");
}

struct probe_error *out_unless_closed(struct probe_error *error)
{
	if (!error || error->code != PROBE_ERROR_SYSTEM || error->err != EPIPE)
		return error;
	probe_error_free(error);
	return NULL;
}

struct probe_error *out_flush(struct buffer *out, FILE *stream)
{
	struct probe_error *error = out->no_memory ? probe_error_no_memory() : NULL;

	if (out->length > 0 && fwrite(out->data, 1, out->length, stream) != out->length)
		error = probe_error_first(error, out_failed(stream));
	out->length = 0;
	out->no_memory = false;
	return error;
}

struct probe_error *out_sink(struct probe_sink *sink)
{
	struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
	struct probe_error *error = probe_sink_flush(sink);

	while (!error && probe_sink_pending(sink)) {
		poll(&output, 1, -1);
		error = probe_sink_flush(sink);
	}
	return out_unless_closed(error);
}

struct probe_error *out_grid(const struct grid *grid)
{
	struct winsize size = {0};
	AUTO(buffer_deinit) struct buffer out = {0};

	if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
		size.ws_col = 0;
	if (grid->has_rows || grid->text.no_memory)
		grid_print(grid, &out, size.ws_col);
	return out_flush(&out, stdout);
}

/* ==== Messages ================================================================================ */

/*
 * A queue of lines for standard error. If its memory is full, new lines are dropped and counted; a
 * later line reports how many.
 */

enum {
	WAITING_BYTES = 64 << 10,
	/* how long to wait before the exit for a reader that reads nothing, in milliseconds */
	END_MS = 500
};

/* This memory is static, because a message may report that there is no heap memory left. */
static struct messages {
	pid_t owner;
	FILE *before; /* the original `stderr` */
	int fd;
	bool is_socket;
	/* [0, whole): waiting lines. [whole, length): an incomplete line. */
	char text[WAITING_BYTES];
	size_t whole, length;
	bool is_cut; /* there is no space for the rest of the incomplete line */
	uint64_t dropped;
} messages = {.fd = -1};

/* Writes at most PIPE_BUF bytes, which a pipe with POLLOUT accepts without blocking. */
static ssize_t write_some(const struct messages *m)
{
	struct pollfd output = {.fd = m->fd, .events = POLLOUT};
	size_t length = m->whole;
	const char *line_end;

	if (length > PIPE_BUF) {
		line_end = memrchr(m->text, '\n', PIPE_BUF);
		length = line_end ? (size_t)(line_end + 1 - m->text) : PIPE_BUF;
	}
	errno = EAGAIN;
	if (poll(&output, 1, 0) <= 0)
		return -1;
	return m->is_socket ? send(m->fd, m->text, length, MSG_DONTWAIT | MSG_NOSIGNAL)
			    : write(m->fd, m->text, length);
}

/* Queues the line that reports dropped messages. Call it when no other line is waiting. */
static void tell_dropped(struct messages *m)
{
	char line[128];
	size_t length = (size_t)snprintf(line, sizeof(line),
		"probectl: %" PRIu64 " message%s dropped, as nobody read standard error\n",
		m->dropped, m->dropped == 1 ? " was" : "s were");

	if (m->length + length > sizeof(m->text))
		return;
	memmove(m->text + length, m->text, m->length);
	memcpy(m->text, line, length);
	m->whole = length;
	m->length += length;
	m->dropped = 0;
}

static void pass_on(struct messages *m)
{
	for (;;) {
		ssize_t written;

		if (!m->whole && m->dropped)
			tell_dropped(m);
		if (!m->whole)
			return;
		written = write_some(m);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0 && errno == EAGAIN)
			return;
		/* The write failed: the reader has closed the pipe for good, so drop the lines. */
		if (written < 0)
			written = (ssize_t)m->whole;
		m->whole -= (size_t)written;
		m->length -= (size_t)written;
		memmove(m->text, m->text + written, m->length);
	}
}

static void add(struct messages *m, char c)
{
	static const char erase[] = {'\33', '[', 'K'};

	if (m->length < sizeof(m->text))
		m->text[m->length++] = c;
	else
		m->is_cut = true;
	/* A message ends with a newline; a progress line, with a return or the K that erases it. */
	if (c != '\n' && c != '\r' &&
		(c != 'K' || m->length < sizeof(erase) ||
			memcmp(m->text + m->length - sizeof(erase), erase, sizeof(erase)) != 0))
		return;
	if (m->is_cut) {
		m->length = m->whole;
		m->dropped++;
	}
	m->is_cut = false;
	m->whole = m->length;
}

static ssize_t take(void *cookie, const char *text, size_t size)
{
	struct messages *m = cookie;

	/* A forked child, such as the host of a loaded tracer, must not print our lines. */
	if (getpid() != m->owner)
		return write(STDERR_FILENO, text, size);
	for (size_t i = 0; i < size; i++)
		add(m, text[i]);
	pass_on(m);
	return (ssize_t)size;
}

void messages_begin(void)
{
	const cookie_io_functions_t functions = {.write = take};
	FILE *stream = fopencookie(&messages, "w", functions);
	struct stat st;

	if (!stream)
		return;
	setvbuf(stream, NULL, _IONBF, 0);
	messages.owner = getpid();
	messages.before = stderr;
	messages.fd = file_reopen(STDERR_FILENO);
	if (messages.fd < 0)
		messages.fd = STDERR_FILENO;
	messages.is_socket = fstat(messages.fd, &st) == 0 && S_ISSOCK(st.st_mode);
	stderr = stream;
}

void messages_retry(void)
{
	if (messages.before)
		pass_on(&messages);
}

void messages_end(void)
{
	struct pollfd output = {.fd = messages.fd, .events = POLLOUT};

	if (!messages.before)
		return;
	/* Add a newline, because the last message may lack one. */
	messages.whole = messages.length;
	pass_on(&messages);
	while (messages.whole && poll(&output, 1, END_MS) > 0)
		pass_on(&messages);
}

/* ==== Progress ================================================================================ */

struct progress progress_every(uint64_t ns)
{
	return (struct progress){.timer = timer_every(isatty(STDERR_FILENO) ? ns : 0)};
}

bool progress_due(struct progress *progress)
{
	return timer_due(&progress->timer, clock_monotonic_ns());
}

void progress_show(struct progress *progress, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	fputs("probectl: ", stderr);
	vfprintf(stderr, format, values);
	fputs("\033[K\r", stderr);
	va_end(values);
	progress->shown = true;
}

void progress_end(struct progress *progress)
{
	if (progress->shown)
		fputs("\033[K", stderr);
	progress->shown = false;
}

/* ==== Report ================================================================================== */

void print_line(const char *kind, const char *text)
{
	fprintf(stderr, "probectl: %s", kind);
	print_printable(stderr, text);
	fputc('\n', stderr);
}

int report_error(struct probe_error *error)
{
	int status = error->code == PROBE_ERROR_USAGE ? STATUS_USAGE : STATUS_FAILED;

	fflush(stdout);
	print_line("", error->message);
	probe_error_free(error);
	return status;
}

void report_warning(const char *format, ...)
{
	va_list ap;
	char *text;
	int length;

	va_start(ap, format);
	length = vasprintf(&text, format, ap);
	va_end(ap);
	print_line("warning: ", length < 0 ? format : text);
	if (length >= 0)
		free(text);
}

void report_calls(struct probe_calls_doubts doubts, bool quiet)
{
	if (!quiet && (doubts.open || doubts.unmatched))
		fprintf(stderr,
			"probectl: not in these figures: %" PRIu64
			" begin%s without an end, %" PRIu64 " end%s without a begin\n",
			COUNTED(doubts.open), COUNTED(doubts.unmatched));
	if (doubts.untimed)
		report_warning("%" PRIu64 " call%s that ended while hits were lost %s not counted; "
			       "larger rings (-b) or fewer functions help, and --full=wait loses "
			       "none",
			COUNTED(doubts.untimed), doubts.untimed == 1 ? "is" : "are");
	if (doubts.left_out)
		report_warning("%" PRIu64 " call%s had no room of their own in the tables",
			COUNTED(doubts.left_out));
}
