/* SPDX-License-Identifier: MIT */
/* Names and labels of metric instances, and the metrics of each tracer. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/output/mmv.h"
#include "libprobe/session/session.h"
#include "tests/unit/skip.h"

#ifdef PCP_BUILT
static struct probe_value text(const char *bytes)
{
	return (struct probe_value){
		.kind = PROBE_VALUE_STRING, .bytes = bytes, .length = strlen(bytes)};
}

static void is_called(
	const char *wanted, const char *begin, const struct probe_value *keys, size_t key_count)
{
	const struct probe_table_row row = {.provider = "shop",
		.name = "done",
		.begin_provider = begin ? "shop" : NULL,
		.begin_name = begin,
		.row = {.keys = keys}};
	char *key = pcp_row_key(4711, &row, key_count);

	assert_string_equal(key, wanted);
	free(key);
}

static void rows_have_names_of_their_own(void **state)
{
	struct probe_value keys[] = {text("select"), {.kind = PROBE_VALUE_SIGNED, .i = -3}};
	struct probe_value null = {.kind = PROBE_VALUE_NULL};
	struct probe_value strange = text("(unreadable)"), control = text("a\n\\b\xff");
	struct probe_value cut = text("sel");

	(void)state;
	cut.truncated = true;
	is_called("4711/shop:done", NULL, NULL, 0);
	is_called("4711/shop:start..done", "start", NULL, 0);
	is_called("4711/shop:done select", NULL, keys, 1);
	is_called("4711/shop:done \"select\", -3", NULL, keys, 2);
	/* Neither is the other. */
	is_called("4711/shop:done (unreadable)", NULL, &null, 1);
	is_called("4711/shop:done \"(unreadable)\"", NULL, &strange, 1);
	is_called("4711/shop:done a\\n\\\\b\\377", NULL, &control, 1);
	is_called("4711/shop:done sel...", NULL, &cut, 1);
}

static void long_names_are_cut_between_characters(void **state)
{
	struct pcp_instance one = {0}, other = {0};
	char key[600];

	(void)state;
	/* Two bytes each, from an odd offset on. */
	key[0] = 'x';
	for (size_t i = 1; i < sizeof(key) - 1; i += 2)
		memcpy(&key[i], "\u00e4", 2);
	key[sizeof(key) - 1] = '\0';
	pcp_instance_name(&one, key);
	assert_int_equal(strlen(one.name), 235 + 9);
	assert_memory_equal(one.name, key, 235);
	key[sizeof(key) - 3] = 'y';
	key[sizeof(key) - 2] = '\0';
	pcp_instance_name(&other, key);
	assert_memory_equal(one.name, other.name, 235);
	assert_string_not_equal(one.name, other.name);
}

static void instance_free(struct pcp_instance *instance)
{
	for (size_t i = 0; i < instance->label_count; i++)
		free(instance->labels[i].value);
}

static void labels_are_json_that_fits(void **state)
{
	char quotes[400], *longest;
	struct probe_value key = {.kind = PROBE_VALUE_STRING, .bytes = quotes, .length = 399};
	const struct probe_table_row row = {
		.provider = "a\"b", .name = "abort", .begin_name = "start", .row = {.keys = &key}};
	const struct probe_view view = {.columns = PROBE_COLUMN_OUTCOME, .value = "arg0 + 1"};
	static const char *const names[] = {
		"pid", "program", "provider", "probe", "begin", "outcome", "value", "key"};
	static const char *const values[] = {"4711", "\"sh\\u0001\"", "\"a\\\"b\"", "\"abort\"",
		"\"start\"", "\"aborted\"", "\"arg0 + 1\""};
	struct pcp_instance instance = {0};

	(void)state;
	memset(quotes, 1, sizeof(quotes));
	assert_true(pcp_process_labels(&instance, 4711, "sh\x01"));
	assert_true(pcp_row_labels(&instance, &row, &view, 1));
	assert_int_equal(instance.label_count, 8);
	assert_true(instance.labels[0].is_number && !instance.labels[1].is_number);
	for (size_t i = 0; i < 8; i++)
		assert_string_equal(instance.labels[i].name, names[i]);
	for (size_t i = 0; i < 7; i++)
		assert_string_equal(instance.labels[i].value, values[i]);
	/* Each byte has become six. */
	longest = instance.labels[7].value;
	assert_int_equal(strlen(longest), 2 + PCP_LABEL_BYTES / 6 * 6);
	assert_string_equal(longest + strlen(longest) - 7, "\\u0001\"");
	assert_true(pcp_rename_program(&instance, "bash"));
	assert_int_equal(instance.label_count, 8);
	assert_string_equal(instance.labels[1].value, "\"bash\"");
	instance_free(&instance);
}

/* Archives contain the numbers: they must not change. */
static void numbers_are_a_contract(void **state)
{
	static const struct {
		const char *tracer, *first, *last;
		size_t count;
		int item, domain;
	} expected[] = {
		{"count", "probectl.count.hits", "probectl.count.lost", 2, 0, 1},
		{"hist,arg0", "probectl.hist.hits", "probectl.hist.lost", 10, 192, 13},
		{"latency", "probectl.latency.hits", "probectl.latency.lost", 12, 224, 15},
		{"transaction", "probectl.transaction.hits", "probectl.transaction.lost", 12, 256,
			17},
		{"counter,arg0", "probectl.counter.hits", "probectl.counter.lost", 3, 320, 21},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		const struct probe_session_options options = {0};
		struct probe_tracer_spec *spec = NULL;
		struct pcp_metrics metrics;
		struct probe_view view;

		assert_null(probe_tracer_parse(expected[i].tracer, &spec));
		probe_tracer_view(spec, &options, &view);
		assert_null(pcp_metrics_init(&view, 0, &metrics));
		assert_int_equal(metrics.count, expected[i].count);
		assert_string_equal(metrics.items[0].name, expected[i].first);
		assert_string_equal(metrics.items[metrics.count - 1].name, expected[i].last);
		assert_int_equal(metrics.items[0].item, expected[i].item);
		assert_int_equal(metrics.items[0].domain, expected[i].domain);
		assert_int_equal(metrics.items[metrics.count - 1].domain, expected[i].domain + 1);
		assert_true(metrics.items[0].is_counter);
		probe_tracer_free(spec);
	}
}

/* Those of tags, too, which have the names that pmdatrace has. */
static void numbers_of_tags(void **state)
{
	static const struct {
		const char *tracer, *first, *last;
		size_t count;
		int item, domain;
	} expected[] = {
		{"transaction", "trace.transact.count", "trace.transact.ave_time", 8, 352, 23},
		{"point", "trace.point.count", "trace.point.rate", 3, 384, 25},
		{"observe,arg1", "trace.observe.count", "trace.observe.rate", 4, 416, 27},
		{"counter,arg1", "trace.counter.count", "trace.counter.rate", 4, 448, 29},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		const struct probe_session_options options = {0};
		struct probe_tracer_part part;
		struct probe_tracer_spec *spec = NULL;
		struct pcp_metrics metrics;
		struct probe_view view;

		assert_true(probe_tracer_part("pmtrace", i, &part));
		assert_string_equal(part.tracer, expected[i].tracer);
		assert_null(probe_tracer_parse(part.tracer, &spec));
		probe_tracer_view(spec, &options, &view);
		view.tags = true;
		assert_null(pcp_metrics_init(&view, 1, &metrics));
		assert_int_equal(metrics.count, expected[i].count);
		assert_string_equal(metrics.items[0].name, expected[i].first);
		assert_string_equal(metrics.items[metrics.count - 1].name, expected[i].last);
		assert_int_equal(metrics.items[0].item, expected[i].item);
		assert_int_equal(metrics.items[0].domain, expected[i].domain);
		probe_tracer_free(spec);
	}
}

/* Every tracer with rows has metrics. */
static void every_table_can_be_exported(void **state)
{
	const struct probe_session_options options = {0};

	(void)state;
	for (size_t i = 0; tracer_builtin[i].name; i++) {
		struct probe_tracer_spec spec = {.kind = &tracer_builtin[i]};
		struct pcp_metrics metrics;
		struct probe_view view;

		if (tracer_builtin[i].output != PROBE_TRACER_ROWS || tracer_builtin[i].is_several)
			continue;
		spec.name = strdup(tracer_builtin[i].name);
		probe_tracer_view(&spec, &options, &view);
		assert_null(pcp_metrics_init(&view, 0, &metrics));
		free(spec.name);
	}
}

/* ---- Files of others ---------------------------------------------------------------------- */

enum { FILE_TOCS = 8, FILE_DOMAINS = 500, FILE_INSTANCES = 1000 };

/* All tables of contents have the same domains, all domains the same instances. */
struct others_file {
	mmv_disk_header_t header;
	mmv_disk_toc_t tocs[FILE_TOCS];
	mmv_disk_indom_t domains[FILE_DOMAINS];
	mmv_disk_instance2_t instances[FILE_INSTANCES];
};

static size_t taken_of(int folder, const struct others_file *file)
{
	struct pcp_folder its = {.fd = folder};
	struct pcp_taken *taken;
	size_t count;
	int fd = openat(folder, "probectl.1.1.1", O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, file, sizeof(*file)), sizeof(*file));
	close(fd);
	assert_null(pcp_folder_taken(&its, NULL, &taken, &count));
	for (size_t i = 0; i < count; i++)
		assert_true(taken[i].domain == 7 && taken[i].id == (int32_t)(i % FILE_INSTANCES));
	free(taken);
	return count;
}

static void files_of_others_are_read_once(void **state)
{
	struct others_file *file = calloc(1, sizeof(*file));
	char path[] = "/tmp/probectl-pcp.XXXXXX";
	int folder;

	(void)state;
	assert_non_null(file);
	assert_non_null(mkdtemp(path));
	folder = open(path, O_RDONLY | O_DIRECTORY);
	assert_true(folder >= 0);
	file->header =
		(mmv_disk_header_t){.magic = "MMV", .version = MMV_VERSION3, .tocs = FILE_TOCS};
	for (int i = 0; i < FILE_TOCS; i++)
		file->tocs[i] =
			(mmv_disk_toc_t){MMV_TOC_INDOMS, 1, offsetof(struct others_file, domains)};
	for (int i = 0; i < FILE_DOMAINS; i++)
		file->domains[i] = (mmv_disk_indom_t){.serial = 7,
			.count = FILE_INSTANCES,
			.offset = offsetof(struct others_file, instances)};
	for (int i = 0; i < FILE_INSTANCES; i++)
		file->instances[i].internal = i;
	assert_int_equal(taken_of(folder, file), FILE_TOCS * FILE_INSTANCES);
	/* More than pmdammv reads: it would take forever, and all memory. */
	for (int i = 0; i < FILE_TOCS; i++)
		file->tocs[i].count = FILE_DOMAINS;
	assert_int_equal(taken_of(folder, file), 0);
	unlinkat(folder, "probectl.1.1.1", 0);
	close(folder);
	assert_int_equal(rmdir(path), 0);
	free(file);
}
#endif

int main(void)
{
#ifdef PCP_BUILT
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_have_names_of_their_own),
		cmocka_unit_test(long_names_are_cut_between_characters),
		cmocka_unit_test(labels_are_json_that_fits),
		cmocka_unit_test(numbers_are_a_contract),
		cmocka_unit_test(numbers_of_tags),
		cmocka_unit_test(every_table_can_be_exported),
		cmocka_unit_test(files_of_others_are_read_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
#else
	return skip_all("built without PCP");
#endif
}
