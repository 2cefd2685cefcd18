/* SPDX-License-Identifier: MIT */
/*
 * Our own records with any bytes in their streams: which metadata they have (a byte; its lowest bit
 * counts), the length of the first stream (2 bytes), and two streams.
 *
 * To parse the metadata would take longer than all else. So it is done once for each, and the
 * linker leads these calls here (--wrap, see the Makefile).
 */
#include "libprobe/record/record.h"
#include "tests/fuzz/record.h"
#include "tests/unit/record/ring_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char first_metadata[] =
	"typealias integer { size = 8; align = 8; } := uint8_t;\n"
	"typealias integer { size = 32; align = 8; } := uint32_t;\n"
	"typealias integer { size = 32; align = 8; signed = true; } := int32_t;\n"
	"typealias integer { size = 64; align = 8; } := uint64_t;\n"
	"trace { major = 1; minor = 8; byte_order = le;\n"
	"	packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; "
	"};\n"
	"};\n"
	"env { tracer_name = \"probectl\"; };\n"
	"clock { name = \"realtime\"; offset_s = 1; };\n"
	"typealias integer { size = 64; align = 8; map = clock.realtime.value; } := time_t;\n"
	"stream { id = 0;\n"
	"	packet.context := struct { time_t timestamp_begin; time_t timestamp_end;\n"
	"		uint64_t content_size; uint64_t packet_size; uint64_t packet_seq_num;\n"
	"		uint64_t events_discarded; uint32_t cpu_id; };\n"
	"	event.header := struct { uint32_t id; time_t timestamp; };\n"
	"	event.context := struct { int32_t pid; int32_t tid; string comm;\n"
	"		enum : uint8_t { whole = 0, truncated = 1, unknown = 2 } callstack_end;\n"
	"		uint32_t __callstack_user_length;\n"
	"		uint64_t _callstack_user[__callstack_user_length]; };\n"
	"};\n"
	"event { name = \"probectl:frame\"; id = 4294967295; stream_id = 0;\n"
	"	fields := struct { uint64_t ip; string module; string symbol; uint64_t offset;\n"
	"		uint64_t function; string file; uint32_t line; };\n"
	"};\n"
	"event { name = \"p:n\"; id = 0; stream_id = 0;\n"
	"	fields := struct { uint64_t arg0; string arg0_text; uint8_t arg0_truncated;\n"
	"		enum : uint8_t { unreadable = 0 } arg1; string arg2;\n"
	"		uint32_t arg3_length; uint8_t arg3[arg3_length]; };\n"
	"};\n";

static const struct {
	const char *text;
	size_t length;
} metadata[] = {
	{ring_metadata, sizeof(ring_metadata) - 1}, {first_metadata, sizeof(first_metadata) - 1}};

static struct own_trace traces[2];

struct probe_error *__real_tsdl_parse(const char *text, size_t length, struct tsdl *ret);
struct probe_error *__wrap_tsdl_parse(const char *text, size_t length, struct tsdl *ret);
struct probe_error *__wrap_own_trace_compile(const struct tsdl *tsdl, struct own_trace *ret);
void __wrap_own_trace_free(struct own_trace *trace);
struct probe_error *__real_own_trace_compile(const struct tsdl *tsdl, struct own_trace *ret);

struct probe_error *__wrap_tsdl_parse(const char *text, size_t length, struct tsdl *ret)
{
	(void)text;
	(void)length;
	*ret = (struct tsdl){0};
	return NULL;
}

/* The metadata is only a byte: which it is. */
struct probe_error *__wrap_own_trace_compile(const struct tsdl *tsdl, struct own_trace *ret)
{
	(void)tsdl;
	*ret = traces[files[METADATA].bytes[0] & 1];
	return NULL;
}

void __wrap_own_trace_free(struct own_trace *trace)
{
	(void)trace;
}

static void parse_all(void)
{
	for (size_t i = 0; i < 2; i++) {
		struct tsdl tsdl;

		require(!__real_tsdl_parse(metadata[i].text, metadata[i].length, &tsdl) &&
				!__real_own_trace_compile(&tsdl, &traces[i]),
			"the metadata is not understood");
		tsdl_free(&tsdl);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t length;

	if (size < 3)
		return 0;
	if (!traces[0].streams)
		parse_all();
	length = (size_t)data[1] | (size_t)data[2] << 8;
	put(METADATA, data, 1);
	data += 3;
	size -= 3;
	length = length < size ? length : size;
	put(STREAM, data, length);
	put(OTHER_STREAM, data + length, size - length);
	read_record();
	return 0;
}
