/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_OUTPUT_OUTPUT_H
#define LIBPROBE_OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/error.h"
#include "libprobe/base/json.h"
#include "probe/metrics.h"
#include "probe/otlp.h"
#include "probe/sink.h"
#include "probe/table.h"

/* ---- Client ---------------------------------------------------------------------------------- */

/*
 * A client that posts messages to one server with libcurl, and never waits.
 *
 * Messages are sent one after the other. If the server cannot take a message now (429, 502, 503,
 * 504, or no connection), the message is sent again after 1 s, 2 s and so on, up to 30 s, or after
 * the time that the server asks for. Meanwhile further messages are queued. If the queue is full,
 * its oldest message is dropped. A message that the server rejects is dropped at once. The items of
 * dropped messages are counted as lost.
 */

/* Without the library's header, http_none.c replaces these functions with errors. */
#if __has_include(<curl/curl.h>)
#define HTTP_CLIENT_BUILT
#endif

enum { HTTP_KINDS_MAX = 2, HTTP_WHY_BYTES = 160 };

/* Numbers of items of one kind (spans or points) that were sent and that were lost. */
struct http_sent {
	uint64_t done, lost;
};

struct http_client;

/*
 * Prepares a client for the server at `url`. Each message adds its path to the URL. `headers` are
 * the user's, as for probe_otlp_open(). Sends nothing yet. Errors: those of probe_otlp_open().
 */
PROBE_MUST_CHECK struct probe_error *http_client_open(
	const char *url, const char *headers, struct http_client **ret);
/* Frees the client and drops the messages still queued. `client` may be NULL. */
void http_client_close(struct http_client *client);

/*
 * http_client_post() queues a JSON message, and takes ownership of its `body`. The message holds
 * `items` items of a kind. `path` is a string constant, and so is `rejected`: in the server's
 * answer, the number of rejected items follows this name.
 */
struct http_message {
	unsigned int kind;
	const char *path, *rejected;
	char *body;
	size_t length;
	uint64_t items;
};
void http_client_post(struct http_client *client, const struct http_message *message);

/* See the functions of a server (probe/metrics.h), which work in the same way. */
int http_client_fd(const struct http_client *client);
uint64_t http_client_due_ns(const struct http_client *client);
void http_client_run(struct http_client *client);

/* Drops all queued messages. Their items count as lost. */
void http_client_give_up(struct http_client *client);
/* Returns true if a message is queued or being sent. */
bool http_client_is_busy(const struct http_client *client);
/* Returns the numbers of items of a kind that were sent and lost so far. */
struct http_sent http_client_sent(const struct http_client *client, unsigned int kind);
/* Returns why the last message was refused, or "" if none was. Owned by the client. */
const char *http_client_why(const struct http_client *client);

/* ---- Headers --------------------------------------------------------------------- */

/*
 * Reads the next of several headers, NAME=VALUE,NAME=VALUE, whose values may contain %XX. Sets *ret
 * to "NAME: VALUE", which the caller frees. Returns false if no header is left, if *headers is
 * NULL, or on an error: PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
bool http_next_header(const char **headers, char **ret, struct probe_error **error_ret);

/* ---- Flame ----------------------------------------------------------------------------------- */

/* Draws call stacks as a flame graph (SVG). */

struct flame_stack {
	/* Frames, the outermost first, separated by semicolons; no control characters. */
	const char *text;
	uint64_t weight;
};

/* The unit of weights. FLAME_TIME is in nanoseconds. */
enum flame_unit { FLAME_HITS, FLAME_TIME, FLAME_BYTES };

/*
 * Draws a flame graph. Sorts `stacks`. `out` must come from buffer_init(); if memory runs out,
 * out->no_memory is set.
 */
void flame_graph(
	struct buffer *out, struct flame_stack *stacks, size_t count, enum flame_unit unit);

/* ---- Format ---------------------------------------------------------------------------------- */

/*
 * An output format is a table of functions that append to the sink's buffer. A function may be NULL
 * only if its comment says so.
 */

/* The text of the last wall-clock second, which is kept because many hits come in one second. */
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
	/* NULL if the format writes nothing at the start. */
	void (*begin)(struct format_context *context, bool header);
	void (*hit)(struct format_context *context, const struct probe_hit *hit,
		const struct probe_session_probe *probe, const char *comm);
	void (*begin_spans)(struct format_context *context, bool header);
	void (*span)(struct format_context *context, const struct probe_hit *hit,
		const struct probe_session_probe *begin, const struct probe_session_probe *end,
		const char *comm);
	void (*lost)(struct format_context *context, const struct probe_session_probe *probe,
		uint64_t lost);
	/* NULL if the format does not report waits. */
	void (*waited)(struct format_context *context, uint64_t hits, uint64_t ns);
	void (*site)(struct format_context *context, pid_t pid, const struct probe_site_news *news);
	void (*table)(struct format_context *context, const struct probe_table *table,
		const struct probe_view *view);
	void (*stacks)(struct format_context *context, const struct probe_stacks_row *rows,
		size_t count, const struct probe_view *view);
	/* NULL if the format writes nothing at the end. */
	void (*end)(struct format_context *context);
};

/* Like probe_sink_create(), for any format. */
PROBE_MUST_CHECK struct probe_error *sink_create(
	const struct format *format, int fd, const char *name, struct probe_sink **ret);
struct format_context *sink_context(struct probe_sink *sink);

/*
 * format_silent writes nothing. It is used for output to a loaded tracer (libprobe/output/host.c).
 */
extern const struct format format_silent;
extern const struct format format_text;
extern const struct format format_json;

/* ---- Grid ------------------------------------------------------------------------------------ */

/*
 * Text in columns. Cells are first collected in a buffer, because the widest cell decides the width
 * of its column.
 */

enum { GRID_COLUMNS_MAX = 24 };

struct grid_cell {
	size_t offset, length; /* in bytes of the grid's text */
	size_t width;	       /* in characters */
};

struct grid {
	struct buffer text;
	struct grid_cell *cells;
	size_t cell_count;
	size_t column_count; /* known after the first line */
	size_t widths[GRID_COLUMNS_MAX];
	bool right[GRID_COLUMNS_MAX]; /* the column is right-aligned */
	size_t start;		      /* offset of the cell that is being written */
	bool no_memory;
};

/* Initialises an empty grid. Returns false if there is no memory. */
bool grid_init(struct grid *grid);
void grid_deinit(struct grid *grid);

/*
 * Ends a cell: it holds everything written to grid->text since the previous cell. Cells come line
 * by line, in the order of the columns; all lines have the same number of cells.
 */
void grid_cell(struct grid *grid, size_t column, bool right);

/* Writes the grid to `out`. If memory ran out, sets out->no_memory. */
void grid_print(const struct grid *grid, struct buffer *out);

/* ---- Json ------------------------------------------------------------------------------------ */

/* Writes a value. `name` is as in the functions of base/json.h. */
void json_value(struct buffer *out, const char *name, const struct probe_value *value);

/* Writes a line for a hit. If `pc` is 0, it is unknown, and the line has no "pc". */
void json_hit(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm);
/* Writes a line for a span: the hit of its end event, with its start event. */
void json_span(struct buffer *out, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *comm);
/* Writes a line for lost hits; provider and name may be NULL. */
void json_lost(struct buffer *out, const struct probe_session_probe *probe, uint64_t lost);
/* Writes the members of a row's object. */
void json_row_fields(struct buffer *out, const struct probe_table_row *row, size_t key_count,
	const struct probe_view *view);

/* ---- Model ----------------------------------------------------------------------------------- */

/*
 * Rows of tables as metrics, independent of the output format: the quantities of a row, and the
 * labels that name it. Performance Co-Pilot, OpenMetrics and OpenTelemetry write the same
 * quantities and labels, each in its own form.
 */

/* ---- Quantities ---------------------------------------------------------------- */

/* The quantities of a row or a process. Never change the numbers: PCP's archives contain them. */
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
	/* The columns (enum probe_column) of the views that have the quantity. */
	unsigned int columns;
	bool is_counter;
	bool is_value; /* a value or a time; otherwise a number of hits */
	bool is_per_process;
	bool keyless; /* rows with keys lack the quantity */
	double percent;
};
extern const struct metric_info metric_infos[METRIC_QUANTITY_COUNT];

/*
 * Returns true if the rows of a view have a quantity. A view of tags has only the quantities that
 * PCP has for tags.
 */
bool metric_has(const struct probe_view *view, size_t key_count, enum metric_quantity quantity);
/* Returns true if the quantity never decreases. */
bool metric_is_counter(const struct probe_view *view, enum metric_quantity quantity);

/*
 * metric_total() returns a quantity of a row of the whole table, metric_recent() of a row of the
 * last interval. Both return NAN if the row has no value. Times are in nanoseconds.
 */
long double metric_total(const struct probe_table_row *row, enum metric_quantity quantity);
long double metric_recent(
	const struct probe_table_row *row, enum metric_quantity quantity, uint64_t interval_ns);

/*
 * The sum of a row as a counter that never decreases. A time is a number of clock ticks times the
 * length of a tick, which becomes known better with each look. So the sum itself may shrink a
 * little, and a program that computes rates would believe that the counter was reset. Initialise
 * with {0}.
 */
struct metric_growth {
	uint64_t hits;
	long double total;
	double unit; /* unit of the row's buckets when it had its first hits */
};
void metric_grow(
	struct metric_growth *growth, const struct probe_view *view, const struct probe_row *row);

/*
 * Returns true if a row is shown as metrics. Rows of ends without a start event are not: those ends
 * are counted elsewhere.
 */
bool metric_shows(const struct probe_view *view, const struct probe_table_row *row);

/* A table at the last look, and its increase since the previous look. Initialise with {0}. */
struct metric_history {
	struct probe_table *all, *recent;
	uint64_t taken_ns; /* CLOCK_MONOTONIC */
	uint64_t interval_ns;
};
/*
 * Takes a new table as the last look. The history owns the table from now on, even after an error.
 * Error: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *metric_history_take(
	struct metric_history *history, struct probe_table *table);
void metric_history_deinit(struct metric_history *history);

/* ---- Labels -------------------------------------------------------------------- */

/* A label. The text may hold any bytes. It is valid only until metric_take_label returns. */
struct metric_label {
	const char *name;
	const char *text;
	size_t length;
	bool is_number;
};
/* Receives a label. If there is no memory, returns false, and no further label follows. */
typedef bool metric_take_label(const struct metric_label *label, void *data);

/*
 * Call `take` for each label. metric_process_labels() has the labels `pid` and `program`,
 * metric_row_labels() all others.
 */
bool metric_process_labels(pid_t pid, const char *program, metric_take_label *take, void *data);
bool metric_row_labels(const struct probe_table_row *row, const struct probe_view *view,
	size_t key_count, metric_take_label *take, void *data);

/* Writes the value of a key as text. A string is not quoted if `is_alone` is set. */
void metric_key_text(struct buffer *out, const struct probe_value *key, bool is_alone);

/* ---- Metrics --------------------------------------------------------------------------------- */

/*
 * A set of metrics: the rows of several tracers, the families of metrics made of these rows, the
 * buckets of histograms, and the text of the whole set.
 */

/* ---- Families ------------------------------------------------------------------ */

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* A metric with its name, such as "probectl_latency_seconds". */
struct metric_family {
	char name[64];
	const char *help;
	const char *unit; /* may be NULL */
	enum metric_kind kind;
	enum metric_quantity quantity; /* METRIC_TOTAL for a histogram */
};

/* The family that tells how many rows are left out (probe_metrics_left_out()). */
extern const struct metric_family metric_left_out;

/* Converts a value to the family's unit; times become seconds. */
double metric_in_unit(const struct metric_family *family, long double value);

/* ---- Histograms ---------------------------------------------------------------- */

enum { METRIC_BOUNDS_MAX = 41 };

/* ---- The set ------------------------------------------------------------------- */

/* The name of a row that has been shown: its labels. */
struct metric_name {
	char *labels; /* provider="shop",probe="order" */
	/*
	 * The round in which the row was last seen. It shows whether two rows of one round have the
	 * same name.
	 */
	uint64_t round;
	struct metric_growth growth;
};

struct metric_process {
	pid_t pid;
	char *program; /* NULL if the process got no room */
	char *labels;  /* pid="4711",program="shop" */
	void *names;   /* the names of the process's rows, a tree of tsearch(3) */
	uint64_t round;
	struct metric_history history;
	/*
	 * For each row of the two tables in `history`, the row's name; NULL if the row is left out.
	 */
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
/* Visits all samples that a process has in a family. */
void metric_samples(const struct metric_source *source, const struct metric_family *family,
	const struct metric_process *process, metric_visit *visit, void *data);

/*
 * Returns the format (enum probe_metrics_format) of the page at a path; negative if there is no
 * such page.
 */
int metrics_find_page(const char *path, const char *accept);

/* ---- Otlp ------------------------------------------------------------------------------------ */

/*
 * OTLP: messages in JSON with metrics or spans, and the client that sends them.
 *
 * JSON is used because it needs no library and is readable, and every collector accepts it. The
 * messages have the form that protobuf defines for JSON, with OTLP's exceptions: identifiers are
 * hexadecimal, and enumerations are numbers. Whole numbers of 64 bits are strings.
 *
 * https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
 */

enum otlp_kind { OTLP_POINTS, OTLP_SPANS };

enum { TRACE_ID_DIGITS = 32, SPAN_ID_DIGITS = 16 };

/* The identifiers of a span, of its trace and of its parent, in hexadecimal digits. */
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

/* ---- Messages ------------------------------------------------------------------- */

/* ---- Points and spans ------------------------------------------------------------- */

/* Writes a message with all points of a set. Returns their number. */
uint64_t otlp_write_points(
	struct buffer *out, const struct probe_metrics *metrics, uint64_t now_ns);
/* otlp_write_span() adds a span to a batch. otlp_end_spans() closes the open lists of the batch. */
void otlp_write_span(struct otlp_batch *batch, const struct probe_hit *hit,
	const struct probe_session_probe *begin, const struct probe_session_probe *end,
	const char *program, const struct otlp_ids *ids);
void otlp_end_spans(struct otlp_batch *batch);

/* ---- Trace ids --------------------------------------------------------------------- */

/*
 * Finds the identifiers of a span in its arguments. Creates random ones if the arguments hold none.
 */
void otlp_ids_of(struct probe_otlp *otlp, const struct probe_hit *hit, struct otlp_ids *ret);

/* ---- Pcp ------------------------------------------------------------------------------------- */

/*
 * The export to Performance Co-Pilot: the metrics and their values in PCP's form, the names and
 * labels of instances, and the folder with the metric files.
 */

/* Without PCP's headers, pcp_none.c replaces these functions with errors. */
#if __has_include(<pcp/pmapi.h>) && __has_include(<pcp/mmv_stats.h>) && \
	__has_include(<pcp/mmv_dev.h>)
#define PCP_BUILT
#endif

enum {
	/* Limits of PCP's pmdammv(1), which ignores a file that exceeds them. */
	PCP_COUNT_MAX = 10000,
	PCP_NAME_BYTES = 256,  /* length of an instance's name, with the NUL */
	PCP_LABEL_BYTES = 225, /* length of a label's value in JSON, without quotes */
	PCP_LABELS_MAX = 10    /* number of an instance's labels */
};

/*
 * A value that means "no value". PCP shows nothing for an unsigned metric then, and NaN for a
 * double.
 */
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
	/*
	 * A hash of the name, so an instance has the same id in every file. The id may differ only
	 * if another name has the same hash.
	 */
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
	/* The domains whose instances are the rows and the processes. */
	int row_domain, process_domain;
};

/* Lists the metrics of a tracer. Error: PROBE_ERROR_USAGE (`view` is no tracer's). */
PROBE_MUST_CHECK struct probe_error *pcp_metrics_init(
	const struct probe_view *view, size_t key_count, struct pcp_metrics *ret);

/* ---- Values ------------------------------------------------------------------- */

/* Converts the result of metric_total() or metric_recent() to the type of the metric. */
struct pcp_value pcp_value(
	const struct probe_view *view, enum metric_quantity quantity, long double value);

/* ---- Names and labels --------------------------------------------------------- */

/* Returns the full description of a row, which the caller frees, or NULL if there is no memory. */
char *pcp_row_key(pid_t pid, const struct probe_table_row *row, size_t key_count);
/* Sets the name of an instance, truncated if it is too long. */
void pcp_instance_name(struct pcp_instance *instance, const char *key);

/*
 * Add labels to an instance: first those of the process, then those of the row. Return false if
 * there is no memory.
 */
bool pcp_process_labels(struct pcp_instance *instance, pid_t pid, const char *program);
bool pcp_row_labels(struct pcp_instance *instance, const struct probe_table_row *row,
	const struct probe_view *view, size_t key_count);
/* Replaces an instance's label "program". Returns false if there is no memory. */
bool pcp_rename_program(struct pcp_instance *instance, const char *program);

/* ---- The folder --------------------------------------------------------------- */

struct pcp_folder;
struct pcp_file;

/*
 * Loads libpcp_mmv, finds the folder that pmcd searches, and removes the files of exporters that
 * have ended. Errors: those of probe_pcp_open().
 */
PROBE_MUST_CHECK struct probe_error *pcp_folder_open(struct pcp_folder **ret);
void pcp_folder_close(struct pcp_folder *folder);

/*
 * Prevents other exporters from creating files until pcp_folder_unlock() is called. Meanwhile no
 * other exporter can take a free number. Error: PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *pcp_folder_lock(struct pcp_folder *folder);
void pcp_folder_unlock(struct pcp_folder *folder);

/*
 * Lists the instances of our domains in all files except the file named `own` (may be NULL). The
 * caller frees *ret. The folder must be locked. Error: PROBE_ERROR_MEMORY.
 */
struct pcp_taken {
	int domain;
	int32_t id;
};
PROBE_MUST_CHECK struct probe_error *pcp_folder_taken(
	struct pcp_folder *folder, const char *own, struct pcp_taken **ret, size_t *count_ret);

/* ---- Files --------------------------------------------------------------------- */

/*
 * Creates a hidden file. The file has all values of the first metric, then those of the second, and
 * so on. A metric has one value for each instance of its domain, in the order of `instances`.
 * Errors: PROBE_ERROR_SYSTEM, _PERMISSION, _MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *pcp_file_create(struct pcp_folder *folder,
	const struct pcp_metric *metrics, size_t metric_count,
	const struct pcp_instance *const *instances, size_t instance_count, struct pcp_file **ret);
/* Sets value `index`. */
void pcp_file_set(struct pcp_file *file, size_t index, struct pcp_value value);
/* Makes the file visible. Error: PROBE_ERROR_SYSTEM. */
PROBE_MUST_CHECK struct probe_error *pcp_file_show(struct pcp_file *file);
/* Makes PCP look at the folder again, in case it has not seen the file. Call it periodically. */
void pcp_file_remind(struct pcp_file *file);
/* Returns the file's name in the folder; owned by the file. */
const char *pcp_file_name(const struct pcp_file *file);
/* Returns true if the file still exists under its name. */
bool pcp_file_is_there(const struct pcp_file *file);
/* Removes the file, and frees `file`, which may be NULL. */
void pcp_file_retire(struct pcp_file *file);

/* ---- Protobuf -------------------------------------------------------------------------------- */

/*
 * Fields of protocol buffers (protobuf.dev/programming-guides/encoding). No library is used,
 * because it would need code that is generated from the schema at build time. We use one schema,
 * pprof's, which needs only the three kinds of fields that these functions write. As in proto3,
 * fields with the value 0 are left out.
 */

/* ---- Server ---------------------------------------------------------------------------------- */

/*
 * A small HTTP server with libmicrohttpd. Its pages can be read (GET, HEAD), and nothing else.
 *
 * The server has no thread: the caller's loop waits for the server's descriptor, then calls
 * http_server_run(). No function of the server waits. A thread would need locks around the data of
 * the pages, and threads are dangerous in a program that starts others with fork(2).
 */

/* Without the library's header, http_none.c replaces these functions with errors. */
#if __has_include(<microhttpd.h>)
#define HTTP_SERVER_BUILT
#endif

enum { HTTP_PAGES_MAX = 4 };

/* The pages that a server offers. */
struct http_pages {
	/*
	 * The content type of each page, by the page's number; NULL if there is no page with this
	 * number.
	 */
	const char *types[HTTP_PAGES_MAX];
	/*
	 * Returns the number of the page at a path, for a client's `Accept` (may be NULL); negative
	 * if there is none.
	 */
	int (*find)(const char *path, const char *accept);
	/* Generates a page. The server frees *ret. */
	struct probe_error *(*make)(int page, void *data, char **ret, size_t *length_ret);
	void *data;
};

struct http_server;

/*
 * Starts a server that listens at ADDR:PORT. `pages` is borrowed. Errors: those of
 * probe_metrics_listen().
 */
PROBE_MUST_CHECK struct probe_error *http_server_open(
	const char *address, const struct http_pages *pages, struct http_server **ret);
void http_server_close(struct http_server *server);

/* Returns the server's address as a part of a URL: "[::1]:9100". Owned by the server. */
const char *http_server_address(const struct http_server *server);

/* See probe_metrics_server_fd() and the functions after it. */
int http_server_fd(const struct http_server *server);
uint64_t http_server_due_ns(const struct http_server *server);
void http_server_run(struct http_server *server);
/* Discards the generated pages. Each page is generated again when it is next requested. */
void http_server_renew(struct http_server *server);

/* ---- Addresses ----------------------------------------------------------------- */

/*
 * The length of a socket's address as a part of a URL. The address never contains a name, because a
 * look-up might take long.
 */
enum { HTTP_ADDRESS_BYTES = 64 };

/* ---- Stacks ---------------------------------------------------------------------------------- */

/* Used by all code that writes call stacks. */

/* Compares whole stacks, beginning with the outermost frame. */
int stacks_compare(const struct probe_stacks_row *a, const struct probe_stacks_row *b);

/*
 * Writes a frame's name. If `frame` is NULL, writes the mark for the missing part of a stack, which
 * `end` selects.
 */
void stacks_frame_label(
	struct buffer *out, const struct probe_frame *frame, enum probe_stack_end end);
/* Writes the stack of one hit: an indented line for each frame, the innermost first. */
void text_hit_stack(struct buffer *out, const struct probe_stack *stack);
/* Writes two fields for a stack: `name` says how the stack ends, and "frames" has its frames. */
void json_stack_fields(struct buffer *out, const char *name, const struct probe_stack *stack);

/*
 * Writes a tree for each probe. The tree has the probe's `top` most frequent stacks; all if `top`
 * is 0.
 */
void text_stack_trees(
	struct buffer *out, const struct probe_stacks_row *rows, size_t count, size_t top);
void text_stacks(struct format_context *context, const struct probe_stacks_row *rows, size_t count,
	const struct probe_view *view);

/* ---- Text ------------------------------------------------------------------------------------ */

/* Used by all code that writes text. */

/* Writes provider:name. */
void text_probe(struct buffer *out, const char *provider, const char *name);
void text_value(struct buffer *out, const struct probe_value *value);
/*
 * Writes a value in the form that the meaning of its argument requires. `arg` is NULL if the
 * meaning is unknown. For an unreadable value, the meaning is ignored.
 */
void text_meant(
	struct buffer *out, const struct probe_arg_meaning *arg, const struct probe_value *value);

/* Writes a time with three significant digits and its unit: "812ns", "1.23ms". */
void text_duration(struct buffer *out, double ns);
/*
 * text_real() writes a number with a fraction, in `digits` digits: TEXT_VALUE for values and sums,
 * fewer for averages, the fewest for estimates from buckets. text_number() writes a count or a
 * measured value: an integer, or at most two decimals.
 */
enum text_digits { TEXT_POWER = 3, TEXT_BUCKET = 4, TEXT_AVERAGE = 10, TEXT_VALUE = 15 };
void text_real(struct buffer *out, double value, enum text_digits digits);
void text_number(struct buffer *out, long double value);

/* Writes the heading of a table, if there are several tables. */
void text_heading(struct format_context *context, const struct probe_view *view);

/* Writes the chart of a row's buckets, and below it the row's other figures. */
void text_chart(struct format_context *context, const struct probe_table_row *row,
	const struct probe_view *view);

#endif
