/* SPDX-License-Identifier: MIT */
/*
 * libbabeltrace2, the library that babeltrace2(1) uses.
 *
 * It is loaded with its dependency GLib when a record is opened: nothing else needs them.
 *
 * Its functions abort() if a caller violates a precondition. So everything that the metadata
 * decides (is there a clock, a context, a packet?) is checked first.
 */
#ifndef LIBPROBE_RECORD_BABELTRACE_H
#define LIBPROBE_RECORD_BABELTRACE_H

#include <babeltrace2/babeltrace.h>

#include "libprobe/base/error.h"

/* All functions we call, without their prefix. */
/* clang-format off */
#define BABELTRACE_FUNCTIONS(X) \
	X(component_source_borrow_output_port_by_index_const) \
	X(component_source_get_output_port_count) \
	X(component_filter_borrow_input_port_by_index_const) \
	X(component_filter_borrow_output_port_by_index_const) \
	X(component_sink_borrow_input_port_by_index_const) \
	X(clock_snapshot_get_ns_from_origin) \
	X(current_thread_clear_error) \
	X(current_thread_take_error) \
	X(error_borrow_cause_by_index) \
	X(error_cause_get_message) \
	X(error_get_cause_count) \
	X(error_release) \
	X(event_borrow_class_const) \
	X(event_borrow_common_context_field_const) \
	X(event_borrow_packet_const) \
	X(event_borrow_payload_field_const) \
	X(event_borrow_specific_context_field_const) \
	X(event_borrow_stream_const) \
	X(event_class_borrow_payload_field_class_const) \
	X(event_class_borrow_specific_context_field_class_const) \
	X(event_class_borrow_stream_class_const) \
	X(event_class_get_id) \
	X(event_class_get_name) \
	X(field_array_borrow_element_field_by_index_const) \
	X(field_array_get_length) \
	X(field_bit_array_get_value_as_integer) \
	X(field_bool_get_value) \
	X(field_class_array_borrow_element_field_class_const) \
	X(field_class_enumeration_get_mapping_count) \
	X(field_class_enumeration_unsigned_borrow_mapping_by_label_const) \
	X(field_class_get_type) \
	X(field_get_class_type) \
	X(field_class_integer_get_field_value_range) \
	X(field_class_structure_borrow_member_by_index_const) \
	X(field_class_structure_get_member_count) \
	X(field_class_structure_member_borrow_field_class_const) \
	X(field_class_structure_member_get_name) \
	X(field_integer_signed_get_value) \
	X(field_integer_unsigned_get_value) \
	X(field_real_double_precision_get_value) \
	X(field_real_single_precision_get_value) \
	X(field_string_get_length) \
	X(field_string_get_value) \
	X(field_structure_borrow_member_field_by_index_const) \
	X(graph_add_filter_component) \
	X(graph_add_simple_sink_component) \
	X(graph_add_source_component) \
	X(graph_connect_ports) \
	X(graph_create) \
	X(graph_put_ref) \
	X(graph_run_once) \
	X(logging_set_global_level) \
	X(message_discarded_events_borrow_beginning_default_clock_snapshot_const) \
	X(message_discarded_events_borrow_stream_const) \
	X(message_discarded_events_get_count) \
	X(message_discarded_packets_borrow_beginning_default_clock_snapshot_const) \
	X(message_discarded_packets_borrow_stream_const) \
	X(message_discarded_packets_get_count) \
	X(message_event_borrow_default_clock_snapshot_const) \
	X(message_event_borrow_event_const) \
	X(message_get_type) \
	X(message_iterator_next) \
	X(message_put_ref) \
	X(packet_borrow_context_field_const) \
	X(plugin_borrow_filter_component_class_by_name_const) \
	X(plugin_borrow_source_component_class_by_name_const) \
	X(plugin_find) \
	X(stream_borrow_class_const) \
	X(stream_class_borrow_default_clock_class_const) \
	X(stream_class_borrow_event_common_context_field_class_const) \
	X(stream_class_borrow_packet_context_field_class_const) \
	X(stream_class_discarded_events_have_default_clock_snapshots) \
	X(stream_class_discarded_packets_have_default_clock_snapshots) \
	X(stream_class_supports_packets) \
	X(value_array_append_string_element) \
	X(value_map_create) \
	X(value_map_insert_empty_array_entry) \
	X(value_put_ref)
/* clang-format on */

struct babeltrace {
#define MEMBER(name) __typeof__(&bt_##name) name;
	BABELTRACE_FUNCTIONS(MEMBER)
#undef MEMBER
	/* GLib's g_log_set_default_handler(); GLib is loaded as a dependency. */
	void *(*set_log_handler)(
		void (*handler)(const char *domain, int level, const char *message, void *data),
		void *data);
	/* Its plugins, and what we use of them; they are never freed. */
	const bt_plugin *ctf, *utils;
	const bt_component_class_source *ctf_fs;
	const bt_component_class_filter *muxer;
};

/* Loads it once. Error: PROBE_ERROR_UNSUPPORTED. *ret is never freed. */
PROBE_MUST_CHECK struct probe_error *babeltrace_load(const struct babeltrace **ret);

/* The library's last error as "what: ...", which this clears. */
struct probe_error *babeltrace_error(const struct babeltrace *bt, const char *what)
	__attribute__((returns_nonnull));

/*
 * The value of a string. Of an empty one, libbabeltrace2 (2.0.4) clears the length, but the text
 * may still be that of an earlier event, whose field it uses again.
 */
const char *babeltrace_text(const struct babeltrace *bt, const bt_field *field);

/* The time of a snapshot in nanoseconds since 1970; 0 if it does not fit 64 bits. */
uint64_t babeltrace_time_ns(const struct babeltrace *bt, const bt_clock_snapshot *snapshot);

#endif
