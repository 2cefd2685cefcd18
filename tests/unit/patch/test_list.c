/* SPDX-License-Identifier: MIT */
/*
 * Lists of this very program, which has its own probes, as a file and as a process; and of
 * damaged copies of it.
 */
#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "arch/arch.h"
#include "libprobe/process/process.h"
#include "probe/list.h"

/* <sys/sdt.h> refers to PROVIDER_NAME_semaphore. */
__extension__ unsigned short selftest_guarded_semaphore __attribute__((section(".probes")));
__extension__ unsigned short selftest_plain_semaphore __attribute__((section(".probes")));

static char directory[] = "/tmp/test_list.XXXXXX";

__attribute__((noinline)) void function_with_probes(long number, int other)
{
	STAP_PROBE2(selftest, guarded, number, other);
	STAP_PROBE1(selftest, plain, number);
	STAP_PROBE2(selftest, guarded, other, 7L);
}

/* The constant that is an argument, as compilers for this machine write it. */
#ifdef __x86_64__
static const char seven[] = "-8@$7";
#else
static const char seven[] = "-8@7";
#endif

/* ---- Helpers ------------------------------------------------------------------- */

static char *in_directory(const char *name)
{
	char *path;

	assert_true(asprintf(&path, "%s/%s", directory, name) > 0);
	return path;
}

static void write_file(const char *path, const void *bytes, size_t length)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, length), length);
	close(fd);
}

/* This program's bytes; the caller frees them. */
static unsigned char *read_self(size_t *length_ret)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	unsigned char *bytes;

	assert_int_equal(fstat(fd, &st), 0);
	bytes = malloc((size_t)st.st_size);
	assert_non_null(bytes);
	for (size_t at = 0; at < (size_t)st.st_size;) {
		ssize_t got = read(fd, bytes + at, (size_t)st.st_size - at);

		assert_true(got > 0);
		at += (size_t)got;
	}
	close(fd);
	*length_ret = (size_t)st.st_size;
	return bytes;
}

static void succeed(struct probe_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

static struct probe_list *list_file(const char *path)
{
	struct probe_list *list;

	succeed(probe_list_create(&list));
	succeed(probe_list_add_file(list, path));
	return list;
}

static struct probe_list *list_process(int pid)
{
	struct probe_list *list;

	succeed(probe_list_create(&list));
	succeed(probe_list_add_process(list, pid));
	return list;
}

/* The n-th site of a probe of provider "selftest", or NULL. */
static const struct probe_site *find(const struct probe_list *list, const char *name, int n)
{
	size_t count;
	const struct probe_site *sites = probe_list_sites(list, &count);

	for (size_t i = 0; i < count; i++) {
		if (strcmp(sites[i].provider, "selftest") == 0 &&
			strcmp(sites[i].name, name) == 0 && n-- == 0)
			return &sites[i];
	}
	return NULL;
}

static void fails(const char *path, enum probe_error_code code, const char *message)
{
	struct probe_list *list;
	struct probe_error *error;
	size_t count;

	succeed(probe_list_create(&list));
	error = probe_list_add_file(list, path);
	assert_non_null(error);
	assert_int_equal(error->code, code);
	if (message)
		assert_string_equal(error->message, message);
	probe_error_free(error);
	probe_list_sites(list, &count);
	assert_int_equal(count, 0);
	probe_list_free(list);
}

/* ---- Files ----------------------------------------------------------------------- */

static void test_file(void **state)
{
	struct probe_list *list = list_file("/proc/self/exe");
	const struct probe_site *first = find(list, "guarded", 0);
	const struct probe_site *second = find(list, "guarded", 1);
	const struct probe_site *plain = find(list, "plain", 0);

	(void)state;
	assert_non_null(first);
	assert_non_null(second);
	assert_non_null(plain);
	assert_null(find(list, "guarded", 2));
	assert_true(first->pc != second->pc);
	assert_int_equal(first->semaphore, second->semaphore);
	assert_int_equal(labs((long)(first->semaphore - plain->semaphore)), 2);
	assert_string_equal(first->path, "/proc/self/exe");
	assert_int_equal(first->pid, 0);
	assert_int_equal(first->bias, 0);
	assert_false(first->enabled);
	assert_int_equal(first->plan, PROBE_PLAN_NONE);
	probe_list_free(list);
}

static void test_args(void **state)
{
	struct probe_list *list = list_file("/proc/self/exe");
	const struct probe_site *site = find(list, "guarded", 1);
	const struct probe_arg *args, *again;
	size_t count;

	(void)state;
	succeed(probe_list_args(list, site, &args, &count));
	assert_int_equal(count, 2);
	assert_int_equal(args[0].size, 4);
	assert_true(args[0].is_signed);
	assert_false(args[0].is_float);
	assert_int_equal(args[1].size, 8);
	assert_string_equal(args[1].spec, seven);
	succeed(probe_list_args(list, site, &again, &count));
	assert_ptr_equal(args, again);
	probe_list_free(list);
}

/* Sizes are known even for an ISA whose operands cannot be parsed. */
static void test_args_of_other_machine(void **state)
{
	char *path = in_directory("ppc");
	struct probe_list *list;
	const struct probe_arg *args;
	size_t length, count;
	unsigned char *bytes = read_self(&length);

	(void)state;
	((Elf64_Ehdr *)bytes)->e_machine = EM_PPC64;
	write_file(path, bytes, length);
	free(bytes);
	list = list_file(path);
	succeed(probe_list_args(list, find(list, "guarded", 1), &args, &count));
	assert_int_equal(count, 2);
	assert_int_equal(args[0].size, 4);
	assert_true(args[0].is_signed);
	assert_string_equal(args[1].spec, seven);
	probe_list_free(list);
	free(path);
}

static void test_detail(void **state)
{
	struct probe_list *list = list_file("/proc/self/exe");
	struct probe_site_detail detail;

	(void)state;
	succeed(probe_list_detail(list, find(list, "plain", 0), false, &detail));
	assert_string_equal(detail.function, "function_with_probes");
	assert_true(detail.function_offset < 4096);
	assert_int_equal(detail.byte_count, 16);
	assert_int_equal(
		arch_host()->nop_length(detail.bytes, detail.byte_count), arch_host()->site_nop);
	assert_int_equal(detail.plan, PROBE_PLAN_NONE);
	if (detail.file)
		assert_non_null(strstr(detail.file, "test_list.c"));
	succeed(probe_list_detail(list, find(list, "guarded", 1), true, &detail));
	assert_int_not_equal(detail.plan, PROBE_PLAN_NONE);
	assert_true((detail.plan == PROBE_PLAN_REFUSED) == (detail.reason != NULL));
	probe_list_free(list);
}

static void test_detail_of_vanished_file(void **state)
{
	char *path = in_directory("vanishes");
	struct probe_site_detail detail;
	struct probe_list *list;
	size_t length;
	unsigned char *bytes = read_self(&length);

	(void)state;
	write_file(path, bytes, length);
	free(bytes);
	list = list_file(path);
	unlink(path);
	succeed(probe_list_detail(list, find(list, "plain", 0), true, &detail));
	assert_null(detail.function);
	assert_int_equal(detail.byte_count, 0);
	probe_list_free(list);
	free(path);
}

static void test_no_such_files(void **state)
{
	char *fifo = in_directory("fifo"), *text = in_directory("text");
	char *cut = in_directory("cut"), *empty = in_directory("empty");
	size_t length;
	unsigned char *bytes = read_self(&length);

	(void)state;
	fails("/nonexistent/x", PROBE_ERROR_NOT_FOUND, "/nonexistent/x: there is no such file");
	fails("/etc/passwd/x", PROBE_ERROR_NOT_FOUND, NULL);
	fails("/tmp", PROBE_ERROR_FORMAT, "/tmp: is a directory, not an ELF file");
	fails("/dev/null", PROBE_ERROR_FORMAT, "/dev/null: not an ELF file");
	assert_int_equal(mkfifo(fifo, 0600), 0);
	fails(fifo, PROBE_ERROR_FORMAT, NULL);
	write_file(text, "text\n", 5);
	fails(text, PROBE_ERROR_FORMAT, NULL);
	write_file(empty, "", 0);
	fails(empty, PROBE_ERROR_FORMAT, NULL);
	for (size_t size = 4; size < 4 + 200 && size < length; size += 7) {
		write_file(cut, bytes, size);
		fails(cut, PROBE_ERROR_FORMAT, NULL);
	}
	if (geteuid() != 0) {
		chmod(text, 0);
		fails(text, PROBE_ERROR_PERMISSION, NULL);
	}
	free(bytes);
	free(fifo);
	free(text);
	free(cut);
	free(empty);
}

/* The note of probe "plain": a header of 20 bytes, three addresses, the strings. */
static unsigned char *find_note(unsigned char *bytes, size_t length)
{
	static const char strings[] = "selftest\0plain";
	unsigned char *end = bytes + length, *found = bytes;

	/* This function's text contains the strings, too. */
	do {
		found = memmem(found + 1, (size_t)(end - found - 1), strings, sizeof(strings));
		assert_non_null(found);
	} while (memcmp(found - 24 - 8, "stapsdt", 8) != 0);
	return found - 24 - 20;
}

static void test_defect(void **state)
{
	char *path = in_directory("defect");
	const struct probe_defect *defects;
	struct probe_list *list;
	size_t length, count;
	unsigned char *bytes = read_self(&length);
	unsigned char *note = find_note(bytes, length);
	uint32_t too_short = 16;

	(void)state;
	memcpy(note + 4, &too_short, sizeof(too_short));
	write_file(path, bytes, length);
	list = list_file(path);
	defects = probe_list_defects(list, &count);
	assert_true(count > 0);
	assert_string_equal(defects[0].path, path);
	assert_int_equal(defects[0].offset, note - bytes);
	assert_true(strlen(defects[0].what) > 10);
	assert_non_null(find(list, "guarded", 0));
	assert_null(find(list, "plain", 0));
	probe_list_free(list);
	free(bytes);
	free(path);
}

/* ---- Processes ---------------------------------------------------------------------- */

static void test_process(void **state)
{
	struct probe_list *list;
	const struct probe_site *site, *plain;

	(void)state;
	selftest_guarded_semaphore = 3;
	list = list_process(getpid());
	site = find(list, "guarded", 0);
	plain = find(list, "plain", 0);
	selftest_guarded_semaphore = 0;
	assert_non_null(site);
	assert_int_equal(site->bias + site->semaphore, (uintptr_t)&selftest_guarded_semaphore);
	assert_true(site->bias + site->pc >= (uintptr_t)function_with_probes);
	assert_true(site->bias + site->pc < (uintptr_t)function_with_probes + 4096);
	assert_int_equal(site->pid, getpid());
	assert_true(site->state_known);
	assert_true(site->enabled);
	assert_int_equal(site->refcount, 3);
	assert_true(plain->state_known);
	assert_false(plain->enabled);
	assert_int_equal(plain->refcount, 0);
	probe_list_free(list);
}

static void test_modules(void **state)
{
	struct modules modules;
	struct module *module;

	(void)state;
	succeed(modules_read(getpid(), NULL, &modules));
	module = modules_find(&modules, (uintptr_t)function_with_probes);
	assert_non_null(module);
	assert_non_null(module->object);
	assert_true(module->fd >= 0);
	assert_false(module->deleted);
	assert_ptr_equal(module, modules_find(&modules, (uintptr_t)&selftest_plain_semaphore));
	/* The end of .bss is mapped without a file. */
	assert_ptr_equal(module, modules_find(&modules, (uintptr_t)directory));
	succeed(module_read_notes(module));
	assert_true(module->notes_read);
	assert_true(module->notes.count >= 3);
	succeed(module_read_notes(module));
	assert_null(modules_find(&modules, 0));
	assert_null(modules_find(&modules, (uintptr_t)&module));
	for (size_t i = 1; i < modules.count; i++)
		assert_true(modules.items[i - 1].start < modules.items[i].start);
	modules_deinit(&modules);
}

/* Starts a copy of this program that only waits; returns once it waits. */
static pid_t start_copy(const char *path)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ready[1], STDOUT_FILENO);
		execl(path, path, "--wait", (char *)NULL);
		_exit(127);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

/* An upgraded program: the running file is no longer at its path. */
static void test_replaced_program(void **state)
{
	char *path = in_directory("replaced");
	const struct probe_site *site;
	struct probe_list *list;
	size_t length;
	unsigned char *bytes = read_self(&length);
	pid_t pid;

	(void)state;
	write_file(path, bytes, length);
	pid = start_copy(path);
	unlink(path);
	list = list_process(pid);
	site = find(list, "plain", 0);
	assert_non_null(site);
	assert_string_equal(site->path, path);
	probe_list_free(list);
	write_file(path, "text\n", 5);
	list = list_process(pid);
	assert_non_null(find(list, "plain", 0));
	probe_list_free(list);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	free(bytes);
	free(path);
}

static void test_no_such_process(void **state)
{
	pid_t pid = fork();
	struct probe_list *list;
	struct probe_error *error;
	siginfo_t info;

	(void)state;
	if (pid == 0)
		_exit(0);
	succeed(probe_list_create(&list));
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	error = probe_list_add_process(list, pid);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_STATE);
	assert_non_null(strstr(error->message, "has no memory: it has exited"));
	probe_error_free(error);
	waitpid(pid, NULL, 0);
	error = probe_list_add_process(list, pid);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	assert_non_null(strstr(error->message, "there is no process"));
	probe_error_free(error);
	probe_list_free(list);
}

enum { NOBODY = 65534 };

/* 0 if access to process 1 is denied to an ordinary user, as it should be. */
static int list_init_as_user(void)
{
	struct probe_list *list;
	struct probe_error *error;

	if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) < 0)
		return 2;
	error = probe_list_create(&list);
	if (error)
		return 3;
	error = probe_list_add_process(list, 1);
	probe_list_free(list);
	if (!error || error->code != PROBE_ERROR_PERMISSION)
		return 4;
	probe_error_free(error);
	return 0;
}

static void test_not_our_process(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0)
		_exit(list_init_as_user());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_several(void **state)
{
	struct probe_list *list = list_file("/proc/self/exe");
	size_t one, both;

	(void)state;
	probe_list_sites(list, &one);
	succeed(probe_list_add_process(list, getpid()));
	probe_list_sites(list, &both);
	assert_true(both >= 2 * one);
	/* Strings of the first are still valid. */
	assert_string_equal(find(list, "plain", 0)->path, "/proc/self/exe");
	assert_int_equal(find(list, "plain", 1)->pid, getpid());
	probe_list_free(list);
	probe_list_free(NULL);
}

static void test_plan_names(void **state)
{
	(void)state;
	assert_string_equal(probe_plan_name(PROBE_PLAN_NONE), "none");
	assert_string_equal(probe_plan_name(PROBE_PLAN_LONG_NOP), "nop");
	assert_string_equal(probe_plan_name(PROBE_PLAN_REFUSED), "refused");
	assert_string_equal(probe_plan_name((enum probe_plan)99), "none");
}

/* ---- All ------------------------------------------------------------------------------ */

static int make_directory(void **state)
{
	(void)state;
	function_with_probes(1, 2);
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	static const char *const names[] = {
		"ppc", "vanishes", "fifo", "text", "cut", "empty", "defect", "replaced"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *path = in_directory(names[i]);

		unlink(path);
		free(path);
	}
	return rmdir(directory);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_args),
		cmocka_unit_test(test_args_of_other_machine),
		cmocka_unit_test(test_detail),
		cmocka_unit_test(test_detail_of_vanished_file),
		cmocka_unit_test(test_no_such_files),
		cmocka_unit_test(test_defect),
		cmocka_unit_test(test_process),
		cmocka_unit_test(test_modules),
		cmocka_unit_test(test_replaced_program),
		cmocka_unit_test(test_no_such_process),
		cmocka_unit_test(test_not_our_process),
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_plan_names),
	};

	if (argc > 1 && strcmp(argv[1], "--wait") == 0) {
		if (write(STDOUT_FILENO, "r", 1) == 1)
			pause();
		return 0;
	}
	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
