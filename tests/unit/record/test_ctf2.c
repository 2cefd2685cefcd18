/* SPDX-License-Identifier: MIT */
/*
 * CTF 2's metadata: what is written is read back as it was, and what is refused, with the line.
 * tests/integration/record/ctf2.sh compares it with the specification.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/record/ctf2.h"
#include "tests/unit/record/ring_record.h"

static void refused_part(const char *text, size_t length, const char *why)
{
	struct tsdl tsdl;
	struct probe_error *error = ctf2_parse(text, length, &tsdl);

	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_FORMAT);
	assert_string_equal(error->message, why);
	probe_error_free(error);
	tsdl_free(&tsdl);
}

static void refused(const char *text, const char *why)
{
	refused_part(text, strlen(text), why);
}

/* The language of CTF 1.8 has no more to say than that of CTF 2. */
static void test_there_and_back(void **state)
{
	struct buffer first, second;
	struct tsdl tsdl;

	(void)state;
	assert_true(buffer_init(&first) && buffer_init(&second));
	assert_null(tsdl_parse(ring_metadata, sizeof(ring_metadata) - 1, &tsdl));
	ctf2_write(&first, &tsdl);
	tsdl_free(&tsdl);
	assert_null(ctf2_parse(first.data, first.length, &tsdl));
	assert_string_equal(tsdl.tracer_version, "0.1.0");
	assert_int_equal(tsdl.uuid[15], 15);
	ctf2_write(&second, &tsdl);
	tsdl_free(&tsdl);
	assert_int_equal(first.length, second.length);
	assert_memory_equal(first.data, second.data, first.length);
	buffer_deinit(&first);
	buffer_deinit(&second);
}

#define PREAMBLE "\x1e{\"type\":\"preamble\",\"version\":2}\n"
#define STREAM_OF(class)                                                                           \
	PREAMBLE "\x1e{\"type\":\"data-stream-class\",\"packet-context-field-class\":"             \
		 "{\"type\":\"structure\",\"member-classes\":[{\"name\":\"a\",\"field-"            \
		 "class\":" class "}]}}\n"
#define UNSIGNED "\"type\":\"fixed-length-unsigned-integer\",\"byte-order\":\"little-endian\""

/* A field, and its only class. */
static const struct tsdl_field *field_of(const char *text, struct tsdl *tsdl)
{
	assert_null(ctf2_parse(text, strlen(text), tsdl));
	assert_int_equal(tsdl->streams->packet_context->field_count, 1);
	return &tsdl->streams->packet_context->fields[0];
}

static void test_fields(void **state)
{
	const struct tsdl_field *field;
	struct tsdl tsdl;

	(void)state;
	field = field_of(STREAM_OF("{" UNSIGNED ",\"length\":7,\"alignment\":4,"
				   "\"roles\":[\"other\",\"packet-total-length\"],"
				   "\"mappings\":{\"unreadable\":[[-3,5]]}}"),
		&tsdl);
	assert_string_equal(field->name, "packet_size");
	assert_int_equal(field->type->size, 7);
	assert_int_equal(field->type->align, 4);
	assert_true(field->type->is_unreadable);
	assert_int_equal(field->type->labels->first, -3);
	assert_int_equal(field->type->labels->last, 5);
	tsdl_free(&tsdl);
	/* A label more, or a range more, and it means something else. */
	field = field_of(STREAM_OF("{" UNSIGNED ",\"length\":8,"
				   "\"mappings\":{\"unreadable\":[[0,0],[2,2]]}}"),
		&tsdl);
	assert_false(field->type->is_unreadable);
	tsdl_free(&tsdl);
	field = field_of(STREAM_OF(" { \"\\u0074ype\" : \"dynamic-length-string\", \"x\": [ {} , "
				   "[ ] , null , -1.5e3 , true , 99999999999999999999 ] ,"
				   "\"length-field-location\":{\"path\":[\"\\u00e9\\ud83d\\ude00\\"
				   "n\"]}}"),
		&tsdl);
	assert_int_equal(field->type->kind, TSDL_SEQUENCE);
	assert_true(field->type->element->is_text);
	assert_string_equal(field->type->length_name, "\xc3\xa9\xf0\x9f\x98\x80\n");
	tsdl_free(&tsdl);
}

static void test_refused_text(void **state)
{
	(void)state;
	refused("x", "line 1: a text does not begin with a record separator");
	refused("\x1e", "line 1: there is no value");
	refused("\x1e{", "line 1: there is no string");
	refused("\x1e{\"a\"}", "line 1: there is no :");
	refused("\x1e{\"a\":1 \"b\":2}", "line 1: there is no ,");
	refused("\x1e[1,\n2", "line 2: there is no ,");
	refused("\x1e\"a", "line 1: a string does not end");
	refused("\x1e\"a\\", "line 1: a string does not end");
	refused("\x1e\"a\nb\"", "line 1: a string has a control character in it");
	refused("\x1e\"\\u0000\"", "line 1: a string has a NUL in it");
	refused("\x1e\"\\u12\"", "line 1: a character's number is malformed");
	refused("\x1e\"\\udc00\"", "line 1: a character is half of one");
	refused("\x1e\"\\ud800\\u0041\"", "line 1: a character is half of one");
	refused("\x1e[[[[[[[[[[[[[[[[[", "line 1: values are nested too deeply");
	/* Nothing behind the end is looked at. */
	refused_part("\x1e-", 1, "line 1: there is no value");
	refused(PREAMBLE "{}", "line 2: a text does not begin with a record separator");
}

static void test_refused_fragments(void **state)
{
	(void)state;
	refused("\x1e{}\n", "line 1: the preamble is not the first text, and the only one");
	refused(PREAMBLE PREAMBLE, "line 2: the preamble is not the first text, and the only one");
	refused("\x1e{\"type\":\"preamble\",\"version\":3}\n",
		"line 1: it is not of version 2 of the Common Trace Format");
	refused("\x1e{\"type\":\"preamble\",\"version\":2,\"extensions\":{\"a\":1}}\n",
		"line 1: its extensions are not understood");
	refused("\x1e{\"type\":\"preamble\",\"version\":2,\"uuid\":[1,2]}\n",
		"line 1: the uuid is malformed");
	refused(PREAMBLE "\x1e{\"type\":\"field-class-alias\"}\n",
		"line 2: 'field-class-alias' is not understood");
	refused(PREAMBLE "\x1e{\"type\":\"clock-class\",\"frequency\":1}\n",
		"line 2: a clock does not count from 1970");
	refused(PREAMBLE
		"\x1e{\"type\":\"clock-class\",\"frequency\":0,\"origin\":\"unix-epoch\"}\n",
		"line 2: a clock has no name");
	refused(PREAMBLE "\x1e{\"type\":\"event-record-class\",\"id\":-1}\n",
		"line 2: 'id' is no number");
}

static void test_refused_classes(void **state)
{
	(void)state;
	refused(STREAM_OF("{\"type\":\"variant\"}"),
		"line 2: 'variant' is no type that is understood");
	refused(STREAM_OF("\"u8\""), "line 2: '' is no type that is understood");
	refused(STREAM_OF("{" UNSIGNED ",\"length\":65}"),
		"line 2: an integer has not 1 to 64 bits");
	refused(STREAM_OF("{" UNSIGNED ",\"length\":8,\"alignment\":3}"),
		"line 2: an alignment is no power of two up to 64");
	refused(STREAM_OF("{" UNSIGNED ",\"length\":8,\"bit-order\":\"last-to-first\"}"),
		"line 2: only little-endian is understood");
	refused(STREAM_OF("{" UNSIGNED ",\"length\":8,\"mappings\":{\"a\":[[1]]}}"),
		"line 2: a range is not of two numbers");
	refused(STREAM_OF("{\"type\":\"null-terminated-string\",\"encoding\":\"utf-16le\"}"),
		"line 2: a string is not in UTF-8");
	refused(STREAM_OF("{\"type\":\"dynamic-length-blob\",\"length-field-location\":"
			  "{\"origin\":\"packet-header\",\"path\":[\"a\"]}}"),
		"line 2: a length is not where it is understood");
	refused(STREAM_OF("{\"type\":\"static-length-array\",\"length\":2,"
			  "\"element-field-class\":{\"type\":\"structure\"}}"),
		"line 2: an array is not of numbers");
	refused(STREAM_OF("{\"type\":\"structure\",\"member-classes\":[{}]}"),
		"line 2: structures in structures are not understood");
}

/* An enumeration of so many labels, as TSDL, or as JSON of CTF 2. */
static void write_enumeration(struct buffer *out, int labels, bool is_json)
{
	out->length = 0;
	buffer_string(out, is_json ? PREAMBLE "\x1e{\"type\":\"data-stream-class\","
					      "\"packet-context-field-class\":{\"type\":"
					      "\"structure\",\"member-classes\":[{\"name\":\"a\","
					      "\"field-class\":{" UNSIGNED
					      ",\"length\":8,\"mappings\":{\"a\":["
				   : "typealias enum : integer { size = 8; } {");
	for (int i = 0; i < labels; i++)
		buffer_string(out, is_json ? i ? ",[1,2]" : "[1,2]" : i ? ",a" : "a");
	buffer_string(out, is_json ? "]}}}]}}\n" : "} := e;\n");
}

/* Nobody needs as many as fit into metadata, each of which would take memory. */
static void test_labels(void **state)
{
	static const char why[] = "an enumeration has more than 64 labels";
	struct buffer out;

	(void)state;
	assert_true(buffer_init(&out));
	for (int json = 0; json < 2; json++) {
		for (int labels = TSDL_LABELS_MAX; labels <= TSDL_LABELS_MAX + 1; labels++) {
			struct probe_error *error;
			struct tsdl tsdl;

			write_enumeration(&out, labels, json);
			error = json ? ctf2_parse(out.data, out.length, &tsdl)
				     : tsdl_parse(out.data, out.length, &tsdl);
			if (labels <= TSDL_LABELS_MAX && error)
				fail_msg("%s", error->message);
			assert_int_equal(error != NULL, labels > TSDL_LABELS_MAX);
			if (error)
				assert_non_null(strstr(error->message, why));
			probe_error_free(error);
			tsdl_free(&tsdl);
		}
	}
	buffer_deinit(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_refused_text),
		cmocka_unit_test(test_refused_fragments),
		cmocka_unit_test(test_refused_classes),
		cmocka_unit_test(test_labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
