/* SPDX-License-Identifier: MIT */
/*
 * What the test suite of ocaml-probes shows of that controller, shown of this one: here, of
 * programs that are launched; in test_counterparts_live.c, of those that run, and of forked ones.
 *
 *	there				here
 *	terminating/test, assorted_handlers	launched_with_all
 *	terminating/cond_probes			conditional
 *	terminating/two_units			tests/integration/repair/restore.sh
 *	terminating/many_free_vars		many_live_values, test_self_calls.c
 *	terminating/no_probes			no_probes
 *	terminating/probe_is_enabled, test_is_enabled	on_from_the_start
 *	non-terminating/test			toggled
 *	many_tracees				two_targets
 *	fork/control_child			only_the_child
 *	fork/child_self			the_child_itself
 *	fork/dead_parent			an_orphan_itself
 *	terminating/ *_in_handler, comballoc,
 *	rec_probes, raise_in_probe		test_self_calls.c
 *	all of terminating/, with that compiler	tests/integration/programs/ocaml_programs.sh
 *
 * Its library, Probes_lib, function by function. ocaml: tests/integration/sites/ocaml.sh, in which
 * a script does to the process what that library does; actions: tests/unit/patch/test_actions.c;
 * steps: tests/unit/patch/test_steps.c.
 *
 *	create ~prog, get_probe_names		no_probes; test_list.c (probe_list_names())
 *	create ~check_prog			actions executable (probe_target_open(),
 *						exe); of every command, --exe: ocaml
 *	~allow_gigatext, set_allow_gigatext	not here: text on pages of 1 GiB is copied by
 *						the kernel page by page when it is written
 *						to, also there; whoever maps it so decides
 *	set_verbose				not here: the library prints nothing;
 *						`enable -v`
 *	get_exe					actions executable
 *	get_probe_states			toggled, two_targets; ocaml (status, list)
 *	  ~atomically				steps: while the target is held
 *	  ~probe_names (Self)			test_self.c: all, of which any can be looked up
 *	trace_existing_process ~actions		actions selectors, in_their_order;
 *						ocaml (both tools)
 *	  Name, Pair, Regex, Predicate, All	actions selectors; steps predicates,
 *						pairs_and_force
 *	  Enable, Disable in one list		actions in_their_order, all_or_nothing
 *	  ~force				actions counts; ocaml
 *	  ~atomically				actions held; toggled
 *	trace_new_process ~args ~actions	launched_with_all, on_from_the_start, a_new_process;
 *						`run`: tests/integration/follow/run.sh
 *	  Disable actions are ignored		a_new_process, run.sh: what is off stays off
 *	With_ptrace.attach, update,		two_targets; steps; actions held
 *	  get_probe_states, detach		the same
 *	With_ptrace.start, Raw_ptrace		on_from_the_start (probe_target_spawn())
 *	Self.update				the_child_itself; test_self.c test_switch
 *	Self.get_probe_states, get_probe_names	test_self.c test_counts, test_list
 *
 * Its errors:
 *
 *	disable of what is off			two_targets; actions in_their_order; ocaml
 *	a count of 65,536			actions counts
 *	a probe that is not there		actions all_or_nothing; no_probes; there
 *						patterns may match nothing, here a mistake in
 *						one is told, too
 *	unexpected byte at a site		ocaml ("undone"): nothing is changed; there
 *						the count is
 *	another program				actions executable; ocaml (--exe)
 *	start or attach while attached		two_targets; a target is one process, and
 *						others may be held meanwhile
 *	attach to oneself			of_itself
 *	update or detach without attach		two_targets (release); switching needs no
 *						attach here
 *	no executable name			a_new_process (probe_target_spawn())
 *	no such process, not permitted		tests/integration/others/held.sh, contexts.sh
 *	Self ~atomically			not here: the helper of probe/self.h can stop
 *						the process
 *	a site without a semaphore, versions of	not errors here: each site says what it has,
 *	the protocol in one program		and is switched by that
 *	one name, different semaphores		the same; all of them are counted
 *	a list of pairs with one too many	actions usage; `--pair`: ocaml
 *	a pair of one probe			ocaml
 *	a name twice, or in -enable and -disable
 *						counted in the order of the list: actions
 *	(its command)				selectors, in_their_order
 *
 * Erlang's erl_tracer: tests/unit/cli/test_tracer_cli.c; pmtrace, posix_trace and the kernel's
 * tracepoints: tests/unit/api/test_counterparts_trace.c.
 */
/* Not under ThreadSanitizer: it knows no code that we make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/api/asked.h"
#include "tests/unit/api/counterparts.h"

/* ---- The targets ------------------------------------------------------------------------ */

SEMAPHORE(main);
SEMAPHORE(test_noarg);
SEMAPHORE(test1);
SEMAPHORE(test_arg);
SEMAPHORE(test_manyarg);
SEMAPHORE(conditional);
SEMAPHORE(live);

WHOLE static long assorted(long x, long y)
{
	double quotient;
	long z;

	DTRACE_PROBE2(same, test1, x, y);
	ROOM();
	if (x > y) {
		DTRACE_PROBE2(same, test_arg, (int)(x + y), "true_branch");
		ROOM();
		z = x - y;
	} else {
		DTRACE_PROBE2(same, test_arg, (short)x, "false_branch");
		ROOM();
		z = y - x;
	}
	quotient = (double)x / (double)y;
	DTRACE_PROBE4(same, test_manyarg, "many", x, quotient, (unsigned char)z);
	ROOM();
	return z;
}

WHOLE static int run_assorted(char **argv)
{
	DTRACE_PROBE1(same, main, UINT64_C(0x45));
	ROOM();
	DTRACE_PROBE(same, test_noarg);
	ROOM();
	return (int)assorted(atol(argv[0]), atol(argv[1]));
}

WHOLE static void maybe(long x)
{
	if (x > 0) {
		DTRACE_PROBE1(same, conditional, x);
		ROOM();
	}
}

static int run_conditional(char **argv)
{
	(void)argv;
	for (long i = -5; i <= 10; i++)
		maybe(i);
	return 0;
}

/* 18 values that are computed before a probe and used after it: more than there are registers. */
WHOLE static uint64_t live_across(uint64_t seed)
{
	uint64_t v[18], digest = 0;

#pragma GCC unroll 18
	for (int i = 0; i < 18; i++) {
		v[i] = seed * (uint64_t)(2 * i + 3) + (uint64_t)i;
		__asm__ volatile("" : "+r"(v[i]));
	}
	DTRACE_PROBE12(same, live, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9],
		v[10], v[11]);
	ROOM();
	DTRACE_PROBE6(same, live, v[12], v[13], v[14], v[15], v[16], v[17]);
	ROOM();
#pragma GCC unroll 18
	for (int i = 0; i < 18; i++)
		digest = digest * 31 + v[i];
	return digest;
}

static int run_live(char **argv)
{
	uint64_t digest = live_across(strtoull(argv[0], NULL, 0));

	return (int)(digest % 251);
}

static const struct {
	const char *name;
	int (*run)(char **argv);
} targets[] = {{"assorted", run_assorted}, {"conditional", run_conditional}, {"live", run_live},
	{"asked", run_asked}};

/* ---- Launched: every hit is a line of text ------------------------------------------------- */

struct lines {
	struct probe_session *session;
	char text[2048];
	size_t length;
};

__attribute__((format(printf, 2, 3))) static void add(struct lines *lines, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	lines->length += (size_t)vsnprintf(
		lines->text + lines->length, sizeof(lines->text) - lines->length, format, args);
	va_end(args);
	assert_true(lines->length < sizeof(lines->text));
}

static bool visit(const struct probe_hit *hit, void *data)
{
	struct lines *lines = data;
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(lines->session, &count);

	add(lines, "%s", probes[hit->probe].name);
	for (size_t i = 0; i < hit->arg_count; i++) {
		const struct probe_value *value = &hit->args[i];

		switch (value->kind) {
		case PROBE_VALUE_SIGNED:
			add(lines, " %jd", (intmax_t)value->i);
			break;
		case PROBE_VALUE_UNSIGNED:
			add(lines, " %ju", (uintmax_t)value->u);
			break;
		case PROBE_VALUE_FLOAT:
			add(lines, " %g", value->f);
			break;
		case PROBE_VALUE_TEXT:
			add(lines, " %.*s", (int)value->length, value->bytes);
			break;
		default:
			add(lines, " ?");
		}
	}
	add(lines, "\n");
	return true;
}

/* Runs a target with all of its probes enabled from the start; returns its exit status. */
static int launch(struct lines *lines, const char *what, const char *first, const char *second)
{
	const struct probe_session_options options = {
		.kind = PROBE_SESSION_RECORD, .string_bytes = 100, .guess_strings = true};
	struct probe_target *target = spawn(what, first, second);
	struct probe_pattern *pattern;
	struct probe_request request = {
		.patterns = (const struct probe_pattern *const *)&pattern, .pattern_count = 1};
	struct probe_report report = {0};
	int status;

	lines->length = 0;
	ok(probe_pattern_parse("same:*", &pattern));
	ok(probe_session_start(target, &request, &options, &report, &lines->session));
	assert_int_equal(report.refusal_count, 0);
	probe_report_deinit(&report);
	ok(probe_target_release(target));
	status = exit_status(probe_target_pid(target));
	ok(probe_session_stop(lines->session));
	ok(probe_session_poll(lines->session, visit, lines, NULL));
	probe_session_free(lines->session);
	probe_target_close(target);
	probe_pattern_free(pattern);
	return status;
}

static void launched_with_all(void **state)
{
	struct lines lines;

	(void)state;
	assert_int_equal(launch(&lines, "assorted", "9", "4"), 5);
	assert_string_equal(lines.text, "main 69\n"
					"test_noarg\n"
					"test1 9 4\n"
					"test_arg 13 true_branch\n"
					"test_manyarg many 9 2.25 5\n");
	/* The other site of that name has arguments of other types. */
	assert_int_equal(launch(&lines, "assorted", "-7", "8"), 15);
	assert_string_equal(lines.text, "main 69\n"
					"test_noarg\n"
					"test1 -7 8\n"
					"test_arg -7 false_branch\n"
					"test_manyarg many -7 -0.875 15\n");
}

static void conditional(void **state)
{
	struct lines lines;

	(void)state;
	assert_int_equal(launch(&lines, "conditional", NULL, NULL), 0);
	assert_string_equal(lines.text,
		"conditional 1\nconditional 2\nconditional 3\nconditional 4\nconditional 5\n"
		"conditional 6\nconditional 7\nconditional 8\nconditional 9\nconditional 10\n");
}

static void many_live_values(void **state)
{
	struct lines lines;
	char *seed = "0x123456789";

	(void)state;
	assert_int_equal(launch(&lines, "live", seed, NULL), run_live(&seed));
	assert_string_equal(lines.text,
		"live 14660155035 24433591726 34207028417 43980465108 53753901799 63527338490 "
		"73300775181 83074211872 92847648563 102621085254 112394521945 122167958636\n"
		"live 131941395327 141714832018 151488268709 161261705400 171035142091 "
		"180808578782\n");
}

static void on_from_the_start(void **state)
{
	struct probe_target *target;
	struct lines lines;

	(void)state;
	assert_int_equal(launch(&lines, "asked", NULL, NULL), 4);
	assert_string_equal(lines.text, "asked 1\n");
	/* Enabled, even without a listener. */
	target = spawn("asked", NULL, NULL);
	ok(change_one(target, probe_target_enable, "same:asked"));
	assert_int_equal(refcount(target, "asked"), 1);
	ok(probe_target_release(target));
	assert_int_equal(exit_status(probe_target_pid(target)), 4);
	probe_target_close(target);
	target = spawn("asked", NULL, NULL);
	ok(probe_target_release(target));
	assert_int_equal(exit_status(probe_target_pid(target)), 3);
	probe_target_close(target);
}

static void no_probes(void **state)
{
	char *argv[] = {"true", NULL}, **names, message[160];
	struct probe_target *target;
	struct probe_list *list;
	size_t count;

	(void)state;
	ok(probe_list_create(&list));
	ok(probe_list_add_file(list, "/bin/true"));
	ok(probe_list_names(list, &names, &count));
	assert_int_equal(count, 0);
	free(names);
	probe_list_free(list);
	ok(probe_target_spawn(argv, &target));
	snprintf(message, sizeof(message),
		"no probe matches 'true:*': there are no probes in process %d",
		probe_target_pid(target));
	fails_with(
		change_one(target, probe_target_enable, "true:*"), PROBE_ERROR_NOT_FOUND, message);
	ok(probe_target_release(target));
	assert_int_equal(exit_status(probe_target_pid(target)), 0);
	probe_target_close(target);
}

static struct probe_pattern *pattern_of(const char *text)
{
	struct probe_pattern *pattern;

	ok(probe_pattern_parse(text, &pattern));
	return pattern;
}

/* Where all probes are off, a list may disable some; what the list itself enables, it disables. */
static void a_new_process(void **state)
{
	struct probe_pattern *asked = pattern_of("same:asked"), *live = pattern_of("same:live");
	struct probe_pattern *gone = pattern_of("same:nothing");
	const struct probe_action mixed[] = {{.pattern = asked}, {.disable = true, .pattern = live},
		{.disable = true, .pattern = live, .end = gone}};
	const struct probe_action back[] = {{.pattern = live}, {.disable = true, .pattern = live},
		{.disable = true, .pattern = asked}};
	const struct probe_action none = {.disable = true};
	struct probe_target *target = spawn("asked", NULL, NULL);
	struct probe_request request = {.force = false};
	struct probe_report report = {0};
	struct probe_error *error;

	(void)state;
	ok(probe_target_switch(target, &none, 1, &request, &report));
	ok(probe_target_switch(target, mixed, 3, &request, &report));
	assert_int_equal(report.probes, 1);
	assert_int_equal(refcount(target, "asked"), 1);
	assert_int_equal(refcount(target, "live"), 0);
	ok(probe_target_switch(target, back, 3, &request, &report));
	assert_int_equal(refcount(target, "asked"), 0);
	assert_int_equal(refcount(target, "live"), 0);
	ok(probe_target_switch(target, mixed, 2, &request, &report));
	ok(probe_target_release(target));
	assert_int_equal(exit_status(probe_target_pid(target)), 4);
	probe_report_deinit(&report);
	probe_target_close(target);
	probe_pattern_free(asked);
	probe_pattern_free(live);
	probe_pattern_free(gone);

	error = probe_target_spawn((char *[]){NULL}, &target);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	assert_string_equal(
		error->message, "no program to start: the first argument is its name or path");
	probe_error_free(error);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(launched_with_all),
		cmocka_unit_test(conditional),
		cmocka_unit_test(many_live_values),
		cmocka_unit_test(on_from_the_start),
		cmocka_unit_test(a_new_process),
		cmocka_unit_test(no_probes),
	};

	for (size_t i = 0; argc > 1 && i < sizeof(targets) / sizeof(*targets); i++)
		if (strcmp(argv[1], targets[i].name) == 0)
			return targets[i].run(argv + 2);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
