/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/error.h"
#include "libprobe/base/grid.h"
#include "libprobe/base/json.h"
#include "libprobe/base/map.h"
#include "probe/calls.h"
#include "probe/metrics.h"
#include "probe/otlp.h"
#include "probe/sink.h"
#include "probe/table.h"

/* ---- Client ---------------------------------------------------------------------------------- */

/*
 * A client that posts messages to a server with libcurl, and never waits.
 *
 * It sends one message after the other. If the server cannot take a message now (429, 502, 503,
 * 504, or no connection), the client sends it again after 1 s, 2 s … 30 s, or after the time that
 * the server names. Other messages are queued; a full queue drops the oldest. A rejected message is
 * dropped. Items of dropped messages are lost.
 */

/* Without the library's header, http_none.c replaces these functions with errors. */
#if __has_include(<curl/curl.h>)
#define HTTP_CLIENT_BUILT
#endif

enum { HTTP_KINDS_MAX = 2, HTTP_WHY_BYTES = 160 };

/* Numbers of items of a kind (spans or points) that were sent, and that were lost. */
struct http_sent {
	uint64_t done, lost;
};

struct http_client;

/*
 * Prepares a client for `url`, to which each message adds its path; sends nothing. `headers` as for
 * probe_otlp_open(). Errors: as probe_otlp_open().
 */
PROBE_MUST_CHECK struct probe_error *http_client_open(
	const char *url, const char *headers, struct http_client **ret);
/* Drops queued messages. `client` may be NULL. */
void http_client_close(struct http_client *client);

/*
 * A JSON message for http_client_post(), which takes over `body`, with `items` items of a kind.
 * Constants: `path`, and `rejected`, the name before the number of rejected items in the answer.
 */
struct http_message {
	unsigned int kind;
	const char *path, *rejected;
	char *body;
	size_t length;
	uint64_t items;
};
void http_client_post(struct http_client *client, const struct http_message *message);

/* Like the functions of a server (probe/metrics.h). */
int http_client_fd(const struct http_client *client);
uint64_t http_client_due_ns(const struct http_client *client);
void http_client_run(struct http_client *client);

/* Drops all queued messages: their items are lost. */
void http_client_give_up(struct http_client *client);
/* Returns true if a message is queued or being sent. */
bool http_client_is_busy(const struct http_client *client);
/* Returns how many items of a kind were sent, and lost. */
struct http_sent http_client_sent(const struct http_client *client, unsigned int kind);
/* Returns why the last message was refused, or ""; owned by the client. */
const char *http_client_why(const struct http_client *client);

/*
 * Reads the next of the headers NAME=VALUE,NAME=VALUE (with %XX) as "NAME: VALUE", which the caller
 * frees. Returns false at the end, for NULL, or on an error: PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
bool http_next_header(const char **headers, char **ret, struct probe_error **error_ret);

/* ---- Flame ----------------------------------------------------------------------------------- */

struct flame_stack {
	/* Frames, outermost first, between semicolons; no control characters. */
	const char *text;
	uint64_t weight;
};

/* FLAME_TIME is in nanoseconds. */
enum flame_unit { FLAME_HITS, FLAME_TIME, FLAME_BYTES };

/*
 * Draws a flame graph (SVG). Sorts `stacks`. `out` is from buffer_init(); out->no_memory tells if
 * memory ran out.
 */
void flame_graph(
	struct buffer *out, struct flame_stack *stacks, size_t count, enum flame_unit unit);

/* ---- Format ---------------------------------------------------------------------------------- */

/* An output format: functions that append to the sink's buffer. NULL writes nothing. */

/* The text of the last second, because many hits come in the same second. */
struct clock_cache {
	int64_t second; /* seconds since the epoch, or -1 if nothing is cached */
	char text[16];	/* HH:MM:SS */
};

struct format_context {
	struct buffer out;
	struct clock_cache clock;
	size_t name_width; /* for text: width of the column of names, which grows with the names */
};

struct format {
	void (*begin)(struct format_context *context, bool header);
	void (*hit)(struct format_context *context, const struct probe_hit *hit,
		const struct probe_session_probe *probe, const char *comm);
	void (*begin_spans)(struct format_context *context, bool header);
	void (*span)(struct format_context *context, const struct probe_hit *hit,
		const struct probe_session_probe *begin, const struct probe_session_probe *end,
		const char *comm);
	void (*lost)(struct format_context *context, const struct probe_session_probe *probe,
		uint64_t lost);
	void (*waited)(struct format_context *context, uint64_t hits, uint64_t ns);
	void (*site)(struct format_context *context, pid_t pid, const struct probe_site_news *news);
	void (*table)(struct format_context *context, const struct probe_table *table,
		const struct probe_view *view);
	void (*stacks)(struct format_context *context, const struct probe_stacks_row *rows,
		size_t count, const struct probe_view *view);
	void (*calls)(struct format_context *context, const struct probe_calls_row *rows,
		size_t count, const struct probe_view *view);
	void (*end)(struct format_context *context);
};

/* Like probe_sink_create(), for any format. */
PROBE_MUST_CHECK struct probe_error *sink_create(
	const struct format *format, int fd, const char *name, struct probe_sink **ret);
struct format_context *sink_context(struct probe_sink *sink);

extern const struct format format_silent;
extern const struct format format_text;
extern const struct format format_json;

/* ---- Json ------------------------------------------------------------------------------------ */

/* Writes a value. `name` is as in the functions of base/json.h. */
void json_value(struct buffer *out, const char *name, const struct probe_value *value);

void json_row_fields(struct buffer *out, const struct probe_table_row *row, size_t key_count,
	const struct probe_view *view);

/* ---- Model ----------------------------------------------------------------------------------- */

/*
 * Rows of tables as metrics, for any format: the quantities of a row, and the labels that name it.
 */

/* ---- Quantities ---------------------------------------------------------------- */

/* The numbers must never change: PCP's archives contain them. */
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
	/* The views with this quantity have one of these columns (enum probe_column). */
	unsigned int columns;
	bool is_counter;
	bool is_value; /* the quantity is a value or a time; if false, a number of hits */
	bool is_per_process;
	bool keyless; /* rows with keys lack the quantity */
	double percent;
};
extern const struct metric_info metric_infos[METRIC_QUANTITY_COUNT];

/* Do the rows of a view have a quantity? Tags have only those that PCP has for them. */
bool metric_has(const struct probe_view *view, size_t key_count, enum metric_quantity quantity);
/* Returns true if the quantity never decreases. */
bool metric_is_counter(const struct probe_view *view, enum metric_quantity quantity);

/*
 * Return a quantity of a row, in the whole table or in the last interval; NAN if it has no value.
 * Times are in ns.
 */
long double metric_total(const struct probe_table_row *row, enum metric_quantity quantity);
long double metric_recent(
	const struct probe_table_row *row, enum metric_quantity quantity, uint64_t interval_ns);

/*
 * A row's sum as a counter. Times are in ticks, whose length is measured more precisely with each
 * look. So the sum may shrink a little, and programs that compute rates would see a reset; this
 * prevents it.
 */
struct metric_growth {
	uint64_t hits;
	long double total;
	double unit; /* unit of the row's buckets when it had its first hits */
};
void metric_grow(
	struct metric_growth *growth, const struct probe_view *view, const struct probe_row *row);

/*
 * Returns true if a row is shown as metrics. The row of end events without a start event is not:
 * they are counted elsewhere.
 */
bool metric_shows(const struct probe_view *view, const struct probe_table_row *row);

/* The table of the last look, and its growth since the look before. Initialise with {0}. */
struct metric_history {
	struct probe_table *all, *recent;
	uint64_t taken_ns; /* CLOCK_MONOTONIC */
	uint64_t interval_ns;
};
/* Takes over a new table, even after an error. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *metric_history_take(
	struct metric_history *history, struct probe_table *table);
void metric_history_deinit(struct metric_history *history);

/* ---- Labels -------------------------------------------------------------------- */

/* Any bytes, valid only until metric_take_label returns. */
struct metric_label {
	const char *name;
	const char *text;
	size_t length;
	bool is_number;
};
/* Receives a label. Returns false if memory is short, which ends the list. */
typedef bool metric_take_label(const struct metric_label *label, void *data);

/* Call `take` for each label: one for `pid` and `program`, the other for all others. */
bool metric_process_labels(pid_t pid, const char *program, metric_take_label *take, void *data);
bool metric_row_labels(const struct probe_table_row *row, const struct probe_view *view,
	size_t key_count, metric_take_label *take, void *data);

/* Writes a key's value. If `is_alone`, a string is not quoted. */
void metric_key_text(struct buffer *out, const struct probe_value *key, bool is_alone);

/* ---- Metrics --------------------------------------------------------------------------------- */

/* A set of metrics: rows of tracers, their families, buckets of histograms, and the text. */

/* ---- Families ------------------------------------------------------------------ */

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* A named metric, such as "probectl_latency_seconds". */
struct metric_family {
	char name[64];
	const char *help;
	const char *unit; /* may be NULL */
	enum metric_kind kind;
	enum metric_quantity quantity; /* METRIC_TOTAL for a histogram */
};

/* How many rows are left out (probe_metrics_left_out()). */
extern const struct metric_family metric_left_out;

/* Converts a value to the family's unit; times to seconds. */
double metric_in_unit(const struct metric_family *family, long double value);

/* ---- Histograms ---------------------------------------------------------------- */

enum { METRIC_BOUNDS_MAX = 41 };

/* ---- The set ------------------------------------------------------------------- */

/* The labels of a row that was shown. */
struct metric_name {
	const char *labels; /* provider="shop",probe="order"; in the map's key */
	/* The round in which the name was last seen, to find two rows with the same name. */
	uint64_t round;
	struct metric_growth growth;
};

struct metric_process {
	pid_t pid;
	char *program;	  /* NULL if the process got no room */
	char *labels;	  /* pid="4711",program="shop" */
	struct map names; /* struct metric_name of the process's rows, by labels */
	uint64_t round;
	struct metric_history history;
	/* Names of the rows of both tables in `history`; NULL for a row that is left out. */
	const struct metric_name **all, **recent;
	size_t left_out;
};

struct metric_source {
	struct probe_view view;
	size_t key_count;
	char *labels; /* labels of samples that belong to no row, such as value="arg0"; may be "" */
	struct metric_family families[METRIC_QUANTITY_COUNT];
	size_t family_count;
	struct metric_process *processes;
	size_t process_count;
	size_t left_out; /* rows that were left out in processes that have ended */
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
	const struct probe_table_row *row; /* NULL if the sample belongs to the whole process */
	const char *labels;		   /* labels besides those of the process */
	long double value;		   /* for a histogram: the sum */
	double bounds[METRIC_BOUNDS_MAX];
	uint64_t hits[METRIC_BOUNDS_MAX + 1];
	size_t bound_count;
};
typedef void metric_visit(const struct metric_sample *sample, void *data);
/* Visits a process's samples in a family. */
void metric_samples(const struct metric_source *source, const struct metric_family *family,
	const struct metric_process *process, metric_visit *visit, void *data);

/* Returns the format (enum probe_metrics_format) of the page at a path, or a negative number. */
int metrics_find_page(const char *path, const char *accept);

/* ---- Otlp ------------------------------------------------------------------------------------ */

/*
 * OTLP: messages with metrics or spans in JSON, which needs no library, and which every collector
 * accepts, and the client that sends them. The form is protobuf's for JSON with OTLP's exceptions:
 * identifiers are hexadecimal, enumerations numbers, 64-bit numbers strings.
 *
 * https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
 */

enum otlp_kind { OTLP_POINTS, OTLP_SPANS };

enum { TRACE_ID_DIGITS = 32, SPAN_ID_DIGITS = 16 };

/* The identifiers of a span, its trace and its parent, in hex. */
struct otlp_ids {
	char trace[TRACE_ID_DIGITS + 1];
	char span[SPAN_ID_DIGITS + 1];
	char parent[SPAN_ID_DIGITS + 1]; /* "" if the span has no parent */
};

/* Spans that are not queued yet. */
struct otlp_batch {
	struct buffer out; /* from buffer_init(), or empty */
	uint64_t count;
	pid_t pid; /* the process of the last span */
};

struct probe_otlp {
	struct http_client *http;
	int trace_arg;
	uint64_t random; /* state of a random number generator */
	struct otlp_batch spans;
	uint64_t lost_spans; /* spans lost because memory ran out */
};

/* ---- Points and spans ------------------------------------------------------------- */

/* Writes all points of a set in a message. Returns their number. */
uint64_t otlp_write_points(
	struct buffer *out, const struct probe_metrics *metrics, uint64_t now_ns);
/* Add a span to a batch, and close the batch's lists. */
void otlp_write_span(struct otlp_batch *batch, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *program, const struct otlp_ids *ids);
void otlp_end_spans(struct otlp_batch *batch);

/* ---- Trace ids --------------------------------------------------------------------- */

/* Takes the ids of an argument that is a traceparent or a trace id, if there is one. */
bool otlp_find_id(const struct probe_hit *hit, struct otlp_ids *ids);
/* Finds a span's identifiers in its arguments, or makes random ones. */
void otlp_ids_of(struct probe_otlp *otlp, const struct probe_hit *hit, struct otlp_ids *ret);

/* ---- Pcp ------------------------------------------------------------------------------------- */

/*
 * The export to Performance Co-Pilot: metrics, values, names and labels of instances, and the
 * folder for files.
 */

/* Without PCP's headers, pcp_none.c replaces these with errors. */
#if __has_include(<pcp/pmapi.h>) && __has_include(<pcp/mmv_stats.h>) && \
	__has_include(<pcp/mmv_dev.h>)
#define PCP_BUILT
#endif

enum {
	/* pmdammv(1) ignores files beyond these limits. */
	PCP_COUNT_MAX = 10000,
	PCP_NAME_BYTES = 256,  /* length of an instance's name, with the NUL */
	PCP_LABEL_BYTES = 225, /* length of a label's value in JSON, without quotes */
	PCP_LABELS_MAX = 10    /* number of an instance's labels */
};

/* "No value": PCP shows nothing, or NaN for a double. */
#define PCP_NONE UINT64_MAX

struct pcp_metric {
	char name[PCP_NAME_BYTES / 2]; /* the part after "mmv." */
	char help[PCP_NAME_BYTES / 2];
	int item;   /* the metric's number, the same in every file */
	int domain; /* the number of the domain of its instances */
	bool is_double, is_counter;
	bool is_time;  /* a time in nanoseconds; in seconds if is_double */
	bool is_count; /* a number of hits */
	bool is_rate;  /* hits per second */
	bool is_each;  /* time per hit */
};

struct pcp_label {
	const char *name;
	char *value; /* JSON; a string includes its quotes */
	bool is_number;
};

struct pcp_instance {
	char name[PCP_NAME_BYTES];
	int domain;
	/* A hash of the instance's name, the same in every file, unless another name has it. */
	int32_t id;
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
	const char *group, *tracer; /* the metrics' names are mmv.GROUP.TRACER.* */
	struct pcp_metric items[METRIC_QUANTITY_COUNT];
	enum metric_quantity quantity[METRIC_QUANTITY_COUNT]; /* the quantity of each metric */
	size_t count;
	/* The domains whose instances are rows, or processes. */
	int row_domain, process_domain;
};

/* Lists a tracer's metrics. Errors: PROBE_ERROR_USAGE (`view` is no tracer's). */
PROBE_MUST_CHECK struct probe_error *pcp_metrics_init(
	const struct probe_view *view, size_t key_count, struct pcp_metrics *ret);

/* ---- Values ------------------------------------------------------------------- */

/* Converts metric_total() or metric_recent() to the metric's type. */
struct pcp_value pcp_value(
	const struct probe_view *view, enum metric_quantity quantity, long double value);

/* ---- Names and labels --------------------------------------------------------- */

/* Returns a row's full description; the caller frees it. NULL if memory is short. */
char *pcp_row_key(pid_t pid, const struct probe_table_row *row, size_t key_count);
/* Sets an instance's name, cut if it is too long. */
void pcp_instance_name(struct pcp_instance *instance, const char *key);

/* Add the labels of a process, or of a row. Return false if memory is short. */
bool pcp_process_labels(struct pcp_instance *instance, pid_t pid, const char *program);
bool pcp_row_labels(struct pcp_instance *instance, const struct probe_table_row *row,
	const struct probe_view *view, size_t key_count);
/* Replaces the label "program". Returns false if memory is short. */
bool pcp_rename_program(struct pcp_instance *instance, const char *program);

/* ---- The folder --------------------------------------------------------------- */

struct pcp_folder;
struct pcp_file;

/*
 * Loads libpcp_mmv, finds the folder that pmcd searches, and removes ended exporters' files.
 * Errors: as probe_pcp_open().
 */
PROBE_MUST_CHECK struct probe_error *pcp_folder_open(struct pcp_folder **ret);
void pcp_folder_close(struct pcp_folder *folder);

/*
 * Keeps other exporters from creating files, and so from using up numbers, until
 * pcp_folder_unlock(). Errors: PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *pcp_folder_lock(struct pcp_folder *folder);
void pcp_folder_unlock(struct pcp_folder *folder);

/*
 * Instances of our domains in all files but `own` (may be NULL). The caller frees *ret. The folder
 * must be locked. Errors: PROBE_ERROR_MEMORY.
 */
struct pcp_taken {
	int domain;
	int32_t id;
};
PROBE_MUST_CHECK struct probe_error *pcp_folder_taken(
	struct pcp_folder *folder, const char *own, struct pcp_taken **ret, size_t *count_ret);

/* ---- Files --------------------------------------------------------------------- */

/*
 * Creates a hidden file: all values of the first metric, then all values of the next. A metric has
 * a value for each instance of its domain, in the order of `instances`. Errors: PROBE_ERROR_SYSTEM
 * and others.
 */
PROBE_MUST_CHECK struct probe_error *pcp_file_create(struct pcp_folder *folder,
	const struct pcp_metric *metrics, size_t metric_count,
	const struct pcp_instance *const *instances, size_t instance_count, struct pcp_file **ret);
void pcp_file_set(struct pcp_file *file, size_t index, struct pcp_value value);
/* Makes the file visible. Errors: PROBE_ERROR_SYSTEM. */
PROBE_MUST_CHECK struct probe_error *pcp_file_show(struct pcp_file *file);
/* Makes PCP look at the folder again, in case it has not seen the file. Call it periodically. */
void pcp_file_remind(struct pcp_file *file);
/* Returns the file's name in the folder; owned by the file. */
const char *pcp_file_name(const struct pcp_file *file);
/* Returns true if the file still exists under its name. */
bool pcp_file_is_there(const struct pcp_file *file);
/* Removes the file, and frees `file` (may be NULL). */
void pcp_file_retire(struct pcp_file *file);

/* ---- Server ---------------------------------------------------------------------------------- */

/* Without the library's header, http_none.c replaces probe_metrics_listen() with an error. */
#if __has_include(<microhttpd.h>)
#define HTTP_SERVER_BUILT
#endif

/* ---- Stacks ---------------------------------------------------------------------------------- */

/* Compares whole stacks, from the outermost frame on. */
int stacks_compare(const struct probe_stacks_row *a, const struct probe_stacks_row *b);

/* Writes the name of a frame or, for NULL, the mark of a stack's missing part, as `end` says. */
void stacks_frame_label(
	struct buffer *out, const struct probe_frame *frame, enum probe_stack_end end);
/* Writes a hit's stack: an indented line for each frame, innermost first. */
void text_hit_stack(struct buffer *out, const struct probe_stack *stack);
/* Writes two fields for a stack: `name` says how the stack ends, and "frames" has its frames. */
void json_stack_fields(struct buffer *out, const char *name, const struct probe_stack *stack);

/* Writes a tree for each probe, of its `top` most frequent stacks; 0 means all. */
void text_stack_trees(
	struct buffer *out, const struct probe_stacks_row *rows, size_t count, size_t top);
void text_stacks(struct format_context *context, const struct probe_stacks_row *rows, size_t count,
	const struct probe_view *view);

/* ---- Text ------------------------------------------------------------------------------------ */

/* Writes a value as its argument's meaning (may be NULL) says, unless it is unreadable. */
void text_meant(
	struct buffer *out, const struct probe_arg_meaning *arg, const struct probe_value *value);

/* Writes a time with three digits and its unit: "812ns", "1.23ms". */
void text_duration(struct buffer *out, double ns);
/*
 * Significant digits for text_real(): the most for values and sums, fewer for averages, the fewest
 * for estimates from buckets and for powers.
 * text_number() writes an integer, or at most two decimals.
 */
enum text_digits { TEXT_POWER = 3, TEXT_BUCKET = 4, TEXT_AVERAGE = 10, TEXT_VALUE = 15 };
void text_real(struct buffer *out, double value, enum text_digits digits);
void text_number(struct buffer *out, long double value);
/* Writes a figure of a row: a time, a double with these digits, or a number. */
void text_figure(struct buffer *out, const struct probe_row *row, const struct probe_view *view,
	long double value, enum text_digits digits);
/* Writes a row's value, a whole number with all digits and never in hexadecimal. */
void text_exact(struct buffer *out, const struct probe_row *row, const struct probe_view *view,
	const struct probe_value *value);

void text_counted(struct buffer *out, uint64_t count, const char *one, const char *many);
/* Writes a line such as "... 3 more rows", if `count` is not 0. */
void text_more(struct buffer *out, uint64_t count, const char *one, const char *many);

/* Writes the heading of a table, if there are several tables. */
void text_heading(struct format_context *context, const struct probe_view *view);

/* Writes a chart of a row's buckets, and its other figures below. */
void text_chart(struct format_context *context, const struct probe_table_row *row,
	const struct probe_view *view);
