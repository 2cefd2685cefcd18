/* SPDX-License-Identifier: MIT */
/* probectl agent: keeps up the sessions of a file. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/agent/agent.h"
#include "cli/agent/set.h"
#include "cli/agent/status.h"
#include "cli/cli.h"
#include "cli/options.h"

struct agent_options {
	struct common_options common;
	bool status, json, check;
};

static struct probe_error *check(const char *path)
{
	struct agent_set set = {0};
	struct probe_error *error = set_read(path, &set);

	if (!error)
		printf("%s: %zu session%s\n", path, set.count, set.count == 1 ? "" : "s");
	set_deinit(&set);
	return error;
}

static struct probe_error *agent_checked(void *data, int *status_ret)
{
	const struct agent_options *options = data;
	const struct common_options *common = &options->common;

	if (options->status && (options->check || common->operand_count))
		return probe_error_new(PROBE_ERROR_USAGE,
			"--status asks the agent that runs: it takes neither --check nor a FILE");
	if (options->json && !options->status)
		return probe_error_new(PROBE_ERROR_USAGE, "--json is for --status");
	if (options->status)
		return status_print(options->json);
	if (common->operand_count != 1)
		return probe_error_new(PROBE_ERROR_USAGE,
			"one FILE is needed, which names the sessions: probectl agent FILE");
	if (options->check)
		return check(common->operands[0]);
	return agent_run(common->operands[0], status_ret);
}

static const char help_text[] =
	"Keeps up the sessions that FILE names: each a trace or record command, in a process\n"
	"of its own, begun again when it fails. SIGHUP ('systemctl reload') reads FILE again:\n"
	"sessions that are as before go on, others end and begin. SIGTERM ends all of them.\n"
	"\n"
	"  [orders]\n"
	"  command = trace -t latency --pairs auto -i 60 --follow --name shop 'shop:order__*'\n"
	"  output = /var/log/probectl/orders\n";

struct probe_error *cmd_agent(int argc, char **argv, int *status_ret)
{
	struct agent_options options = {0};
	const struct option_row rows[] = {
		OPTION(0, "check", FLAG, NULL, &options.check,
			"read FILE, and say whether it is in order"),
		OPTION(0, "status", FLAG, NULL, &options.status,
			"print what the agent that runs has, and in which state"),
		OPTIONS_JSON(&options.json),
	};
	const struct command_line line = {
		.synopsis = "agent [--check] FILE | agent --status [--json]",
		.help = help_text,
		OPTION_ROWS(rows),
		.common = &options.common,
		.run = agent_checked,
		.data = &options,
	};

	return options_run(&line, argc, argv, status_ret);
}
