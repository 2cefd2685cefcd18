/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_OUTPUT_OUTPUT_H
#define LIBPROBE_OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/error.h"
#include "probe/metrics.h"
#include "probe/otlp.h"
#include "probe/sink.h"
#include "probe/table.h"

/* ---- Client ---------------------------------------------------------------------------------- */

/*
 * A client that posts messages to one server, on libcurl, and never waits.
 *
 * Messages are sent one after the other. One that the server could not take now (429, 502, 503,
 * 504, or no connection) is sent again, after 1 s, 2 s and so on up to 30 s, or when the server
 * says. Meanwhile others queue up; where they have no room, the oldest goes. One that the server
 * does not want is gone at once. What is gone is counted.
 */

/* Without the library's header, none.c replaces all of it with errors. */
#if __has_include(<curl/curl.h>)
#define HTTP_CLIENT_BUILT
#endif

enum { HTTP_KINDS_MAX = 2, HTTP_WHY_BYTES = 160 };

/* How many items of one kind (spans or points) were sent, and how many were lost. */
struct http_sent {
	uint64_t done, lost;
};

struct http_client;

/*
 * Prepares a client for a URL, to which messages add their paths. `headers` are those of the user,
 * as probe_otlp_open() has them. Nothing is sent yet. Errors: see there.
 */
PROBE_MUST_CHECK struct probe_error *http_client_open(
	const char *url, const char *headers, struct http_client **ret);
/* Drops the messages that are still queued. NULL is allowed. */
void http_client_close(struct http_client *client);

/*
 * Queues a message of JSON, which has `items` of a kind, and takes ownership of its body. `path`
 * is static. An answer that says that some of them were rejected has their number behind
 * `rejected`.
 */
struct http_message {
	unsigned int kind;
	const char *path, *rejected;
	char *body;
	size_t length;
	uint64_t items;
};
void http_client_post(struct http_client *client, const struct http_message *message);

/* As those of a server (probe/metrics.h). */
int http_client_fd(const struct http_client *client);
uint64_t http_client_due_ns(const struct http_client *client);
void http_client_run(struct http_client *client);

/* Gives up what is queued: it counts as lost. */
void http_client_give_up(struct http_client *client);
/* Whether there is something left to send. */
bool http_client_is_busy(const struct http_client *client);
/* How many items of a kind were sent and lost so far. */
struct http_sent http_client_sent(const struct http_client *client, unsigned int kind);
/* Why the last message was not taken; "" if none was refused. Owned by the client. */
const char *http_client_why(const struct http_client *client);

/* ---- headers.c ------------------------------------------------------------------- */

/*
 * Takes the next of several headers, NAME=VALUE,NAME=VALUE, whose values may have %XX: "NAME:
 * VALUE", which the caller frees. False after the last one, of NULL, and after an error:
 * PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
bool http_next_header(const char **headers, char **ret, struct probe_error **error_ret);

/* ---- Flame ----------------------------------------------------------------------------------- */

/* Flame graphs: stacks, drawn as a picture (SVG). */

struct flame_stack {
	const char *text; /* frames from the outermost on, divided by semicolons; no controls */
	uint64_t weight;
};

/* The unit of weights. Times are in nanoseconds. */
enum flame_unit { FLAME_HITS, FLAME_TIME, FLAME_BYTES };

/*
 * Draws stacks, which are sorted for it. `out` is of buffer_init(); it has no_memory set if
 * memory ran out.
 */
void flame_graph(
	struct buffer *out, struct flame_stack *stacks, size_t count, enum flame_unit unit);

/* ---- Format ---------------------------------------------------------------------------------- */

/*
 * What an output format writes: one table of operations per format, each appending to the
 * sink's buffer. Every table has all of them, unless a comment allows NULL.
 */

/* The wall-clock second that was formatted last: hits come many to a second. */
struct clock_cache {
	int64_t second; /* since the epoch; -1 while nothing is cached */
	char text[16];	/* HH:MM:SS */
};

struct format_context {
	struct buffer out;
	struct clock_cache clock;
	size_t name_width; /* text: of the column of names, which grows with them */
};

struct format {
	/* NULL: it writes nothing at the start. */
	void (*begin)(struct format_context *context, bool header);
	void (*hit)(struct format_context *context, const struct probe_hit *hit,
		const struct probe_session_probe *probe, const char *comm);
	void (*begin_spans)(struct format_context *context, bool header);
	void (*span)(struct format_context *context, const struct probe_hit *hit,
		const struct probe_session_probe *begin, const struct probe_session_probe *end,
		const char *comm);
	void (*lost)(struct format_context *context, const struct probe_session_probe *probe,
		uint64_t lost);
	/* NULL: the format does not report that. */
	void (*waited)(struct format_context *context, uint64_t hits, uint64_t ns);
	void (*site)(struct format_context *context, pid_t pid, const struct probe_site_news *news);
	void (*table)(struct format_context *context, const struct probe_table *table,
		const struct probe_view *view);
	void (*stacks)(struct format_context *context, const struct probe_stacks_row *rows,
		size_t count, const struct probe_view *view);
	/* NULL: it writes nothing at the end. */
	void (*end)(struct format_context *context);
};

/* The same as probe_sink_create(), for any format. */
PROBE_MUST_CHECK struct probe_error *sink_create(
	const struct format *format, int fd, const char *name, struct probe_sink **ret);
struct format_context *sink_context(struct probe_sink *sink);

/* Prints nothing: what goes to a loaded tracer (libprobe/session/host.c). */
extern const struct format format_silent;
extern const struct format format_text;
extern const struct format format_json;

/* ---- Grid ------------------------------------------------------------------------------------ */

/*
 * Columns of text. Cells are put one after the other into a buffer first, since
 * the widest decides how wide a column is.
 */

enum { GRID_COLUMNS_MAX = 24 };

struct grid_cell {
	size_t offset, length; /* bytes, in the grid's text */
	size_t width;	       /* characters */
};

struct grid {
	struct buffer text;
	struct grid_cell *cells;
	size_t cell_count;
	size_t column_count; /* known after the first line */
	size_t widths[GRID_COLUMNS_MAX];
	bool right[GRID_COLUMNS_MAX]; /* aligned so */
	size_t start;		      /* of the cell that is being written */
	bool no_memory;
};

/* False without memory. */
bool grid_init(struct grid *grid);
void grid_deinit(struct grid *grid);

/*
 * What was written to grid->text since the last cell is a cell. Cells come line by
 * line, in the order of the columns; all lines have as many.
 */
void grid_cell(struct grid *grid, size_t column, bool right);

/* Without memory, says so to `out`. */
void grid_print(const struct grid *grid, struct buffer *out);

/* ---- Json ------------------------------------------------------------------------------------ */

/* Shared by the writers of JSON. A key has all its punctuation, e.g. ",\"name\":". */

void json_string_field(struct buffer *out, const char *key, const char *text);
void json_unsigned_field(struct buffer *out, const char *key, uint64_t value);
void json_signed_field(struct buffer *out, const char *key, int64_t value);
/* A string with its quotes. */
void json_string(struct buffer *out, const char *text, size_t length);
void json_value(struct buffer *out, const struct probe_value *value);

/* A line for a hit; a `pc` of 0 is not known. */
void json_hit(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm);
/* A line for a span: the hit of its end, with its begin. */
void json_span(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *comm);
/* A line for a loss; provider and name may be NULL. */
void json_lost(struct buffer *out, const struct probe_session_probe *probe, uint64_t lost);
/* A whole number of up to 64 bits is written as one; NAN is null. */
void json_number_field(struct buffer *out, const char *key, long double value);

/* The members of a row's object. */
void json_row_fields(struct buffer *out, const struct probe_table_row *row, size_t key_count,
	const struct probe_view *view);

/* ---- Model ----------------------------------------------------------------------------------- */

/*
 * Gathered rows as metrics, whoever shows them: what is measured of a row (quantities.c), and the
 * labels that name it (labels.c). Performance Co-Pilot (libprobe/pcp), OpenMetrics and
 * OpenTelemetry (libprobe/metrics) write the same quantities and labels, each in its own form.
 */

/* ---- Quantities ---------------------------------------------------------------- */

/* The quantities of a row or a process. The numbers are part of PCP's archives: keep them. */
enum metric_quantity {
	METRIC_HITS,
	METRIC_TOTAL,
	METRIC_LEAST,
	METRIC_MOST,
	METRIC_P50,
	METRIC_P90,
	METRIC_P95,
	METRIC_P99,
	METRIC_P999,
	METRIC_LAST,
	METRIC_IN_FLIGHT,
	METRIC_UNMATCHED,
	METRIC_LOST,
	METRIC_RATE,
	METRIC_AVERAGE,
	METRIC_QUANTITY_COUNT
};

struct metric_info {
	const char *name;
	const char *help;
	unsigned int columns; /* the views that have it (enum probe_column) */
	bool is_counter;
	bool is_value; /* a value of the user's, or a time; otherwise a number of hits */
	bool is_per_process;
	bool keyless; /* absent from rows by keys */
	double percent;
};
extern const struct metric_info metric_infos[METRIC_QUANTITY_COUNT];

/* Whether the rows of a view have it. That of tags is PCP's own matter. */
bool metric_has(const struct probe_view *view, size_t key_count, enum metric_quantity quantity);
/* Whether it only grows. */
bool metric_is_counter(const struct probe_view *view, enum metric_quantity quantity);

/*
 * What a row has in total, and, of a row of the last interval, what it has in that. NAN: none.
 * Times are in nanoseconds.
 */
long double metric_total(const struct probe_table_row *row, enum metric_quantity quantity);
long double metric_recent(
	const struct probe_table_row *row, enum metric_quantity quantity, uint64_t interval_ns);

/*
 * The sum of a row, as a counter. A time is a number of ticks of a clock, times the length of a
 * tick, which is known better from look to look; so a sum may shrink a little, and whoever computes
 * rates would take that for a counter that began again. Initialise with {0}.
 */
struct metric_growth {
	uint64_t hits;
	long double total;
	double unit; /* of the row's buckets, when there were hits first */
};
void metric_grow(
	struct metric_growth *growth, const struct probe_view *view, const struct probe_row *row);

/* Whether a row of a table is one of the metrics: ends without a begin are counted elsewhere. */
bool metric_shows(const struct probe_view *view, const struct probe_table_row *row);

/* A table as of the last look, and its increase since the look before. Initialise with {0}. */
struct metric_history {
	struct probe_table *all, *recent;
	uint64_t taken_ns; /* CLOCK_MONOTONIC */
	uint64_t interval_ns;
};
/* Takes ownership of a table, after an error too. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *metric_history_take(
	struct metric_history *history, struct probe_table *table);
void metric_history_deinit(struct metric_history *history);

/* ---- Labels -------------------------------------------------------------------- */

/* The text is any bytes, and valid only during a call of metric_take_label. */
struct metric_label {
	const char *name;
	const char *text;
	size_t length;
	bool is_number;
};
/* Takes a label; false without memory, which ends the calls. */
typedef bool metric_take_label(const struct metric_label *label, void *data);

/* Both call it for each label: of a process `pid`, `program`; of a row the others. */
bool metric_process_labels(pid_t pid, const char *program, metric_take_label *take, void *data);
bool metric_row_labels(const struct probe_table_row *row, const struct probe_view *view,
	size_t key_count, metric_take_label *take, void *data);

/* The value of a key as text; one that stands alone has no quotes. */
void metric_key_text(struct buffer *out, const struct probe_value *key, bool is_alone);

/* ---- Metrics --------------------------------------------------------------------------------- */

/*
 * A set of metrics: the rows of several tracers (store.c), what families of metrics they make
 * (families.c), the buckets of histograms (bounds.c), and the text of all (openmetrics.c).
 */

/* ---- Families ------------------------------------------------------------------ */

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* A metric with a name of its own: "probectl_latency_seconds". */
struct metric_family {
	char name[64];
	const char *help;
	const char *unit; /* or NULL */
	enum metric_kind kind;
	enum metric_quantity quantity; /* of a histogram: METRIC_TOTAL */
};

/* Beside those of tracers: what probe_metrics_left_out() returns. */
extern const struct metric_family metric_left_out;

/* A value in the family's unit, whose times are in seconds. */
double metric_in_unit(const struct metric_family *family, long double value);

/* ---- Histograms ---------------------------------------------------------------- */

enum { METRIC_BOUNDS_MAX = 41 };

/* ---- The set ------------------------------------------------------------------- */

/* A row that has been shown. */
struct metric_name {
	char *labels;	/* provider="shop",probe="order" */
	uint64_t round; /* in which it was seen last: no two rows may have one name */
	struct metric_growth growth;
};

struct metric_process {
	pid_t pid;
	char *program; /* NULL: it has no room */
	char *labels;  /* pid="4711",program="shop" */
	void *names;   /* tsearch(3): those of its rows */
	uint64_t round;
	struct metric_history history;
	/* Of each row of the two tables in `history`; NULL: it is left out. */
	const struct metric_name **all, **recent;
	size_t left_out;
};

struct metric_source {
	struct probe_view view;
	size_t key_count;
	char *labels; /* of what belongs to no row: value="arg0", or "" */
	struct metric_family families[METRIC_QUANTITY_COUNT];
	size_t family_count;
	struct metric_process *processes;
	size_t process_count;
	size_t left_out; /* rows of processes that had no room, and have ended */
};

struct probe_metrics {
	uint64_t start_ns; /* CLOCK_REALTIME */
	struct metric_source *sources;
	size_t source_count;
	size_t rows_max, row_count;
};

/* ---- Samples --------------------------------------------------------------------- */

struct metric_sample {
	const struct metric_family *family;
	const struct metric_process *process;
	const struct probe_table_row *row; /* NULL: of the process */
	const char *labels;		   /* beside the process's */
	long double value;		   /* of a histogram: the sum */
	double bounds[METRIC_BOUNDS_MAX];
	uint64_t hits[METRIC_BOUNDS_MAX + 1];
	size_t bound_count;
};
typedef void metric_visit(const struct metric_sample *sample, void *data);
/* Visits all samples that a process has in a family of a source. */
void metric_samples(const struct metric_source *source, const struct metric_family *family,
	const struct metric_process *process, metric_visit *visit, void *data);

/* The format (enum probe_metrics_format) of the page at a path; negative: there is none. */
int metrics_find_page(const char *path, const char *accept);

/* ---- Otlp ------------------------------------------------------------------------------------ */

/*
 * The parts of OTLP: its messages in JSON (json.c), of metrics (points.c) and of spans (spans.c,
 * trace_id.c), and where they go (otlp.c).
 *
 * JSON, because it needs no library, is what every collector takes beside protobuf, and can be
 * read. It is that of protobuf's messages with OTLP's exceptions: identifiers are hexadecimal, and
 * enumerations are numbers. Whole numbers of 64 bits are strings.
 *
 * https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
 */

enum otlp_kind { OTLP_POINTS, OTLP_SPANS };

enum { TRACE_ID_DIGITS = 32, SPAN_ID_DIGITS = 16 };

/* Where a span belongs. Digits are hexadecimal. */
struct otlp_ids {
	char trace[TRACE_ID_DIGITS + 1];
	char span[SPAN_ID_DIGITS + 1];
	char parent[SPAN_ID_DIGITS + 1]; /* "" : none */
};

/* Spans that are not queued yet. */
struct otlp_batch {
	struct buffer out; /* of a buffer_init(), or empty */
	uint64_t count;
	pid_t pid; /* of the last one */
};

struct probe_otlp {
	struct http_client *http;
	int trace_arg;
	uint64_t random; /* the state of a generator */
	struct otlp_batch spans;
	uint64_t lost_spans; /* without memory */
};

/* ---- json.c --------------------------------------------------------------------- */

/* ---- points.c, spans.c ------------------------------------------------------------ */

/* Writes a message with all points of a set, and returns their number. */
uint64_t otlp_write_points(
	struct buffer *out, const struct probe_metrics *metrics, uint64_t now_ns);
/* Writes a span into a batch, and closes what is open in it. */
void otlp_write_span(struct otlp_batch *batch, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *program, const struct otlp_ids *ids);
void otlp_end_spans(struct otlp_batch *batch);

/* ---- trace_id.c -------------------------------------------------------------------- */

/* Finds where a span belongs, or makes that up. */
void otlp_ids_of(struct probe_otlp *otlp, const struct probe_hit *hit, struct otlp_ids *ret);

/* ---- Pcp ------------------------------------------------------------------------------------- */

/*
 * The parts of the export to Performance Co-Pilot: metrics (metrics.c) and their values
 * (values.c) in its form, names and labels of instances (names.c), the folder of the metric files
 * (folder.c), these files (file.c), and their contents (pcp.c).
 */

/* Without PCP's headers, none.c replaces all of it with errors. */
#if __has_include(<pcp/pmapi.h>) && __has_include(<pcp/mmv_stats.h>) && \
	__has_include(<pcp/mmv_dev.h>)
#define PCP_BUILT
#endif

enum {
	/* Limits of PCP's pmdammv(1), which ignores a file that exceeds them. */
	PCP_COUNT_MAX = 10000,
	PCP_NAME_BYTES = 256,  /* of an instance, with the NUL */
	PCP_LABEL_BYTES = 225, /* of a label's value in JSON, without quotes */
	PCP_LABELS_MAX = 10    /* of an instance */
};

/* Stands for "no value": PCP then shows nothing (unsigned), or NaN. */
#define PCP_NONE UINT64_MAX

struct pcp_metric {
	char name[PCP_NAME_BYTES / 2]; /* below "mmv." */
	char help[PCP_NAME_BYTES / 2];
	int item;   /* its number, the same in every file */
	int domain; /* the number of its instances' domain */
	bool is_double, is_counter;
	bool is_time;  /* in nanoseconds; a double: in seconds */
	bool is_count; /* a number of hits */
	bool is_rate;  /* of hits in a second */
	bool is_each;  /* a time of each hit */
};

struct pcp_label {
	const char *name;
	char *value; /* JSON; a string includes its quotes */
	bool is_number;
};

struct pcp_instance {
	char name[PCP_NAME_BYTES];
	int domain;
	int32_t id; /* the same for the same name in every file, unless it was taken */
	struct pcp_label labels[PCP_LABELS_MAX];
	size_t label_count;
};

struct pcp_value {
	union {
		uint64_t u;
		double f;
	};
};

/* ---- Metrics ------------------------------------------------------------------- */

struct pcp_metrics {
	const char *group, *tracer; /* their names are mmv.GROUP.TRACER.* */
	struct pcp_metric items[METRIC_QUANTITY_COUNT];
	enum metric_quantity quantity[METRIC_QUANTITY_COUNT]; /* of each metric */
	size_t count;
	int row_domain, process_domain; /* domains whose instances are rows, or processes */
};

/* Errors: PROBE_ERROR_USAGE (not a tracer's view). */
PROBE_MUST_CHECK struct probe_error *pcp_metrics_init(
	const struct probe_view *view, size_t key_count, struct pcp_metrics *ret);

/* ---- Values ------------------------------------------------------------------- */

/* The result of metric_total() or metric_recent(), in the type of the metric. */
struct pcp_value pcp_value(
	const struct probe_view *view, enum metric_quantity quantity, long double value);

/* ---- Names and labels --------------------------------------------------------- */

/* The full description of a row, which the caller frees; NULL without memory. */
char *pcp_row_key(pid_t pid, const struct probe_table_row *row, size_t key_count);
/* Gives an instance this name, truncated if it is too long. */
void pcp_instance_name(struct pcp_instance *instance, const char *key);

/* Add labels to an instance, first those of its process; false without memory. */
bool pcp_process_labels(struct pcp_instance *instance, pid_t pid, const char *program);
bool pcp_row_labels(struct pcp_instance *instance, const struct probe_table_row *row,
	const struct probe_view *view, size_t key_count);
/* Replaces the program's name. */
bool pcp_rename_program(struct pcp_instance *instance, const char *program);

/* ---- The folder --------------------------------------------------------------- */

struct pcp_folder;
struct pcp_file;

/*
 * Loads the library, finds the folder where pmcd looks for files, and removes files whose
 * exporters are gone. Errors: see probe_pcp_open().
 */
PROBE_MUST_CHECK struct probe_error *pcp_folder_open(struct pcp_folder **ret);
void pcp_folder_close(struct pcp_folder *folder);

/*
 * Keeps other exporters from creating files until pcp_folder_unlock(), so free numbers stay
 * free. Errors: PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *pcp_folder_lock(struct pcp_folder *folder);
void pcp_folder_unlock(struct pcp_folder *folder);

/*
 * The instances of our domains in all files except `own` (or NULL); the caller frees *ret. The
 * folder must be locked. Errors: PROBE_ERROR_MEMORY.
 */
struct pcp_taken {
	int domain;
	int32_t id;
};
PROBE_MUST_CHECK struct probe_error *pcp_folder_taken(
	struct pcp_folder *folder, const char *own, struct pcp_taken **ret, size_t *count_ret);

/* ---- Files --------------------------------------------------------------------- */

/*
 * Creates a hidden file. `values` contains the first metric's instances, then the second's and
 * so on: all instances of the metric's domain, in the order of `instances`. Errors:
 * PROBE_ERROR_SYSTEM, _PERMISSION, _MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *pcp_file_create(struct pcp_folder *folder,
	const struct pcp_metric *metrics, size_t metric_count,
	const struct pcp_instance *const *instances, size_t instance_count, struct pcp_file **ret);
/* Sets value `index`. */
void pcp_file_set(struct pcp_file *file, size_t index, struct pcp_value value);
/* Makes the file visible. Errors: PROBE_ERROR_SYSTEM. */
PROBE_MUST_CHECK struct probe_error *pcp_file_show(struct pcp_file *file);
/* Call it periodically: makes PCP look again in case it missed the file. */
void pcp_file_remind(struct pcp_file *file);
/* Its name in the folder; owned by the file. */
const char *pcp_file_name(const struct pcp_file *file);
/* Whether the file still exists under its name. */
bool pcp_file_is_there(const struct pcp_file *file);
/* Removes the file. NULL is allowed. */
void pcp_file_retire(struct pcp_file *file);

/* ---- Protobuf -------------------------------------------------------------------------------- */

/*
 * Fields of protocol buffers (protobuf.dev/programming-guides/encoding). A library for these needs
 * code that is generated from the schema when we are built; the one schema that is written here
 * (pprof.c) has fields of three kinds, which are these functions. Fields that are 0 are left out,
 * as proto3 does.
 */

/* ---- Server ---------------------------------------------------------------------------------- */

/*
 * A small HTTP server, on libmicrohttpd: pages that are read (GET, HEAD), and nothing else.
 *
 * It has no thread. Its descriptor belongs into the caller's loop, which calls http_server_run();
 * no call ever waits. A thread of its own would need locks around whatever the pages are made of,
 * and one in a program that starts others by fork(2) is a danger of its own.
 */

/* Without the library's header, none.c replaces all of it with errors. */
#if __has_include(<microhttpd.h>)
#define HTTP_SERVER_BUILT
#endif

enum { HTTP_PAGES_MAX = 4 };

/* The pages that a server offers. */
struct http_pages {
	/* The content types of the pages, by number; NULL: there is none of this number. */
	const char *types[HTTP_PAGES_MAX];
	/* The page at a path, for a client that sent this `Accept` (or NULL); negative: none. */
	int (*find)(const char *path, const char *accept);
	/* Makes it; the server frees *ret. */
	struct probe_error *(*make)(int page, void *data, char **ret, size_t *length_ret);
	void *data;
};

struct http_server;

/*
 * Listens at ADDR:PORT; errors are those of probe_metrics_listen(). `pages` is borrowed.
 */
PROBE_MUST_CHECK struct probe_error *http_server_open(
	const char *address, const struct http_pages *pages, struct http_server **ret);
void http_server_close(struct http_server *server);

/* The address that it listens at, as a part of a URL: "[::1]:9100". Owned by the server. */
const char *http_server_address(const struct http_server *server);

/* See probe_metrics_server_fd() and so on. */
int http_server_fd(const struct http_server *server);
uint64_t http_server_due_ns(const struct http_server *server);
void http_server_run(struct http_server *server);
/* Pages are made again when they are asked for next. */
void http_server_renew(struct http_server *server);

/* ---- address.c ----------------------------------------------------------------- */

/*
 * Makes a socket that listens, and its address as a part of a URL, of HTTP_ADDRESS_BYTES. Nothing
 * is looked up: a name service might take long. Errors: as http_server_open().
 */
enum { HTTP_ADDRESS_BYTES = 64 };

/* ---- Stacks ---------------------------------------------------------------------------------- */

/* Shared by the writers of call stacks. */

/* The order of whole stacks, the outermost frame first. */
int stacks_compare(const struct probe_stacks_row *a, const struct probe_stacks_row *b);

/* The same of any frame; NULL: of what is not known of a stack that ends like this. */
void stacks_frame_label(
	struct buffer *out, const struct probe_frame *frame, enum probe_stack_end end);
/* The stack of one hit: a line for each frame, indented, the innermost first. */
void text_hit_stack(struct buffer *out, const struct probe_stack *stack);
/* The same as fields of an object: how it ends, by this key with all its punctuation, and frames.
 */
void json_stack_fields(struct buffer *out, const char *key, const struct probe_stack *stack);

/* Rows as trees, one for each probe, with its `top` most frequent stacks; 0: with all. */
void text_stack_trees(
	struct buffer *out, const struct probe_stacks_row *rows, size_t count, size_t top);
void text_stacks(struct format_context *context, const struct probe_stacks_row *rows, size_t count,
	const struct probe_view *view);

/* ---- Text ------------------------------------------------------------------------------------ */

/* Shared by the writers of text. */

/* provider:name */
void text_probe(struct buffer *out, const char *provider, const char *name);
void text_value(struct buffer *out, const struct probe_value *value);
/*
 * A value as its argument's type has it, if that is known (else NULL); one that could not be read
 * has none.
 */
void text_meant(
	struct buffer *out, const struct probe_arg_meaning *arg, const struct probe_value *value);

/* A time with three significant digits and its unit: "812ns", "1.23ms". */
void text_duration(struct buffer *out, double ns);
/* A count or a measured value: an integer, or with at most two decimals. */
/*
 * A number with a fraction, in this many digits: values and sums have all digits of a double,
 * averages fewer, and estimates from buckets three.
 */
enum text_digits { TEXT_POWER = 3, TEXT_BUCKET = 4, TEXT_AVERAGE = 10, TEXT_VALUE = 15 };
void text_real(struct buffer *out, double value, enum text_digits digits);
void text_number(struct buffer *out, long double value);

/* The heading of a table, if there are several. */
void text_heading(struct format_context *context, const struct probe_view *view);

#endif
