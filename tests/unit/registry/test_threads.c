/* SPDX-License-Identifier: MIT */
/* Where libc keeps a thread's id and its rseq area: found, and verified. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <dlfcn.h>
#include <sys/rseq.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/registry/registry.h"

static struct arch_thread model_of(struct probe_target *target)
{
	struct arch_thread thread;
	struct modules modules;
	struct probe_error *error = modules_read(getpid(), NULL, &modules);

	if (error)
		fail_msg("%s", error->message);
	threads_model(target, &modules, &thread);
	modules_deinit(&modules);
	return thread;
}

static uint32_t word_at(int32_t offset)
{
	uint32_t word;

	memcpy(&word, (const char *)__builtin_thread_pointer() + offset, sizeof(word));
	return word;
}

/* In every thread, the words are where the model says. */
static void *check_thread(void *data)
{
	const struct arch_thread *thread = data;
	long cpu;

	assert_int_equal(word_at(thread->tid_offset), syscall(SYS_gettid));
	if (!thread->has_rseq)
		return NULL;
	cpu = word_at(thread->rseq_offset + (int)offsetof(struct rseq, cpu_id));
	assert_in_range(cpu, 0, sysconf(_SC_NPROCESSORS_CONF) - 1);
	return NULL;
}

static void test_this_process(void **state)
{
	struct probe_target target = {.pid = getpid()};
	struct arch_thread thread = model_of(&target);
	const unsigned int *size = dlsym(RTLD_DEFAULT, "__rseq_size");
	const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
	pthread_t other;

	(void)state;
	assert_true(thread.has_tp);
	assert_true(thread.has_tid);
	check_thread(&thread);
	assert_int_equal(pthread_create(&other, NULL, check_thread, &thread), 0);
	pthread_join(other, NULL);
	/* What libc reports about itself. */
	assert_int_equal(thread.has_rseq, size && *size > 0);
	if (!thread.has_rseq) {
		print_message("skipped: this libc registers no rseq\n");
		return;
	}
	assert_int_equal(thread.rseq_offset, *offset);
	assert_int_equal(thread.rseq_signature, RSEQ_SIG);
}

/* A program that has not begun has no threads to distinguish. */
static void test_held(void **state)
{
	struct probe_target target = {.pid = getpid(), .held = true};
	struct arch_thread thread = model_of(&target);

	(void)state;
	assert_false(thread.has_tp || thread.has_tid || thread.has_rseq);
	/* Its loader's system calls have revealed it. */
	target.facts = (struct spawn_facts){
		.known = true, .has_rseq = true, .rseq_offset = -32, .rseq_signature = 7};
	thread = model_of(&target);
	assert_true(thread.has_tp && thread.has_tid && thread.has_rseq);
	assert_int_equal(thread.rseq_offset, -32);
	assert_int_equal(thread.rseq_signature, 7);
	target.facts.has_rseq = false;
	assert_false(model_of(&target).has_rseq);
}

/* Without libc nothing is found: stubs then ask the kernel. */
static void test_no_libc(void **state)
{
	struct probe_target target = {.pid = getpid()};
	struct modules modules = {0};
	struct arch_thread thread;

	(void)state;
	threads_model(&target, &modules, &thread);
	assert_false(thread.has_tp || thread.has_tid || thread.has_rseq);
}

static void test_loader(void **state)
{
	struct modules modules;
	struct probe_error *error = modules_read(getpid(), NULL, &modules);
	size_t loaders = 0;

	(void)state;
	assert_null(error);
	for (size_t i = 0; i < modules.count; i++) {
		if (!threads_is_loader(&modules.items[i]))
			continue;
		loaders++;
		assert_non_null(strstr(modules.items[i].path, "/ld-"));
	}
	assert_int_equal(loaders, 1);
	modules_deinit(&modules);
	assert_false(threads_is_loader(&(struct module){0}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_this_process),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_no_libc),
		cmocka_unit_test(test_loader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
