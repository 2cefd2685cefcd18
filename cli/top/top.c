/* SPDX-License-Identifier: MIT */
/*
 * The main loop of `probectl top`. Each round sleeps (cli/loop.h) until a key, a signal, the end of
 * a process, a process that waits for us, or the end of an interval.
 *
 * A signal ends the loop, and then we restore the terminal. Ctrl-Z restores it, too, before it
 * stops us.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/request.h"
#include "cli/top/top.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"
#include "probe/sink.h"

/* ==== Screen ================================================================================== */

/*
 * The terminal of `probectl top`.
 *
 * We open it a second time, with O_NONBLOCK: if it accepts no output (a stalled connection), we
 * must still switch the probes off, and setting the flag on the inherited descriptor would affect
 * the shell. Only changed lines are written.
 *
 * Escape sequences: ECMA-48 for positions, erasing and looks; DECTCEM (?25) for the cursor; DECAWM
 * (?7) for wrapping; xterm's alternate screen (?1049). Colours are the eight of ECMA-48; NO_COLOR
 * (no-color.org) turns them off.
 */

enum {
	/* Maximum time to wait for a terminal that accepts no output, in milliseconds. */
	LEAVE_MS = 200
};

static const char enter_sequence[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
static const char leave_sequence[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

struct top_screen {
	int fd;
	struct termios before; /* the terminal's settings before we changed them */
	bool taken;
	bool colours;
	struct top_frame shown; /* the current content of the screen */
	bool known;		/* `shown` is still on the screen */
	struct buffer pending;	/* bytes to write to the terminal */
	size_t written;
};

/* ---- Crashes ----------------------------------------------------------------------- */

/* Used by the handler of crash signals, which restores the terminal's echo. */
static struct {
	volatile sig_atomic_t taken;
	int fd;
	struct termios before;
} crash;

static void give_back(int signal)
{
	if (crash.taken) {
		ssize_t unused = write(crash.fd, leave_sequence, sizeof(leave_sequence) - 1);

		(void)unused;
		tcsetattr(crash.fd, TCSANOW, &crash.before);
	}
	/* Because of SA_RESETHAND, the signal now has its default effect. */
	raise(signal);
}

/* ---- Taking and restoring the terminal --------------------------------------------- */

/* Returns true if standard output is a terminal that can show a screen. */
static bool screen_possible(void)
{
	const char *kind = getenv("TERM");

	return isatty(STDOUT_FILENO) && kind && kind[0] && strcmp(kind, "dumb") != 0;
}

static bool screen_pending(const struct top_screen *screen)
{
	return screen->written < screen->pending.length;
}

/* Writes what the terminal accepts. Errors: PROBE_ERROR_SYSTEM (the terminal was closed). */
static struct probe_error *screen_flush(struct top_screen *screen)
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

static struct probe_error *screen_enter(struct top_screen *screen)
{
	static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	const struct sigaction action = {
		.sa_handler = give_back, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
	struct termios ours;

	/* If the terminal is still taken, its current settings may be our own. */
	if (!screen->taken && tcgetattr(screen->fd, &screen->before) < 0)
		return probe_error_system(errno, "cannot read the terminal's settings");
	ours = screen->before;
	/* Keep ISIG, so that Ctrl-C, Ctrl-Z and Ctrl-\ still send signals. */
	ours.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR | IXON);
	ours.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
	ours.c_oflag &= ~(tcflag_t)OPOST;
	ours.c_cc[VMIN] = 1;
	ours.c_cc[VTIME] = 0;
	if (tcsetattr(screen->fd, TCSANOW, &ours) < 0)
		return probe_error_system(errno, "cannot change the terminal's settings");
	screen->taken = true;
	crash.fd = screen->fd;
	crash.before = screen->before;
	crash.taken = 1;
	for (size_t i = 0; i < sizeof(crash_signals) / sizeof(crash_signals[0]); i++)
		sigaction(crash_signals[i], &action, NULL);
	screen->pending.length = screen->written = 0;
	buffer_string(&screen->pending, enter_sequence);
	screen->known = false;
	return NULL;
}

/* Writes all pending bytes. Waits at most LEAVE_MS for the terminal. */
static void write_out(struct top_screen *screen)
{
	struct pollfd pfd = {.fd = screen->fd, .events = POLLOUT};
	struct probe_error *error = NULL;

	while (!error && screen_pending(screen) && poll(&pfd, 1, LEAVE_MS) > 0)
		error = screen_flush(screen);
	probe_error_free(error);
}

/* Restores the terminal. screen_enter() takes it again and redraws everything. */
static void screen_leave(struct top_screen *screen)
{
	if (!screen->taken)
		return;
	/* If half of a sequence was written, the escape at the start of this sequence ends it. */
	screen->pending.length = screen->written = 0;
	buffer_string(&screen->pending, leave_sequence);
	write_out(screen);
	/* Make space for this sequence if the terminal accepts no output. */
	if (screen_pending(screen)) {
		tcflush(screen->fd, TCOFLUSH);
		screen->written = 0;
		write_out(screen);
	}
	tcsetattr(screen->fd, TCSANOW, &screen->before);
	screen->taken = false;
	crash.taken = 0;
}

/* Restores the terminal and frees the screen, which may be NULL. */
static void screen_close(struct top_screen *screen)
{
	if (!screen)
		return;
	screen_leave(screen);
	close(screen->fd);
	frame_deinit(&screen->shown);
	buffer_deinit(&screen->pending);
	free(screen);
}

/*
 * Takes over the terminal of standard output: raw keys, alternate screen. It is restored later,
 * even if we crash. Errors: PROBE_ERROR_SYSTEM.
 */
static struct probe_error *screen_open(struct top_screen **ret)
{
	struct top_screen *screen = calloc(1, sizeof(*screen));
	const char *no_colour = getenv("NO_COLOR");
	struct probe_error *error;

	if (!screen)
		return probe_error_no_memory();
	screen->colours = !no_colour || !no_colour[0];
	screen->fd = open("/proc/self/fd/1", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	/* After su(1), another user owns the terminal, but /dev/tty can be opened. */
	if (screen->fd < 0)
		screen->fd = open("/dev/tty", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (screen->fd < 0) {
		error = probe_error_system(
			errno, "cannot open the terminal (`probectl top ... | cat` prints lines)");
		free(screen);
		return error;
	}
	error = screen_enter(screen);
	if (error)
		screen_close(screen);
	else
		*ret = screen;
	return error;
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

/* Escape sequences for looks: first without colours, then with colours. */
static const char *const looks[TOP_LOOK_COUNT][2] = {[TOP_LOOK_PLAIN] = {"\033[0m", "\033[0m"},
	[TOP_LOOK_BOLD] = {"\033[0;1m", "\033[0;1m"},
	[TOP_LOOK_REVERSE] = {"\033[0;7m", "\033[0;7m"},
	[TOP_LOOK_FAINT] = {"\033[0;2m", "\033[0;2m"},
	[TOP_LOOK_TITLE] = {"\033[0;1m", "\033[0;1;36m"},
	[TOP_LOOK_WRONG] = {"\033[0m", "\033[0;31m"}};

/* Keeps a copy of the frame that is on the screen now. */
static void keep(struct top_screen *screen, const struct top_frame *frame)
{
	struct top_frame *shown = &screen->shown;
	struct top_line *lines = reallocarray(shown->lines, frame->count, sizeof(*lines));

	frame_clear(shown);
	shown->lines = lines ? lines : shown->lines;
	buffer_bytes(&shown->text, frame->text.data, frame->text.length);
	screen->known = lines && !shown->text.no_memory;
	if (screen->known) {
		memcpy(shown->lines, frame->lines, frame->count * sizeof(*lines));
		shown->count = frame->count;
	}
}

/* Adds the changed lines to the pending output, unless older output is still pending. */
static void screen_draw(struct top_screen *screen, const struct top_frame *frame)
{
	struct buffer *out = &screen->pending;

	if (!screen->taken || screen_pending(screen))
		return;
	out->length = screen->written = 0;
	if (!screen->known)
		buffer_string(out, "\033[0m\033[2J");
	for (size_t i = 0; i < frame->count; i++) {
		const struct top_line *line = &frame->lines[i];

		if (is_shown(screen, frame, i))
			continue;
		buffer_print(out, "\033[%zu;1H\033[0m\033[2K%s", i + 1,
			looks[line->look][screen->colours]);
		if (line->length)
			buffer_bytes(out, frame->text.data + line->offset, line->length);
	}
	keep(screen, frame);
}

/* ==== Program ================================================================================= */

/*
 * The program that `probectl top` starts. If top shows a screen, the program's standard output and
 * standard error, if they are the terminal, become an unnamed file, and its standard input an empty
 * one. A pipe would kill the program if top were killed.
 */

enum { STANDARD_FILES = 3 };

/* Replaces those of our standard files that are the terminal; ours[] keeps the originals. */
static struct probe_error *swap_files(const struct top_program *program, int ours[STANDARD_FILES])
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), err = errno;
	bool ok = nothing >= 0;

	for (int fd = 0; fd < STANDARD_FILES; fd++) {
		int other = fd == STDIN_FILENO ? nothing : fileno(program->kept);

		if (!ok || !isatty(fd))
			continue;
		ours[fd] = fcntl(fd, F_DUPFD_CLOEXEC, STANDARD_FILES);
		ok = ours[fd] >= 0 && dup2(other, fd) >= 0;
		err = errno;
	}
	cleanup_fd(&nothing);
	return ok ? NULL : probe_error_system(err, "cannot change the program's standard files");
}

/*
 * Starts a program and holds it. With a screen, replaces its standard files that are the terminal.
 */
static struct probe_error *program_start(
	struct top_program *program, char *const argv[], bool is_screen, struct probe_target **ret)
{
	int ours[STANDARD_FILES] = {-1, -1, -1};
	struct probe_error *error = NULL;

	if (is_screen) {
		program->kept = tmpfile();
		/* The program may open /dev/stderr, and then has another file position. */
		if (!program->kept || fcntl(fileno(program->kept), F_SETFL, O_APPEND) < 0 ||
			fcntl(fileno(program->kept), F_SETFD, FD_CLOEXEC) < 0)
			return probe_error_system(
				errno, "cannot make a file for the program's output");
		error = swap_files(program, ours);
	}
	error = error ?: child_start(argv, ret, &program->status);
	for (int fd = 0; fd < STANDARD_FILES; fd++) {
		if (ours[fd] < 0)
			continue;
		dup2(ours[fd], fd);
		close(ours[fd]);
	}
	return error;
}

/* ==== Top ===================================================================================== */

enum {
	FOLLOW_NS = 20 * NSEC_PER_MSEC, /* time after which we look at the processes again */
	/* PIPE_BUF: a pipe with POLLOUT accepts at least this many bytes. */
	PIECE_BYTES = 4096
};

static void set_clock(char text[16])
{
	time_t now = time(NULL);
	struct tm tm;

	strftime(text, 16, "%H:%M:%S", localtime_r(&now, &tm));
}

/* Keeps the first error, which ends the loop. */
static void top_fail(struct top *top, struct probe_error *error)
{
	if (!error)
		return;
	top->error = probe_error_first(top->error, error);
	top->events.over = true;
}

/* ---- Drawing the screen ------------------------------------------------------------ */

static void draw(struct top *top)
{
	struct top_screen *screen = top->screen;
	struct top_view *view = &top->view;
	struct winsize size = {0};

	if (!screen)
		return;
	top->stale = screen_pending(screen);
	if (top->stale)
		return;
	if (ioctl(screen->fd, TIOCGWINSZ, &size) < 0 || !size.ws_col || !size.ws_row)
		/* The size is unknown on a serial line. */
		size = (struct winsize){.ws_col = 80, .ws_row = 24};
	view->width = size.ws_col;
	view->height = size.ws_row;
	view->message = top->message;
	draw_screen(&top->frame, &top->model, view);
	if (top->frame.text.no_memory) {
		top_fail(top, probe_error_no_memory());
		return;
	}
	screen->known &= !top->redraws;
	top->redraws = false;
	screen_draw(screen, &top->frame);
}

/* ---- Signals ----------------------------------------------------------------------- */

static void take_signal(int signal, void *data)
{
	struct top *top = data;
	sigset_t stop;

	/* Stop us, as Ctrl-Z does by default, until SIGCONT. */
	if (signal == SIGTSTP) {
		if (top->screen)
			screen_leave(top->screen);
		sigemptyset(&stop);
		sigaddset(&stop, SIGTSTP);
		raise(SIGTSTP);
		sigprocmask(SIG_UNBLOCK, &stop, NULL);
		sigprocmask(SIG_BLOCK, &stop, NULL);
	}
	if (!top->screen)
		return;
	/* SIGSTOP cannot be caught, so the shell may have used the terminal meanwhile. */
	if (signal == SIGTSTP || signal == SIGCONT)
		top_fail(top, screen_enter(top->screen));
	top->redraws |= signal == SIGWINCH;
	draw(top);
}

/* ---- Waiting ----------------------------------------------------------------------- */

/*
 * Sleeps until an event, at most `ns`. Sets *output if the screen or standard output has one of the
 * poll(2) events, or no reader any more.
 */
static void wait_for(struct top *top, uint64_t ns, short events, bool *output)
{
	int fd = top->screen ? top->screen->fd : STDOUT_FILENO;

	loop_watch(&top->events, top->gone ? -1 : fd, events, output);
	loop_watch(&top->events, probe_trace_fd(top->source->set), POLLIN, NULL);
	loop_until(&top->events, clock_monotonic_ns() + ns);
	top_fail(top, loop_sleep(&top->events));
}

/* ---- Processes --------------------------------------------------------------------- */

/* Shows a message on the screen, or prints it as a line. */
static void tell_news(struct top *top)
{
	AUTO_FREE char *news = NULL;

	if (top->source->news.length)
		news = buffer_take(&top->source->news, NULL);
	if (!news)
		return;
	if (!top->screen)
		print_line("", news);
	top_say(top, "%s", news);
	draw(top);
}

/* Prints the refused sites. If there is a screen, marks their rows instead. */
static void print_refusals(struct top *top)
{
	for (size_t i = 0; i < top->model.count && !top->screen; i++) {
		struct top_row *row = &top->model.rows[i];

		if (row->refused && !row->refusal_told)
			report_warning("%s:%s: %zu site%s refused: %s", row->provider, row->name,
				COUNTED(row->refused), row->reason);
		row->refusal_told = row->refused > 0;
	}
}

static void follow(struct top *top)
{
	size_t count = top->model.count;

	top_fail(top, source_follow(top->source));
	/* Sort again if rows were added. */
	if (top->model.count != count)
		model_arrange(&top->model);
	print_refusals(top);
	tell_news(top);
	if (!source_is_alive(top->source))
		top->events.over = true;
}

/* ---- Lines ------------------------------------------------------------------------- */

/*
 * Writes lines to standard output. A signal or, while probes are on, the time limit (-d) ends the
 * wait for a slow reader.
 */
static void write_lines(struct top *top, const char *bytes, size_t count)
{
	bool ended = false;

	while (count && !top->gone) {
		/* Whole lines at once, so that the program's output begins a line. */
		const char *line_end =
			count > PIECE_BYTES ? memrchr(bytes, '\n', PIECE_BYTES) : NULL;
		size_t piece = count < PIECE_BYTES ? count : PIECE_BYTES;
		bool ready = false;
		ssize_t done;

		wait_for(top, FOLLOW_NS, POLLOUT, &ready);
		if (!top->events.over)
			follow(top);
		ended |= timer_due(&top->end, clock_monotonic_ns());
		top->events.over |= ended;
		if (!ready && (top->events.interrupted || ended))
			return;
		if (!ready)
			continue;
		done = write(top->output, bytes, line_end ? (size_t)(line_end + 1 - bytes) : piece);
		if (done < 0 && errno != EINTR && errno != EAGAIN) {
			top->gone = top->events.over = true;
			/* EPIPE is no error: the reader wants no more. */
			if (errno != EPIPE)
				top_fail(top, probe_error_system(errno, "cannot write the output"));
		}
		bytes += done > 0 ? done : 0;
		count -= done > 0 ? (size_t)done : 0;
	}
}

/* Prints the program's output that we kept while the screen was shown. */
static void print_kept(struct top *top)
{
	struct top_program *program = &top->program;
	char bytes[PIECE_BYTES];
	ssize_t count;

	while (program->kept && !top->gone) {
		count = pread(fileno(program->kept), bytes, sizeof(bytes), program->read);
		if (count <= 0)
			return;
		program->read += count;
		write_lines(top, bytes, (size_t)count);
	}
}

static void print_table(struct top *top, size_t rows)
{
	AUTO(buffer_deinit) struct buffer out = {0};

	draw_table(&top->frame, &top->model, &top->view, rows);
	for (size_t i = 0; i < top->frame.count; i++) {
		const struct top_line *line = &top->frame.lines[i];

		buffer_bytes(&out, top->frame.text.data + line->offset, line->length);
		buffer_char(&out, '\n');
	}
	if (out.no_memory || top->frame.text.no_memory)
		top_fail(top, probe_error_no_memory());
	else
		write_lines(top, out.data, out.length);
}

/* ---- Intervals --------------------------------------------------------------------- */

static void look(struct top *top)
{
	if (top->view.paused)
		return;
	top_fail(top, source_read(top->source));
	model_arrange(&top->model);
	set_clock(top->clock);
}

static void look_if_due(struct top *top)
{
	uint64_t now = clock_monotonic_ns();

	if (timer_due(&top->end, now))
		top->events.over = true;
	/* After a stop (Ctrl-Z), the missed intervals are not made up for. */
	if (!timer_due(&top->looks, now))
		return;
	if (now >= top->message_ns)
		top_say(top, NULL);
	look(top);
	if (top->screen)
		draw(top);
	else if (!top->events.over || source_is_alive(top->source))
		print_table(top, top->options->top);
}

/* ---- Keys -------------------------------------------------------------------------- */

static void read_keys(struct top *top)
{
	char bytes[sizeof(top->keys.bytes)];
	ssize_t count = read(top->screen->fd, bytes, sizeof(bytes)), taken = 0;

	if (count < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* No error: the terminal was closed, and SIGHUP usually arrives, too. */
	if (count <= 0) {
		top->events.over = top->gone = true;
		return;
	}
	while (taken < count) {
		taken += (ssize_t)keys_add(&top->keys, bytes + taken, (size_t)(count - taken));
		top_take_keys(top, false);
	}
	draw(top);
}

static void take_events(struct top *top)
{
	bool output = false;

	if (top->screen && screen_pending(top->screen))
		loop_watch(&top->events, top->screen->fd, POLLOUT, NULL);
	loop_until(&top->events, top->looks.next_ns);
	loop_until(&top->events, top->end.next_ns);
	loop_until(&top->events, top->escape_ns);
	wait_for(top, FOLLOW_NS, top->screen ? POLLIN : 0, &output);
	if (output && top->screen)
		read_keys(top);
	else if (output)
		top->events.over = top->gone = true;
}

static void run(struct top *top)
{
	top->looks = timer_every(top->view.interval_ns);
	top->end = timer_every(top->options->duration_ns);
	top->escape_ns = UINT64_MAX;
	set_clock(top->clock);
	model_arrange(&top->model);
	draw(top);
	while (!top->events.over) {
		struct probe_error *error = top->screen ? screen_flush(top->screen) : NULL;

		/* If a frame could not be drawn because of this output, draw it now. */
		if (!error && top->stale && !screen_pending(top->screen)) {
			draw(top);
			error = screen_flush(top->screen);
		}
		if (error)
			top->events.over = top->gone = true;
		probe_error_free(error);
		take_events(top);
		if (clock_monotonic_ns() >= top->escape_ns) {
			top_take_keys(top, true);
			draw(top);
		}
		follow(top);
		look_if_due(top);
	}
}

/* ---- Starting and ending ----------------------------------------------------------- */

static void begin_view(struct top *top)
{
	enum top_order order = top->options->order;
	const char *unmatched = source_unmatched(top->source);
	char stop[PROBE_DURATION_BYTES];

	top->view.title = top->source->title;
	top->view.clock = top->clock;
	top->view.interval_ns = top->options->interval_ns;
	top->model.order = order;
	/* A program that we have just started has not opened its libraries. */
	if (unmatched && probe_processes_seek(top->options->common.meant))
		processes_report_waiting(&top->options->common);
	else if (unmatched && !top->events.child)
		report_warning("%s matches no probe; waiting for a library that has it", unmatched);
	else if (!top->model.has_times &&
		 (order == TOP_ORDER_P50 || order == TOP_ORDER_P99 || order == TOP_ORDER_TIME))
		report_warning("no two probes form a pair by their names, so there are no times "
			       "to sort by");
	/* If no process is traced yet, "waiting for ..." was printed above. */
	if (!top->source->came)
		return;
	probe_duration_text(stop, (double)top->source->stop_ns);
	if (top->events.child)
		top_say(top, "%zu probe%s enabled", COUNTED(top->model.count));
	else
		top_say(top, "%zu probe%s enabled; the process was stopped for %s",
			COUNTED(top->model.count), stop);
}

/* Starts the program, before signals are blocked, which it would inherit. Opens the source. */
static struct probe_error *begin_source(struct top *top)
{
	static const int own_signals[] = {SIGWINCH, SIGCONT, SIGTSTP, 0};
	char *const *argv = top->options->common.program;
	struct probe_target *started = NULL;
	struct probe_error *error = NULL;

	if (argv)
		error = program_start(&top->program, argv, screen_possible(), &started);
	if (error)
		return error;
	top->events.take_signal = take_signal;
	top->events.data = top;
	error = loop_open(&top->events, own_signals);
	if (error) {
		probe_target_close(started);
		return error;
	}
	error = source_start(top->options, started, &top->model, &top->source);
	if (!error && started)
		top->events.child = probe_target_pid(started);
	return error;
}

static struct probe_error *begin(struct top *top)
{
	int flags = fcntl(STDOUT_FILENO, F_GETFL), own = file_reopen(STDOUT_FILENO);
	struct probe_error *error;

	if (own >= 0)
		top->output = own;
	/* Before any probe is switched on. */
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return probe_error_system(EBADF, "the standard output");
	error = begin_source(top);
	if (error)
		return error;
	begin_view(top);
	if (screen_possible())
		return screen_open(&top->screen);
	print_refusals(top);
	return NULL;
}

/* Prints at most `rows` rows with hits, after the screen, and the table on it, was closed. */
static void print_end(struct top *top, size_t rows)
{
	const char *unmatched;

	top_fail(top, source_read(top->source));
	if (top->error)
		return;
	top->model.since_start = true;
	model_arrange(&top->model);
	top->model.selected = SIZE_MAX;
	set_clock(top->clock);
	print_table(top, rows);
	if (model_unkeyed(&top->model))
		report_warning("%ju hits are only in the rows of their probes: there was no room "
			       "for more keys (--keys N makes it)",
			(uintmax_t)model_unkeyed(&top->model));
	/* Perhaps the processes of a PROBE ended before we found them. */
	unmatched = source_unmatched(top->source);
	if (unmatched && !top->source->came)
		report_warning("no process was traced: none came, or each had ended before its "
			       "probes could be switched on");
	else if (unmatched)
		report_warning("%s matched no probe" REQUEST_NEXT_STEP, unmatched);
}

/* Restores the terminal, releases the processes, and prints the results. */
static void end(struct top *top)
{
	bool was_screen = top->screen != NULL, is_alive = source_is_alive(top->source);
	struct probe_error *error;

	screen_close(top->screen);
	top->screen = NULL;
	print_refusals(top); /* the screen has only marked the rows of refused sites */
	error = source_stop(top->source);
	/* From here on, a second Ctrl-C ends the wait for a reader of our output. */
	top->events.interrupted = false;
	top->end = timer_every(0);
	print_kept(top);
	if (!top->error && !top->gone && !(was_screen && is_alive && !top->events.child))
		print_end(top, was_screen ? draw_rows(&top->view) : top->options->top);
	if (was_screen && !is_alive && !top->events.child && top->message)
		print_line("", top->message);
	tell_news(top);
	if (error && top->error)
		report_error(error);
	else
		top_fail(top, error);
}

int top_run(const struct top_options *options)
{
	struct top top = {.options = options, .events = {.signal_fd = -1}, .output = STDOUT_FILENO};
	int status = STATUS_DONE, failed = STATUS_DONE;

	model_init(&top.model);
	top.view.utf8 = options->utf8;
	top_fail(&top, begin(&top));
	if (!top.error)
		run(&top);
	if (top.source)
		end(&top);
	if (top.error)
		failed = report_error(top.error);
	else if (top.source && top.source->incomplete)
		failed = STATUS_FAILED;
	top.error = NULL;
	/* The program may run on without its probes. */
	while (top.events.child && !child_ended(top.events.child, &status)) {
		print_kept(&top);
		wait_for(&top, FOLLOW_NS, 0, NULL);
	}
	if (top.events.child)
		print_kept(&top);
	if (failed)
		status = top.program.status ? top.program.status : failed;
	if (top.program.kept)
		fclose(top.program.kept);
	source_free(top.source);
	model_deinit(&top.model);
	frame_deinit(&top.frame);
	free(top.message);
	if (top.output != STDOUT_FILENO)
		close(top.output);
	loop_close(&top.events);
	return status;
}
