/* SPDX-License-Identifier: MIT */
#pragma once

#include "libprobe/base/error.h"
#include "libprobe/base/map.h"
#include "probe/reader.h"

/* ---- JSON parser (json.c) -------------------------------------------------------------------- */

/*
 * A parser of JSON (RFC 8259) for untrusted input. It turns a text into a tree without allocating:
 * values are in the parser's array, and strings are decoded in place. Memory and time are bounded
 * by the text's length, which the caller limits, and by the limits below.
 */

enum {
	JSON_DEPTH_MAX = 8,	  /* maximum nesting of arrays and objects */
	JSON_VALUES_MAX = 1 << 16 /* maximum number of values in a text */
};

enum json_kind {
	JSON_NONE,    /* the values null, true and false */
	JSON_INTEGER, /* number without a decimal point or an exponent; clamped if out of range */
	JSON_FLOAT,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT
};

struct json {
	enum json_kind kind;
	bool is_negative; /* the integer is negative */
	/* name if the value is a member of an object, ends with a NUL; else NULL */
	const char *name;
	const struct json *next; /* next value in the same array or object; NULL after the last */
	size_t length; /* length of a string in bytes; number of values in an array or object */
	union {
		uint64_t number; /* absolute value of a JSON_INTEGER; at most 2^63 if negative */
		double real;
		/* string, in UTF-8 if the input is; ends with a NUL and may contain NULs */
		const char *text;
		/* first value of an array or object; NULL if it is empty */
		const struct json *first;
	};
};

struct json_parser {
	struct json *values;
	size_t count;
	char *at, *end;
	unsigned int depth;

	/* Set after an error: */
	const char *why;
	bool is_cut_off; /* the error is that the text ended inside the value */
};

/* Returns false if out of memory. json_parser_deinit() may be called in any case. */
bool json_parser_init(struct json_parser *parser);
void json_parser_deinit(struct json_parser *parser);

/*
 * Parses a value and blanks; parser->at is behind them. text[length] must be a NUL. Modifies the
 * text. The tree is valid until the text is freed or the next call. NULL after an error.
 */
const struct json *json_parse(struct json_parser *parser, char *text, size_t length);

/* Returns the first member of an object with this name, or NULL. */
const struct json *json_find(const struct json *object, const char *name);
/* Like json_find(), but returns NULL if the member is not of this kind. */
const struct json *json_member(const struct json *object, const char *name, enum json_kind kind);

/* ---- Reader ---------------------------------------------------------------------------------- */

/* A source of events: records in CTF (own.c), or hits as JSON (json.c). */
struct reader_ops {
	struct probe_error *(*next)(void *source, struct probe_event *ret, bool *there_ret);
	uint64_t (*read)(void *source); /* bytes read so far; NULL if unknown */
	/* Returns the maximum number of arguments of a hit; SIZE_MAX if unknown. May be NULL. */
	size_t (*args_max)(const void *source);
	void (*close)(void *source);
};

/* ---- Folders of records (folder.c) ------------------------------------------------ */

struct reader_folder {
	const char *path; /* path of the folder as the user gave it; borrowed */
	char **records;	  /* paths of the records' folders, in order */
	size_t count;
	bool one;   /* other records below the folder are not searched for */
	bool parts; /* the records are parts of one record, to be read one after the other */
};

/*
 * Like probe_reader_open(), but with `one` opens only the record that the folder is, or whose parts
 * it holds. Errors: as probe_reader_open().
 */
PROBE_MUST_CHECK struct probe_error *reader_open(
	const char *path, bool one, struct probe_reader **ret);

/* ---- Records (own.c) ---------------------------------------------------------------- */

extern const struct reader_ops reader_own;
/* Opens a folder's records. The folder is borrowed. */
PROBE_MUST_CHECK struct probe_error *reader_own_open(
	const struct reader_folder *folder, void **ret);

/* ---- JSON -------------------------------------------------------------------------- */

extern const struct reader_ops reader_json;
/* Reads JSON from a borrowed descriptor. `name` is for messages. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *reader_json_open(int fd, const char *name, void **ret);

/* ---- Call stacks of records (own.c) -------------------------------------------------- */

/* The names of addresses in each stream, and the last event's stack. */
struct reader_stacks {
	struct map known; /* struct known_frame by stream and address */
	struct probe_stack stack;
	const struct probe_frame *frames[PROBE_FRAMES_MAX];
	struct probe_frame unnamed[PROBE_FRAMES_MAX];
};

/* ---- TSDL (tsdl.c) --------------------------------------------------------------------------- */

/*
 * A parser of metadata in TSDL, the language of CTF 1.8 (https://diamon.org/ctf/v1.8.3, section 7):
 * the subset that probectl writes (ctf_metadata.c), and babeltrace2 when it copies such a record.
 *
 * The rest of TSDL (variants, other byte orders, named structures) is an error, and so are unknown
 * attributes, which might change the bytes' meaning. The metadata of 10,000 sites is some
 * megabytes. Memory and time are in proportion to the text, whatever it says.
 */

enum { TSDL_UUID_BYTES = 16 };

enum tsdl_kind {
	TSDL_INTEGER, /* integer or enumeration */
	TSDL_FLOAT,
	TSDL_STRING,
	TSDL_STRUCT,
	TSDL_ARRAY,   /* array of a fixed length */
	TSDL_SEQUENCE /* array whose length is in an earlier field */
};

/* A clock, whose zero is offset_s seconds and `offset` cycles after 1970. */
struct tsdl_clock {
	const char *name;
	uint64_t freq; /* frequency in cycles per second; not 0 */
	int64_t offset_s;
	uint64_t offset;
	struct tsdl_clock *next;
};

struct tsdl_type;

struct tsdl_field {
	const char *name; /* name of the field without its leading underscore */
	const struct tsdl_type *type;
};

/* Sizes and alignments are in bits. */
struct tsdl_type {
	enum tsdl_kind kind;
	uint32_t align; /* alignment, a power of two up to 64 */
	uint32_t size;	/* size of an integer (1 to 64) or a floating-point number (32 or 64) */
	bool is_signed;
	bool is_text;	    /* the integer has an encoding: it is a character */
	bool is_unreadable; /* the type is an enumeration whose only label is "unreadable" */
	/* name of the clock that the integer counts; NULL if it is not a time */
	const char *clock_name;

	/* Members of arrays and sequences: */
	const struct tsdl_type *element;
	uint64_t length;
	const char *length_name;

	/* Members of structures: */
	struct tsdl_field *fields;
	size_t field_count;
};

/* Types are structures or NULL. Lists are in the metadata's order. */
struct tsdl_stream {
	uint64_t id;
	const struct tsdl_type *packet_context, *event_header, *event_context;
	struct tsdl_stream *next;
};

struct tsdl_event {
	uint64_t id, stream_id;
	const char *name; /* name of the event; may be NULL */
	const struct tsdl_type *context, *fields;
	struct tsdl_event *next;
};

/* Parsed metadata. Owns all that it points to. */
struct tsdl {
	const char *tracer_version; /* version of the tracer, from the "env" block; may be NULL */
	uint8_t uuid[TSDL_UUID_BYTES];
	bool has_uuid;
	const struct tsdl_type *packet_header; /* type of the header of all packets; may be NULL */
	struct tsdl_clock *clocks;
	struct tsdl_stream *streams;
	struct tsdl_event *events;
	void *memory; /* memory of all objects, which tsdl_free() frees */
};

/*
 * Errors: PROBE_ERROR_FORMAT ("line N: ..."), PROBE_ERROR_MEMORY. After an error, *ret has the part
 * before it. The caller always frees *ret.
 */
PROBE_MUST_CHECK struct probe_error *tsdl_parse(const char *text, size_t length, struct tsdl *ret);
void tsdl_free(struct tsdl *tsdl);

/* ---- Internals of the parser (tsdl.c) ------------------------------------------------- */

enum tsdl_token {
	TSDL_END,
	TSDL_NAME, /* a name or keyword including dots: clock.realtime.value */
	TSDL_NUMBER,
	TSDL_TEXT,   /* a string in quotes */
	TSDL_ASSIGN, /* the mark = */
	TSDL_DEFINE, /* the mark := */
	TSDL_MARK    /* one of the marks { } [ ] ( ) ; : , - . */
};

struct tsdl_alias {
	const char *name;
	const struct tsdl_type *type;
};
enum { TSDL_ALIASES_MAX = 256, TSDL_CLOCKS_MAX = 256, TSDL_DEPTH_MAX = 8 };

struct tsdl_parser {
	struct tsdl *tsdl;
	const char *at, *end;
	unsigned int line;
	enum tsdl_token token; /* the next token; the parser has not consumed it yet */
	char mark;	       /* character of a TSDL_MARK */
	uint64_t number;       /* value of a TSDL_NUMBER */
	const char *text;      /* text of a TSDL_NAME or TSDL_TEXT */
	struct tsdl_alias aliases[TSDL_ALIASES_MAX];
	size_t alias_count, clock_count;
	struct { /* ends of the result's lists: the next element of each list is stored here */
		struct tsdl_clock **clocks;
		struct tsdl_stream **streams;
		struct tsdl_event **events;
	} ends;
	unsigned int depth; /* current nesting of types */
	struct probe_error *error;
};

/* The value on the right side of "=". */
struct tsdl_value {
	enum tsdl_token token; /* type of the value: TSDL_NUMBER, TSDL_NAME or TSDL_TEXT */
	bool negative;
	uint64_t number;
	const char *text;
};

/* ---- CTF reader (own.c, own_class.c, own_packets.c) ------------------------------------------ */

/*
 * The decoder of CTF records. own_class.c compiles the metadata into a list of steps for each class
 * of events. own_packets.c reads streams in blocks, finds packets and events, and executes the
 * steps. own.c merges the events of all streams by time.
 *
 *	metadata --tsdl.c--> types --own_class.c--> classes: steps
 *	                                              |
 *	stream file --pread(2)--> block --own_packets.c--> event --own.c--> events by time
 *
 * libbabeltrace2 reads any metadata, but takes 100 times as long, and aborts on some damaged
 * records. Here damaged data leads to an error at worst. Lengths are checked against the packet
 * before bytes are read, packets are checked against the file's size, and memory is in proportion
 * to the file. Files are not mapped: a writer could truncate a mapped file, and reading it would
 * raise SIGBUS.
 *
 * Invalid data ends its packet (or its stream, if the next packet cannot be found) and counts as a
 * loss there. After the last event, an error reports how many bytes could not be read.
 */

/* ---- Steps -------------------------------------------------------------------------- */

/*
 * A run is a series of fields at known offsets. Its length is checked once, then its fields are
 * read. It ends before a field of unknown length.
 */
enum step_op {
	STEP_END,
	STEP_RUN, /* start of a run of `offset` bytes, aligned to kind + 1 bytes */

	/* Read a field of the run at `offset`, and set value `to`: */
	STEP_WORD, /* read a 64-bit integer, signed or not; most arguments are such integers */
	STEP_UNSIGNED,
	STEP_SIGNED,
	STEP_SINGLE,
	STEP_DOUBLE,
	STEP_KIND,	 /* set the value's kind to `kind`, and mark it as not truncated */
	STEP_READABLE,	 /* set the value to null if a bit is 0 */
	STEP_UNREADABLE, /* set the value to null if a bit is 1 */
	STEP_TRUNCATED,	 /* mark the value as truncated if a bit is 1 */
	/* Read a field of the run at `offset`, and set number `to`: */
	STEP_NUMBER,
	STEP_NUMBER_SIGNED,

	/*
	 * Read a field after the run. Its length is number `from` or, for STEP_NO_NUMBER, `offset`:
	 */
	STEP_STRING, /* read a string up to a NUL into value `to` */
	STEP_CHARS,  /* read characters up to a NUL or the length into value `to` */
	STEP_BYTES,  /* read bytes into value `to` */
	STEP_GUESS,  /* read text for the pointer in value `to`, if number `also` is 0 */
	STEP_SKIP,   /* skip elements of `kind` bytes */
	STEP_UUID,
	STEP_COMM, /* read a thread name up to a NUL */
	STEP_STACK /* read the addresses of a call stack */
};

enum { STEP_NO_NUMBER = UINT16_MAX };

struct step {
	uint8_t op, kind;
	uint8_t left, right; /* shifts that extract a field's bits from 8 bytes */
	uint32_t offset;
	uint16_t to, from, also;
};

enum own_number {
	OWN_MAGIC = 1,
	OWN_STREAM_ID,
	OWN_BEGIN,
	OWN_END,
	OWN_CONTENT,
	OWN_PACKET,
	OWN_SEQUENCE,
	OWN_DISCARDED,
	OWN_CPU,
	OWN_PACKET_PID,
	OWN_ID,
	OWN_TIME,
	OWN_PID,
	OWN_TID,
	OWN_CHILD,
	OWN_STACK_END,
	OWN_CALL,    /* the address of a function's frame (struct probe_event) */
	OWN_IGNORED, /* a number that nothing uses */
	OWN_NEVER,   /* a number that is always 0 */
	OWN_FREE     /* the first of the numbers for lengths and flags of fields */
};
enum { OWN_FIELDS_MAX = 256, OWN_NUMBERS_MAX = OWN_FREE + OWN_FIELDS_MAX };

/* Pointers to bytes are valid until the block is filled again. */
struct step_result {
	struct probe_value *values;
	/* address of the packet modulo 8; fields are aligned relative to the packet */
	uintptr_t skew;
	uint64_t numbers[OWN_NUMBERS_MAX];
	const char *comm;
	const uint8_t *uuid;
	const uint8_t *stack; /* call stack: `frames` addresses of 8 bytes each */
	uint64_t frames;
};

/*
 * Executes steps on [at, end), behind which 8 more bytes of memory must follow. Returns the end of
 * the decoded bytes, or NULL if they go past `end`.
 */
const uint8_t *own_decode(const struct step *steps, const uint8_t *at, const uint8_t *end,
	struct step_result *result);

/* ---- Compiling steps (own.c) ----------------------------------------------------------- */

struct step_builder {
	struct step *steps; /* the steps so far; the caller takes them over at the end */
	size_t count;
	bool in_run;
	size_t run;	    /* index of the STEP_RUN of the current run */
	uint32_t run_align; /* alignment of the run in bits */
	uint32_t bits;	    /* length of the run so far in bits */
	struct probe_error *error;
};

/* ---- Classes --------------------------------------------------------------------------- */

enum own_meaning {
	OWN_HIT,
	OWN_FRAME,  /* the event names an address for later call stacks of its stream */
	OWN_THREAD, /* the event names a thread of its stream */
	OWN_NOTHING /* the event is skipped: a later version has added its class */
};

struct own_class {
	uint64_t id;
	enum own_meaning meaning;
	/* constant members of all events of this class; `provider` is owned */
	struct probe_event event;
	struct probe_value *values;
	char **labels;	    /* of values, as in struct probe_event; owned */
	struct step *steps; /* steps that decode the event's context and fields */
};

#define OWN_HAS(mask, number) (((mask) & (UINT32_C(1) << (number))) != 0)

/* A time in ns since 1970 is base_ns + cycles * 10^9 / freq. */
struct own_clock {
	int64_t base_ns;
	uint64_t freq;
	/* ns per cycle: 10^9 / freq is a little more than whole + part / 2^64 */
	uint64_t whole, part;
};

struct own_stream_class {
	uint64_t id;
	/* parsed description; valid only while the class is compiled */
	const struct tsdl_stream *described;
	struct step *packet;   /* steps that decode the packet's context */
	uint32_t has;	       /* mask of the numbers that packets and events have */
	uint32_t header_bytes; /* size of an event header in bytes */
	uint32_t header_align; /* alignment of an event header in bytes */
	struct step id_at, time_at;
	struct own_clock clock;
	struct own_class *classes; /* event classes of the stream, sorted by id */
	size_t class_count;
};

struct own_trace {
	uint8_t uuid[TSDL_UUID_BYTES];
	bool has_uuid;
	struct step *packet_header;
	struct own_stream_class *streams; /* stream classes of the record, sorted by id */
	size_t stream_count;
};

/* Errors: PROBE_ERROR_FORMAT, PROBE_ERROR_MEMORY. The caller frees *ret in any case. */
PROBE_MUST_CHECK struct probe_error *own_trace_compile(
	const struct tsdl *tsdl, struct own_trace *ret);
void own_trace_free(struct own_trace *trace);

/* CTF's structures with known fields (own_class.c). */
enum own_context { OWN_PACKET_HEADER, OWN_PACKET_CONTEXT, OWN_EVENT_HEADER, OWN_EVENT_CONTEXT };

/* Returns a time in ns since 1970; 0 if it is before 1970 or after 2262. */
static inline uint64_t own_time_ns(const struct own_clock *clock, uint64_t cycles)
{
	uint64_t since =
		cycles * clock->whole + (uint64_t)(((unsigned __int128)cycles * clock->part) >> 64);

	/* The estimate may be too small by 1; then the remainder is at least the divisor. */
	since += cycles * UINT64_C(1000000000) - since * clock->freq >= clock->freq;
	since += (uint64_t)clock->base_ns;
	return (int64_t)since < 0 ? 0 : since;
}

/* ---- Streams that are read --------------------------------------------------------------- */

/* A thread of a stream. Events refer to it by a word, by which it is found. */
struct own_thread {
	pid_t pid, tid;
	char *comm; /* name of the thread, owned; NULL if unknown */
};

enum own_item {
	OWN_ITEM_NONE, /* there is no next item: the stream has ended */
	OWN_ITEM_EVENT,
	OWN_ITEM_LOST
};

struct own_stream {
	const struct own_trace *trace;
	char *path;
	uint64_t size; /* size of the file in bytes when it was opened */
	uint64_t read; /* number of bytes read so far */

	/* The block, a part of the file in memory: */
	uint8_t *block;
	size_t room;
	uint64_t block_at;    /* offset of the block in the file */
	const uint8_t *at;    /* next byte to decode */
	const uint8_t *limit; /* end of the packet's content, or of the block if that comes first */
	const uint8_t *end;   /* end of the bytes in the block */
	/* bytes of the packet needed in the block to read the next header */
	size_t ahead;

	/* The current packet: */
	/* class of the packet's stream; NULL if no packet is open */
	const struct own_stream_class *class;
	/* ends of the packet's content, and of the packet, in the file */
	uint64_t content_end, packet_end;
	bool begun; /* the stream had a packet before */
	uint64_t sequence, discarded, end_ns;
	uintptr_t skew;
	int cpu;
	pid_t pid;

	/* The next item, and its time: */
	enum own_item item;
	uint64_t time_ns;
	/* class of an OWN_ITEM_EVENT; the event's context is at `at` */
	const struct own_class *event;
	uint64_t lost; /* number of lost events of an OWN_ITEM_LOST */
	/* Losses to report before the next event, and the time when they began. */
	uint64_t owed_events, owed_packets, owed_ns;

	struct map threads; /* struct own_thread by word */
	/* the last thread that was looked up; last_thread is NULL if it is unknown */
	uint32_t last_word;
	const struct own_thread *last_thread;

	/* Number of bytes that could not be read, and why the first of them could not. */
	uint64_t unread;
	const char *why;
};

void own_stream_deinit(struct own_stream *stream);

/*
 * Finds a stream's next item, after the previous one was taken. Skips invalid data, which counts as
 * lost. Errors: PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *own_stream_advance(
	struct own_stream *stream, struct step_result *result);
/* Fast path of own_stream_advance(): true if the next item is an event in memory. */
bool own_stream_next(struct own_stream *stream);

/*
 * Decodes the next event into its class's values and *result. *taken_ret is false if it is invalid.
 * Errors: as own_stream_advance().
 */
PROBE_MUST_CHECK struct probe_error *own_stream_take(
	struct own_stream *stream, struct step_result *result, bool *taken_ret);

/* Fast path of own_stream_take(). Returns false if the event is not wholly in memory. */
static inline bool own_stream_decode(struct own_stream *stream, struct step_result *result)
{
	const uint8_t *after;

	result->values = stream->event->values;
	result->skew = stream->skew;
	result->comm = NULL;
	result->frames = 0;
	after = own_decode(stream->event->steps, stream->at, stream->limit, result);
	if (after)
		stream->at = after;
	return after != NULL;
}
