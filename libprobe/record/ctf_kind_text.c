/* SPDX-License-Identifier: MIT */
/*
 * The bytes of rings in TSDL: records as stubs write them (docs/ring.md). First come the numbers,
 * and for strings and aggregates how many bytes they have; then a bit for each of them that could
 * be read, if a site has such bits; then the bytes.
 */
#include <stdio.h>
#include <string.h>

#include "libprobe/record/record.h"

enum { NAME_BYTES = 24, BITS = 8 };

static void event_begin(
	struct buffer *out, const char *provider, const char *name, uint32_t kind, uint32_t id)
{
	buffer_string(out, "event {\n\tname = \"");
	buffer_c_escaped(out, provider, strlen(provider), '"');
	buffer_char(out, ':');
	buffer_c_escaped(out, name, strlen(name), '"');
	buffer_string(out, "\";\n\tid = ");
	buffer_unsigned(out, id);
	buffer_string(out, ";\n\tstream_id = ");
	buffer_unsigned(out, kind);
	buffer_string(out, ";\n");
}

void ctf_describe_kind(struct buffer *out, uint32_t kind, enum ctf_clock_id clock)
{
	static const char *const times[] = {
		[CTF_CLOCK_COUNTER] = "counter_t ", [CTF_CLOCK_MONOTONIC] = "monotonic_t "};

	buffer_string(out, "stream {\n\tid = ");
	buffer_unsigned(out, kind);
	buffer_string(out, ";\n\tpacket.context := struct {\n\t\t");
	buffer_string(out, times[clock]);
	buffer_string(out, "timestamp_begin;\n\t\t");
	buffer_string(out, times[clock]);
	buffer_string(out, "timestamp_end;\n"
			   "\t\tuint64_t content_size;\n"
			   "\t\tuint64_t packet_size;\n"
			   "\t\tuint64_t packet_seq_num;\n"
			   "\t\tuint64_t events_discarded;\n"
			   "\t\tuint32_t cpu_id;\n"
			   "\t\tint32_t pid;\n"
			   "\t};\n"
			   "\tevent.header := struct {\n\t\t");
	buffer_string(out, times[clock]);
	buffer_string(out, "timestamp;\n"
			   "\t\tuint32_t id;\n"
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

/* argN, as the probe has it; of one that was asked for twice, the second is argN_PLACE. */
static void name_field(const struct ctf_form *form, size_t index, char ret[NAME_BYTES])
{
	const struct ctf_field *field = &form->fields[index];
	const char *suffix = (field->code & 7) == CTF_TEXT    ? "_text"
			     : (field->code & 7) == CTF_KNOWN ? "_string"
							      : "";
	bool again = false;

	for (size_t i = 0; i < index; i++)
		again |= form->fields[i].number == field->number &&
			 form->fields[i].place != field->place;
	if (again)
		snprintf(ret, NAME_BYTES, "arg%u_%u%s", field->number, field->place, suffix);
	else
		snprintf(ret, NAME_BYTES, "arg%u%s", field->number, suffix);
}

static void member(struct buffer *out, const char *type, const char *before, const char *name,
	const char *after)
{
	buffer_string(out, "\t\t");
	buffer_string(out, type);
	buffer_char(out, ' ');
	buffer_string(out, before);
	buffer_string(out, name);
	buffer_string(out, after);
	buffer_string(out, ";\n");
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

/* A bit for each capture, the first one at a new byte, in whole bytes. */
static void mask(struct buffer *out, const struct ctf_form *form)
{
	unsigned int unused = BITS * ring_mask_bytes(form->captures) - form->captures;
	const char *type = "integer { size = 1; align = 8; signed = false; }";
	char name[NAME_BYTES], rest[64];

	for (size_t i = 0; i < form->count; i++) {
		if ((form->fields[i].code & 7) == CTF_UNREADABLE)
			continue;
		name_field(form, i, name);
		member(out, type, "", name, "_readable");
		type = "bit_t";
	}
	snprintf(rest, sizeof(rest), "integer { size = %u; align = 1; signed = false; }", unused);
	if (unused)
		member(out, rest, "_", "unused", "");
}

static void bytes(struct buffer *out, const char *name, uint8_t code)
{
	char length[2 * NAME_BYTES];

	snprintf(length, sizeof(length), "[_%s_length]", name);
	switch (code & 7) {
	case CTF_STRING:
	case CTF_TEXT:
	case CTF_KNOWN:
		member(out, "char_t", "", name, length);
		break;
	case CTF_BYTES:
		member(out, "byte_t", "", name, length);
		break;
	}
}

void ctf_describe_site(
	struct buffer *out, uint32_t kind, uint32_t number, const struct ctf_kind_site *site)
{
	const struct ctf_form *form = &site->form;
	char name[NAME_BYTES];

	event_begin(out, site->provider, site->name, kind, number);
	buffer_string(out, "\tmodel.emf.uri = \"");
	buffer_c_escaped(out, site->path, strlen(site->path), '"');
	buffer_string(out, "\";\n\tfields := struct {\n");
	for (size_t i = 0; i < form->count; i++) {
		name_field(form, i, name);
		fixed_part(out, name, form->fields[i].code);
	}
	if (form->captures)
		mask(out, form);
	for (size_t i = 0; i < form->count; i++) {
		name_field(form, i, name);
		bytes(out, name, form->fields[i].code);
	}
	buffer_string(out, "\t};\n};\n\n");
}
