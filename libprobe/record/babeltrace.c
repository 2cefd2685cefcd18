/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/library.h"
#include "libprobe/record/babeltrace.h"

/* The version whose headers were compiled in; no other version has this ABI. */
static const char soname[] = "libbabeltrace2.so.0";

/* From GLogLevelFlags. */
enum { GLIB_FATAL = 1 << 1, GLIB_ERROR = 1 << 2 };

/* Written once, by load() under `once`. */
static struct {
	pthread_once_t once;
	struct babeltrace bt;
	const char *missing; /* what could not be found, or NULL */
} library = {.once = PTHREAD_ONCE_INIT};

static const bt_plugin *find_plugin(const struct babeltrace *bt, const char *name)
{
	const bt_plugin *plugin = NULL;

	/* Only installed plugins: no other code may get into this process. */
	if (bt->plugin_find(name, BT_FALSE, BT_FALSE, BT_TRUE, BT_FALSE, BT_FALSE, &plugin) !=
		BT_PLUGIN_FIND_STATUS_OK)
		return NULL;
	return plugin;
}

/*
 * GLib's own handler allocates memory and takes locks, so it would hang if it had to report
 * that memory ran out. Messages that are not fatal are dropped.
 */
static void on_message(const char *domain, int level, const char *message, void *data)
{
	(void)domain;
	(void)message;
	(void)data;
	if (level & (GLIB_FATAL | GLIB_ERROR))
		abort();
}

static void load(void)
{
	static const struct library_function functions[] = {
#define ROW(name) {"bt_" #name, offsetof(struct babeltrace, name)},
		BABELTRACE_FUNCTIONS(ROW)
#undef ROW
			{"g_log_set_default_handler", offsetof(struct babeltrace, set_log_handler)},
	};
	struct babeltrace *bt = &library.bt;

	library.missing =
		library_load(soname, functions, sizeof(functions) / sizeof(functions[0]), bt);
	if (library.missing)
		return;
	bt->set_log_handler(on_message, NULL);
	/* It would print to standard error what it also returns as errors. */
	bt->logging_set_global_level(BT_LOGGING_LEVEL_NONE);
	bt->ctf = find_plugin(bt, "ctf");
	bt->utils = find_plugin(bt, "utils");
	library.missing = "its plugin ctf";
	if (bt->ctf)
		bt->ctf_fs = bt->plugin_borrow_source_component_class_by_name_const(bt->ctf, "fs");
	if (!bt->ctf_fs)
		return;
	library.missing = "its plugin utils";
	if (bt->utils)
		bt->muxer =
			bt->plugin_borrow_filter_component_class_by_name_const(bt->utils, "muxer");
	if (bt->muxer)
		library.missing = NULL;
}

/* Is there room for what loading a plugin opens? Its failure does not say. */
static bool has_descriptors(void)
{
	enum { PLUGIN_DESCRIPTORS = 3 };
	int fds[PLUGIN_DESCRIPTORS], count = 0;

	while (count < PLUGIN_DESCRIPTORS &&
		(fds[count] = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) >= 0)
		count++;
	for (int i = 0; i < count; i++)
		close(fds[i]);
	return count == PLUGIN_DESCRIPTORS;
}

struct probe_error *babeltrace_load(const struct babeltrace **ret)
{
	pthread_once(&library.once, load);
	if (library.missing && !has_descriptors())
		return probe_error_system(EMFILE, "libbabeltrace2 cannot be loaded (ulimit -n)");
	if (library.missing && library_linked)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"records of other tools are read with libbabeltrace2, which a static "
			"probectl cannot load: copy the record to where probectl is installed");
	if (library.missing)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"records of other tools are read with libbabeltrace2, and %s is missing: "
			"install it "
			"(Debian: libbabeltrace2-0)",
			library.missing);
	*ret = &library.bt;
	return NULL;
}

struct probe_error *babeltrace_error(const struct babeltrace *bt, const char *what)
{
	const bt_error *error = bt->current_thread_take_error();
	const char *cause = "it does not say why";
	struct probe_error *ret;

	/* The first cause is the innermost. */
	if (error && bt->error_get_cause_count(error))
		cause = bt->error_cause_get_message(bt->error_borrow_cause_by_index(error, 0));
	ret = probe_error_new(PROBE_ERROR_FORMAT, "%s (libbabeltrace2: %.*s)", what,
		(int)strcspn(cause, "\n"), cause);
	if (error)
		bt->error_release(error);
	return ret;
}

const char *babeltrace_text(const struct babeltrace *bt, const bt_field *field)
{
	return bt->field_string_get_length(field) ? bt->field_string_get_value(field) : "";
}

uint64_t babeltrace_time_ns(const struct babeltrace *bt, const bt_clock_snapshot *snapshot)
{
	int64_t time_ns;

	if (bt->clock_snapshot_get_ns_from_origin(snapshot, &time_ns) ==
		BT_CLOCK_SNAPSHOT_GET_NS_FROM_ORIGIN_STATUS_OK)
		return time_ns > 0 ? (uint64_t)time_ns : 0;
	/* The library's next function would abort if the error stayed set. */
	bt->current_thread_clear_error();
	return 0;
}
