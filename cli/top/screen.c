/* SPDX-License-Identifier: MIT */
/*
 * The terminal of `probectl top`.
 *
 * It is opened a second time, for us alone: what is not ours to share with the shell
 * is O_NONBLOCK, and a terminal that takes nothing (a stalled connection) must not
 * keep us from switching the probes off. Only lines that have changed are written.
 *
 * Sequences: ECMA-48 for positions, erasing and looks; DECTCEM (?25) for the cursor,
 * DECAWM (?7) for wrapping, and xterm's alternate screen (?1049), which leaves what
 * was there before as it was. Colours are of ECMA-48's eight, with the user's own background; a
 * terminal without colours ignores them, and who sets NO_COLOR (no-color.org) gets none.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli/top/top.h"

enum { LEAVE_MS = 200 /* how long to wait for a terminal that takes nothing */ };

static const char enter_sequence[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
static const char leave_sequence[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

struct top_screen {
	int fd;
	struct termios before; /* as it was when we came */
	bool taken;
	bool colours;
	struct top_frame shown; /* what is on the screen */
	bool known;		/* it is that */
	struct buffer pending;	/* to be written */
	size_t written;
};

/* ---- Crashes ----------------------------------------------------------------------- */

/*
 * A program that crashes must not leave a terminal without echo. A signal handler can find its data
 * only in a static object.
 */
static struct {
	volatile sig_atomic_t taken;
	int fd;
	struct termios before;
} crash;

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

static void give_back(int signal)
{
	if (crash.taken) {
		ssize_t unused = write(crash.fd, leave_sequence, sizeof(leave_sequence) - 1);

		(void)unused;
		tcsetattr(crash.fd, TCSANOW, &crash.before);
	}
	/* SA_RESETHAND: it does now what it would have done without us. */
	raise(signal);
}

static void catch_crashes(const struct top_screen *screen)
{
	struct sigaction action = {
		.sa_handler = give_back, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};

	crash.fd = screen->fd;
	crash.before = screen->before;
	crash.taken = 1;
	for (size_t i = 0; i < sizeof(crash_signals) / sizeof(crash_signals[0]); i++)
		sigaction(crash_signals[i], &action, NULL);
}

/* ---- Taking and giving back -------------------------------------------------------- */

bool screen_possible(void)
{
	const char *kind = getenv("TERM");

	return isatty(STDOUT_FILENO) && kind && kind[0] && strcmp(kind, "dumb") != 0;
}

struct probe_error *screen_open(struct top_screen **ret)
{
	struct top_screen *screen = calloc(1, sizeof(*screen));
	const char *no_colour = getenv("NO_COLOR");
	struct probe_error *error;

	if (!screen)
		return probe_error_no_memory();
	screen->colours = !no_colour || !no_colour[0];
	screen->fd = open("/proc/self/fd/1", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	/* After su(1), it is another user's; the controlling one may be opened all the same. */
	if (screen->fd < 0)
		screen->fd = open("/dev/tty", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (screen->fd < 0) {
		error = probe_error_system(
			errno, "cannot open the terminal (`probectl top ... | cat` prints lines)");
		free(screen);
		return error;
	}
	error = screen_enter(screen);
	if (error) {
		screen_close(screen);
		return error;
	}
	*ret = screen;
	return NULL;
}

struct probe_error *screen_enter(struct top_screen *screen)
{
	struct termios ours;

	/* If it is still ours, the present settings may be our own. */
	if (!screen->taken && tcgetattr(screen->fd, &screen->before) < 0)
		return probe_error_system(errno, "cannot read the terminal's settings");
	ours = screen->before;
	/* Ctrl-C, Ctrl-Z and Ctrl-\ stay signals. */
	ours.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR | IXON);
	ours.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
	ours.c_oflag &= ~(tcflag_t)OPOST;
	ours.c_cc[VMIN] = 1;
	ours.c_cc[VTIME] = 0;
	if (tcsetattr(screen->fd, TCSANOW, &ours) < 0)
		return probe_error_system(errno, "cannot change the terminal's settings");
	screen->taken = true;
	catch_crashes(screen);
	screen->pending.length = screen->written = 0;
	buffer_string(&screen->pending, enter_sequence);
	screen_forget(screen);
	return NULL;
}

/* Writes all that is left, but does not wait for long. */
static void write_out(struct top_screen *screen)
{
	struct pollfd pfd = {.fd = screen->fd, .events = POLLOUT};
	struct probe_error *error = NULL;

	while (!error && screen_pending(screen) && poll(&pfd, 1, LEAVE_MS) > 0)
		error = screen_flush(screen);
	probe_error_free(error);
}

void screen_leave(struct top_screen *screen)
{
	if (!screen->taken)
		return;
	/* A sequence that is half written is ended by the escape of the next one. */
	screen->pending.length = screen->written = 0;
	buffer_string(&screen->pending, leave_sequence);
	write_out(screen);
	/* Output that was not taken so far makes room for the last message. */
	if (screen_pending(screen)) {
		tcflush(screen->fd, TCOFLUSH);
		screen->written = 0;
		write_out(screen);
	}
	tcsetattr(screen->fd, TCSANOW, &screen->before);
	screen->taken = false;
	crash.taken = 0;
}

void screen_close(struct top_screen *screen)
{
	if (!screen)
		return;
	screen_leave(screen);
	close(screen->fd);
	frame_deinit(&screen->shown);
	buffer_deinit(&screen->pending);
	free(screen);
}

int screen_fd(const struct top_screen *screen)
{
	return screen->fd;
}

void screen_size(const struct top_screen *screen, size_t *width_ret, size_t *height_ret)
{
	struct winsize size = {0};

	if (ioctl(screen->fd, TIOCGWINSZ, &size) < 0 || !size.ws_col || !size.ws_row)
		size = (struct winsize){
			.ws_col = 80, .ws_row = 24}; /* a serial line does not know */
	*width_ret = size.ws_col;
	*height_ret = size.ws_row;
}

void screen_forget(struct top_screen *screen)
{
	screen->known = false;
}

/* ---- Drawing ----------------------------------------------------------------------- */

static bool is_shown(const struct top_screen *screen, const struct top_frame *frame, size_t index)
{
	const struct top_line *line = &frame->lines[index], *before;

	if (!screen->known || index >= screen->shown.count)
		return false;
	before = &screen->shown.lines[index];
	return line->look == before->look && line->length == before->length &&
	       (!line->length ||
		       memcmp(frame->text.data + line->offset,
			       screen->shown.text.data + before->offset, line->length) == 0);
}

/* Without colours, and with them. */
static const char *const looks[TOP_LOOK_COUNT][2] = {[TOP_LOOK_PLAIN] = {"\033[0m", "\033[0m"},
	[TOP_LOOK_BOLD] = {"\033[0;1m", "\033[0;1m"},
	[TOP_LOOK_REVERSE] = {"\033[0;7m", "\033[0;7m"},
	[TOP_LOOK_FAINT] = {"\033[0;2m", "\033[0;2m"},
	[TOP_LOOK_TITLE] = {"\033[0;1m", "\033[0;1;36m"},
	[TOP_LOOK_WRONG] = {"\033[0m", "\033[0;31m"}};

static void put_line(struct buffer *out, const struct top_frame *frame, size_t index, bool colours)
{
	const struct top_line *line = &frame->lines[index];

	buffer_string(out, "\033[");
	buffer_unsigned(out, index + 1);
	buffer_string(out, ";1H\033[0m\033[2K");
	buffer_string(out, looks[line->look][colours]);
	if (line->length)
		buffer_bytes(out, frame->text.data + line->offset, line->length);
}

/* Keeps a copy of the present screen. */
static void keep(struct top_screen *screen, const struct top_frame *frame)
{
	struct top_frame *shown = &screen->shown;
	struct top_line *lines = shown->lines;

	frame_clear(shown);
	if (frame->count > shown->room) {
		lines = reallocarray(shown->lines, frame->count, sizeof(*lines));
		if (lines) {
			shown->lines = lines;
			shown->room = frame->count;
		}
	}
	buffer_bytes(&shown->text, frame->text.data, frame->text.length);
	screen->known = lines && !shown->text.no_memory;
	if (screen->known) {
		memcpy(shown->lines, frame->lines, frame->count * sizeof(*lines));
		shown->count = frame->count;
	}
}

void screen_draw(struct top_screen *screen, const struct top_frame *frame)
{
	struct buffer *out = &screen->pending;

	if (!screen->taken || screen_pending(screen))
		return;
	out->length = screen->written = 0;
	if (!screen->known)
		buffer_string(out, "\033[0m\033[2J");
	for (size_t i = 0; i < frame->count; i++)
		if (!is_shown(screen, frame, i))
			put_line(out, frame, i, screen->colours);
	keep(screen, frame);
}

bool screen_pending(const struct top_screen *screen)
{
	return screen->written < screen->pending.length;
}

struct probe_error *screen_flush(struct top_screen *screen)
{
	while (screen_pending(screen)) {
		ssize_t done = write(screen->fd, screen->pending.data + screen->written,
			screen->pending.length - screen->written);

		if (done < 0 && errno == EAGAIN)
			return NULL;
		if (done < 0 && errno != EINTR)
			return probe_error_system(errno, "cannot write to the terminal");
		if (done > 0)
			screen->written += (size_t)done;
	}
	return NULL;
}

struct probe_error *screen_read(
	struct top_screen *screen, char *bytes, size_t size, size_t *count_ret)
{
	ssize_t count = read(screen->fd, bytes, size);

	*count_ret = count > 0 ? (size_t)count : 0;
	if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR)))
		return NULL;
	return count < 0 ? probe_error_system(errno, "cannot read from the terminal")
			 : probe_error_new(PROBE_ERROR_SYSTEM, "the terminal is gone");
}
