/* SPDX-License-Identifier: MIT */
/* probectl: finds the command in a table, runs it, and reports its error. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/print/print.h"
#include "libprobe/base/nearest.h"
#include "probe/version.h"

static const struct command commands[] = {
	{"list", "show the probes of files, of running processes or of the system", cmd_list},
	{"status", "show which probes of processes are on", cmd_status},
	{"enable", "switch probes of processes on; they stay on", cmd_enable},
	{"disable", "switch them off again", cmd_disable},
	{"read", "print what the sessions left by `enable -t` have gathered", cmd_read},
	{"repair", "remove what a killed probectl left behind", cmd_repair},
	{"run", "start a program with probes on", cmd_run},
	{"trace", "print or count the hits of probes", cmd_trace},
	{"top", "show live how often probes are hit, and how long pairs take", cmd_top},
	{"record", "write the hits of probes to disk, for babeltrace2 and Trace Compass",
		cmd_record},
	{"export", "convert records for other tools: JSON, CSV, flame graphs, Perfetto",
		cmd_export},
	{"report", "summarize a record: rates, latencies, losses; also as a page with charts",
		cmd_report},
};

enum {
	COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]),
	LARGE_BYTES = 1 << 20 /* freed blocks of at least this size are returned to the system */
};

static void print_help(void)
{
	printf("usage: probectl COMMAND [OPTIONS] [-p PID | -- PROGRAM ARGS...] [PROBE...]\n"
	       "\n"
	       "Switches static probes and functions of running programs on and off, and shows\n"
	       "their hits.\n"
	       "\n"
	       "Commands:\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		printf("  %-10s %s\n", commands[i].name, commands[i].help);
	printf("  %-10s explain a command\n"
	       "\n"
	       "PROBE is provider:name with globs, path:provider:name or /regex/; see "
	       "probectl(1).\n"
	       "A function is fn:FILE:NAME, its exits are fn:FILE:NAME:return.\n"
	       "'probectl COMMAND --help' lists the options of a command.\n",
		"help");
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

static struct probe_error *unknown_command(const char *name)
{
	struct nearest nearest = {0};

	if (name[0] == '-')
		return usage_error(
			"there is no option '%s' before the command: probectl COMMAND [OPTIONS] "
			"('probectl --help' lists the commands)",
			name);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		nearest_consider(&nearest, name, commands[i].name);
	if (nearest.name)
		return usage_error(
			"there is no command '%s'; the nearest is '%s' ('probectl --help' lists "
			"the commands)",
			name, nearest.name);
	return usage_error("there is no command '%s' ('probectl --help' lists the commands)", name);
}

static bool is_help(const char *word)
{
	return !strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h");
}

static struct probe_error *run(int argc, char **argv, int *status_ret)
{
	char option[] = "--help";
	char *help[] = {NULL, option, NULL};
	const struct command *command;

	if (argc < 1)
		return usage_error("a command is missing ('probectl --help' lists the commands)");
	if (strcmp(argv[0], "--version") == 0) {
		printf("probectl %s\n", probe_version());
		return NULL;
	}
	if (is_help(argv[0])) {
		if (argc < 2 || is_help(argv[1])) {
			print_help();
			return NULL;
		}
		help[0] = argv[1];
		argc = 2;
		argv = help;
	}
	command = find_command(argv[0]);
	return command ? command->run(argc, argv, status_ret) : unknown_command(argv[0]);
}

/*
 * Opens an O_PATH descriptor in place of each closed standard stream. Otherwise a file of ours
 * could get the stream's number, and messages would be written into it: into a recording, or into
 * the memory of a target. Programs that we start do not inherit the descriptor.
 */
static bool keep_places(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/", O_PATH | O_CLOEXEC) != fd)
			return false;
	return true;
}

/* Returns a failure status if the output could not be written completely. */
static int finish_output(int status)
{
	struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
	int err = 0;

	if (fflush(stdout) != 0)
		err = errno;
	else if (!ferror(stdout))
		return status;
	/* The reader of our output has closed the pipe, which is no error. */
	if (err == EPIPE || (poll(&output, 1, 0) == 1 && (output.revents & POLLERR)))
		return status;
	/* If an earlier write has failed, errno is 0 here, and the reason is unknown. */
	return report_error(
		err ? probe_error_system(err, "cannot write the output")
		    : probe_error_new(PROBE_ERROR_SYSTEM, "cannot write all of the output"));
}

int main(int argc, char **argv)
{
	int status = STATUS_DONE, failed = STATUS_DONE;
	struct probe_error *error;

	if (!keep_places())
		return STATUS_FAILED; /* the standard error stream cannot be used for a message */
	/*
	 * Return the memory of large tables to the system when they are freed. By default,
	 * malloc(3) raises this limit to the size of the largest block freed so far.
	 */
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
	messages_begin();
	error = run(argc - 1, argv + 1, &status);
	if (error)
		failed = report_error(error);
	status = finish_output(status ? status : failed);
	messages_end();
	return status;
}
