/* SPDX-License-Identifier: MIT */
/* User events: the file of each, and names, identifiers and limits as the standard says. */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "arch/arch.h"
#include "elf/sdt.h"
#include "tests/unit/elf/elf_image.h"
#include "libprobe/runtime/events/image.h"
#include "probe/posix_trace.h"
#include "tests/unit/skip.h"

/* ---- The file -------------------------------------------------------------------------- */

static const char provider[] = "posix_trace";

/* A file with these names, as a program makes it; its descriptor. */
static int image_file(const struct arch_event *machine, uint32_t capacity, const char *const *names,
	struct image_layout *layout_ret)
{
	int fd = memfd_create("image", MFD_CLOEXEC);
	uint8_t *file;

	image_layout(machine, capacity, layout_ret);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)layout_ret->length), 0);
	file = mmap(NULL, layout_ret->length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(file, MAP_FAILED);
	image_make(machine, layout_ret, 77, file);
	for (uint32_t i = 0; names[i]; i++)
		image_add(machine, layout_ret, i, provider, names[i], file + layout_ret->shared);
	munmap(file, layout_ret->length);
	return fd;
}

/* As this project's readers see it, in the machine's own argument syntax. */
static void check_image(
	const struct arch_event *machine, uint32_t capacity, const char *const *names, size_t count)
{
	const struct arch *arch = arch_of_machine(machine->elf_machine);
	struct image_layout layout;
	int fd = image_file(machine, capacity, names, &layout);
	struct arch_arg args[ARCH_ARGS_MAX];
	struct object *object;
	struct sdt_notes notes;
	uint8_t code[8];

	assert_null(object_open_fd(fd, "image", &object));
	assert_null(sdt_read(object, &notes));
	assert_int_equal(notes.defect_count, 0);
	assert_int_equal(notes.count, count);
	for (uint32_t n = 0; n < count; n++) {
		assert_string_equal(notes.notes[n].provider, provider);
		assert_string_equal(notes.notes[n].name, names[n]);
		assert_int_equal(notes.notes[n].pc, image_site(&layout, n));
		assert_int_equal(notes.notes[n].semaphore, image_semaphore(&layout, n));
		assert_int_not_equal(notes.notes[n].base, 0);
		assert_int_equal(arch->parse_args(notes.notes[n].args, args), 2);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(args[i].kind, ARCH_ARG_REGISTER);
			assert_int_equal(args[i].size, 8);
			assert_false(args[i].is_signed);
		}
		assert_int_equal(
			pread(fd, code, machine->code_length, (off_t)image_site(&layout, n)),
			machine->code_length);
		assert_memory_equal(code, machine->code, machine->code_length);
	}
	sdt_notes_deinit(&notes);
	object_close(object);
	close(fd);
}

static void file_of_each_machine(void **state)
{
	static const char longest[] =
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	static const char *const none[] = {NULL}, *const one[] = {"x", NULL},
				 *const some[] = {"request.start", longest, "y", longest, NULL};
	static const struct arch_event *const machines[] = {&event_x86_64, &event_aarch64};

	(void)state;
	_Static_assert(sizeof(longest) == IMAGE_NAME_MAX + 1, "the longest name");
	for (int i = 0; i < 2; i++) {
		check_image(machines[i], 1, none, 0);
		check_image(machines[i], 1, one, 1);
		check_image(machines[i], 4, some, 4);
		check_image(machines[i], IMAGE_EVENTS_MAX, some, 4);
	}
}

/* readelf does not complain either, and finds unwind rules for all sites. */
static void file_in_readelf(void **state)
{
	static const char *const names[] = {"plain", "second", NULL};
	struct image_layout layout;
	char command[256], text[8192];
	int fd = image_file(&event_x86_64, 16, names, &layout);
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
		skip_because("needs readelf");
	assert_null(strstr(text, "arning"));
	assert_null(strstr(text, "rror"));
	assert_non_null(strstr(text, "Name: plain"));
	assert_non_null(strstr(text, "Name: second"));
	assert_non_null(strstr(text, "DW_CFA_def_cfa: r7 (rsp) ofs 8"));
	assert_non_null(strstr(text, "pc=0000000000001000..0000000000001100"));
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

/* A fork that nothing comes of. */
static void new_process(void)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* A failure is an error; the name stays free, and can be opened later. */
static void no_descriptor_left(void **state)
{
	struct rlimit old, none;
	trace_event_id_t id = 77;

	(void)state;
	/* The next name needs a new file. */
	new_process();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(posix_trace_eventid_open("no.descriptor", &id), 0);
	assert_int_equal(id, POSIX_TRACE_UNNAMED_USEREVENT);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	id = open_name("no.descriptor");
	assert_int_not_equal(id, POSIX_TRACE_UNNAMED_USEREVENT);
	assert_int_equal(open_name("no.descriptor"), id);
}

enum { MANY = 10000 };

/* The number of a process's descriptors, of its mappings of our files, and of the events there. */
static void our_files(int *descriptors_ret, int *mappings_ret)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];

	*descriptors_ret = *mappings_ret = 0;
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		*mappings_ret += strstr(line, "/memfd:posix_trace") != NULL;
	fclose(maps);
	for (int fd = 0; fd < 1024; fd++) {
		char path[64], link[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		*descriptors_ret += readlink(path, link, sizeof(link) - 1) > 0 &&
				    strncmp(link, "/memfd:posix_trace", 18) == 0;
	}
}

/* Neither a number of ours limits them, nor descriptors or mappings. */
static void number_of_names(void **state)
{
	trace_event_id_t *ids = calloc(MANY, sizeof(*ids));
	int descriptors[2], mappings[2];
	char name[32];

	(void)state;
	assert_int_equal(open_name("posix_trace_unnamed_userevent"), POSIX_TRACE_UNNAMED_USEREVENT);
	assert_int_equal(sysconf(_SC_TRACE_USER_EVENT_MAX), -1);
	assert_non_null(ids);
	our_files(&descriptors[0], &mappings[0]);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "many.%d", i);
		ids[i] = open_name(name);
		assert_true(ids[i] != POSIX_TRACE_UNNAMED_USEREVENT && (!i || ids[i] > ids[i - 1]));
		posix_trace_event(ids[i], name, 1);
	}
	our_files(&descriptors[1], &mappings[1]);
	assert_in_range(descriptors[1] - descriptors[0], 1, 12);
	assert_in_range(mappings[1] - mappings[0], 4, 48);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "many.%d", i);
		assert_int_equal(open_name(name), ids[i]);
	}
	free(ids);
}

/* After a fork, what one opens is not in the file of the other. */
static void files_after_fork(void **state)
{
	int before[2], after[2], status;
	pid_t child;

	(void)state;
	open_name("before.the.fork");
	our_files(&before[0], &before[1]);
	child = fork();
	if (child == 0) {
		our_files(&after[0], &after[1]);
		if (after[0] != before[0])
			_exit(1);
		open_name("of.the.child");
		our_files(&after[0], &after[1]);
		_exit(after[0] == before[0] + 1 ? 0 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	open_name("of.the.parent");
	open_name("of.the.parent.2");
	our_files(&after[0], &after[1]);
	assert_int_equal(after[0], before[0] + 1);
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
		cmocka_unit_test(files_after_fork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
