/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/procfs.h"
#include "libprobe/patch/patch.h"

/* ==== Report ================================================================================== */

struct probe_error *report_refusal(struct probe_report *report, const struct select_probe *probe,
	const struct select_site *site)
{
	struct probe_refusal *r;

	if (!report)
		return NULL;
	if (!ARRAY_ROOM(report->refusals, report->refusal_count))
		return probe_error_no_memory();
	r = &report->refusals[report->refusal_count];
	*r = (struct probe_refusal){.provider = strdup(probe->provider),
		.name = strdup(probe->name),
		.path = strdup(probe->module->path),
		.pc = site->pc,
		.named = probe->exact,
		.reason = select_reason_text(site)};
	report->refusal_count++;
	return r->provider && r->name && r->path && r->reason ? NULL : probe_error_no_memory();
}

static struct probe_error *drop(struct selection *selection, struct select_probe *probe,
	const char *why, struct probe_report *report)
{
	struct select_site *site = &selection->sites[probe->first_site];

	probe->unwanted = true;
	select_refuse(site, why);
	for (size_t i = 0; i < report->refusal_count; i++)
		if (report->refusals[i].pc == site->pc)
			return NULL;
	return report_refusal(report, probe, site);
}

struct probe_error *report_drop(struct selection *selection, struct select_probe *probe,
	struct probe_error *why, struct probe_report *report)
{
	size_t provider = strlen(probe->provider), name = strlen(probe->name);
	const char *text = why->message;
	struct probe_error *error;

	/* The report already names the probe. */
	if (strncmp(text, probe->provider, provider) == 0 && text[provider] == ':' &&
		strncmp(text + provider + 1, probe->name, name) == 0 &&
		strncmp(text + provider + 1 + name, ": ", 2) == 0)
		text += provider + name + 3;
	error = drop(selection, probe, text, report);

	selection->sites[probe->first_site].reasons[0] = NULL;
	probe_error_free(why);
	return error;
}

struct probe_error *report_drop_lacking(struct selection *selection, struct probe_report *report)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < selection->probe_count && !error; i++) {
		struct select_probe *probe = &selection->probes[i];

		if (probe->lacking)
			error = drop(
				selection, probe, "it lacks an argument that is asked for", report);
	}
	selection_drop_unwanted(selection);
	return error;
}

struct probe_error *report_refusal_error(
	pid_t pid, size_t refused, size_t sites, const struct select_probe *probe)
{
	return probe_error_new(PROBE_ERROR_REFUSED,
		"process %d: %zu of %zu sites cannot be patched (%s:%s%s), so nothing is changed%s",
		pid, refused, sites, probe->provider, probe->name, refused > 1 ? ", ..." : "",
		refused < sites ? " (--keep-going does the rest)" : "");
}

struct probe_error *report_drop_unread(struct selection *selection,
	const struct probe_request *request, bool served, pid_t pid, struct probe_report *report)
{
	size_t sites = selection->site_count, refused = 0;
	const struct select_probe *first = NULL;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < selection->probe_count && !error; i++) {
		struct select_probe *probe = &selection->probes[i];

		if (probe->module->object)
			continue;
		probe->unwanted = true;
		if (!first || (probe->exact && !first->exact))
			first = probe;
		refused += probe->site_count;
		for (size_t k = 0; k < probe->site_count && !error; k++) {
			struct select_site *site = &selection->sites[probe->first_site + k];

			select_refuse(site, probe->module->reason);
			error = report_refusal(report, probe, site);
		}
	}
	if (!error && first && !request->keep_going &&
		(first->exact || (!served && refused == sites)))
		error = report_refusal_error(pid, refused, sites, first);
	selection_drop_unwanted(selection);
	return error;
}

/* Removes all refusals but the first `count`. */
static void report_forget(struct probe_report *report, size_t count)
{
	while (report->refusal_count > count) {
		struct probe_refusal *r = &report->refusals[--report->refusal_count];

		free((char *)r->provider);
		free((char *)r->name);
		free((char *)r->path);
		free((char *)r->reason);
	}
}

struct probe_error *report_note(struct probe_report *report, const char *format, ...)
{
	char *note;
	va_list ap;
	int length;

	if (!report)
		return NULL;
	if (!ARRAY_ROOM(report->notes, report->note_count))
		return probe_error_no_memory();
	va_start(ap, format);
	length = vasprintf(&note, format, ap);
	va_end(ap);
	if (length < 0)
		return probe_error_no_memory();
	report->notes[report->note_count++] = note;
	return NULL;
}

struct probe_error *report_memory(struct probe_report *report, const struct change *change)
{
	struct probe_error *error = NULL;

	if (change->lost)
		error = report_note(report, REPORT_LOST, change->pid);
	if (!error && change->sealed_bytes)
		error = report_note(
			report, REPORT_SEALED, change->pid, (uintmax_t)change->sealed_bytes >> 10);
	return error;
}

void probe_report_deinit(struct probe_report *report)
{
	report_forget(report, 0);
	for (size_t i = 0; i < report->note_count; i++)
		free(report->notes[i]);
	free(report->notes);
	free(report->refusals);
	*report = (struct probe_report){0};
}

/* ==== Attempt ================================================================================= */

struct attempt attempt_begin(const struct probe_target *target, struct probe_report *report)
{
	return (struct attempt){.target = target,
		.report = report,
		.lessons = target->lessons,
		.refusals = report->refusal_count};
}

bool attempt_next(struct attempt *attempt)
{
	bool learned = attempt->target->lessons != attempt->lessons;

	if (attempt->is_made && (!attempt->error || !learned))
		return false;
	attempt->is_made = true;
	attempt->lessons = attempt->target->lessons;
	probe_error_free(attempt->error);
	attempt->error = NULL;
	report_forget(attempt->report, attempt->refusals);
	return true;
}

/* ==== Unread ================================================================================== */

/* A target's files may be unreadable: see registry/recall.c. */

struct probe_error *probe_target_unread(struct probe_target *target,
	void (*visit)(const struct probe_unread *file, void *data), void *data)
{
	AUTO(maps_deinit) struct maps maps = {0};
	AUTO(modules_deinit) struct modules modules = {0};
	AUTO(registry_deinit) struct registry registry = {0};
	struct probe_error *error;

	error = maps_read(target->pid, &maps)
		?: modules_read_mapped(procfs_living(target->pid), &maps, NULL, &modules)
		?: registry_load(target->pid, &maps, &registry);
	for (size_t i = 0; i < modules.count && !error; i++)
		error = module_read_notes(&modules.items[i]);
	error = error ?: recall_probes(&modules, target->pid, &maps, &registry);
	for (size_t i = 0; i < modules.count && !error; i++) {
		const struct module *module = &modules.items[i];

		if (module->reason)
			visit(&(struct probe_unread){module->path, module->reason, module->unnamed},
				data);
	}
	return error;
}
