/* SPDX-License-Identifier: MIT */
/* Records, and hits as JSON, read back. */
#ifndef LIBPROBE_RECORD_READER_H
#define LIBPROBE_RECORD_READER_H

#include <locale.h>

#include "libprobe/base/error.h"
#include "probe/reader.h"

/* ---- Json parser ----------------------------------------------------------------------------- */

/*
 * Reading JSON (RFC 8259) that anyone may have written. A text becomes a tree of values without any
 * allocation: values are in an array of the parser, and strings are decoded where they stand in the
 * text, which they never outgrow. So memory and time are bounded by the length of the text, which
 * the caller limits, and by the limits below.
 */

enum {
	JSON_DEPTH_MAX = 8,	  /* of arrays and objects in each other */
	JSON_VALUES_MAX = 1 << 16 /* in one text */
};

enum json_kind {
	JSON_NONE,    /* null, true or false */
	JSON_INTEGER, /* without point and exponent; one that is out of range is clamped */
	JSON_FLOAT,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT
};

struct json {
	enum json_kind kind;
	bool is_negative;	 /* of JSON_INTEGER */
	const char *name;	 /* of a member of an object, up to a NUL; else NULL */
	const struct json *next; /* in the same array or object; NULL after the last */
	size_t length;		 /* bytes of a string; values in an array or object */
	union {
		uint64_t number; /* of JSON_INTEGER, without its sign: up to 2^63 if negative */
		double real;
		const char *text; /* UTF-8 if the input is; a NUL follows it, more may be in it */
		const struct json *first; /* in an array or object; NULL if it is empty */
	};
};

struct json_parser {
	struct json *values;
	size_t count;
	locale_t c_locale; /* numbers have a point, whatever the user's locale */
	char *at, *end;
	unsigned int depth;

	/* After an error: */
	const char *why;
	bool is_cut_off; /* the text ended before its value did */
};

/* False without memory. json_parser_deinit() may follow in any case. */
bool json_parser_init(struct json_parser *parser);
void json_parser_deinit(struct json_parser *parser);

/*
 * Parses one value, and goes past blanks after it to parser->at. text[length] must be a NUL; the
 * text is changed. The tree lives as long as the text, until the next call. NULL after an error.
 */
const struct json *json_parse(struct json_parser *parser, char *text, size_t length);

/* The first member of an object with this name; NULL: there is none. */
const struct json *json_find(const struct json *object, const char *name);
/* The same, if it is of this kind; else NULL. */
const struct json *json_member(const struct json *object, const char *name, enum json_kind kind);

/* ---- Reader ---------------------------------------------------------------------------------- */

/*
 * The parts of the reader: records (own.h), and hits as JSON (json.c, which json_parser.h parses).
 */

/* Operations of one kind of source. */
struct reader_ops {
	struct probe_error *(*next)(void *source, struct probe_event *ret, bool *there_ret);
	uint64_t (*read)(void *source); /* how many bytes; NULL: not known */
	/* No hit has more arguments. NULL, and SIZE_MAX: not known. */
	size_t (*args_max)(const void *source);
	void (*close)(void *source);
};

/* ---- Folders of records (folder.c) ------------------------------------------------ */

struct reader_folder {
	const char *path; /* as the user gave it, borrowed */
	char **records;	  /* folders, in order */
	size_t count;
	bool parts; /* they are parts of one record, and are read one after the other */
};

/* The metadata of a record, which the caller frees. */
PROBE_MUST_CHECK struct probe_error *reader_metadata(
	const char *record, char **text_ret, size_t *length_ret);

/* ---- Records (own.c) ---------------------------------------------------------------- */

extern const struct reader_ops reader_own;
/* The folder is borrowed. */
PROBE_MUST_CHECK struct probe_error *reader_own_open(
	const struct reader_folder *folder, void **ret);

/* ---- JSON -------------------------------------------------------------------------- */

extern const struct reader_ops reader_json;
/* JSON from a borrowed descriptor, called `name` in messages. Error: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *reader_json_open(int fd, const char *name, void **ret);

/* ---- Call stacks of records (stacks.c) ----------------------------------------------- */

/* The meaning of addresses, by stream, and the stack of the last event read. */
struct reader_stacks {
	void *tree; /* tsearch(3): struct known_frame */
	struct probe_stack stack;
	const struct probe_frame *frames[PROBE_FRAMES_MAX];
	struct probe_frame unnamed[PROBE_FRAMES_MAX];
};

/* ---- Tsdl ------------------------------------------------------------------------------------ */

/*
 * The metadata of records: what it says (struct tsdl), and TSDL, the language in which CTF 1.8 says
 * it (https://diamon.org/ctf/v1.8.3, section 7): the part of it that probectl writes
 * (libprobe/record/ctf_metadata.c), and that babeltrace2 writes when it copies one of our records.
 *
 * What else the language has (variants, other byte orders, named structures) is not understood,
 * and neither is an attribute that is not listed here: it might change what the bytes mean. The
 * metadata of a record of 10,000 sites is some megabytes; whatever it says, parsing takes memory
 * and time in proportion to its length.
 */

enum { TSDL_UUID_BYTES = 16 };

enum tsdl_kind {
	TSDL_INTEGER, /* an enumeration, too */
	TSDL_FLOAT,
	TSDL_STRING,
	TSDL_STRUCT,
	TSDL_ARRAY,   /* of a fixed length */
	TSDL_SEQUENCE /* of a length that an earlier field has */
};

/* A clock counts from offset_s seconds and `offset` cycles after 1970. */
struct tsdl_clock {
	const char *name;
	uint64_t freq; /* cycles a second; not 0 */
	int64_t offset_s;
	uint64_t offset;
	struct tsdl_clock *next;
};

struct tsdl_type;

struct tsdl_field {
	const char *name; /* without the underscore that it may begin with */
	const struct tsdl_type *type;
};

/* Sizes and alignments are in bits. */
struct tsdl_type {
	enum tsdl_kind kind;
	uint32_t align; /* a power of two, up to 64 */
	uint32_t size;	/* of integers 1 to 64, of floating-point numbers 32 or 64 */
	bool is_signed;
	bool is_text;		/* an integer with an encoding: a character */
	bool is_unreadable;	/* an enumeration whose only label is "unreadable" */
	const char *clock_name; /* what an integer counts; NULL: nothing */

	/* Of arrays and sequences: */
	const struct tsdl_type *element;
	uint64_t length;
	const char *length_name;

	/* Of structures: */
	struct tsdl_field *fields;
	size_t field_count;
};

/* Types are always structures, or NULL. Lists are in the order of the metadata. */
struct tsdl_stream {
	uint64_t id;
	const struct tsdl_type *packet_context, *event_header, *event_context;
	struct tsdl_stream *next;
};

struct tsdl_event {
	uint64_t id, stream_id;
	const char *name; /* or NULL */
	const struct tsdl_type *context, *fields;
	struct tsdl_event *next;
};

/* Owns everything that it points to. */
struct tsdl {
	const char *tracer_version; /* of its env, or NULL */
	uint8_t uuid[TSDL_UUID_BYTES];
	bool has_uuid;
	const struct tsdl_type *packet_header; /* or NULL */
	struct tsdl_clock *clocks;
	struct tsdl_stream *streams;
	struct tsdl_event *events;
	void *memory; /* what tsdl_free() frees */
};

/*
 * Parses metadata. Error: PROBE_ERROR_FORMAT ("line N: ..."), PROBE_ERROR_MEMORY. *ret is what was
 * understood before an error, too; the caller always frees it.
 */
PROBE_MUST_CHECK struct probe_error *tsdl_parse(const char *text, size_t length, struct tsdl *ret);
void tsdl_free(struct tsdl *tsdl);

/* ---- For the files of the parser ------------------------------------------------------ */

enum tsdl_token {
	TSDL_END,
	TSDL_NAME, /* with its dots: clock.realtime.value */
	TSDL_NUMBER,
	TSDL_TEXT,   /* in quotes */
	TSDL_ASSIGN, /* = */
	TSDL_DEFINE, /* := */
	TSDL_MARK    /* one of { } [ ] ( ) ; : , - . */
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
	enum tsdl_token token; /* the next one, of which nothing is used yet */
	char mark;	       /* of TSDL_MARK */
	uint64_t number;       /* of TSDL_NUMBER */
	const char *text;      /* of TSDL_NAME and TSDL_TEXT */
	struct tsdl_alias aliases[TSDL_ALIASES_MAX];
	size_t alias_count, clock_count;
	struct { /* of the result's lists */
		struct tsdl_clock **clocks;
		struct tsdl_stream **streams;
		struct tsdl_event **events;
	} ends;
	unsigned int depth; /* of types in types */
	struct probe_error *error;
};

/* The right side of "=". */
struct tsdl_value {
	enum tsdl_token token; /* TSDL_NUMBER, TSDL_NAME or TSDL_TEXT */
	bool negative;
	uint64_t number;
	const char *text;
};

/* ---- Own ------------------------------------------------------------------------------------- */

/*
 * Records, decoded by ourselves: the metadata (libprobe/ctf) is compiled into lists of
 * steps, one list for each class of events (own_steps.c, own_class.c); streams are read in blocks,
 * packet by packet (own_packets.c), their events decoded (own_decode.c), and merged by time
 * (own.c).
 *
 *	metadata --libprobe/ctf--> types --own_class.c--> classes: steps
 *	                                               |
 *	stream file --pread(2)--> block --own_packets.c+--> event --own.c--> the oldest of all
 *
 * libbabeltrace2 does the same for any metadata, at 100 times the cost, and aborts on some that is
 * damaged. Here nothing in a file can do more than make an error: lengths are checked against the
 * packet before bytes are touched, packets against the file's size, and memory is in proportion to
 * the file. Files are not mapped, because whoever may write one could cut it off
 * under us, which is SIGBUS.
 *
 * What makes no sense ends its packet (or its stream, where the next packet cannot be found), and
 * is a loss there; after the last event, an error tells how much could not be read.
 */

/* ---- Steps -------------------------------------------------------------------------- */

/*
 * A run is a stretch of fields whose places are known from its beginning: its length is checked
 * once, and its fields are read without further checks. A field of unknown length ends it.
 */
enum step_op {
	STEP_END,
	STEP_RUN, /* begins `offset` bytes, at a multiple of kind + 1 */

	/* Of the run, at `offset`: the value `to` ... */
	STEP_WORD, /* 64 bits of an integer, of either kind: most arguments */
	STEP_UNSIGNED,
	STEP_SIGNED,
	STEP_SINGLE,
	STEP_DOUBLE,
	STEP_KIND,	 /* becomes `kind`, not truncated */
	STEP_READABLE,	 /* becomes null if a bit is not set */
	STEP_UNREADABLE, /* becomes null if a bit is set */
	STEP_TRUNCATED,	 /* is truncated if a bit is set */
	/* ... or the number `to` */
	STEP_NUMBER,
	STEP_NUMBER_SIGNED,

	/* After the run; the length is the number `from`, or without one `offset`: */
	STEP_STRING, /* up to a NUL, to the value `to` */
	STEP_CHARS,  /* to the value `to`, up to a NUL, if there is one */
	STEP_BYTES,  /* to the value `to` */
	STEP_GUESS,  /* text that the number in the value `to` points to, if the number `also` is 0
		      */
	STEP_SKIP,   /* elements of `kind` bytes */
	STEP_UUID,
	STEP_COMM, /* up to a NUL */
	STEP_STACK /* addresses */
};

enum { STEP_NO_NUMBER = UINT16_MAX };

struct step {
	uint8_t op, kind;
	uint8_t left, right; /* how to shift 8 bytes for the bits of a number */
	uint32_t offset;
	uint16_t to, from, also;
};

/* The numbers that steps leave. */
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
	OWN_IGNORED, /* what is read by nobody */
	OWN_NEVER,   /* always 0 */
	OWN_FREE     /* the first of those for lengths */
};
enum { OWN_FIELDS_MAX = 256, OWN_NUMBERS_MAX = OWN_FREE + OWN_FIELDS_MAX };

/* The data that steps read and write. Bytes are in the block until it is filled again. */
struct step_result {
	struct probe_value *values;
	uintptr_t skew; /* what alignment counts from: multiples of 8, and this */
	uint64_t numbers[OWN_NUMBERS_MAX];
	const char *comm;
	const uint8_t *uuid;
	const uint8_t *stack; /* `frames` addresses */
	uint64_t frames;
};

/*
 * Follows steps from `at`, which is in a block whose memory goes on for 8 bytes after `end`.
 * Returns where they end, or NULL: they lead past `end`.
 */
const uint8_t *own_decode(const struct step *steps, const uint8_t *at, const uint8_t *end,
	struct step_result *result);

/* ---- Making steps ---------------------------------------------------------------------- */

struct step_builder {
	struct step *steps; /* of the caller in the end */
	size_t count;
	bool in_run;
	size_t run;	    /* the step that begins the run */
	uint32_t run_align; /* in bits */
	uint32_t bits;	    /* in the run so far */
	struct probe_error *error;
};

/*
 * After an error, these do nothing and return false (NULL). What cannot be decoded is
 * PROBE_ERROR_FORMAT.
 */
bool steps_fail(struct step_builder *b, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool steps_align(struct step_builder *b, uint32_t align);
/* An integer or a floating-point number at the next place of its alignment. */
struct step *steps_fixed(struct step_builder *b, enum step_op op, const struct tsdl_type *type);
/* Something in bytes that ends the run. */
struct step *steps_variable(struct step_builder *b, enum step_op op, const struct tsdl_type *type);
bool steps_kind(struct step_builder *b, uint16_t value, enum probe_value_kind kind);
bool steps_end(struct step_builder *b);

/* ---- Classes --------------------------------------------------------------------------- */

/* Events that are no hits. */
enum own_meaning {
	OWN_HIT,
	OWN_FRAME,  /* names an address for the stacks of its stream */
	OWN_THREAD, /* names a thread of its stream */
	OWN_NOTHING /* what later versions may add */
};

struct own_class {
	uint64_t id;
	enum own_meaning meaning;
	struct probe_event event; /* what all events have; its `provider` is owned */
	struct probe_value *values;
	struct step *steps; /* of the context and the fields */
};

/* Numbers that a stream's packets or events have: bits of enum own_number. */
#define OWN_HAS(mask, number) (((mask) & (UINT32_C(1) << (number))) != 0)

/* A time in nanoseconds since 1970 is base_ns + cycles * 10^9 / freq. */
struct own_clock {
	int64_t base_ns;
	uint64_t freq;
	uint64_t whole, part; /* 10^9 / freq is a little more than whole + part / 2^64 */
};

struct own_stream_class {
	uint64_t id;
	const struct tsdl_stream *described; /* only while it is compiled */
	struct step *packet;		     /* the steps of a packet's context */
	uint32_t has;			     /* of these numbers */
	uint32_t header_bytes;		     /* of an event */
	uint32_t header_align;		     /* in bytes */
	struct step id_at, time_at;
	struct own_clock clock;
	struct own_class *classes; /* sorted by id */
	size_t class_count;
};

/* The metadata of a record, compiled. */
struct own_trace {
	uint8_t uuid[TSDL_UUID_BYTES];
	bool has_uuid;
	struct step *packet_header;
	struct own_stream_class *streams; /* sorted by id */
	size_t stream_count;
};

/* Error: PROBE_ERROR_FORMAT, PROBE_ERROR_MEMORY. The caller frees *ret in any case. */
PROBE_MUST_CHECK struct probe_error *own_trace_compile(
	const struct tsdl *tsdl, struct own_trace *ret);
void own_trace_free(struct own_trace *trace);

/* The fixed structures: what fields they may have is known (own_context.c). */
enum own_context { OWN_PACKET_HEADER, OWN_PACKET_CONTEXT, OWN_EVENT_HEADER, OWN_EVENT_CONTEXT };

/* 0: before 1970, or after 2262. */
static inline uint64_t own_time_ns(const struct own_clock *clock, uint64_t cycles)
{
	uint64_t since =
		cycles * clock->whole + (uint64_t)(((unsigned __int128)cycles * clock->part) >> 64);

	/* What is missing of it is less than one, and shows in the rest of the division. */
	since += cycles * UINT64_C(1000000000) - since * clock->freq >= clock->freq;
	since += (uint64_t)clock->base_ns;
	return (int64_t)since < 0 ? 0 : since;
}

/* ---- Streams that are read --------------------------------------------------------------- */

/* The thread that has hit a probe, by the word that events of a stream have for it. */
struct own_thread {
	uint32_t word;
	bool known;
	pid_t pid, tid;
	char *comm; /* owned; or NULL */
};

struct own_threads {
	struct own_thread *slots; /* open addressing */
	size_t room, count;
};

/* NULL: it has not been named. */
void own_threads_deinit(struct own_threads *threads);

enum own_item {
	OWN_ITEM_NONE, /* the stream is over */
	OWN_ITEM_EVENT,
	OWN_ITEM_LOST
};

/* One file of packets. */
struct own_stream {
	const struct own_trace *trace;
	char *path;
	uint64_t size; /* of the file, when it was found */
	uint64_t read; /* bytes so far */

	/* The block, a stretch of the file: */
	uint8_t *block;
	size_t room;
	uint64_t block_at;    /* where it begins in the file */
	const uint8_t *at;    /* what is taken next */
	const uint8_t *limit; /* the end of the packet's content, as far as it is in the block */
	const uint8_t *end;   /* of the bytes in the block */
	size_t ahead;	      /* an event of the packet begins with as many bytes in memory */

	/* The packet: */
	const struct own_stream_class *class; /* NULL: none is open */
	uint64_t content_end, packet_end;     /* in the file */
	bool begun;			      /* there was one before */
	uint64_t sequence, discarded, end_ns;
	uintptr_t skew;
	int cpu;
	pid_t pid;

	/* What comes next, and when: */
	enum own_item item;
	uint64_t time_ns;
	const struct own_class *event; /* of OWN_ITEM_EVENT; its context is at `at` */
	uint64_t lost;		       /* of OWN_ITEM_LOST */
	/* Losses that are told before anything else, and when they began. */
	uint64_t owed_events, owed_packets, owed_ns;

	struct own_threads threads;
	uint32_t last_word; /* the thread that was looked for last; NULL: it is not known */
	const struct own_thread *last_thread;

	/* What could not be read: bytes, and why the first of them could not. */
	uint64_t unread;
	const char *why;
};

/* The caller sets `size` and `room`. False without memory. */
bool own_stream_init(struct own_stream *stream, const struct own_trace *trace, const char *folder,
	const char *name);
void own_stream_deinit(struct own_stream *stream);

/*
 * Finds the next item of a stream, after the last one has been taken. What makes no sense is
 * skipped, as a loss. Error: PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *own_stream_advance(
	struct own_stream *stream, struct step_result *result);
/* The same, where the next item is an event in memory, as it is most often. False: it is not. */
bool own_stream_next(struct own_stream *stream);

/*
 * Decodes the event that is next, into its class's values and *result. *taken_ret: false if it
 * makes no sense. Errors as above.
 */
PROBE_MUST_CHECK struct probe_error *own_stream_take(
	struct own_stream *stream, struct step_result *result, bool *taken_ret);

/* The same, as far as it is in memory. False: it is not taken, and *result is of no use. */
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

#endif
