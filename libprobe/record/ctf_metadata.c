/* SPDX-License-Identifier: MIT */
/*
 * Writes the metadata in TSDL, the language of CTF 1.8.
 *
 * A probe has a class of events for each way of encoding its arguments. The class says which
 * arguments were unreadable, and gives the types and sizes of the others, so events need no tags.
 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "libprobe/record/record.h"

/* ==== Metadata ================================================================================ */

static void quoted(struct buffer *out, const char *text)
{
	buffer_char(out, '"');
	buffer_c_escaped(out, text, strlen(text), '"');
	buffer_char(out, '"');
}

static void environment(struct buffer *out)
{
	struct utsname host;
	const char *const values[][2] = {{"hostname", host.nodename}, {"sysname", host.sysname},
		{"release", host.release}, {"machine", host.machine}};

	buffer_string(out, "env {\n\ttracer_name = \"probectl\";\n\ttracer_version = ");
	quoted(out, PROBE_VERSION);
	for (size_t i = 0; uname(&host) == 0 && i < 4; i++) {
		buffer_string(out, ";\n\t");
		buffer_string(out, values[i][0]);
		buffer_string(out, " = ");
		quoted(out, values[i][1]);
	}
	buffer_string(out, ";\n};\n\n");
}

/* The field names of LTTng's context callstack_user, which readers know. */
static const char stack_context[] = "\t\tenum : uint8_t { whole = 0, truncated = 1, unknown = 2 } "
				    "callstack_end;\n"
				    "\t\tuint32_t __callstack_user_length;\n"
				    "\t\taddress_t _callstack_user[__callstack_user_length];\n";

/*
 * Describes probectl:frame, which names an address for the rest of a stream. Unknown names are
 * CTF_UNKNOWN, unknown numbers 0.
 */
static void frame_class(struct buffer *out)
{
	buffer_string(out, "event {\n\tname = \"probectl:frame\";\n\tid = ");
	buffer_unsigned(out, CTF_FRAME_ID);
	buffer_string(out, ";\n\tstream_id = 0;\n\tfields := struct {\n"
			   "\t\taddress_t ip;\n"
			   "\t\tstring { encoding = UTF8; } module;\n"
			   "\t\tstring { encoding = UTF8; } symbol;\n"
			   "\t\taddress_t offset;\n"
			   "\t\taddress_t function;\n"
			   "\t\tstring { encoding = UTF8; } file;\n"
			   "\t\tuint32_t line;\n"
			   "\t};\n};\n\n");
}

/* Describes a clock of stubs, and the types of its times. */
static void counter_clock(
	struct buffer *out, const char *name, const char *description, const struct ctf_line *line)
{
	buffer_string(out, "clock {\n\tname = \"");
	buffer_string(out, name);
	buffer_string(out, "\";\n\tdescription = \"");
	buffer_string(out, description);
	buffer_string(out, "\";\n\tfreq = ");
	buffer_unsigned(out, line->frequency);
	buffer_string(out, ";\n\toffset_s = ");
	buffer_signed(out, line->offset_s);
	buffer_string(out, ";\n\toffset = ");
	buffer_unsigned(out, line->offset);
	buffer_string(out,
		";\n\tabsolute = TRUE;\n};\n\n"
		"typealias integer {\n\tsize = 64; align = 32; signed = false; map = clock.");
	buffer_string(out, name);
	buffer_string(out, ".value;\n} := ");
	buffer_string(out, name);
	buffer_string(out, "_t;\n\n");
}

void ctf_describe_trace(struct buffer *out, const uint8_t uuid[CTF_UUID_BYTES],
	const struct ctf_description *description, const struct ctf_line lines[CTF_CLOCKS])
{
	static const char *const sizes[] = {"8", "16", "32", "64"};

	buffer_string(out, "/* CTF 1.8 */\n\n");
	for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		buffer_string(out, "typealias integer { size = ");
		buffer_string(out, sizes[i / 2]);
		buffer_string(out, i % 2 ? "; align = 8; signed = true; } := int"
					 : "; align = 8; signed = false; } := uint");
		buffer_string(out, sizes[i / 2]);
		buffer_string(out, "_t;\n");
	}
	buffer_string(out,
		"typealias integer { size = 8; align = 8; signed = false; base = 16; } := byte_t;\n"
		"typealias integer { size = 64; align = 8; signed = false; base = 16; } := "
		"address_t;\n"
		"typealias integer { size = 8; align = 8; signed = false; encoding = UTF8; } := "
		"char_t;\n"
		"typealias integer { size = 30; align = 8; signed = false; } := length_t;\n"
		"typealias integer { size = 1; align = 1; signed = false; } := bit_t;\n"
		"typealias floating_point { exp_dig = 8; mant_dig = 24; align = 8; } := "
		"float32_t;\n"
		"typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := "
		"float64_t;\n"
		"\ntrace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"");
	for (size_t i = 0; i < CTF_UUID_BYTES; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			buffer_char(out, '-');
		buffer_hex_bytes(out, &uuid[i], 1);
	}
	buffer_string(out, "\";\n"
			   "\tbyte_order = le;\n"
			   "\tpacket.header := struct {\n"
			   "\t\tuint32_t magic;\n"
			   "\t\tuint8_t uuid[16];\n"
			   "\t\tuint32_t stream_id;\n"
			   "\t};\n};\n\n");
	environment(out);
	buffer_string(out, "clock {\n"
			   "\tname = \"realtime\";\n"
			   "\tdescription = \"CLOCK_REALTIME\";\n"
			   "\tfreq = 1000000000;\n"
			   "\toffset_s = ");
	buffer_unsigned(out, description->base_s);
	buffer_string(out, ";\n\toffset = 0;\n"
			   "\tabsolute = TRUE;\n};\n\n"
			   "typealias integer {\n"
			   "\tsize = 64; align = 8; signed = false; map = clock.realtime.value;\n"
			   "} := time_t;\n\n"
			   "stream {\n"
			   "\tid = 0;\n"
			   "\tpacket.context := struct {\n"
			   "\t\ttime_t timestamp_begin;\n"
			   "\t\ttime_t timestamp_end;\n"
			   "\t\tuint64_t content_size;\n"
			   "\t\tuint64_t packet_size;\n"
			   "\t\tuint64_t packet_seq_num;\n"
			   "\t\tuint64_t events_discarded;\n"
			   "\t\tuint32_t cpu_id;\n"
			   "\t};\n"
			   "\tevent.header := struct {\n"
			   "\t\tuint32_t id;\n"
			   "\t\ttime_t timestamp;\n"
			   "\t};\n"
			   "\tevent.context := struct {\n"
			   "\t\tint32_t pid;\n"
			   "\t\tint32_t tid;\n"
			   "\t\tstring { encoding = UTF8; } comm;\n");
	if (description->stacks)
		buffer_string(out, stack_context);
	buffer_string(out, "\t};\n};\n\n");
	if (description->stacks)
		frame_class(out);
	if (description->has_clock[CTF_CLOCK_COUNTER])
		counter_clock(out, "counter", "the processor's time stamp counter",
			&lines[CTF_CLOCK_COUNTER]);
	if (description->has_clock[CTF_CLOCK_MONOTONIC])
		counter_clock(out, "monotonic", "CLOCK_MONOTONIC", &lines[CTF_CLOCK_MONOTONIC]);
}

enum { NAME_BYTES = 16 };

/* Writes a member of a structure: a type, and a name with a suffix. */
static void member(struct buffer *out, const char *type, const char *arg, const char *suffix)
{
	buffer_string(out, "\t\t");
	buffer_string(out, type);
	buffer_char(out, ' ');
	buffer_string(out, arg);
	buffer_string(out, suffix);
	buffer_string(out, ";\n");
}

static void describe_arg(struct buffer *out, const char *arg, uint8_t code)
{
	static const char *const kinds[] = {[CTF_SIGNED] = "int",
		[CTF_UNSIGNED] = "uint",
		[CTF_FLOAT] = "float",
		[CTF_TEXT] = "uint",
		[CTF_KNOWN] = "uint"};
	unsigned int kind = code & 7;
	char text[40];

	if (kind < sizeof(kinds) / sizeof(kinds[0]) && kinds[kind]) {
		snprintf(text, sizeof(text), "%s%u_t", kinds[kind], 8U * (code >> CTF_SIZE_SHIFT));
		member(out, text, arg, "");
	}
	if (kind == CTF_UNREADABLE)
		member(out, "enum : uint8_t { unreadable = 0 }", arg, "");
	if (kind == CTF_TEXT || kind == CTF_KNOWN || kind == CTF_STRING)
		member(out, "string { encoding = UTF8; }", arg,
			kind == CTF_TEXT    ? "_text"
			: kind == CTF_KNOWN ? "_string"
					    : "");
	if (kind == CTF_BYTES) {
		member(out, "uint32_t", arg, "_length");
		snprintf(text, sizeof(text), "[%s_length]", arg);
		member(out, "byte_t", arg, text);
	}
	if (code & CTF_TRUNCATED)
		member(out, "uint8_t", arg, "_truncated");
}

void ctf_describe_class(struct buffer *out, const struct ctf_class *class, uint32_t id)
{
	buffer_string(out, "event {\n\tname = \"");
	buffer_c_escaped(out, class->provider, strlen(class->provider), '"');
	buffer_char(out, ':');
	buffer_c_escaped(out, class->name, strlen(class->name), '"');
	buffer_string(out, "\";\n\tid = ");
	buffer_unsigned(out, id);
	buffer_string(out, ";\n\tstream_id = 0;\n\tmodel.emf.uri = ");
	quoted(out, class->path);
	buffer_string(out, ";\n\tfields := struct {\n");
	for (size_t i = 0; i < class->arg_count; i++) {
		char name[NAME_BYTES];
		size_t first = 0;

		while (class->numbers[first] != class->numbers[i])
			first++;
		/* An argument may be recorded both as a number and as a string. */
		if (first < i)
			snprintf(name, NAME_BYTES, "arg%u_%zu", class->numbers[i], i);
		else
			snprintf(name, NAME_BYTES, "arg%u", class->numbers[i]);
		describe_arg(out, name, class->codes[i]);
	}
	buffer_string(out, "\t};\n};\n\n");
}

/* ==== System events =========================================================================== */

const char system_event_provider[] = "posix_trace";
/* XSH 2.11.2, tables of system trace events and of the user trace event. */
const char *const system_event_names[PROBE_STREAM_UNNAMED + 1] = {
	[PROBE_STREAM_ERROR] = "error",
	[PROBE_STREAM_START] = "start",
	[PROBE_STREAM_STOP] = "stop",
	[PROBE_STREAM_FILTER] = "filter",
	[PROBE_STREAM_OVERFLOW] = "overflow",
	[PROBE_STREAM_RESUME] = "resume",
	[PROBE_STREAM_FLUSH_START] = "flush_start",
	[PROBE_STREAM_FLUSH_STOP] = "flush_stop",
	[PROBE_STREAM_UNNAMED] = "unnamed_userevent",
};

uint32_t system_event_type(const char *provider, const char *name)
{
	uint32_t type = 0;

	if (strcmp(provider, system_event_provider) != 0)
		return PROBE_STREAM_SYSTEM_TYPES;
	while (type < PROBE_STREAM_SYSTEM_TYPES && strcmp(name, system_event_names[type]) != 0)
		type++;
	return type;
}

bool system_event_is(const struct probe_event *event)
{
	return event->kind == PROBE_EVENT_HIT && event->tid == 0 &&
	       system_event_type(event->provider, event->name) != PROBE_STREAM_SYSTEM_TYPES;
}
