/* SPDX-License-Identifier: MIT */
/* A file of memory-mapped values, made with libpcp_mmv (folder.c). */
#include "libprobe/output/mmv.h"

#ifdef PCP_BUILT
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/procfs.h"

enum {
	/* Any number from 1 to 2047: with a domain's number it must fit into 22 bits. */
	CLUSTER = 1786,
	REMIND_NS = 1100 * 1000 * 1000
};

struct pcp_file {
	struct pcp_folder *folder;
	char *path; /* as the library knows it, with the dot */
	const char *hidden, *visible;
	mmv_registry_t *registry;
	mmv_disk_header_t *header; /* the mapped file */
	mmv_disk_value_t *values;
	size_t value_count;
	bool is_shown, is_reminded;
	uint64_t shown_ns;
};

/* ---- A file ----------------------------------------------------------------------- */

static pmUnits units_of(const struct pcp_metric *metric)
{
	pmUnits units = {0};

	if (metric->is_count) {
		units.dimCount = metric->is_each ? -1 : 1;
		units.scaleCount = PM_COUNT_ONE;
	}
	if (metric->is_time) {
		units.dimTime = metric->is_rate ? -1 : 1;
		units.scaleTime = metric->is_double ? PM_TIME_SEC : PM_TIME_NSEC;
	}
	return units;
}

static bool add_domains(const struct pcp_file *file, const struct pcp_metric *metrics, size_t count)
{
	const struct libpcp *libpcp = &file->folder->libpcp;

	for (size_t i = 0; i < count; i++) {
		size_t k = 0;

		while (metrics[k].domain != metrics[i].domain)
			k++;
		if (k == i && libpcp->add_indom(file->registry, metrics[i].domain, NULL, NULL))
			return false;
	}
	return true;
}

static bool add_metrics(const struct pcp_file *file, const struct pcp_metric *metrics, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct pcp_metric *metric = &metrics[i];

		if (file->folder->libpcp.add_metric(file->registry, metric->name, metric->item,
			    metric->is_double ? MMV_TYPE_DOUBLE : MMV_TYPE_U64,
			    metric->is_counter ? MMV_SEM_COUNTER : MMV_SEM_INSTANT,
			    units_of(metric), metric->domain, metric->help, NULL))
			return false;
	}
	return true;
}

static bool add_instance(const struct pcp_file *file, const struct pcp_instance *instance)
{
	const struct libpcp *libpcp = &file->folder->libpcp;

	/*
	 * Up to version 6 it always fails with EINVAL, because its loop ends only at the end of
	 * the domains. find_values() checks that all instances exist.
	 */
	(void)libpcp->add_instance(file->registry, instance->domain, instance->id, instance->name);
	for (size_t i = 0; i < instance->label_count; i++) {
		const struct pcp_label *label = &instance->labels[i];

		if (libpcp->add_instance_label(file->registry, instance->domain, instance->id,
			    label->name, label->value,
			    label->is_number ? MMV_NUMBER_TYPE : MMV_STRING_TYPE, 0) < 0)
			return false;
	}
	return true;
}

/* The host as a label of all metrics; pmcd's own label "hostname" is the host where pmcd runs. */
static bool add_host(const struct pcp_file *file)
{
	char host[256] = "", value[sizeof(host) + 2];

	gethostname(host, sizeof(host) - 1);
	for (char *at = host; *at; at++)
		if (*at < ' ' || *at == '"' || *at == '\\' || *at > '~')
			*at = '_';
	host[PCP_LABEL_BYTES] = '\0';
	snprintf(value, sizeof(value), "\"%s\"", host);
	return file->folder->libpcp.add_registry_label(
		       file->registry, "host", value, MMV_STRING_TYPE, 0) >= 0;
}

/* The library writes through a mapping: without disk space that raises SIGBUS. */
static struct probe_error *check_room(
	const struct pcp_folder *folder, size_t instances, size_t labels, size_t values)
{
	uint64_t bytes = 65536 + 512 * instances + sizeof(mmv_disk_label_t) * labels +
			 sizeof(mmv_disk_value_t) * values;
	struct statvfs fs;

	if (fstatvfs(folder->fd, &fs))
		return probe_error_system(errno, "cannot write metrics into %s", folder->path);
	/* Some file systems report no sizes. */
	if (fs.f_blocks && (uint64_t)fs.f_bavail * fs.f_frsize < bytes)
		return probe_error_system(ENOSPC, "cannot write metrics into %s", folder->path);
	return NULL;
}

/* Finds the values in what the library made, and checks that they are in our order. */
static bool find_values(struct pcp_file *file, const struct pcp_metric *metrics,
	size_t metric_count, const struct pcp_instance *const *instances, size_t instance_count)
{
	const char *base = (const char *)file->header;
	const mmv_disk_toc_t *toc = (const mmv_disk_toc_t *)(file->header + 1);
	size_t at = 0;

	for (int i = 0; i < file->header->tocs; i++) {
		if (toc[i].type != MMV_TOC_VALUES)
			continue;
		file->values = (mmv_disk_value_t *)((char *)file->header + toc[i].offset);
		file->value_count = (size_t)toc[i].count;
	}
	for (size_t i = 0; i < metric_count; i++) {
		for (size_t k = 0; k < instance_count; k++) {
			const mmv_disk_value_t *value = &file->values[at];

			if (instances[k]->domain != metrics[i].domain)
				continue;
			if (at++ >= file->value_count ||
				((const mmv_disk_metric2_t *)(base + value->metric))->item !=
					(uint32_t)metrics[i].item ||
				((const mmv_disk_instance2_t *)(base + value->instance))
						->internal != instances[k]->id)
				return false;
		}
	}
	return at == file->value_count;
}

static struct probe_error *file_name(struct pcp_file *file)
{
	pid_t pid = getpid();

	if (asprintf(&file->path, "%s/." PCP_PREFIX "%d.%" PRIu64 ".%" PRIu64, file->folder->path,
		    (int)pid, procfs_start_time(pid), clock_monotonic_ns()) < 0) {
		file->path = NULL;
		return probe_error_no_memory();
	}
	file->hidden = strrchr(file->path, '/') + 1;
	file->visible = file->hidden + 1;
	return NULL;
}

/* The library's functions fail without memory, or on arguments that we must not pass. */
static bool fill(struct pcp_file *file, const struct pcp_metric *metrics, size_t metric_count,
	const struct pcp_instance *const *instances, size_t instance_count)
{
	file->registry = file->folder->libpcp.registry(
		file->path, CLUSTER, MMV_FLAG_NOPREFIX | MMV_FLAG_PROCESS | MMV_FLAG_SENTINEL);
	if (!file->registry || !add_domains(file, metrics, metric_count))
		return false;
	for (size_t i = 0; i < instance_count; i++)
		if (!add_instance(file, instances[i]))
			return false;
	return add_host(file) && add_metrics(file, metrics, metric_count);
}

static struct probe_error *file_start(struct pcp_file *file, const struct pcp_metric *metrics,
	size_t metric_count, const struct pcp_instance *const *instances, size_t instance_count)
{
	struct probe_error *error = file_name(file);

	if (error)
		return error;
	errno = 0;
	if (!fill(file, metrics, metric_count, instances, instance_count))
		return probe_error_system(errno, "cannot make metrics");
	file->header = file->folder->libpcp.start(file->registry);
	if (!file->header && (errno == EACCES || errno == EPERM || errno == EROFS))
		return pcp_no_access(file->folder, errno);
	if (!file->header)
		return probe_error_system(
			errno, "cannot write metrics into %s", file->folder->path);
	if (!find_values(file, metrics, metric_count, instances, instance_count))
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"this version of libpcp_mmv orders metrics in another way");
	return NULL;
}

struct probe_error *pcp_file_create(struct pcp_folder *folder, const struct pcp_metric *metrics,
	size_t metric_count, const struct pcp_instance *const *instances, size_t instance_count,
	struct pcp_file **ret)
{
	size_t labels = 1;
	struct pcp_file *file;
	struct probe_error *error;

	for (size_t i = 0; i < instance_count; i++)
		labels += instances[i]->label_count;
	error = check_room(folder, instance_count, labels, metric_count * instance_count);
	if (error)
		return error;
	file = calloc(1, sizeof(*file));
	if (!file)
		return probe_error_no_memory();
	file->folder = folder;
	error = file_start(file, metrics, metric_count, instances, instance_count);
	if (error)
		pcp_file_retire(file);
	else
		*ret = file;
	return error;
}

void pcp_file_set(struct pcp_file *file, size_t index, struct pcp_value value)
{
	/* pmdammv may read it at any time; each value is complete and independent of others. */
	__atomic_store_n(&file->values[index].value.ull, value.u, __ATOMIC_RELAXED);
}

struct probe_error *pcp_file_show(struct pcp_file *file)
{
	if (renameat(file->folder->fd, file->hidden, file->folder->fd, file->visible))
		return probe_error_system(
			errno, "cannot write metrics into %s", file->folder->path);
	file->is_shown = true;
	file->shown_ns = clock_monotonic_ns();
	return NULL;
}

void pcp_file_remind(struct pcp_file *file)
{
	if (file->is_reminded || clock_monotonic_ns() - file->shown_ns < REMIND_NS)
		return;
	file->is_reminded = true;
	futimens(file->folder->fd, NULL);
}

const char *pcp_file_name(const struct pcp_file *file)
{
	return file->visible;
}

bool pcp_file_is_there(const struct pcp_file *file)
{
	return !faccessat(file->folder->fd, file->visible, F_OK, AT_SYMLINK_NOFOLLOW);
}

void pcp_file_retire(struct pcp_file *file)
{
	if (!file)
		return;
	/* Tells processes that have it mapped to look again. */
	if (file->header)
		__atomic_store_n(&file->header->g1, 0, __ATOMIC_RELAXED);
	/* The library removes the file by its original name. */
	if (file->is_shown)
		renameat(file->folder->fd, file->visible, file->folder->fd, file->hidden);
	if (file->registry)
		file->folder->libpcp.free(file->registry);
	free(file->path);
	free(file);
}

#endif
