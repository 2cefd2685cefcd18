/* SPDX-License-Identifier: MIT */
/*
 * The parts of the export to Performance Co-Pilot: metrics (metrics.c) and their values
 * (values.c) in its form, names and labels of instances (names.c), the folder of the metric files
 * (folder.c), these files (file.c), and their contents (pcp.c).
 */
#ifndef LIBPROBE_OUTPUT_PCP_H
#define LIBPROBE_OUTPUT_PCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include "libprobe/base/error.h"
#include "libprobe/output/model.h"
#include "probe/table.h"

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
/* The number of values of each instance of a domain. */
size_t pcp_metrics_of(const struct pcp_metrics *metrics, int domain);

/* ---- Values ------------------------------------------------------------------- */

/* What metric_total() or metric_recent() gives, in the type of the metric. */
struct pcp_value pcp_value(
	const struct probe_view *view, enum metric_quantity quantity, long double value);

/* ---- Names and labels --------------------------------------------------------- */

uint32_t pcp_hash(const char *text);

/* The full description of a row, which the caller frees; NULL without memory. */
char *pcp_row_key(pid_t pid, const struct probe_table_row *row, size_t key_count);
/* The same of a row of tags: the tag. */
char *pcp_row_tag(const struct probe_table_row *row);
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

#endif
