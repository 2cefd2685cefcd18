/* SPDX-License-Identifier: MIT */
/*
 * Starts commands and kills them (SIGKILL) at random moments; checks after each that the target
 * lives, runs, and has no tracer.
 *
 *	killer -p PID -n KILLS -- COMMAND... -- COMMAND... [-- HEALER...]
 *	  -s SEED	of the random numbers
 *	  -u US		longest life; 0: 1.2 times what the command takes, measured first
 *	  -h EVERY	lets the last command (the healer) run to its end after EVERY
 *			kills; it must succeed (0: there is no healer)
 *	  -k		no kills: all commands run to their ends, in order (cycles)
 *
 * SIGTERM ends it early. Prints "started N killed K finished F failed X healed H"; "failed"
 * counts commands that ended by themselves with a status other than 0. Status 1, with a
 * message, as soon as the target is harmed or the healer fails.
 *
 * A killed tracer is reaped only after the kernel has detached it from all its tracees
 * (exit_notify() comes after exit_ptrace()), so the check is exact.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static volatile sig_atomic_t stopping;

static void on_term(int number)
{
	stopping = number;
}

enum { COMMANDS_MAX = 32, SETTLE_TRIES = 200, LOG_BYTES = 2000, FAILURES_SHOWN = 3 };

struct command {
	char **argv;
	uint64_t takes_us;
};

struct killer {
	pid_t pid;
	struct command commands[COMMANDS_MAX];
	int command_count;
	unsigned long long random;
	unsigned long started, killed, finished, failed, healed;
	int log; /* the output of the commands */
};

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators". */
static uint64_t random_below(struct killer *k, uint64_t limit)
{
	k->random ^= k->random >> 12;
	k->random ^= k->random << 25;
	k->random ^= k->random >> 27;
	return limit ? (k->random * 2685821657736338717ULL >> 11) % limit : 0;
}

static pid_t start(struct killer *k, const struct command *command)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int err;

	if (ftruncate(k->log, 0) < 0)
		perror("killer: log");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, k->log, 2);
	err = posix_spawn(&pid, command->argv[0], &actions, NULL, command->argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (err) {
		fprintf(stderr, "killer: %s: %s\n", command->argv[0], strerror(err));
		exit(2);
	}
	k->started++;
	return pid;
}

static void print_log(const struct killer *k)
{
	char text[LOG_BYTES];
	ssize_t length = pread(k->log, text, sizeof(text) - 1, 0);

	text[length < 0 ? 0 : length] = '\0';
	fprintf(stderr, "%s", text);
}

/* ---- The target ------------------------------------------------------------ */

static char target_state(pid_t pid, long *tracer_ret)
{
	char path[32], text[4096];
	const char *at;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[length < 0 ? 0 : length] = '\0';
	at = strstr(text, "\nTracerPid:");
	*tracer_ret = at ? atol(at + 11) : -1;
	at = strstr(text, "\nState:\t");
	return at ? at[8] : 0;
}

/* Exits if the target is dead, stopped or traced. */
static void check_target(const struct killer *k, const char *when)
{
	long tracer = 0;
	char state = 0;

	/* Being stopped for a moment is no harm: it may be leaving its last stop. */
	for (int i = 0; i < SETTLE_TRIES; i++) {
		state = target_state(k->pid, &tracer);
		if (state && !strchr("ZXTt", state) && tracer == 0)
			return;
		if (!state || strchr("ZX", state))
			break;
		usleep(5000);
	}
	fprintf(stderr, "killer: after %lu commands, %s: the target is %s (state %c, tracer %ld)\n",
		k->started, when, state && !strchr("ZX", state) ? "stopped" : "dead",
		state ? state : '-', tracer);
	print_log(k);
	exit(1);
}

/* ---- Killing ------------------------------------------------------------------ */

/* A command ended by itself, with an error: shows the first few. */
static void note_failed(struct killer *k, const struct command *command, int status)
{
	if (k->failed++ >= FAILURES_SHOWN)
		return;
	fprintf(stderr, "killer: %s: status %#x\n", command->argv[1], status);
	print_log(k);
}

static int run(struct killer *k, const struct command *command)
{
	pid_t pid = start(k, command);
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static void run_and_kill(struct killer *k, const struct command *command, uint64_t longest)
{
	uint64_t life = random_below(k, longest ? longest : command->takes_us * 6 / 5 + 200);
	uint64_t end = now_us() + life;
	pid_t pid = start(k, command);
	int status;

	while (now_us() < end) {
		uint64_t left = end - now_us();

		if (left < 1000000 && left > 100)
			usleep(left - 80);
	}
	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		k->killed++;
	else
		k->finished++;
	if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
		note_failed(k, command, status);
}

/* Lets a command run to its end; it should succeed. */
static void spare_run(struct killer *k, const struct command *command)
{
	int status = run(k, command);

	k->finished++;
	if (status == 0)
		return;
	note_failed(k, command, status);
}

static void heal(struct killer *k, const struct command *healer)
{
	int status = run(k, healer);

	if (status != 0) {
		fprintf(stderr, "killer: after %lu commands: %s %s: status %#x\n", k->started,
			healer->argv[0], healer->argv[1] ? healer->argv[1] : "", status);
		print_log(k);
		exit(1);
	}
	k->healed++;
	check_target(k, "healed");
}

static void measure(struct killer *k, struct command *command)
{
	uint64_t begin = now_us();
	int status = run(k, command);

	command->takes_us = now_us() - begin;
	if (!WIFEXITED(status))
		fprintf(stderr, "killer: %s %s ended with status %#x\n", command->argv[0],
			command->argv[1], status);
	check_target(k, "measured");
}

static void take_commands(struct killer *k, int argc, char **argv)
{
	for (int i = 0; i < argc && k->command_count < COMMANDS_MAX; i++) {
		k->commands[k->command_count++] = (struct command){.argv = argv + i};
		while (i < argc && strcmp(argv[i], "--") != 0)
			i++;
		argv[i] = NULL;
	}
}

int main(int argc, char **argv)
{
	struct killer k = {.random = 88172645463325252ULL};
	unsigned long kills = 100, heal_every = 0;
	uint64_t longest = 0;
	bool spare = false;
	int option, count;

	while ((option = getopt(argc, argv, "+p:n:s:u:h:k")) != -1) {
		if (option == 'p')
			k.pid = atoi(optarg);
		else if (option == 'n')
			kills = strtoul(optarg, NULL, 0);
		else if (option == 's')
			k.random ^= strtoull(optarg, NULL, 0) * 0x9e3779b97f4a7c15ULL;
		else if (option == 'u')
			longest = strtoull(optarg, NULL, 0);
		else if (option == 'h')
			heal_every = strtoul(optarg, NULL, 0);
		else if (option == 'k')
			spare = true;
		else
			return 2;
	}
	take_commands(&k, argc - optind, argv + optind);
	count = k.command_count - (heal_every != 0);
	if (!k.pid || count < 1)
		return 2;
	signal(SIGTERM, on_term);
	k.log = fileno(tmpfile());
	fcntl(k.log, F_SETFL, O_APPEND);
	for (int i = 0; i < count && !longest && !spare; i++)
		measure(&k, &k.commands[i]);
	for (unsigned long i = 0; !stopping && (spare ? i < kills : k.killed < kills); i++) {
		struct command *command =
			&k.commands[spare ? i % (unsigned long)count : random_below(&k, count)];

		if (spare) {
			spare_run(&k, command);
		} else {
			run_and_kill(&k, command, longest);
		}
		check_target(&k, "killed");
		if (heal_every && i % heal_every == heal_every - 1)
			heal(&k, &k.commands[count]);
	}
	if (heal_every)
		heal(&k, &k.commands[count]);
	printf("started %lu killed %lu finished %lu failed %lu healed %lu\n", k.started, k.killed,
		k.finished, k.failed, k.healed);
	return 0;
}
