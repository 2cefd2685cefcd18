/* SPDX-License-Identifier: MIT */
/*
 * A target in steps: attached to, changed several times, released; and ways to name its probes:
 * lists without duplicates, predicates, pairs, force.
 */
/* Not under ThreadSanitizer: it crashes in children that share memory. */
/* Not under AddressSanitizer: its terabytes of memory are searched at each of many changes. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "libprobe/process/process.h"
#include "libprobe/base/procfs.h"
#include "tests/unit/dying.h"
#include "tests/unit/live.h"

typedef struct probe_error *change(struct probe_target *target, const struct probe_request *request,
	struct probe_report *report);

static struct probe_error *change_patterns(struct live *l, change *how,
	struct probe_pattern *const *patterns, size_t count, bool force, bool pairs)
{
	struct probe_request request = {
		.patterns = (const struct probe_pattern *const *)patterns,
		.pattern_count = count,
		.force = force,
		.pairs = pairs,
	};
	struct probe_report report = {0};
	struct probe_error *error = how(l->target, &request, &report);

	probe_report_deinit(&report);
	return error;
}

static struct probe_error *change_one(struct live *l, change *how, const char *text)
{
	struct probe_pattern *pattern;
	struct probe_error *error;

	live_ok(probe_pattern_parse(text, &pattern));
	error = change_patterns(l, how, &pattern, 1, false, false);
	probe_pattern_free(pattern);
	return error;
}

static void is_error(struct probe_error *error, enum probe_error_code code, const char *message)
{
	assert_non_null(error);
	assert_string_equal(error->message, message);
	assert_int_equal(error->code, code);
	probe_error_free(error);
}

/* "start=1 done=0 value=2": the reference counts of the target's own probes. */
static const char *states(struct live *l, char text[128])
{
	struct probe_status *all;
	size_t count, length = 0;

	text[0] = '\0';
	live_ok(probe_target_status(l->target, &all, &count));
	for (size_t i = 0; i < count; i++)
		if (strcmp(all[i].provider, "live") == 0) {
			assert_int_equal(all[i].enabled, all[i].refcount > 0);
			length += (size_t)snprintf(text + length, 128 - length, "%s%s=%u",
				length ? " " : "", all[i].name, all[i].refcount);
		}
	free(all);
	return text;
}

static bool has_our_memory(pid_t pid)
{
	char path[48], line[512];
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		found |= strstr(line, "/memfd:probectl") != NULL;
	fclose(maps);
	return found;
}

/* ---- Steps ---------------------------------------------------------------------------- */

static void steps(void **state)
{
	struct live *l = *state;
	char text[128], message[128];

	snprintf(message, sizeof(message), "process %d is not held", l->pid);
	is_error(probe_target_release(l->target), PROBE_ERROR_STATE, message);
	live_ok(probe_target_attach(l->target));
	snprintf(message, sizeof(message), "process %d is attached to already", l->pid);
	is_error(probe_target_attach(l->target), PROBE_ERROR_STATE, message);
	assert_int_equal(procfs_thread_state(l->pid, l->pid), 't');

	assert_string_equal(states(l, text), "op__done=0 op__start=0 value=0");
	live_ok(change_one(l, probe_target_enable, "live:*"));
	assert_string_equal(states(l, text), "op__done=1 op__start=1 value=1");
	live_ok(change_one(l, probe_target_enable, "live:value"));
	live_ok(change_one(l, probe_target_disable, "live:op__start"));
	assert_string_equal(states(l, text), "op__done=1 op__start=0 value=2");
	snprintf(message, sizeof(message),
		"live:op__start is not enabled in process %d (`probectl status -p %d` shows "
		"what is; --keep-going does the rest)",
		l->pid, l->pid);
	is_error(change_one(l, probe_target_disable, "live:op__start"), PROBE_ERROR_STATE, message);
	assert_int_equal(procfs_thread_state(l->pid, l->pid), 't');
	live_ok(probe_target_release(l->target));
	assert_int_not_equal(procfs_thread_state(l->pid, l->pid), 't');

	live_order(l, 'v');
	assert_string_equal(states(l, text), "op__done=1 op__start=0 value=2");
	live_ok(probe_target_attach(l->target));
	live_ok(change_one(l, probe_target_disable, "live:value"));
	live_ok(change_one(l, probe_target_disable, "live:value"));
	live_ok(change_one(l, probe_target_disable, "live:op__done"));
	assert_string_equal(states(l, text), "op__done=0 op__start=0 value=0");
	live_ok(probe_target_release(l->target));
	assert_false(has_our_memory(l->pid));
}

/* Closing releases it as well. */
static void closed_while_attached(void **state)
{
	struct live *l = *state;

	live_ok(probe_target_attach(l->target));
	live_ok(change_one(l, probe_target_enable, "live:value"));
	probe_target_close(l->target);
	live_ok(probe_target_open(l->pid, NULL, &l->target));
	live_order(l, 'v');
	live_ok(change_one(l, probe_target_disable, "live:value"));
	assert_false(has_our_memory(l->pid));
}

/* Threads are stopped anywhere, even in stubs: nothing of ours stays. */
static void steps_under_load(void **state)
{
	enum { TIMES = 30 };
	struct live *l = *state;
	char text[128], reply;

	for (int i = 0; i < TIMES; i++) {
		assert_int_equal(write(l->commands, "v", 1), 1);
		live_ok(probe_target_attach(l->target));
		live_ok(change_one(l, probe_target_enable, "live:*"));
		live_ok(probe_target_release(l->target));
		live_ok(probe_target_attach(l->target));
		live_ok(change_one(l, probe_target_disable, "live:*"));
		live_ok(probe_target_release(l->target));
		assert_string_equal(states(l, text), "op__done=0 op__start=0 value=0");
		assert_int_equal(read(l->replies, &reply, 1), 1);
	}
	assert_false(has_our_memory(l->pid));
}

/* ---- A child in its parent's memory ------------------------------------------------------ */

static int wait_for_ever(void *unused)
{
	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
	return 0;
}

/* The parent's probes can be changed, and repaired, whoever else shares its memory. */
static void child_in_its_memory(void **state)
{
	static char stack[65536];
	pid_t parent, child = 0;
	struct live own = {0};
	struct probe_repair repaired = {0};
	char message[192];
	int pids[2];

	(void)state;
	assert_int_equal(pipe(pids), 0);
	parent = fork();
	if (parent == 0) {
		child = clone(wait_for_ever, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
		if (write(pids[1], &child, sizeof(child)) != sizeof(child))
			_exit(1);
		wait_for_ever(NULL);
	}
	assert_int_equal(read(pids[0], &child, sizeof(child)), sizeof(child));
	assert_true(parent > 0 && child > 0);
	live_ok(probe_target_open(child, NULL, &own.target));
	snprintf(message, sizeof(message),
		"process %d runs in the memory of process %d until it starts a program (vfork): "
		"change the probes of that one",
		child, parent);
	is_error(change_one(&own, probe_target_enable, "live:value"), PROBE_ERROR_STATE, message);
	assert_false(has_our_memory(parent));
	probe_target_close(own.target);
	live_ok(probe_target_open(parent, NULL, &own.target));
	live_ok(change_one(&own, probe_target_enable, "live:value"));
	live_ok(probe_target_repair(own.target, &repaired));
	assert_int_equal(repaired.sessions, 0);
	live_ok(change_one(&own, probe_target_disable, "live:value"));
	assert_false(has_our_memory(parent));
	probe_target_close(own.target);
	kill(parent, SIGKILL);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	close(pids[0]);
	close(pids[1]);
}

/* ---- A controller that dies before it patches a site ---------------------------------------- */

static uint64_t dies_at;

/*
 * Replaces a function of the library: the first write to a certain place of the target is the
 * last thing done. A write is a step, like a request.
 */
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	if (dies_at && dies_at - (uint64_t)offset < size)
		kill(getpid(), SIGKILL);
	dying_step();
	return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

/*
 * The address of the jump that leads from live:value to its stubs: that at the site, or, if that
 * one has bytes which have to stay, the jump that it leads to.
 */
static uint64_t entry_of(pid_t pid, enum probe_plan plan)
{
	const struct arch *arch = arch_host();
	const struct probe_site *sites;
	struct probe_list *list;
	uint8_t bytes[ARCH_JUMP_MAX];
	uint64_t at = 0;
	size_t count;

	live_ok(probe_list_create(&list));
	live_ok(probe_list_add_process(list, pid));
	sites = probe_list_sites(list, &count);
	for (size_t i = 0; i < count; i++)
		if (strcmp(sites[i].name, "value") == 0)
			at = sites[i].pc + sites[i].bias;
	probe_list_free(list);
	assert_true(at != 0);
	/* The long nop is the site's, or comes after a shorter one. */
	if (plan == PROBE_PLAN_LONG_NOP && arch->site_nop < arch->jump_length)
		at += arch->site_nop;
	if (plan == PROBE_PLAN_LONG_NOP && !arch->nop_fixed)
		return at;
	assert_int_equal(memory_read(pid, at, bytes, sizeof(bytes)), sizeof(bytes));
	return arch->jump_target(at, bytes);
}

static struct probe_error *count_values(
	struct live *l, enum probe_plan plan, struct probe_report *report)
{
	const struct probe_session_options options = {.kind = PROBE_SESSION_COUNT};
	struct probe_pattern *pattern;
	struct probe_request request = {.patterns = (const struct probe_pattern *const *)&pattern,
		.pattern_count = 1,
		.plans = &plan,
		.plan_count = 1};
	struct probe_error *error;

	live_ok(probe_pattern_parse("live:value", &pattern));
	error = probe_session_start(l->target, &request, &options, report, &l->session);
	probe_pattern_free(pattern);
	return error;
}

/*
 * The newest session's controller was killed after announcing it, and before leading the site
 * to it. So the site leads to the older one, which ends first.
 */
static void dead_before_patch(struct live *l, enum probe_plan plan)
{
	struct probe_report report = {0};
	struct probe_repair repaired = {0};
	struct probe_error *error = count_values(l, plan, &report);
	char text[128];
	siginfo_t info;
	pid_t child;

	if (error && plan == PROBE_PLAN_PUN && error->code == PROBE_ERROR_REFUSED) {
		print_message("note: %s\n", error->message);
		probe_error_free(error);
		probe_report_deinit(&report);
		return;
	}
	live_ok(error);
	child = fork();
	if (child == 0) {
		dies_at = entry_of(l->pid, plan);
		_exit(count_values(l, plan, &report) != NULL);
	}
	/* It has not been waited for, but it is dead all the same. */
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(info.si_code, CLD_KILLED);
	assert_string_equal(states(l, text), "op__done=0 op__start=0 value=2");
	live_ok(probe_session_stop(l->session));
	probe_session_free(l->session);
	l->session = NULL;
	assert_string_equal(states(l, text), "op__done=0 op__start=0 value=1");
	live_order(l, 'v');
	live_ok(probe_target_repair(l->target, &repaired));
	assert_int_equal(repaired.sessions, 1);
	live_order(l, 'v');
	assert_false(has_our_memory(l->pid));
	assert_int_equal(waitpid(child, NULL, 0), child);
	probe_report_deinit(&report);
}

static void dying_before_patch(void **state)
{
	dead_before_patch(*state, PROBE_PLAN_LONG_NOP);
	dead_before_patch(*state, PROBE_PLAN_PUN);
}

static void force_off(struct live *l)
{
	struct probe_pattern *pattern;

	live_ok(probe_pattern_parse("live:value", &pattern));
	live_ok(change_patterns(l, probe_target_disable, &pattern, 1, true, false));
	probe_pattern_free(pattern);
}

/* Killed before each of its steps; then the other session, the last one, ends. */
static void dies_while_disabling(void **state)
{
	struct live *l = *state;
	bool died = true;

	for (unsigned int n = 1; died; n++) {
		struct probe_report report = {0};
		siginfo_t info;
		pid_t child;

		live_ok(change_one(l, probe_target_enable, "live:value"));
		live_ok(count_values(l, PROBE_PLAN_LONG_NOP, &report));
		probe_report_deinit(&report);
		child = fork();
		if (child == 0) {
			dying_before = n;
			_exit(change_one(l, probe_target_disable, "live:value") != NULL);
		}
		assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED), 0);
		died = info.si_code == CLD_KILLED;
		assert_true(died || info.si_status == 0);
		live_ok(probe_session_stop(l->session));
		probe_session_free(l->session);
		l->session = NULL;
		force_off(l);
		live_order(l, '1');
		assert_false(has_our_memory(l->pid));
	}
}

/*
 * Another controller is killed before each of its steps, having announced a site that it has not
 * patched. A session that goes on, and adds the same site next, patches it, and counts.
 */
static void dies_while_enabling(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_COUNT};
	static const bool none[1] = {false}, all[1] = {true};
	struct live *l = *state;
	bool died = true;

	for (unsigned int n = 1; died; n++) {
		struct probe_report report = {0};
		siginfo_t info;
		pid_t child;

		live_ok(live_begin(l, "live:value", &options, &report));
		live_ok(probe_session_select(l->session, none, &report));
		child = fork();
		if (child == 0) {
			dying_before = n;
			_exit(change_one(l, probe_target_enable, "live:value") != NULL);
		}
		assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED), 0);
		died = info.si_code == CLD_KILLED;
		assert_true(died || info.si_status == 0);
		live_ok(probe_session_select(l->session, all, &report));
		assert_int_equal(report.refusal_count, 0);
		live_order(l, 'o');
		live_ok(probe_session_poll(l->session, NULL, NULL, NULL));
		assert_int_equal(live_probe(l, "value")->hits, HITS);
		live_ok(probe_session_stop(l->session));
		live_end_session(l);
		probe_report_deinit(&report);
		force_off(l);
		assert_false(has_our_memory(l->pid));
	}
}

/* ---- Names ------------------------------------------------------------------------------ */

static void names(void **state)
{
	struct probe_list *list;
	char **items;
	size_t count;

	(void)state;
	live_ok(probe_list_create(&list));
	live_ok(probe_list_names(list, &items, &count));
	assert_int_equal(count, 0);
	free(items);
	/* Given twice, no name is there twice. */
	live_ok(probe_list_add_file(list, "/proc/self/exe"));
	live_ok(probe_list_add_file(list, "/proc/self/exe"));
	live_ok(probe_list_names(list, &items, &count));
	assert_int_equal(count, 3);
	assert_string_equal(items[0], "live:op__done");
	assert_string_equal(items[1], "live:op__start");
	assert_string_equal(items[2], "live:value");
	free(items);
	probe_list_free(list);
}

static bool ends_with(const char *path, const char *provider, const char *name, void *data)
{
	size_t length = strlen(name), tail = strlen(data);

	assert_non_null(path);
	return strcmp(provider, "live") == 0 && length >= tail &&
	       strcmp(name + length - tail, data) == 0;
}

static void predicates(void **state)
{
	struct live *l = *state;
	struct probe_pattern *pattern;
	struct probe_error *error;
	char text[128];

	live_ok(probe_pattern_predicate("ends of things", ends_with, "done", &pattern));
	assert_string_equal(probe_pattern_text(pattern), "ends of things");
	live_ok(change_patterns(l, probe_target_enable, &pattern, 1, false, false));
	assert_string_equal(states(l, text), "op__done=1 op__start=0 value=0");
	live_ok(change_patterns(l, probe_target_disable, &pattern, 1, false, false));
	probe_pattern_free(pattern);
	live_ok(probe_pattern_predicate("nothing at all", ends_with, "nothing", &pattern));
	error = change_patterns(l, probe_target_enable, &pattern, 1, false, false);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	assert_non_null(strstr(error->message, "nothing at all"));
	probe_error_free(error);
	probe_pattern_free(pattern);
}

static void pairs_and_force(void **state)
{
	struct live *l = *state;
	struct probe_pattern *pair[2];
	char text[128];

	live_ok(probe_pattern_parse("live:op__start", &pair[0]));
	live_ok(probe_pattern_parse("/op__done$/", &pair[1]));
	live_ok(change_patterns(l, probe_target_enable, pair, 2, false, true));
	live_ok(change_patterns(l, probe_target_enable, pair, 2, false, true));
	assert_string_equal(states(l, text), "op__done=2 op__start=2 value=0");
	live_ok(change_patterns(l, probe_target_enable, pair, 2, true, true));
	assert_string_equal(states(l, text), "op__done=1 op__start=1 value=0");
	live_ok(change_patterns(l, probe_target_enable, pair, 2, true, true));
	assert_string_equal(states(l, text), "op__done=1 op__start=1 value=0");
	live_ok(change_patterns(l, probe_target_disable, pair, 1, true, false));
	assert_string_equal(states(l, text), "op__done=1 op__start=0 value=0");
	live_ok(change_patterns(l, probe_target_disable, pair, 2, true, true));
	assert_string_equal(states(l, text), "op__done=0 op__start=0 value=0");
	probe_pattern_free(pair[0]);
	probe_pattern_free(pair[1]);
}

/* A failed test may have left it held. */
static int teardown(void **state)
{
	probe_error_free(probe_target_release(((struct live *)*state)->target));
	return live_teardown(state);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(steps, live_setup, teardown),
		cmocka_unit_test_setup_teardown(closed_while_attached, live_setup, teardown),
		cmocka_unit_test_setup_teardown(steps_under_load, live_setup, teardown),
		cmocka_unit_test(child_in_its_memory),
		cmocka_unit_test_setup_teardown(dying_before_patch, live_setup, teardown),
		cmocka_unit_test_setup_teardown(dies_while_disabling, live_setup, teardown),
		cmocka_unit_test_setup_teardown(dies_while_enabling, live_setup, teardown),
		cmocka_unit_test(names),
		cmocka_unit_test_setup_teardown(predicates, live_setup, teardown),
		cmocka_unit_test_setup_teardown(pairs_and_force, live_setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
