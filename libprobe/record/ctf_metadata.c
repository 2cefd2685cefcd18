/* SPDX-License-Identifier: MIT */
/*
 * Writes the metadata in TSDL, the language of CTF 1.8.
 *
 * A probe has a class of events for each way of encoding its arguments. The class says which
 * arguments were unreadable, and gives the types and sizes of the others, so events need no tags.
 */
#include <ctype.h>
#include <inttypes.h>
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

/* Writes a member of a structure: a type, and a name with what is around it. */
static void member(struct buffer *out, const char *type, const char *before, const char *name,
	const char *after)
{
	buffer_print(out, "\t\t%s %s%s%s;\n", type, before, name, after);
}

/* Opens the context of a stream's packets, whose times have this type. */
static void packet_context(struct buffer *out, const char *time)
{
	buffer_string(out, ";\n\tpacket.context := struct {\n");
	member(out, time, "", "timestamp_begin", "");
	member(out, time, "", "timestamp_end", "");
	buffer_string(out, "\t\tuint64_t content_size;\n"
			   "\t\tuint64_t packet_size;\n"
			   "\t\tuint64_t packet_seq_num;\n"
			   "\t\tuint64_t events_discarded;\n"
			   "\t\tuint32_t cpu_id;\n");
}

static void event_begin(
	struct buffer *out, const char *provider, const char *name, uint32_t stream, uint32_t id)
{
	buffer_string(out, "event {\n\tname = \"");
	buffer_c_escaped(out, provider, strlen(provider), '"');
	buffer_char(out, ':');
	buffer_c_escaped(out, name, strlen(name), '"');
	buffer_print(out, "\";\n\tid = %" PRIu32 ";\n\tstream_id = %" PRIu32 ";\n", id, stream);
}

static void environment(struct buffer *out)
{
	struct utsname host;
	const char *const values[][2] = {{"hostname", host.nodename}, {"sysname", host.sysname},
		{"release", host.release}, {"machine", host.machine}};

	buffer_string(out, "env {\n\ttracer_name = \"probectl\";\n\ttracer_version = ");
	quoted(out, PROBE_VERSION);
	for (size_t i = 0; uname(&host) == 0 && i < 4; i++) {
		buffer_print(out, ";\n\t%s = ", values[i][0]);
		quoted(out, values[i][1]);
	}
	buffer_string(out, ";\n};\n\n");
}

/* The field names of LTTng's context callstack_user, which readers know. */
static const char stack_context[] = "\t\tenum : uint8_t { whole = 0, truncated = 1, unknown = 2 } "
				    "callstack_end;\n"
				    "\t\tuint32_t __callstack_user_length;\n"
				    "\t\taddress_t _callstack_user[__callstack_user_length];\n";

/* Describes a clock of stubs, and the types of its times. */
static void counter_clock(
	struct buffer *out, const char *name, const char *description, const struct ctf_line *line)
{
	buffer_print(out,
		"clock {\n\tname = \"%s\";\n\tdescription = \"%s\";\n\tfreq = %" PRIu64
		";\n\toffset_s = %" PRId64 ";\n\toffset = %" PRIu64 ";\n\tabsolute = TRUE;\n};\n\n"
		"typealias integer {\n"
		"\tsize = 64; align = 32; signed = false; map = clock.%s.value;\n} := %s_t;\n\n",
		name, description, line->frequency, line->offset_s, line->offset, name, name);
}

void ctf_describe_trace(struct buffer *out, const uint8_t uuid[CTF_UUID_BYTES],
	const struct ctf_description *description, const struct ctf_line lines[CTF_CLOCKS])
{
	static const char *const sizes[] = {"8", "16", "32", "64"};

	buffer_string(out, "/* CTF 1.8 */\n\n");
	for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		buffer_print(out, "typealias integer { size = %s; align = 8; signed = %s%s_t;\n",
			sizes[i / 2], i % 2 ? "true; } := int" : "false; } := uint", sizes[i / 2]);
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
	buffer_print(out,
		"clock {\n"
		"\tname = \"realtime\";\n"
		"\tdescription = \"CLOCK_REALTIME\";\n"
		"\tfreq = 1000000000;\n"
		"\toffset_s = %" PRIu64 ";\n\toffset = 0;\n"
		"\tabsolute = TRUE;\n};\n\n"
		"typealias integer {\n"
		"\tsize = 64; align = 8; signed = false; map = clock.realtime.value;\n"
		"} := time_t;\n\n"
		"stream {\n"
		"\tid = 0",
		description->base_s);
	packet_context(out, "time_t");
	buffer_string(out, "\t};\n"
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
	if (description->stacks) {
		/* Names an address for the rest of a stream; CTF_UNKNOWN or 0 if unknown. */
		event_begin(out, "probectl", "frame", 0, CTF_FRAME_ID);
		buffer_string(out, "\tfields := struct {\n"
				   "\t\taddress_t ip;\n"
				   "\t\tstring { encoding = UTF8; } module;\n"
				   "\t\tstring { encoding = UTF8; } symbol;\n"
				   "\t\taddress_t offset;\n"
				   "\t\taddress_t function;\n"
				   "\t\tstring { encoding = UTF8; } file;\n"
				   "\t\tuint32_t line;\n"
				   "\t};\n};\n\n");
	}
	if (description->has_clock[CTF_CLOCK_COUNTER])
		counter_clock(out, "counter", "the processor's time stamp counter",
			&lines[CTF_CLOCK_COUNTER]);
	if (description->has_clock[CTF_CLOCK_MONOTONIC])
		counter_clock(out, "monotonic", "CLOCK_MONOTONIC", &lines[CTF_CLOCK_MONOTONIC]);
}

enum { LABEL_MAX = 100, NAME_BYTES = LABEL_MAX + 40, BITS = 8 };

char *ctf_labels(const struct probe_session_probe *probe, size_t count)
{
	const struct probe_meaning *meaning = probe->meaning;
	struct buffer out = {0};
	size_t used = 0;

	for (size_t i = 0; meaning && i < count && i < PROBE_ARGS_MAX; i++) {
		const struct probe_arg_meaning *arg =
			probe->args[i] < meaning->arg_count ? &meaning->args[probe->args[i]] : NULL;

		for (const char *at = arg && arg->place ? arg->name : ""; *at; at++)
			buffer_char(&out, isalnum((unsigned char)*at) ? *at : '_');
		used = arg && arg->place ? out.length : used;
		buffer_char(&out, ',');
	}
	out.length = used;
	return buffer_take(&out, NULL);
}

/*
 * Writes the name of a value: argN for the probe's argument N; argN_PLACE the second time;
 * LABEL_argN_PLACE for a member of a structure; CTF_FRAME for the address of a function's frame.
 */
static void name_value(
	const char *labels, unsigned int number, size_t place, bool again, char ret[NAME_BYTES])
{
	size_t length;

	for (size_t i = 0; i < place && *labels; i++)
		labels += strcspn(labels, ",") + 1;
	length = strcspn(labels, ",");
	if (number == RECORD_LAYOUT_FRAME)
		snprintf(ret, NAME_BYTES, CTF_FRAME);
	else if (length)
		snprintf(ret, NAME_BYTES, "%.*s_arg%u_%zu",
			length < LABEL_MAX ? (int)length : LABEL_MAX, labels, number, place);
	else if (again)
		snprintf(ret, NAME_BYTES, "arg%u_%zu", number, place);
	else
		snprintf(ret, NAME_BYTES, "arg%u", number);
}

static void describe_arg(struct buffer *out, const char *arg, uint8_t code)
{
	static const char *const kinds[] = {[CTF_SIGNED] = "int",
		[CTF_UNSIGNED] = "uint",
		[CTF_FLOAT] = "float",
		[CTF_TEXT] = "uint",
		[CTF_KNOWN] = "uint"};
	unsigned int kind = code & 7;
	char text[NAME_BYTES + 16];

	if (kind < sizeof(kinds) / sizeof(kinds[0]) && kinds[kind]) {
		snprintf(text, sizeof(text), "%s%u_t", kinds[kind], 8U * (code >> CTF_SIZE_SHIFT));
		member(out, text, "", arg, "");
	}
	if (kind == CTF_UNREADABLE)
		member(out, "enum : uint8_t { unreadable = 0 }", "", arg, "");
	if (kind == CTF_TEXT || kind == CTF_KNOWN || kind == CTF_STRING)
		member(out, "string { encoding = UTF8; }", "", arg,
			kind == CTF_TEXT    ? "_text"
			: kind == CTF_KNOWN ? "_string"
					    : "");
	if (kind == CTF_BYTES) {
		member(out, "uint32_t", "", arg, "_length");
		snprintf(text, sizeof(text), "[%s_length]", arg);
		member(out, "byte_t", "", arg, text);
	}
	if (code & CTF_TRUNCATED)
		member(out, "uint8_t", "", arg, "_truncated");
}

void ctf_describe_class(struct buffer *out, const struct ctf_class *class, uint32_t id)
{
	event_begin(out, class->provider, class->name, 0, id);
	buffer_string(out, "\tmodel.emf.uri = ");
	quoted(out, class->path);
	buffer_string(out, ";\n\tfields := struct {\n");
	for (size_t i = 0; i < class->arg_count; i++) {
		char name[NAME_BYTES];
		size_t first = 0;

		while (class->numbers[first] != class->numbers[i])
			first++;
		/* An argument may be recorded both as a number and as a string. */
		name_value(class->labels, class->numbers[i], i, first < i, name);
		describe_arg(out, name, class->codes[i]);
	}
	buffer_string(out, "\t};\n};\n\n");
}

/* ==== Descriptions of kinds in TSDL =========================================================== */

/*
 * The description of ring bytes in TSDL: records as stubs write them (docs/ring.md). Numbers and
 * lengths come first; then, at sites with a mask, a bit for each capture that could be read; then
 * the bytes of strings and aggregates.
 */

void ctf_describe_kind(struct buffer *out, uint32_t kind, enum ctf_clock_id clock)
{
	static const char *const times[] = {
		[CTF_CLOCK_COUNTER] = "counter_t", [CTF_CLOCK_MONOTONIC] = "monotonic_t"};

	buffer_print(out, "stream {\n\tid = %" PRIu32, kind);
	packet_context(out, times[clock]);
	buffer_string(out, "\t\tint32_t pid;\n"
			   "\t};\n"
			   "\tevent.header := struct {\n");
	member(out, times[clock], "", "timestamp", "");
	buffer_string(out, "\t\tuint32_t id;\n"
			   "\t};\n"
			   "\tevent.context := struct {\n"
			   "\t\tinteger { size = 31; align = 8; signed = false; } tid;\n"
			   "\t\tbit_t child;\n"
			   "\t};\n"
			   "};\n\n");
	event_begin(out, "probectl", "thread", kind, CTF_THREAD_ID);
	buffer_string(out, "\tfields := struct {\n"
			   "\t\tint32_t pid;\n"
			   "\t\tint32_t tid;\n"
			   "\t\tstring { encoding = UTF8; } comm;\n"
			   "\t};\n};\n\n");
}

static void name_field(const struct ctf_kind_site *site, size_t index, char ret[NAME_BYTES])
{
	const struct ctf_form *form = &site->form;
	const struct ctf_field *field = &form->fields[index];
	const char *suffix = (field->code & 7) == CTF_TEXT    ? "_text"
			     : (field->code & 7) == CTF_KNOWN ? "_string"
							      : "";
	bool again = false;

	for (size_t i = 0; i < index; i++)
		again |= form->fields[i].number == field->number &&
			 form->fields[i].place != field->place;
	name_value(site->labels, field->number, field->place, again, ret);
	strcat(ret, suffix);
}

static void fixed_part(struct buffer *out, const char *name, uint8_t code)
{
	static const char *const kinds[] = {
		[CTF_SIGNED] = "int", [CTF_UNSIGNED] = "uint", [CTF_FLOAT] = "float"};
	char type[NAME_BYTES];

	switch (code & 7) {
	case CTF_UNREADABLE:
		member(out, "struct { }", "", name, "");
		break;
	case CTF_SIGNED:
	case CTF_UNSIGNED:
	case CTF_FLOAT:
		snprintf(type, sizeof(type), "%s%u_t", kinds[code & 7],
			BITS * (unsigned int)(code >> CTF_SIZE_SHIFT));
		member(out, type, "", name, "");
		break;
	default:
		member(out, "length_t", "_", name, "_length");
		member(out, "bit_t", "", name, "_truncated");
		member(out, "bit_t", "", name, "_unreadable");
		break;
	}
}

/* A bit for each capture, padded to whole bytes. */
static void mask(struct buffer *out, const struct ctf_kind_site *site)
{
	const struct ctf_form *form = &site->form;
	unsigned int unused = BITS * ring_mask_bytes(form->captures) - form->captures;
	const char *type = "integer { size = 1; align = 8; signed = false; }";
	char name[NAME_BYTES], rest[64];

	for (size_t i = 0; i < form->count; i++) {
		if ((form->fields[i].code & 7) == CTF_UNREADABLE)
			continue;
		name_field(site, i, name);
		member(out, type, "", name, "_readable");
		type = "bit_t";
	}
	snprintf(rest, sizeof(rest), "integer { size = %u; align = 1; signed = false; }", unused);
	if (unused)
		member(out, rest, "_", "unused", "");
}

void ctf_describe_site(
	struct buffer *out, uint32_t kind, uint32_t number, const struct ctf_kind_site *site)
{
	const struct ctf_form *form = &site->form;
	char name[NAME_BYTES], length[2 * NAME_BYTES];

	event_begin(out, site->provider, site->name, kind, number);
	buffer_string(out, "\tmodel.emf.uri = ");
	quoted(out, site->path);
	buffer_string(out, ";\n\tfields := struct {\n");
	for (size_t i = 0; i < form->count; i++) {
		name_field(site, i, name);
		fixed_part(out, name, form->fields[i].code);
	}
	if (form->captures)
		mask(out, site);
	for (size_t i = 0; i < form->count; i++) {
		unsigned int code = form->fields[i].code & 7;

		name_field(site, i, name);
		snprintf(length, sizeof(length), "[_%s_length]", name);
		if (code == CTF_BYTES)
			member(out, "byte_t", "", name, length);
		else if (code == CTF_STRING || code == CTF_TEXT || code == CTF_KNOWN)
			member(out, "char_t", "", name, length);
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
