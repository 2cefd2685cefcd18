/* SPDX-License-Identifier: MIT */
/*
 * Limits a session's memory. Touched pages are charged to the target's control group, and at its
 * limit the kernel kills the target. So with a limit, buffers and tables use only a part of what
 * the group has left, even with all pages touched.
 *
 * Some pages are allocated in advance: those of a flight recorder's file and, with the sysctl
 * vm.overcommit_memory=2, all (libprobe/process/process.h). They use only a part of what the file
 * system or machine has left.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/file.h"
#include "libprobe/base/page.h"
#include "libprobe/base/procfs.h"
#include "libprobe/session/session.h"

enum {
	ROOM_SHARE = 2,	 /* half of the memory that is left stays for the program */
	LIMIT_SHARE = 8, /* 1/8 of the limit, if the user set no size: a new program may grow */
	KEYS_MIN = 8,
	FIGURE_MAX = 32,
	WHY_MAX = 256,
	FREE_NS = 1000000000
};

static const char *figure(uint64_t bytes, char text[FIGURE_MAX])
{
	if (bytes >> 20 && (bytes % (1 << 20) == 0 || bytes >> 24))
		snprintf(text, FIGURE_MAX, "%ju MiB", (uintmax_t)bytes >> 20);
	else if (bytes >> 20)
		snprintf(text, FIGURE_MAX, "%.1f MiB", (double)bytes / (1 << 20));
	else
		snprintf(text, FIGURE_MAX, "%ju KiB", (uintmax_t)bytes >> 10);
	return text;
}

/*
 * Returns the bytes that are allocated in advance, or those of all pages that hits can reach; 0 if
 * the layout is impossible.
 */
static uint64_t bytes_of(const struct data_needs *needs, size_t probes, bool in_advance)
{
	struct reg_session s = {.cpus = sysconf(_SC_NPROCESSORS_CONF)};
	struct probe_error *error = data_lay_out(&s, probes, needs);
	uint64_t flights = (uint64_t)needs->threads * needs->pairs, entry, start;

	if (error) {
		probe_error_free(error);
		return 0;
	}
	if (in_advance)
		return data_bytes(&s);
	/* Count only an entry's beginning: only deep recursion touches more. */
	entry = s.flights ? data_flight_bytes(&s) : 0;
	start = page_bytes() + needs->keep_bytes;
	if (needs->by_key || needs->flights_min || flights > s.flight_entries)
		flights = s.flight_entries;
	return page_bytes() + ((s.cpus + UINT64_C(1)) << s.slots_shift) +
	       flights * (entry < start ? entry : start) + 2 * (uint64_t)s.cpus * s.ring_bytes;
}

/*
 * Halves sizes that the user did not set, until the session takes at most `most` bytes. Returns the
 * bytes, which are more if nothing can shrink any further.
 */
static uint64_t shrink(const struct probe_session_options *asked, struct data_needs *needs,
	size_t probes, bool in_advance, uint64_t most)
{
	for (;;) {
		uint64_t bytes = bytes_of(needs, probes, in_advance);

		if (bytes <= most)
			return bytes;
		/* The table of start events may always shrink, because no option sets its size. */
		if (needs->ring_bytes > DATA_RING_MIN && asked->may_shrink)
			needs->ring_bytes /= 2;
		else if (needs->pairs && needs->flights_min > DATA_FLIGHTS_FEW)
			needs->flights_min /= 2;
		else if (needs->key_count && needs->keys_max > KEYS_MIN && !asked->gather.keys_max)
			needs->keys_max /= 2;
		else
			return bytes;
	}
}

/*
 * Reads the control group's limit. A group without a limit is read only once a second, because
 * thousands of programs of a build may share it.
 */
static void look_at_memory(const struct probe_session *session, struct cgroup_memory *ret)
{
	struct launches *l = session->options.watch ? watch_launches(session->options.watch) : NULL;
	uint64_t now = clock_monotonic_ns();
	char groups[sizeof(l->free_groups)] = "";

	if (l)
		file_read(procfs_path("/proc/%d/cgroup", session->target->pid).text, groups,
			sizeof(groups));
	*ret = (struct cgroup_memory){UINT64_MAX, UINT64_MAX};
	if (groups[0] && now < l->free_until_ns && strcmp(groups, l->free_groups) == 0)
		return;
	cgroup_memory(session->target->pid, ret);
	if (!l || ret->limit != UINT64_MAX || strlen(groups) + 1 == sizeof(groups))
		return;
	memcpy(l->free_groups, groups, sizeof(groups));
	l->free_until_ns = now + FREE_NS;
}

/* Reports that buffers or tables are smaller; `why` tells how much memory is left. */
static struct probe_error *report_less(const struct data_needs *needs,
	const struct data_needs *wanted, const char *why, struct probe_report *report)
{
	char now[FIGURE_MAX], before[FIGURE_MAX];

	if (needs->ring_bytes != wanted->ring_bytes)
		return report_note(report,
			"%s: the buffers have %s for each CPU instead of %s (-b)", why,
			figure(needs->ring_bytes, now), figure(wanted->ring_bytes, before));
	if (needs->keys_max != wanted->keys_max)
		return report_note(report,
			"%s: the tables have room for %zu keys on each CPU instead of %zu (--keys)",
			why, needs->keys_max, wanted->keys_max);
	return NULL;
}

/* Fits what is allocated in advance into a part of the `room` left at `where`. */
static struct probe_error *fit_in_advance(const struct probe_session *session,
	struct data_needs *needs, size_t probes, const char *where, uint64_t room,
	struct probe_report *report)
{
	const struct data_needs wanted = *needs;
	uint64_t most = room / ROOM_SHARE, bytes = bytes_of(needs, probes, true);
	char text[FIGURE_MAX], takes[FIGURE_MAX], part[FIGURE_MAX], why[WHY_MAX];

	if (session->options.together > 1)
		most /= session->options.together;
	/* If forked children do not use the table, it has its default size, and may shrink. */
	if (bytes > most && needs->pairs && !needs->flights_min)
		needs->flights_min = DATA_FLIGHTS_MIN;
	if (bytes > most)
		bytes = shrink(&session->options, needs, probes, true, most);
	if (bytes > most)
		return probe_error_new(PROBE_ERROR_REFUSED,
			"process %d: the session would take %s, and %s has %s left, of which it "
			"may take %s: use smaller buffers (-b), fewer keys (--keys) or fewer "
			"probes",
			session->target->pid, figure(bytes, takes), where, figure(room, text),
			figure(most, part));
	snprintf(why, sizeof(why), "process %d: %s has %s left", session->target->pid, where,
		figure(room, text));
	return report_less(needs, &wanted, why, report);
}

struct probe_error *session_fit(const struct probe_session *session, struct data_needs *needs,
	size_t probes, struct probe_report *report)
{
	const struct probe_session_options *asked = &session->options;
	const char *where = "the file system of --file";
	struct probe_error *error = NULL;
	struct data_needs wanted;
	struct cgroup_memory memory = {.room = UINT64_MAX};
	uint64_t most, bytes, left;
	char room[FIGURE_MAX], limit[FIGURE_MAX], why[WHY_MAX], wants[FIGURE_MAX], part[FIGURE_MAX];

	if (asked->file) {
		error = lasting_room(session->target->pid, asked->file, &left);
		if (error)
			return error;
	} else {
		left = overcommit_room();
		where = "with vm.overcommit_memory=2, the machine";
		/* probectl allocates the pages, so its own control group is charged. */
		if (left != UINT64_MAX)
			cgroup_memory(getpid(), &memory);
		if (left != UINT64_MAX && memory.room < left) {
			left = memory.room;
			where = "with vm.overcommit_memory=2, the control group of probectl";
		}
	}
	if (asked->file || left != UINT64_MAX)
		error = fit_in_advance(session, needs, probes, where, left, report);
	if (error)
		return error;
	wanted = *needs;
	look_at_memory(session, &memory);
	if (memory.limit == UINT64_MAX || !bytes_of(needs, probes, false))
		return NULL;
	most = memory.room / ROOM_SHARE;
	if (memory.limit / LIMIT_SHARE < most && asked->may_shrink && !asked->gather.keys_max)
		most = memory.limit / LIMIT_SHARE;
	if (asked->together > 1)
		most /= asked->together;
	bytes = shrink(asked, needs, probes, false, most);
	figure(memory.room, room);
	figure(memory.limit, limit);
	if (bytes > most)
		return probe_error_new(PROBE_ERROR_REFUSED,
			"process %d: the session may need %s of memory; its control group has %s "
			"left of %s, and the session may use %s of that: use smaller buffers (-b), "
			"fewer keys (--keys) or fewer probes",
			session->target->pid, figure(bytes, wants), room, limit,
			figure(most, part));
	snprintf(why, sizeof(why), "process %d: its control group has %s left of %s",
		session->target->pid, room, limit);
	return report_less(needs, &wanted, why, report);
}
