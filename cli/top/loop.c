/* SPDX-License-Identifier: MIT */
/*
 * The loop of `probectl top`: it sleeps in ppoll(2) until a key, a signal, a process that
 * ends or waits for us, or the next look is due.
 *
 * Signals are blocked and read from a signalfd, as trace does it, so that nothing
 * interrupts a change of a target, and the terminal is given back on the way out
 * whatever ends the loop. Ctrl-Z gives it back, too, and stops us as it would have.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/request.h"
#include "cli/clock.h"
#include "cli/print.h"
#include "cli/top/loop.h"
#include "probe/sink.h"

enum {
	NSEC_PER_MSEC = 1000000,
	ESCAPE_NS = 50 * NSEC_PER_MSEC, /* a sequence of a key comes in less */
	MESSAGE_S = 5,			/* how long a message stays, at least */
	FOLLOW_NS = 20 * NSEC_PER_MSEC, /* how often processes are looked at */
	PIECE_BYTES = 4096		/* PIPE_BUF: room for it is what POLLOUT promises */
};

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static void set_clock(char text[16])
{
	time_t now = time(NULL);
	struct tm tm;

	strftime(text, 16, "%H:%M:%S", localtime_r(&now, &tm));
}

/* The first error ends the loop. */
static void loop_fail(struct top_loop *loop, struct probe_error *error)
{
	if (!error)
		return;
	if (loop->error)
		probe_error_free(error);
	else
		loop->error = error;
	loop->over = true;
}

void loop_say(struct top_loop *loop, char *message)
{
	free(loop->message);
	loop->message = message;
	loop->message_ns = message ? now_ns() + (uint64_t)MESSAGE_S * NSEC_PER_SEC : UINT64_MAX;
}

/* ---- What is shown ----------------------------------------------------------------- */

static void draw(struct top_loop *loop)
{
	struct top_view *view = &loop->view;

	if (!loop->screen)
		return;
	loop->stale = screen_pending(loop->screen);
	if (loop->stale)
		return;
	screen_size(loop->screen, &view->width, &view->height);
	view->message = loop->message;
	draw_screen(&loop->frame, &loop->model, view);
	if (loop->frame.text.no_memory)
		loop_fail(loop, probe_error_no_memory());
	else
		screen_draw(loop->screen, &loop->frame);
}

/* ---- Signals ----------------------------------------------------------------------- */

static void take_screen(struct top_loop *loop)
{
	loop_fail(loop, screen_enter(loop->screen));
	draw(loop);
}

/* Stops as Ctrl-Z would have; goes on when somebody continues us. */
static void suspend(struct top_loop *loop)
{
	sigset_t stop;

	if (loop->screen)
		screen_leave(loop->screen);
	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, NULL);
	sigprocmask(SIG_BLOCK, &stop, NULL);
	if (loop->screen)
		take_screen(loop);
}

static void read_signals(struct top_loop *loop)
{
	struct signalfd_siginfo info;

	while (read(loop->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		switch (info.ssi_signo) {
		case SIGTSTP:
			suspend(loop);
			break;
		case SIGCONT: /* after SIGSTOP, which nobody is told: the shell was here */
			if (loop->screen)
				take_screen(loop);
			break;
		case SIGWINCH:
			if (!loop->screen)
				break;
			screen_forget(loop->screen);
			draw(loop);
			break;
		default:
			if (signal_ends(loop->child, (int)info.ssi_signo))
				loop->over = loop->interrupted = true;
		}
	}
}

/* What trace takes, and what a screen needs; SIGTSTP stays ignored where it is. */
static struct probe_error *take_signals(struct top_loop *loop)
{
	struct sigaction action;

	signals_block(&loop->signals);
	sigaddset(&loop->signals, SIGWINCH);
	sigaddset(&loop->signals, SIGCONT);
	if (sigaction(SIGTSTP, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
		sigaddset(&loop->signals, SIGTSTP);
	sigprocmask(SIG_BLOCK, &loop->signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	loop->signal_fd = signalfd(-1, &loop->signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (loop->signal_fd < 0)
		return probe_error_system(errno, "cannot wait for signals");
	return NULL;
}

/* ---- Waiting ----------------------------------------------------------------------- */

/* NULL without memory. */
static struct pollfd *poll_fds(struct top_loop *loop, size_t count)
{
	struct pollfd *fds = reallocarray(loop->fds, count, sizeof(*fds));

	if (fds)
		loop->fds = fds;
	else
		loop_fail(loop, probe_error_no_memory());
	return fds;
}

/*
 * Sleeps until something happens, or ns have passed. Returns what has happened to the
 * output: the screen, which has keys, or lines, where `events` says what is waited for
 * beside the end of whoever reads them.
 */
static short wait_for_events(struct top_loop *loop, uint64_t ns, short events)
{
	struct timespec timeout = {(time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC)};
	size_t count = 2 + source_fd_count(loop->source);
	struct pollfd few[2], *fds = poll_fds(loop, count);
	bool all = fds != NULL;

	/* Without memory the output is still waited for. */
	if (!all) {
		fds = few;
		count = 2;
	}
	fds[0] = (struct pollfd){.fd = loop->signal_fd, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = STDOUT_FILENO, .events = events};
	if (loop->gone)
		fds[1].fd = -1;
	else if (loop->screen)
		fds[1].fd = screen_fd(loop->screen);
	if (all)
		source_wait_for(loop->source, fds + 2);
	if (ppoll(fds, count, &timeout, NULL) <= 0)
		return 0;
	if (all)
		source_woken(loop->source, fds + 2);
	/* Changes of a target send us SIGCHLD. */
	if (fds[0].revents)
		read_signals(loop);
	return fds[1].revents;
}

/* ---- Processes --------------------------------------------------------------------- */

/* Names in it may come from a target, and hold any byte. */
static void print_message(const char *text)
{
	fputs("probectl: ", stderr);
	print_printable(stderr, text);
	fputc('\n', stderr);
}

/* On the screen, or where there is none as a line. */
static void tell_news(struct top_loop *loop)
{
	char *news = source_news(loop->source);

	if (!news)
		return;
	if (!loop->screen)
		print_message(news);
	loop_say(loop, news);
	draw(loop);
}

/* A screen marks their rows. */
static void print_refusals(struct top_loop *loop)
{
	for (size_t i = 0; i < loop->model.count && !loop->screen; i++) {
		struct top_row *row = &loop->model.rows[i];

		if (row->refused && !row->refusal_told)
			report_warning("%s:%s: %zu site%s refused: %s", row->provider, row->name,
				row->refused, row->refused == 1 ? "" : "s", row->reason);
		row->refusal_told = row->refused > 0;
	}
}

static void follow(struct top_loop *loop)
{
	size_t count = loop->model.count;

	loop_fail(loop, source_follow(loop->source, &loop->model));
	/* The order has to know of new rows. */
	if (loop->model.count != count)
		model_arrange(&loop->model);
	print_refusals(loop);
	tell_news(loop);
	if (!source_is_alive(loop->source))
		loop->over = true;
}

/* ---- Lines ------------------------------------------------------------------------- */

/* What waits for lines has gone; who reads no more has seen what he wanted to see. */
static void lose_output(struct top_loop *loop, int err)
{
	loop->gone = loop->over = true;
	if (err != EPIPE)
		loop_fail(loop, probe_error_system(err, "cannot write the output"));
}

/* Writes lines to standard output; a signal ends the wait for a slow reader. */
static void write_lines(struct top_loop *loop, const char *bytes, size_t count)
{
	while (count && !loop->gone) {
		short events = wait_for_events(loop, FOLLOW_NS, POLLOUT);
		ssize_t done;

		if (!loop->over)
			follow(loop);
		if (!events && loop->interrupted)
			return;
		if (!events)
			continue;
		done = write(STDOUT_FILENO, bytes, count < PIECE_BYTES ? count : PIECE_BYTES);
		if (done < 0 && errno != EINTR && errno != EAGAIN)
			lose_output(loop, errno);
		bytes += done > 0 ? done : 0;
		count -= done > 0 ? (size_t)done : 0;
	}
}

/* What the program has written so far beside the screen, once that is gone. */
static void print_kept(struct top_loop *loop)
{
	char bytes[PIECE_BYTES];
	size_t count;

	while (!loop->gone && (count = program_read(&loop->program, bytes, sizeof(bytes))))
		write_lines(loop, bytes, count);
}

static void print_table(struct top_loop *loop, size_t top)
{
	struct out out = {0};

	draw_table(&loop->frame, &loop->model, &loop->view, top);
	for (size_t i = 0; i < loop->frame.count; i++) {
		const struct top_line *line = &loop->frame.lines[i];

		out_bytes(&out, loop->frame.text.data + line->offset, line->length);
		out_char(&out, '\n');
	}
	if (out.no_memory || loop->frame.text.no_memory)
		loop_fail(loop, probe_error_no_memory());
	else
		write_lines(loop, out.data, out.length);
	out_deinit(&out);
}

/* ---- Looking ----------------------------------------------------------------------- */

static void look(struct top_loop *loop)
{
	if (loop->view.paused)
		return;
	loop_fail(loop, source_read(loop->source, &loop->model));
	model_arrange(&loop->model);
	set_clock(loop->clock);
}

static void look_if_due(struct top_loop *loop)
{
	uint64_t now = now_ns(), interval = loop->view.interval_ns;

	if (now >= loop->end_ns)
		loop->over = true;
	if (now < loop->next_ns)
		return;
	if (now >= loop->message_ns)
		loop_say(loop, NULL);
	/* After a pause (Ctrl-Z), the missed ones are not made up for. */
	loop->next_ns = loop->next_ns + interval > now ? loop->next_ns + interval : now + interval;
	look(loop);
	if (loop->screen)
		draw(loop);
	else if (!loop->over || source_is_alive(loop->source))
		print_table(loop, loop->options->top);
}

/* ---- Keys -------------------------------------------------------------------------- */

static void take_keys(struct top_loop *loop, bool all)
{
	struct top_key key;

	while (keys_next(&loop->keys, all, &key) && !loop->over)
		loop_key(loop, &key);
	loop->escape_ns = loop->keys.count ? now_ns() + ESCAPE_NS : UINT64_MAX;
}

static void read_keys(struct top_loop *loop)
{
	char bytes[sizeof(loop->keys.bytes)];
	struct probe_error *error;
	size_t count = 0, taken = 0;

	error = screen_read(loop->screen, bytes, sizeof(bytes), &count);
	if (error) {
		/* The terminal was closed; the shell's SIGHUP says the same. */
		probe_error_free(error);
		loop->over = loop->gone = true;
		return;
	}
	while (taken < count) {
		taken += keys_add(&loop->keys, bytes + taken, count - taken);
		take_keys(loop, false);
	}
	draw(loop);
}

/* How long to sleep, at the most. */
static uint64_t until_next(const struct top_loop *loop)
{
	uint64_t next = loop->next_ns, now = now_ns();

	if (loop->end_ns < next)
		next = loop->end_ns;
	if (loop->escape_ns < next)
		next = loop->escape_ns;
	if (next <= now)
		return 0;
	return next - now < FOLLOW_NS ? next - now : FOLLOW_NS;
}

/* Writes what the terminal takes; what could not be drawn before is then. */
static void flush(struct top_loop *loop)
{
	struct probe_error *error = screen_flush(loop->screen);

	if (!error && loop->stale && !screen_pending(loop->screen)) {
		draw(loop);
		error = screen_flush(loop->screen);
	}
	if (!error)
		return;
	probe_error_free(error);
	loop->over = loop->gone = true;
}

static void take_events(struct top_loop *loop)
{
	short wanted = 0, events;

	if (loop->screen)
		wanted = (short)(POLLIN | (screen_pending(loop->screen) ? POLLOUT : 0));
	events = wait_for_events(loop, until_next(loop), wanted);
	if (loop->screen && events & (POLLIN | POLLERR | POLLHUP))
		read_keys(loop);
	else if (!loop->screen && events & POLLERR)
		loop->over = loop->gone = true;
}

static void run(struct top_loop *loop)
{
	uint64_t now = now_ns();

	loop->next_ns = now + loop->view.interval_ns;
	loop->end_ns = loop->options->duration_ns ? now + loop->options->duration_ns : UINT64_MAX;
	loop->escape_ns = UINT64_MAX;
	set_clock(loop->clock);
	model_arrange(&loop->model);
	draw(loop);
	while (!loop->over) {
		if (loop->screen)
			flush(loop);
		take_events(loop);
		if (now_ns() >= loop->escape_ns) {
			take_keys(loop, true);
			draw(loop);
		}
		follow(loop);
		look_if_due(loop);
	}
}

/* ---- Begin and end ----------------------------------------------------------------- */

static void begin_view(struct top_loop *loop)
{
	enum top_order order = top_order_named(loop->options->sort);
	const char *unmatched = source_unmatched(loop->source);
	char stop[PROBE_DURATION_BYTES], *message;
	int length;

	loop->view.title = source_title(loop->source);
	loop->view.clock = loop->clock;
	loop->view.interval_ns = loop->options->interval_ns;
	loop->model.order = order;
	/* A program that has just been started opens its libraries yet. */
	if (unmatched && !loop->child)
		report_warning("%s matches no probe; waiting for a library that has it", unmatched);
	else if (!loop->model.has_times && (order == TOP_ORDER_P50 || order == TOP_ORDER_P99))
		report_warning("no two of the probes are a pair by their names: there are no times "
			       "to sort by");
	probe_duration_text(stop, (double)source_stop_ns(loop->source));
	length = loop->child
			 ? asprintf(&message, "%zu probes are on", loop->model.count)
			 : asprintf(&message, "%zu probes are on; the process stood still for %s",
				   loop->model.count, stop);
	loop_say(loop, length < 0 ? NULL : message);
}

/* The program is started first, for it would inherit that signals are blocked. */
static struct probe_error *begin_source(struct top_loop *loop)
{
	char *const *argv = loop->options->common.program;
	struct probe_target *started = NULL;
	struct probe_error *error = NULL;

	if (argv)
		error = program_start(&loop->program, argv, screen_possible(), &started);
	if (error)
		return error;
	error = take_signals(loop);
	if (error) {
		probe_target_close(started);
		return error;
	}
	error = source_start(loop->options, started, &loop->model, &loop->source);
	if (!error && started)
		loop->child = probe_target_pid(started);
	return error;
}

/* Before anything is switched on: a standard output that is closed cannot be written. */
static struct probe_error *check_output(void)
{
	int flags = fcntl(STDOUT_FILENO, F_GETFL);

	return flags < 0 || (flags & O_ACCMODE) == O_RDONLY
		       ? probe_error_system(EBADF, "the standard output")
		       : NULL;
}

static struct probe_error *begin(struct top_loop *loop)
{
	struct probe_error *error = check_output();

	if (!error)
		error = begin_source(loop);
	if (error)
		return error;
	begin_view(loop);
	if (screen_possible())
		return screen_open(&loop->screen);
	print_refusals(loop);
	return NULL;
}

/* All that was hit, in so many rows; the screen is gone, and would have taken the table along. */
static void print_end(struct top_loop *loop, size_t top)
{
	const char *unmatched = source_unmatched(loop->source);

	loop_fail(loop, source_read(loop->source, &loop->model));
	if (loop->error)
		return;
	loop->model.since_start = true;
	model_arrange(&loop->model);
	loop->model.selected = SIZE_MAX;
	set_clock(loop->clock);
	print_table(loop, top);
	if (unmatched)
		report_warning("%s matched no probe" REQUEST_NEXT_STEP, unmatched);
}

/* Gives terminal and processes back; what is to be seen afterwards is printed then. */
static void end(struct top_loop *loop)
{
	bool was_screen = loop->screen != NULL, is_alive = source_is_alive(loop->source);
	struct probe_error *error;

	screen_close(loop->screen);
	loop->screen = NULL;
	print_refusals(loop); /* a screen has only marked them */
	error = source_stop(loop->source);
	/* Who waits for a reader that takes nothing may interrupt us once more. */
	loop->interrupted = false;
	print_kept(loop);
	if (!loop->error && !loop->gone && !(was_screen && is_alive && !loop->child))
		print_end(loop, was_screen ? draw_rows(&loop->view) : loop->options->top);
	if (was_screen && !is_alive && !loop->child && loop->message)
		print_message(loop->message);
	tell_news(loop);
	if (error && loop->error)
		report_error(error);
	else
		loop_fail(loop, error);
}

/* The program may live on without its probes; its exit status is ours. */
static int wait_for_program(struct top_loop *loop)
{
	int status;

	while (!child_ended(loop->child, &status)) {
		print_kept(loop);
		wait_for_events(loop, FOLLOW_NS, 0);
	}
	print_kept(loop);
	return status;
}

int top_run(const struct top_options *options)
{
	struct top_loop loop = {.options = options, .signal_fd = -1};
	int status = STATUS_DONE, failed = STATUS_DONE;

	model_init(&loop.model);
	loop.view.utf8 = options->utf8;
	loop_fail(&loop, begin(&loop));
	if (!loop.error)
		run(&loop);
	if (loop.source)
		end(&loop);
	if (loop.error)
		failed = report_error(loop.error);
	else if (loop.source && source_is_incomplete(loop.source))
		failed = STATUS_FAILED;
	loop.error = NULL;
	if (loop.child)
		status = wait_for_program(&loop);
	if (failed)
		status = loop.program.status ? loop.program.status : failed;
	program_deinit(&loop.program);
	source_free(loop.source);
	model_deinit(&loop.model);
	frame_deinit(&loop.frame);
	free(loop.message);
	free(loop.fds);
	if (loop.signal_fd >= 0)
		close(loop.signal_fd);
	return status;
}
