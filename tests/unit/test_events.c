/* SPDX-License-Identifier: MIT */
/* User events: the file of each, and names, identifiers and limits as the standard says. */
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "arch/arch.h"
#include "elf/sdt.h"
#include "elf_image.h"
#include "libprobe/runtime/events/image.h"
#include "probe/posix_trace.h"

/* ---- The file -------------------------------------------------------------------------- */

static int image_file(const struct arch_event *machine, const char *name)
{
	uint8_t head[IMAGE_HEAD_BYTES];
	struct image_layout layout;
	int fd = memfd_create("image", MFD_CLOEXEC);

	image_make(machine, "posix_trace", name, head, &layout);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)layout.length), 0);
	assert_int_equal(pwrite(fd, head, sizeof(head), 0), sizeof(head));
	return fd;
}

/* As this project's readers see it, in the machine's own argument syntax. */
static void check_image(const struct arch_event *machine, const char *name)
{
	const struct arch *arch = arch_of_machine(machine->elf_machine);
	int fd = image_file(machine, name);
	struct arch_arg args[ARCH_ARGS_MAX];
	struct object *object;
	struct sdt_notes notes;
	uint8_t head[IMAGE_HEAD_BYTES];
	struct image_layout layout;

	image_make(machine, "posix_trace", name, head, &layout);
	assert_null(object_open_fd(fd, "image", &object));
	assert_null(sdt_read(object, &notes));
	assert_int_equal(notes.defect_count, 0);
	assert_int_equal(notes.count, 1);
	assert_string_equal(notes.notes[0].provider, "posix_trace");
	assert_string_equal(notes.notes[0].name, name);
	assert_int_equal(notes.notes[0].pc, layout.site);
	assert_int_equal(notes.notes[0].semaphore, layout.semaphore);
	assert_int_not_equal(notes.notes[0].base, 0);
	assert_int_equal(arch->parse_args(notes.notes[0].args, args), 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(args[i].kind, ARCH_ARG_REGISTER);
		assert_int_equal(args[i].size, 8);
		assert_false(args[i].is_signed);
	}
	assert_memory_equal(head + layout.site, machine->code, machine->code_length);
	sdt_notes_deinit(&notes);
	object_close(object);
	close(fd);
}

static void file_of_each_machine(void **state)
{
	static const char longest[] =
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

	(void)state;
	_Static_assert(sizeof(longest) == IMAGE_NAME_MAX + 1, "the longest name");
	check_image(&event_x86_64, "request.start");
	check_image(&event_x86_64, "x");
	check_image(&event_x86_64, longest);
	check_image(&event_aarch64, "request.start");
	check_image(&event_aarch64, longest);
}

/* readelf does not complain either, and finds unwind rules for the site. */
static void file_in_readelf(void **state)
{
	char command[256], text[8192];
	int fd = image_file(&event_x86_64, "plain");
	size_t length;
	FILE *readelf;

	(void)state;
	snprintf(command, sizeof(command), "readelf -aW --debug-dump=frames /proc/%d/fd/%d 2>&1",
		(int)getpid(), fd);
	readelf = popen(command, "r");
	assert_non_null(readelf);
	length = fread(text, 1, sizeof(text) - 1, readelf);
	text[length] = '\0';
	if (pclose(readelf) != 0)
		skip();
	assert_null(strstr(text, "arning"));
	assert_null(strstr(text, "rror"));
	assert_non_null(strstr(text, "Name: plain"));
	assert_non_null(strstr(text, "DW_CFA_def_cfa: r7 (rsp) ofs 8"));
	assert_non_null(strstr(text, "pc=00000000000000e8..00000000000000ee"));
	close(fd);
}

/* ---- Names and identifiers --------------------------------------------------------------- */

static trace_event_id_t open_name(const char *name)
{
	trace_event_id_t id = 0;

	assert_int_equal(posix_trace_eventid_open(name, &id), 0);
	return id;
}

enum { THREADS = 8, NAMES = 20 };

struct opener {
	pthread_t thread;
	unsigned int first;
	trace_event_id_t ids[NAMES];
};

static void *open_names(void *data)
{
	struct opener *opener = data;
	char name[32];

	for (unsigned int i = 0; i < NAMES; i++) {
		unsigned int number = (opener->first + i) % NAMES;

		snprintf(name, sizeof(name), "thread.%u", number);
		if (posix_trace_eventid_open(name, &opener->ids[number]))
			opener->ids[number] = 0;
		posix_trace_event(opener->ids[number], name, strlen(name));
	}
	return NULL;
}

/* Every thread gets the same identifier for the same name, whichever is first. */
static void same_name_same_id(void **state)
{
	struct opener openers[THREADS];

	(void)state;
	for (unsigned int i = 0; i < THREADS; i++) {
		openers[i].first = i * 3;
		assert_int_equal(
			pthread_create(&openers[i].thread, NULL, open_names, &openers[i]), 0);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(openers[i].thread, NULL);
	for (unsigned int n = 0; n < NAMES; n++) {
		assert_int_not_equal(openers[0].ids[n], 0);
		for (unsigned int i = 1; i < THREADS; i++)
			assert_int_equal(openers[i].ids[n], openers[0].ids[n]);
		for (unsigned int m = 0; m < n; m++)
			assert_int_not_equal(openers[0].ids[n], openers[0].ids[m]);
	}
}

/* Forked while other threads open names: the child can continue, with all existing names. */
static void *fork_or_open(void *data)
{
	struct opener *opener = data;
	int status = 0;
	pid_t child;

	if (opener->first % 2)
		return open_names(data);
	child = fork();
	if (child == 0) {
		open_names(data);
		_exit(opener->ids[0] == 0);
	}
	opener->ids[0] = child > 0 && waitpid(child, &status, 0) == child && status == 0;
	return NULL;
}

static void children_open_names(void **state)
{
	struct opener openers[THREADS];

	(void)state;
	for (unsigned int i = 0; i < THREADS; i++) {
		openers[i].first = i;
		assert_int_equal(
			pthread_create(&openers[i].thread, NULL, fork_or_open, &openers[i]), 0);
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		pthread_join(openers[i].thread, NULL);
		assert_int_not_equal(openers[i].ids[0], 0);
	}
}

static void lengths_of_names(void **state)
{
	char name[TRACE_EVENT_NAME_MAX + 2];
	trace_event_id_t id = 77;

	(void)state;
	errno = 5;
	memset(name, 'n', sizeof(name));
	name[TRACE_EVENT_NAME_MAX + 1] = '\0';
	assert_int_equal(posix_trace_eventid_open(name, &id), ENAMETOOLONG);
	assert_int_equal(posix_trace_eventid_open("", &id), EINVAL);
	assert_int_equal(id, 77);
	name[TRACE_EVENT_NAME_MAX] = '\0';
	assert_int_not_equal(open_name(name), POSIX_TRACE_UNNAMED_USEREVENT);
	assert_int_equal(open_name(name), open_name(name));
	name[TRACE_EVENT_NAME_MAX - 1] = '\0';
	assert_int_equal(errno, 5);
}

static void nothing_happens_untraced(void **state)
{
	(void)state;
	posix_trace_event(open_name("untraced"), NULL, 0);
	posix_trace_event(POSIX_TRACE_UNNAMED_USEREVENT, "x", 1);
	/* Identifiers that were never assigned. */
	posix_trace_event(0, "x", 1);
	posix_trace_event(2, "x", 1);
	posix_trace_event(100000, "x", 1);
	posix_trace_event((trace_event_id_t)-1, "x", 1);
}

/* A failure is an error; the name stays free, and can be opened later. */
static void no_descriptor_left(void **state)
{
	struct rlimit old, none;
	trace_event_id_t id = 77;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(posix_trace_eventid_open("no.descriptor", &id), EMFILE);
	assert_int_equal(id, 77);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(open_name("no.descriptor"), open_name("no.descriptor"));
}

/* Runs last: no name is left after it. */
static void number_of_names(void **state)
{
	trace_event_id_t first = open_name("first"), last = first;
	char name[32];
	int opened = 0;

	(void)state;
	assert_int_equal(open_name("posix_trace_unnamed_userevent"), POSIX_TRACE_UNNAMED_USEREVENT);
	for (; opened <= TRACE_USER_EVENT_MAX && last != POSIX_TRACE_UNNAMED_USEREVENT; opened++) {
		snprintf(name, sizeof(name), "many.%d", opened);
		last = open_name(name);
	}
	assert_int_equal(last, POSIX_TRACE_UNNAMED_USEREVENT);
	/* The tests before opened this many. */
	assert_int_equal(opened - 1, TRACE_USER_EVENT_MAX - NAMES - 4);
	assert_int_equal(open_name("one.more"), POSIX_TRACE_UNNAMED_USEREVENT);
	assert_int_equal(open_name("first"), first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_of_each_machine),
		cmocka_unit_test(file_in_readelf),
		cmocka_unit_test(children_open_names),
		cmocka_unit_test(same_name_same_id),
		cmocka_unit_test(lengths_of_names),
		cmocka_unit_test(nothing_happens_untraced),
		cmocka_unit_test(no_descriptor_left),
		cmocka_unit_test(number_of_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
