/* SPDX-License-Identifier: MIT */
/*
 * Records: their folders, and the libbabeltrace2 graph that reads them.
 *
 *	source.ctf.fs (one for each record) -> filter.utils.muxer -> a sink of ours
 *
 * The muxer merges the events of all streams in order. The sink keeps each batch of messages
 * until they have been read.
 *
 * Parts of one record (`--rotate`) follow each other in time, so each has its own graph: only
 * one part is open at a time.
 */
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/reader/reader.h"

enum {
	/* below the given folder: LTTng's records are six levels down */
	DEPTH_MAX = 8,
	RECORDS_MAX = 1 << 20
};

struct ctf_reader {
	const struct babeltrace *bt;
	struct reader_classes classes;
	char *path;
	char **records; /* folders, in order */
	size_t record_count;
	bool parts;    /* they are read one after the other */
	size_t opened; /* how many of them have been opened */

	/* What is open now: */
	bt_graph *graph;		 /* NULL: nothing */
	bt_message_array_const messages; /* from the graph's sink */
	uint64_t message_count, taken;	 /* messages before `taken` have been read */
	const bt_message *held;		 /* the last event points into it */
};

/* ---- Finding records --------------------------------------------------------------- */

static struct probe_error *add_record(struct ctf_reader *reader, const char *folder, size_t length)
{
	if (reader->record_count >= RECORDS_MAX)
		return probe_error_new(PROBE_ERROR_FORMAT, "there are too many records in it");
	if (!ARRAY_ROOM(reader->records, reader->record_count))
		return probe_error_no_memory();
	reader->records[reader->record_count] = strndup(folder, length);
	if (!reader->records[reader->record_count])
		return probe_error_no_memory();
	reader->record_count++;
	return NULL;
}

/* Whether this is the folder of a part, named 000001 and so on. */
static bool is_part(const FTSENT *metadata)
{
	const char *name = metadata->fts_parent->fts_name;

	return metadata->fts_level == 2 && name[strspn(name, "0123456789")] == '\0';
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strverscmp((*a)->fts_name, (*b)->fts_name);
}

static struct probe_error *visit(struct ctf_reader *reader, FTS *tree, FTSENT *entry)
{
	switch (entry->fts_info) {
	case FTS_D:
		if (entry->fts_level > DEPTH_MAX)
			fts_set(tree, entry, FTS_SKIP);
		break;
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		if (!entry->fts_level && entry->fts_errno == ENOENT)
			return probe_error_new(PROBE_ERROR_NOT_FOUND, "there is no such folder");
		return probe_error_system(entry->fts_errno, "cannot read %s", entry->fts_path);
	case FTS_F:
		if (strcmp(entry->fts_name, "metadata") != 0 || entry->fts_level < 1)
			break;
		reader->parts &= is_part(entry);
		/* The folder: the path without "/metadata". */
		return add_record(
			reader, entry->fts_path, entry->fts_pathlen - entry->fts_namelen - 1U);
	}
	return NULL;
}

static struct probe_error *find_records(struct ctf_reader *reader)
{
	char *const paths[] = {reader->path, NULL};
	struct probe_error *error = NULL;
	FTSENT *entry;
	FTS *tree;

	tree = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
	if (!tree)
		return probe_error_system(errno, "cannot read the folder");
	reader->parts = true;
	while (!error && (entry = fts_read(tree)))
		error = visit(reader, tree, entry);
	if (!error && errno)
		error = probe_error_system(errno, "cannot read the folder");
	fts_close(tree);
	if (!error && !reader->record_count)
		error = probe_error_new(PROBE_ERROR_NOT_FOUND,
			"there is no record in it (a folder with a file `metadata`); "
			"`probectl record -o` makes one");
	return error;
}

/* ---- The graph ----------------------------------------------------------------------- */

static bt_graph_simple_sink_component_consume_func_status consume(
	bt_message_iterator *iterator, void *data)
{
	struct ctf_reader *reader = data;

	reader->message_count = reader->taken = 0;
	/* Both enumerations use the values of __BT_FUNC_STATUS. */
	return (bt_graph_simple_sink_component_consume_func_status)reader->bt
		->message_iterator_next(iterator, &reader->messages, &reader->message_count);
}

static struct probe_error *record_error(struct ctf_reader *reader, const char *path)
{
	bool more = reader->parts && reader->opened < reader->record_count;

	return probe_error_prefix(
		babeltrace_error(reader->bt,
			more ? "the record cannot be read; the parts after it can be read by "
			       "themselves"
			     : "the record cannot be read"),
		"%s", path);
}

/* The parameter of source.ctf.fs: the folder. */
static bt_value *source_params(const struct babeltrace *bt, const char *path)
{
	bt_value *params = bt->value_map_create(), *inputs;

	if (params && (bt->value_map_insert_empty_array_entry(params, "inputs", &inputs) !=
				      BT_VALUE_MAP_INSERT_ENTRY_STATUS_OK ||
			      bt->value_array_append_string_element(inputs, path) !=
				      BT_VALUE_ARRAY_APPEND_ELEMENT_STATUS_OK)) {
		bt->value_put_ref(params);
		params = NULL;
	}
	return params;
}

/* Adds the source for one record, and connects its streams to the muxer's next inputs. */
static struct probe_error *add_source(struct ctf_reader *reader, size_t record,
	const bt_component_filter *muxer, uint64_t *inputs)
{
	const struct babeltrace *bt = reader->bt;
	const char *path = reader->records[record];
	bt_value *params = source_params(bt, path);
	const bt_component_source *source;
	bool failed;
	char name[32];
	uint64_t count;

	if (!params)
		return probe_error_no_memory();
	snprintf(name, sizeof(name), "record %zu", record);
	failed = bt->graph_add_source_component(reader->graph, bt->ctf_fs, name, params,
			 BT_LOGGING_LEVEL_NONE, &source) != BT_GRAPH_ADD_COMPONENT_STATUS_OK;
	bt->value_put_ref(params);
	if (failed)
		return record_error(reader, path);
	count = bt->component_source_get_output_port_count(source);
	for (uint64_t i = 0; i < count && !failed; i++)
		/* The muxer creates another input for each one that is connected. */
		failed = bt->graph_connect_ports(reader->graph,
				 bt->component_source_borrow_output_port_by_index_const(source, i),
				 bt->component_filter_borrow_input_port_by_index_const(
					 muxer, (*inputs)++),
				 NULL) != BT_GRAPH_CONNECT_PORTS_STATUS_OK;
	return failed ? record_error(reader, path) : NULL;
}

/* Opens the next part, or everything. */
static struct probe_error *graph_open(struct ctf_reader *reader)
{
	size_t end = reader->parts ? reader->opened + 1 : reader->record_count;
	const struct babeltrace *bt = reader->bt;
	const bt_component_filter *muxer;
	struct probe_error *error = NULL;
	const bt_component_sink *sink;
	uint64_t inputs = 0;

	reader->graph = bt->graph_create(0);
	if (!reader->graph)
		return record_error(reader, reader->path);
	if (bt->graph_add_filter_component(reader->graph, bt->muxer, "muxer", NULL,
		    BT_LOGGING_LEVEL_NONE, &muxer) != BT_GRAPH_ADD_COMPONENT_STATUS_OK ||
		bt->graph_add_simple_sink_component(reader->graph, "sink", NULL, consume, NULL,
			reader, &sink) != BT_GRAPH_ADD_COMPONENT_STATUS_OK)
		return record_error(reader, reader->path);
	while (!error && reader->opened < end)
		error = add_source(reader, reader->opened++, muxer, &inputs);
	if (!error && bt->graph_connect_ports(reader->graph,
			      bt->component_filter_borrow_output_port_by_index_const(muxer, 0),
			      bt->component_sink_borrow_input_port_by_index_const(sink, 0),
			      NULL) != BT_GRAPH_CONNECT_PORTS_STATUS_OK)
		error = record_error(reader, reader->path);
	return error;
}

static void graph_close(struct ctf_reader *reader)
{
	if (!reader->graph)
		return;
	if (reader->held)
		reader->bt->message_put_ref(reader->held);
	while (reader->taken < reader->message_count)
		reader->bt->message_put_ref(reader->messages[reader->taken++]);
	reader->held = NULL;
	reader_classes_deinit(&reader->classes);
	reader->bt->graph_put_ref(reader->graph);
	reader->graph = NULL;
	reader->message_count = reader->taken = 0;
}

/* The next message of the graph; NULL after the last. The caller owns it. */
static struct probe_error *graph_next(struct ctf_reader *reader, const bt_message **ret)
{
	while (reader->taken == reader->message_count) {
		switch (reader->bt->graph_run_once(reader->graph)) {
		case BT_GRAPH_RUN_ONCE_STATUS_OK:
			break;
		case BT_GRAPH_RUN_ONCE_STATUS_END:
			*ret = NULL;
			return NULL;
		case BT_GRAPH_RUN_ONCE_STATUS_MEMORY_ERROR:
			return probe_error_no_memory();
		default:
			return record_error(reader, reader->records[reader->opened - 1]);
		}
	}
	*ret = reader->messages[reader->taken++];
	return NULL;
}

/* ---- Reading ------------------------------------------------------------------------- */

static void ctf_close(void *source)
{
	struct ctf_reader *reader = source;

	if (!reader)
		return;
	graph_close(reader);
	for (size_t i = 0; i < reader->record_count; i++)
		free(reader->records[i]);
	free(reader->records);
	free(reader->path);
	free(reader);
}

struct probe_error *reader_ctf_open(const char *path, void **ret)
{
	struct ctf_reader *reader = calloc(1, sizeof(*reader));
	struct probe_error *error = NULL;

	if (reader)
		reader->path = strdup(path);
	if (!reader || !reader->path) {
		ctf_close(reader);
		return probe_error_no_memory();
	}
	error = probe_error_prefix(find_records(reader), "%s", path);
	if (!error)
		error = babeltrace_load(&reader->bt);
	if (!error) {
		reader_classes_init(&reader->classes, reader->bt);
		error = graph_open(reader);
	}
	if (error) {
		ctf_close(reader);
		return error;
	}
	*ret = reader;
	return NULL;
}

static void discarded(
	const struct babeltrace *bt, const bt_message *message, struct probe_event *ret)
{
	const bt_stream_class *stream = bt->stream_borrow_class_const(
		bt->message_discarded_events_borrow_stream_const(message));

	*ret = (struct probe_event){.kind = PROBE_EVENT_LOST, .cpu = -1};
	if (bt->message_discarded_events_get_count(message, &ret->lost) !=
		BT_PROPERTY_AVAILABILITY_AVAILABLE)
		ret->lost = 1; /* at least */
	if (bt->stream_class_discarded_events_have_default_clock_snapshots(stream))
		ret->time_ns = babeltrace_time_ns(bt,
			bt->message_discarded_events_borrow_beginning_default_clock_snapshot_const(
				message));
}

/* How many events they contained is unknown: at least one each. */
static void discarded_packets(
	const struct babeltrace *bt, const bt_message *message, struct probe_event *ret)
{
	const bt_stream_class *stream = bt->stream_borrow_class_const(
		bt->message_discarded_packets_borrow_stream_const(message));

	*ret = (struct probe_event){.kind = PROBE_EVENT_LOST, .cpu = -1};
	if (bt->message_discarded_packets_get_count(message, &ret->lost) !=
		BT_PROPERTY_AVAILABILITY_AVAILABLE)
		ret->lost = 1;
	if (bt->stream_class_discarded_packets_have_default_clock_snapshots(stream))
		ret->time_ns = babeltrace_time_ns(bt,
			bt->message_discarded_packets_borrow_beginning_default_clock_snapshot_const(
				message));
}

static struct probe_error *ctf_next(void *source, struct probe_event *ret, bool *there_ret)
{
	struct ctf_reader *reader = source;
	const struct babeltrace *bt = reader->bt;
	struct probe_error *error;
	const bt_message *message = NULL;
	bool is_hit;

	for (;;) {
		if (reader->held)
			bt->message_put_ref(reader->held);
		reader->held = NULL;
		if (!reader->graph && reader->opened == reader->record_count)
			break;
		error = reader->graph ? NULL : graph_open(reader);
		if (!error)
			error = graph_next(reader, &message);
		if (error || !message)
			graph_close(reader);
		if (error)
			reader->opened = reader->record_count;
		if (error)
			return error;
		if (!message)
			continue;
		reader->held = message;
		*there_ret = true;
		switch (bt->message_get_type(message)) {
		case BT_MESSAGE_TYPE_EVENT:
			error = reader_classes_event(&reader->classes, message, ret, &is_hit);
			if (error || is_hit)
				return error;
			break;
		case BT_MESSAGE_TYPE_DISCARDED_EVENTS:
			discarded(bt, message, ret);
			return NULL;
		case BT_MESSAGE_TYPE_DISCARDED_PACKETS:
			discarded_packets(bt, message, ret);
			return NULL;
		default:
			break;
		}
	}
	*there_ret = false;
	return NULL;
}

const struct reader_ops reader_ctf = {
	.next = ctf_next,
	.close = ctf_close,
};
