/* SPDX-License-Identifier: MIT */
/* Listing, enabling and disabling one's own probes, with threads, and after fork(2). */
/* Not under ThreadSanitizer: it knows neither stacks nor code that we make. */
/* Not under AddressSanitizer: its terabytes of memory are searched at each of many changes. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sdt.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/room.h"
#include "tests/unit/self/self_text.h"
#include "tests/unit/wait.h"

enum { THREADS = 4, HITS = 1000, ROUNDS = 10 };

__attribute__((noinline)) static void hit(long i)
{
	__asm__ volatile("" : : "r"(i));
	STAP_PROBE1(testself, hit, i);
	ROOM();
}

__attribute__((noinline)) static void other(long i)
{
	__asm__ volatile("" : : "r"(i));
	STAP_PROBE2(testself, other, i, "text");
	ROOM();
}

/* ---- Counts --------------------------------------------------------------------------- */

static void test_counts(void **state)
{
	(void)state;
	assert_false(self_status("testself", "hit").enabled);
	self_enable("testself:hit");
	self_enable("testself:*");
	assert_int_equal(self_status("testself", "hit").refcount, 2);
	assert_int_equal(self_status("testself", "other").refcount, 1);
	for (long i = 0; i < HITS; i++)
		hit(i);
	other(1);
	assert_int_equal(self_status("testself", "hit").hits, HITS);
	assert_int_equal(self_status("testself", "other").hits, 1);
	self_disable("testself:*");
	assert_int_equal(self_status("testself", "hit").refcount, 1);
	assert_false(self_status("testself", "other").enabled);
	hit(1);
	assert_int_equal(self_status("testself", "hit").hits, HITS + 1);
	self_disable("testself:hit");
	self_text_same();
	self_nothing_left();
}

/* Several changes in one call. */
static void test_switch(void **state)
{
	struct probe_pattern *first, *all;
	struct probe_request request = {.force = false};
	struct probe_report report = {0};
	struct probe_action actions[2] = {{.disable = true}, {.disable = false}};

	(void)state;
	self_ok(probe_pattern_parse("testself:hit", &first));
	self_ok(probe_pattern_parse("/^testself:/", &all));
	actions[0].pattern = first;
	actions[1].pattern = all;
	self_fails(probe_self_switch(actions, 2, &request, &report), PROBE_ERROR_STATE,
		"testself:hit is not enabled in process");
	self_enable("testself:hit");
	self_ok(probe_self_switch(actions, 2, &request, &report));
	assert_int_equal(self_status("testself", "hit").refcount, 1);
	assert_int_equal(self_status("testself", "other").refcount, 1);
	actions[1].disable = true;
	self_ok(probe_self_switch(actions + 1, 1, &request, &report));
	probe_report_deinit(&report);
	probe_pattern_free(first);
	probe_pattern_free(all);
	self_text_same();
	self_nothing_left();
}

static void test_list(void **state)
{
	const struct probe_site *sites;
	struct probe_list *list;
	size_t count, found = 0;

	(void)state;
	self_enable("testself:hit");
	self_ok(probe_list_create(&list));
	self_ok(probe_self_list(list));
	sites = probe_list_sites(list, &count);
	for (size_t i = 0; i < count; i++)
		if (!strcmp(sites[i].provider, "testself") && !strcmp(sites[i].name, "hit"))
			found += sites[i].enabled && sites[i].pid == getpid();
	probe_list_free(list);
	assert_int_equal(found, 1);
	self_disable("testself:hit");
}

static void test_errors(void **state)
{
	struct probe_report report = {0};

	(void)state;
	self_fails(probe_self_disable(self_request("testself:hit"), &report), PROBE_ERROR_STATE,
		"testself:hit is not enabled in process");
	self_fails(probe_self_enable(self_request("testself:hut"), &report), PROBE_ERROR_NOT_FOUND,
		"testself:hit");
	probe_report_deinit(&report);
	self_text_same();
	self_nothing_left();
}

/* A function of the program says which probes are meant: it is called in the program. */
static bool is_hit(const char *path, const char *provider, const char *name, void *data)
{
	++*(long *)data;
	return strstr(path, "test_self") && !strcmp(provider, "testself") && !strcmp(name, "hit");
}

static void test_predicate(void **state)
{
	struct probe_pattern *pattern;
	struct probe_request request = {.pattern_count = 1};
	struct probe_report report = {0};
	long asked = 0;

	(void)state;
	self_ok(probe_pattern_predicate("mine", is_hit, &asked, &pattern));
	request.patterns = (const struct probe_pattern *const *)&pattern;
	self_ok(probe_self_enable(&request, &report));
	assert_true(asked >= 2);
	assert_int_equal(report.sites, 1);
	assert_true(self_status("testself", "hit").enabled);
	assert_false(self_status("testself", "other").enabled);
	self_ok(probe_self_disable(&request, &report));
	probe_report_deinit(&report);
	probe_pattern_free(pattern);
	self_text_same();
	self_nothing_left();
}

/* Sites that cannot be patched are returned with their names: with no plan allowed, none can. */
static void test_report(void **state)
{
	struct probe_request request = *self_request("testself:*");
	struct probe_report report = {0};
	const enum probe_plan toggle = PROBE_PLAN_TOGGLE;

	(void)state;
	request.plans = &toggle;
	request.plan_count = 1;
	request.keep_going = true;
	self_ok(probe_self_enable(&request, &report));
	assert_int_equal(report.sites, 0);
	assert_int_equal(report.refusal_count, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(report.refusals[i].provider, "testself");
		assert_non_null(strstr(report.refusals[i].path, "test_self"));
		assert_true(report.refusals[i].reason[0]);
	}
	probe_report_deinit(&report);
	self_nothing_left();
}

/* ---- The program is not affected ---------------------------------------------------------- */

static atomic_int children_seen;

static void on_child(int signal)
{
	(void)signal;
	children_seen++;
}

static void test_no_child(void **state)
{
	struct sigaction action = {.sa_handler = on_child}, old;

	(void)state;
	sigaction(SIGCHLD, &action, &old);
	self_enable("testself:hit");
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	self_disable("testself:hit");
	assert_int_equal(children_seen, 0);
	/* Even if the program ignores them. */
	signal(SIGCHLD, SIG_IGN);
	self_enable("testself:hit");
	self_disable("testself:hit");
	sigaction(SIGCHLD, &old, NULL);
	self_text_same();
}

static void *send_signals(void *data)
{
	const atomic_bool *stop = data;

	while (!*stop) {
		kill(getpid(), SIGUSR1);
		usleep(200);
	}
	return NULL;
}

/* Signals with handlers, all the time, without SA_RESTART. */
static void test_signals(void **state)
{
	struct sigaction action = {.sa_handler = on_child};
	atomic_bool stop = false;
	pthread_t sender;

	(void)state;
	sigaction(SIGUSR1, &action, NULL);
	children_seen = 0;
	assert_int_equal(pthread_create(&sender, NULL, send_signals, &stop), 0);
	for (int i = 0; i < ROUNDS; i++) {
		self_enable("testself:hit");
		self_disable("testself:hit");
	}
	stop = true;
	pthread_join(sender, NULL);
	signal(SIGUSR1, SIG_DFL);
	assert_true(children_seen > 0);
	self_text_same();
	self_nothing_left();
}

/* ---- Threads ----------------------------------------------------------------------------- */

static atomic_bool done;
static atomic_long passed;

/* They hold malloc's locks most of the time. */
static void *work(void *data)
{
	unsigned int seed = (unsigned int)(uintptr_t)data;

	while (!done) {
		void *block = malloc(1000 + rand_r(&seed) % 200000);

		hit(1);
		free(block);
		passed++;
	}
	return NULL;
}

static void *switch_other(void *data)
{
	(void)data;
	for (int i = 0; i < ROUNDS; i++) {
		self_enable("testself:other");
		self_disable("testself:other");
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS], switcher;

	(void)state;
	done = false;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)i), 0);
	assert_int_equal(pthread_create(&switcher, NULL, switch_other, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		self_enable("testself:hit");
		self_disable("testself:hit");
	}
	pthread_join(switcher, NULL);
	done = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_true(passed > 0);
	/* A thread may have been in a stub at the last change: the next one removes the stub. */
	self_enable("testself:hit");
	self_disable("testself:hit");
	self_text_same();
	self_nothing_left();
}

/* It is cancelled at the start, but ends only after its calls. */
static void *switch_cancelled(void *data)
{
	pthread_cancel(pthread_self());
	self_enable("testself:hit");
	self_disable("testself:hit");
	*(bool *)data = true;
	pthread_testcancel();
	return NULL;
}

static void test_cancelled(void **state)
{
	bool switched = false;
	pthread_t thread;
	void *result;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, switch_cancelled, &switched), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_true(switched);
	self_enable("testself:hit");
	self_disable("testself:hit");
	self_text_same();
	self_nothing_left();
}

/* A function connected during all hits has counted all of them. */
static void test_exact(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	self_enable("testself:hit");
	done = false;
	passed = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)i), 0);
	/* The helpers' copies and the forker do not count. */
	for (int i = 0; i < ROUNDS; i++) {
		self_enable("testself:other");
		self_disable("testself:other");
	}
	done = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(self_status("testself", "hit").hits, passed);
	self_disable("testself:hit");
	self_nothing_left();
}

/* ---- Forks ------------------------------------------------------------------------------- */

/* A failure in cmocka would continue as the parent. */
static void child_check(bool good)
{
	if (!good)
		_exit(1);
}

static void test_child_enables_itself(void **state)
{
	pid_t child;

	(void)state;
	self_enable("testself:other");
	child = fork();
	if (child == 0) {
		self_enable("testself:hit");
		hit(1);
		hit(2);
		child_check(self_status("testself", "hit").hits == 2);
		/* The parent's enabled probes are enabled here, too, and disabled only here. */
		self_disable("testself:other");
		child_check(!self_status("testself", "other").enabled);
		self_disable("testself:hit");
		self_text_same();
		self_nothing_left();
		_exit(0);
	}
	self_join(child);
	assert_false(self_status("testself", "hit").enabled);
	assert_true(self_status("testself", "other").enabled);
	self_disable("testself:other");
	self_text_same();
}

static void test_parent_enables_child(void **state)
{
	struct probe_report report = {0};
	struct probe_target *target;
	int go[2];
	char byte;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(go), 0);
	child = fork();
	if (child == 0) {
		child_check(read(go[0], &byte, 1) == 1);
		hit(1);
		child_check(self_status("testself", "hit").hits == 1);
		self_disable("testself:hit");
		self_text_same();
		_exit(0);
	}
	self_ok(probe_target_open(child, NULL, &target));
	self_ok(probe_target_enable(target, self_request("testself:hit"), &report));
	assert_false(self_status("testself", "hit").enabled);
	probe_report_deinit(&report);
	probe_target_close(target);
	hit(1);
	assert_int_equal(write(go[1], "x", 1), 1);
	self_join(child);
	close(go[0]);
	close(go[1]);
	self_text_same();
	self_nothing_left();
}

/* Its parent, whose copy it is, has ended. */
static void test_orphan_enables_itself(void **state)
{
	int result[2];
	char byte = 0;
	pid_t child;

	(void)state;
	self_enable("testself:other");
	assert_int_equal(pipe(result), 0);
	child = fork();
	if (child == 0) {
		pid_t parent = getpid();

		if (fork())
			_exit(0);
		wait_until(getppid() != parent);
		self_enable("testself:hit");
		hit(1);
		child_check(self_status("testself", "hit").hits == 1);
		self_disable("testself:*");
		self_text_same();
		self_nothing_left();
		child_check(write(result[1], "g", 1) == 1);
		_exit(0);
	}
	close(result[1]);
	self_join(child);
	assert_int_equal(read(result[0], &byte, 1), 1);
	assert_int_equal(byte, 'g');
	close(result[0]);
	self_disable("testself:other");
	self_text_same();
}

/* A thread that changes probes all the time, and children that do the same in between. */
static void test_fork_while_changing(void **state)
{
	pthread_t switcher;

	(void)state;
	assert_int_equal(pthread_create(&switcher, NULL, switch_other, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		pid_t child = fork();

		if (child == 0) {
			self_enable("testself:hit");
			hit(1);
			child_check(self_status("testself", "hit").hits == 1);
			_exit(0);
		}
		self_join(child);
	}
	pthread_join(switcher, NULL);
	self_text_same();
	self_nothing_left();
}

/* ---- Failures ------------------------------------------------------------------------------ */

static atomic_bool dies_in_fork, forks;

static void before_fork(void)
{
	forks = true;
	/* The process that forks is not the program, but shares its memory. */
	if (dies_in_fork)
		syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
}

static void test_forker_dies(void **state)
{
	struct probe_report report = {0};
	struct probe_error *error;

	(void)state;
	assert_int_equal(pthread_atfork(before_fork, NULL, NULL), 0);
	dies_in_fork = true;
	error = probe_self_enable(self_request("testself:hit"), &report);
	dies_in_fork = false;
	probe_report_deinit(&report);
	/* Without a copy, where libprobe.so is executed, no handler runs. */
	assert_int_equal(forks, error != NULL);
	if (error) {
		self_fails(error, PROBE_ERROR_SYSTEM, "cannot copy this process");
		self_enable("testself:hit");
	}
	self_disable("testself:hit");
	self_text_same();
	self_nothing_left();
}

/* Of this program's probes; with an error, those that exist. */
static size_t count_own(struct probe_error **error_ret)
{
	struct probe_status *states = NULL;
	size_t count = 0, own = 0;

	*error_ret = probe_self_status(&states, &count);
	for (size_t i = 0; i < count && !*error_ret; i++)
		own += !strcmp(states[i].provider, "testself");
	if (*error_ret)
		own = 2;
	free(states);
	return own;
}

static void is_no_descriptor(struct probe_error *error)
{
	if (error)
		self_fails(error, PROBE_ERROR_SYSTEM, strerror(EMFILE));
}

/* A file that cannot be opened does not count as missing. */
static void test_few_descriptors(void **state)
{
	enum { ALL = 64, SPARE = 12 };
	struct probe_report report = {0};
	struct rlimit limit, few;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = (struct rlimit){.rlim_cur = ALL, .rlim_max = limit.rlim_max};
	for (int spare = 0; spare <= SPARE; spare++) {
		struct probe_error *error, *switched;
		int taken[ALL], count = 0;
		size_t own;

		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		while ((taken[count] = dup(STDERR_FILENO)) >= 0)
			count++;
		for (int i = 0; i < spare; i++)
			close(taken[--count]);
		own = count_own(&error);
		switched = probe_self_enable(self_request("testself:hit"), &report);
		while (count > 0)
			close(taken[--count]);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		assert_int_equal(own, 2);
		assert_true(spare < SPARE || (!error && !switched));
		if (!switched)
			self_disable("testself:hit");
		is_no_descriptor(error);
		is_no_descriptor(switched);
	}
	probe_report_deinit(&report);
	self_text_same();
	self_nothing_left();
}

static void on_hit(const struct probe_self_hit *h, void *data)
{
	(void)h;
	(void)data;
}

static bool is_unsupported(struct probe_error *error, const char *text)
{
	bool is = error && error->code == PROBE_ERROR_UNSUPPORTED && strstr(error->message, text);

	probe_error_free(error);
	return is;
}

/* Another process there has its number. */
static void in_another_namespace(const char *folder)
{
	struct probe_report report = {0};
	struct probe_status *states;
	struct probe_list *list;
	size_t count;

	self_ok(probe_list_create(&list));
	child_check(
		is_unsupported(probe_self_list(list), "/proc belongs to another pid namespace"));
	child_check(is_unsupported(probe_self_enable(self_request("*:*"), &report),
		"/proc belongs to another pid namespace, where process 1 is "));
	child_check(is_unsupported(probe_self_register("*:*", on_hit, NULL), "/proc belongs to"));
	child_check(chroot(folder) == 0);
	child_check(is_unsupported(probe_self_status(&states, &count),
		"/proc/self: No such file or directory: probes are switched through /proc, which "
		"must be mounted"));
	_exit(0);
}

static void test_no_proc_of_ours(void **state)
{
	char folder[] = "/tmp/probectl-test-XXXXXX";
	int status;
	pid_t child;

	(void)state;
	assert_non_null(mkdtemp(folder));
	child = fork();
	if (child == 0) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
			_exit(77);
		child = fork();
		if (child == 0)
			in_another_namespace(folder);
		child_check(waitpid(child, &status, 0) == child && WIFEXITED(status));
		_exit(WEXITSTATUS(status));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	rmdir(folder);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		print_message("note: this user may not make namespaces\n");
	else
		assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_switch),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_predicate),
		cmocka_unit_test(test_report),
		cmocka_unit_test(test_no_child),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_child_enables_itself),
		cmocka_unit_test(test_parent_enables_child),
		cmocka_unit_test(test_orphan_enables_itself),
		cmocka_unit_test(test_fork_while_changing),
		cmocka_unit_test(test_forker_dies),
		cmocka_unit_test(test_few_descriptors),
		cmocka_unit_test(test_no_proc_of_ours),
	};

	self_text_save();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
