/* SPDX-License-Identifier: MIT */
/* The start of a session's process. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/agent/relay.h"
#include "cli/agent/set.h"
#include "cli/agent/start.h"
#include "cli/agent/words.h"
#include "cli/cli.h"

/* The new process's standard streams, before they have their numbers. */
struct streams {
	int in, out, err;
};

/* ---- Words ------------------------------------------------------------------ */

static const char time_word[] = "{time}";

/* A copy of the word; {time} is the time now. NULL without memory. */
static char *expand(const char *word, const char *now)
{
	const char *at = strstr(word, time_word);
	char *copy;

	if (!at)
		return strdup(word);
	if (asprintf(&copy, "%.*s%s%s", (int)(at - word), word, now, at + strlen(time_word)) < 0)
		return NULL;
	return copy;
}

/* argv of the process: "probectl", and the words of the entry. */
static struct probe_error *make_words(const struct set_entry *entry, char ***ret)
{
	char now[40] = "", *name = strdup("probectl");
	char **words = calloc(entry->word_count + 2, sizeof(*words));
	struct timespec clock;
	struct tm tm;

	if (!words || !name) {
		free(name);
		free(words);
		return probe_error_no_memory();
	}
	/* To the millisecond: two starts must not write to the same folder. */
	clock_gettime(CLOCK_REALTIME, &clock);
	if (gmtime_r(&clock.tv_sec, &tm))
		snprintf(now + strftime(now, sizeof(now), "%Y%m%dT%H%M%S", &tm), 8, ".%03uZ",
			(unsigned int)(clock.tv_nsec / 1000000) % 1000);
	words[0] = name;
	for (size_t i = 0; i < entry->word_count; i++) {
		words[i + 1] = expand(entry->words[i], now);
		if (!words[i + 1]) {
			words_free(words, i + 1);
			return probe_error_no_memory();
		}
	}
	*ret = words;
	return NULL;
}

/* ---- Streams ---------------------------------------------------------------- */

/* Appends to what earlier starts have written. */
static struct probe_error *open_output(const char *path, int *ret)
{
	int fd =
		open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640);
	struct stat st;

	if (fd < 0)
		return probe_error_system(errno, "cannot open the output %s", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return probe_error_new(PROBE_ERROR_FORMAT, "the output %s is not a file", path);
	}
	*ret = fd;
	return NULL;
}

static void close_streams(const struct streams *streams)
{
	if (streams->in >= 0)
		close(streams->in);
	if (streams->out >= 0)
		close(streams->out);
	if (streams->err >= 0)
		close(streams->err);
}

static struct probe_error *open_streams(
	const struct set_entry *entry, struct relay *out, struct relay *err, struct streams *ret)
{
	struct probe_error *error;

	ret->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (ret->in < 0)
		return probe_error_system(errno, "cannot open /dev/null");
	error = relay_open(err, &ret->err);
	if (error)
		return error;
	return entry->output ? open_output(entry->output, &ret->out) : relay_open(out, &ret->out);
}

/* ---- The process ------------------------------------------------------------ */

/* loop_open() has changed these for us, and a shell may have. */
static void reset_signals(void)
{
	static const int ours[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};
	sigset_t none;

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		signal(ours[i], SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become(char **words, const struct streams *streams, pid_t agent)
{
	/* The agent may have died before the first call. */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != agent)
		_exit(STATUS_FAILED);
	/* Of systemd: for the agent. */
	unsetenv("NOTIFY_SOCKET");
	reset_signals();
	if (dup2(streams->in, STDIN_FILENO) < 0 || dup2(streams->out, STDOUT_FILENO) < 0 ||
		dup2(streams->err, STDERR_FILENO) < 0)
		_exit(STATUS_FAILED);
	/* Also when the file has been replaced or removed. */
	execv("/proc/self/exe", words);
	dprintf(STDERR_FILENO, "probectl: cannot execute /proc/self/exe: %s\n", strerror(errno));
	_exit(STATUS_FAILED);
}

struct probe_error *start_session(
	const struct set_entry *entry, struct relay *out, struct relay *err, pid_t *pid_ret)
{
	struct streams streams = {-1, -1, -1};
	pid_t agent = getpid(), pid = -1;
	char **words = NULL;
	struct probe_error *error = make_words(entry, &words);

	if (!error)
		error = open_streams(entry, out, err, &streams);
	if (!error) {
		pid = fork();
		if (pid == 0)
			become(words, &streams, agent);
		if (pid < 0)
			error = probe_error_system(errno, "cannot start a process");
	}
	close_streams(&streams);
	if (error) {
		relay_close(out);
		relay_close(err);
	}
	if (words)
		words_free(words, entry->word_count + 1);
	*pid_ret = pid;
	return error;
}
