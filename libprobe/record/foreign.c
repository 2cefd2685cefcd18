/* SPDX-License-Identifier: MIT */
/*
 * Records of other tools: the libbabeltrace2 graph that reads them.
 *
 *	source.ctf.fs (one for each record) -> filter.utils.muxer -> a sink of ours
 *
 * The muxer merges the events of all streams in order. The sink keeps each batch of messages
 * until they have been read.
 *
 * Parts of one record (`--rotate`) follow each other in time, so each has its own graph: only
 * one part is open at a time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/record/reader.h"

struct ctf_reader {
	const struct babeltrace *bt;
	struct reader_classes classes;
	const struct reader_folder *folder;
	size_t opened; /* how many of its records have been opened */

	/* What is open now: */
	bt_graph *graph;		 /* NULL: nothing */
	bt_message_array_const messages; /* from the graph's sink */
	uint64_t message_count, taken;	 /* messages before `taken` have been read */
	const bt_message *held;		 /* the last event points into it */
};

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
	bool more = reader->folder->parts && reader->opened < reader->folder->count;

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
	const char *path = reader->folder->records[record];
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
	size_t end = reader->folder->parts ? reader->opened + 1 : reader->folder->count;
	const struct babeltrace *bt = reader->bt;
	const bt_component_filter *muxer;
	struct probe_error *error = NULL;
	const bt_component_sink *sink;
	uint64_t inputs = 0;

	reader->graph = bt->graph_create(0);
	if (!reader->graph)
		return record_error(reader, reader->folder->path);
	if (bt->graph_add_filter_component(reader->graph, bt->muxer, "muxer", NULL,
		    BT_LOGGING_LEVEL_NONE, &muxer) != BT_GRAPH_ADD_COMPONENT_STATUS_OK ||
		bt->graph_add_simple_sink_component(reader->graph, "sink", NULL, consume, NULL,
			reader, &sink) != BT_GRAPH_ADD_COMPONENT_STATUS_OK)
		return record_error(reader, reader->folder->path);
	while (!error && reader->opened < end)
		error = add_source(reader, reader->opened++, muxer, &inputs);
	if (!error && bt->graph_connect_ports(reader->graph,
			      bt->component_filter_borrow_output_port_by_index_const(muxer, 0),
			      bt->component_sink_borrow_input_port_by_index_const(sink, 0),
			      NULL) != BT_GRAPH_CONNECT_PORTS_STATUS_OK)
		error = record_error(reader, reader->folder->path);
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
			return record_error(reader, reader->folder->records[reader->opened - 1]);
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
	free(reader);
}

struct probe_error *reader_ctf_open(const struct reader_folder *folder, void **ret)
{
	struct ctf_reader *reader = calloc(1, sizeof(*reader));
	struct probe_error *error;

	if (!reader)
		return probe_error_no_memory();
	reader->folder = folder;
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

	for (;;) {
		if (reader->held)
			bt->message_put_ref(reader->held);
		reader->held = NULL;
		if (!reader->graph && reader->opened == reader->folder->count)
			break;
		error = reader->graph ? NULL : graph_open(reader);
		if (!error)
			error = graph_next(reader, &message);
		if (error || !message)
			graph_close(reader);
		if (error)
			reader->opened = reader->folder->count;
		if (error)
			return error;
		if (!message)
			continue;
		reader->held = message;
		*there_ret = true;
		switch (bt->message_get_type(message)) {
		case BT_MESSAGE_TYPE_EVENT:
			return reader_classes_event(&reader->classes, message, ret);
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
