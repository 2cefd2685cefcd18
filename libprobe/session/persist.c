/* SPDX-License-Identifier: MIT */
/*
 * Sessions that stay in a target after their controller, to be read later.
 *
 * The registry says that such a session has no owner, and stores a text that tells how it was
 * started. A later process selects and binds the probes again, with the same result. The numbers of
 * slots, sites and pairs, which could differ, are in the registry. The process checks that the
 * memory has the session's layout.
 *
 * The memory is mapped if possible (/proc/PID/map_files needs CAP_CHECKPOINT_RESTORE). Otherwise it
 * is read through the target, which allocates untouched pages of tables.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "arch/process.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/procfs.h"
#include "libprobe/session/session.h"

enum { TEXT_MAX = 1 << 16, MAX_OFF_PERCENT = 1, CALIBRATION_NS = 20000000 };

/* ---- Leaving ---------------------------------------------------------------------------- */

static struct probe_error *check_leaving(const struct probe_session *s, const char *text)
{
	if (s->stopped)
		return probe_error_new(PROBE_ERROR_STATE, "the session has ended");
	if (s->group.leader || s->group.member_count)
		return probe_error_new(
			PROBE_ERROR_USAGE, "the session shares its stubs with others");
	if (s->options.follow_libraries || s->options.watch)
		return probe_error_new(PROBE_ERROR_USAGE,
			"a session that stays in the target cannot follow "
			"libraries or programs: a controller does that");
	if (s->options.switched)
		return probe_error_new(PROBE_ERROR_USAGE,
			"a session that stays in the target cannot have a "
			"switch: a controller sets it");
	if (s->options.kind == PROBE_SESSION_RECORD && !s->options.overwrite)
		return probe_error_new(PROBE_ERROR_USAGE,
			"a session that stays in the target can record only into rings that it "
			"overwrites: nothing would read others");
	if (strlen(text) > TEXT_MAX)
		return probe_error_new(
			PROBE_ERROR_USAGE, "the session's text has more than %d bytes", TEXT_MAX);
	return NULL;
}

struct probe_error *probe_session_plain(
	const struct probe_session *session, struct probe_session_options *options)
{
	return asked_plain(&session->asked, options);
}

/* Stores when the clock started: readers measure ticks since then. */
static void keep_clock(struct probe_session *s)
{
	struct data_clock clock = {.stamp = s->clock.first_stamp,
		.realtime_ns = s->clock.first_ns,
		.steady_stamp = s->clock.first_steady_stamp,
		.steady_ns = s->clock.first_steady_ns};

	memcpy(s->data.rings.base + DATA_CLOCK_OFFSET, &clock, sizeof(clock));
	/* Measure the tick precisely now: a reader cannot measure it after a reboot. */
	while (s->options.overwrite && clock_monotonic_ns() - clock.steady_ns < CALIBRATION_NS)
		nanosleep(&(struct timespec){.tv_nsec = CALIBRATION_NS / 4}, NULL);
	clock_sync(&s->clock);
}

/* Gives the session's place in the registry to nobody. */
static struct probe_error *leave(struct probe_session *s, const char *text)
{
	AUTO(change_end) struct change c;
	struct probe_error *error = change_begin(s->target, &c);
	struct registry *r = &c.registry;
	struct reg_session *left;

	if (error)
		return error;
	left = registry_session(r, s->id);
	if (!left || left->stamp != s->data.rings.layout.stamp)
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d has become another program, or another controller has ended "
			"the session",
			s->target->pid);
	left->flags |= REG_SESSION_PERSISTENT;
	left->owner = 0;
	left->owner_start = 0;
	for (size_t i = 0; i < r->probe_count; i++)
		for (size_t k = 0; k < s->probe_count; k++)
			if (r->probes[i].session == s->id && r->probes[i].slot == s->known[k].slot)
				r->probes[i].part = session_part_word(&s->known[k].part);
	return registry_set_text(r, s->id, text, strlen(text) + 1) ? change_store(&c, true)
								   : probe_error_no_memory();
}

struct probe_error *probe_session_leave(struct probe_session *session, const char *text)
{
	struct probe_error *error = check_leaving(session, text);

	if (error)
		return error;
	keep_clock(session);
	error = notes_write(session) ?: leave(session, text);
	if (error)
		return error;
	session->stopped = true;
	inherited_forget(&session->goes_on);
	return NULL;
}

/* ---- Listing sessions ------------------------------------------------------------------- */

static bool is_shown(const struct reg_session *session)
{
	return (session->flags & (REG_SESSION_PERSISTENT | REG_SESSION_RETIRED)) ==
	       REG_SESSION_PERSISTENT;
}

/* Returns how many probes of a session are in use. */
static size_t count_probes(const struct registry *r, uint32_t session)
{
	size_t count = 0;

	for (size_t i = 0; i < r->probe_count; i++)
		count += r->probes[i].session == session && r->probes[i].refcount;
	return count;
}

/* Makes one block: the array, then the texts. */
struct probe_error *probe_target_kept(
	struct probe_target *target, struct probe_kept **ret, size_t *count_ret)
{
	AUTO(registry_deinit) struct registry r = {0};
	AUTO(maps_deinit) struct maps maps = {0};
	struct probe_error *error = maps_read(target->pid, &maps);
	size_t count = 0, bytes = 0, size;
	AUTO_FREE char **texts = NULL;
	struct probe_kept *kept;
	char *at;

	error = error ?: registry_load(target->pid, &maps, &r);
	if (error)
		return error;
	texts = calloc(r.session_count + 1, sizeof(*texts));
	if (!texts)
		return probe_error_no_memory();
	for (size_t i = 0; i < r.session_count; i++) {
		texts[i] = registry_text(&r, r.sessions[i].id, &size);
		bytes += texts[i] ? strlen(texts[i]) + 1 : 0;
	}
	kept = malloc(r.session_count * sizeof(*kept) + bytes + 1);
	at = kept ? (char *)(kept + r.session_count) : NULL;
	for (size_t i = 0; i < r.session_count; i++) {
		if (kept && is_shown(&r.sessions[i])) {
			kept[count] = (struct probe_kept){.id = r.sessions[i].id,
				.probes = count_probes(&r, r.sessions[i].id)};
			if (texts[i]) {
				kept[count].text = at;
				at = stpcpy(at, texts[i]) + 1;
			}
			count++;
		}
		free(texts[i]);
	}
	if (!kept)
		return probe_error_no_memory();
	*ret = kept;
	*count_ret = count;
	return NULL;
}

/* ---- Opening ---------------------------------------------------------------------------- */

/* Opens the file of a session's data. Returns -1 on failure, or if it could be truncated. */
static int open_data(pid_t pid, const struct maps *maps, const struct reg_session *session)
{
	const struct mapping *found = NULL;
	struct stat status;
	AUTO_FD int name = -1;
	int fd;

	for (size_t i = 0; i < maps->count && !found; i++)
		if (maps->items[i].start == session->data &&
			maps->items[i].end == session->data + session->data_size)
			found = &maps->items[i];
	if (!found)
		return -1;
	name = open(map_file_path(procfs_living(pid), found).text, O_PATH | O_CLOEXEC);
	fd = name < 0 ? -1 : procfs_open_regular(name, O_RDONLY);
	if (fd >= 0 &&
		(fcntl(fd, F_GET_SEALS) < 0 || !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) ||
			fstat(fd, &status) != 0 || (uint64_t)status.st_size < session->data_size))
		cleanup_fd(&fd);
	return fd;
}

static void open_view(
	struct probe_session *s, const struct maps *maps, const struct reg_session *session)
{
	void *base = MAP_FAILED;

	s->data.rings.layout = *session;
	s->data.view = (struct snapshot){.fd = -1, .pid = s->target->pid, .layout = *session};
	s->data.fd = open_data(s->target->pid, maps, session);
	if (s->data.fd >= 0)
		base = mmap(NULL, session->data_size, PROT_READ, MAP_SHARED | MAP_NORESERVE,
			s->data.fd, 0);
	if (base == MAP_FAILED) {
		s->data.served = served_of(s->data.view.pid);
		s->data.view.served = &s->data.served;
		return;
	}
	s->data.view.base = base;
	s->data.view.fd = s->data.fd;
}

/* Uses the start time in the session's memory if it is plausible: the target can write it. */
static void take_clock(struct probe_session *s)
{
	struct clock clock = s->clock;
	struct data_clock kept;
	double tick_ns, kept_ns;

	if (!snapshot_read(&s->data.view, DATA_CLOCK_OFFSET, &kept, sizeof(kept)) || !kept.stamp)
		return;
	tick_ns = clock_tick_ns(&clock);
	clock.first_stamp = kept.stamp;
	clock.first_ns = kept.realtime_ns;
	clock.first_steady_stamp = kept.steady_stamp;
	clock.first_steady_ns = kept.steady_ns;
	clock.line_count = 0;
	clock_sync(&clock);
	kept_ns = clock_tick_ns(&clock);
	if (kept.stamp < clock.last_stamp && kept.realtime_ns < clock.last_ns &&
		kept.steady_stamp < clock.last_steady_stamp &&
		kept.steady_ns < clock.last_steady_ns &&
		kept_ns > tick_ns * (100 - MAX_OFF_PERCENT) / 100 &&
		kept_ns < tick_ns * (100 + MAX_OFF_PERCENT) / 100)
		s->clock = clock;
}

/* Refuses a session with a probe of an unreadable file: its hits would be unknown, not 0. */
static struct probe_error *check_all_known(const struct probe_session *s,
	const struct modules *modules, const struct registry *r, const struct selection *selection)
{
	const struct module *unread = NULL;
	size_t count = count_probes(r, s->id);

	for (size_t i = 0; i < modules->count && !unread; i++)
		unread = modules->items[i].reason ? &modules->items[i] : NULL;
	if (!unread || selection->probe_count >= count)
		return NULL;
	return probe_error_new(PROBE_ERROR_STATE,
		"process %d: %zu of the %zu probes of session %u are in files that cannot be read "
		"(%s: %s)",
		s->target->pid, count - selection->probe_count, count, s->id, unread->path,
		unread->reason);
}

static struct probe_error *resume(struct probe_session *s, struct modules *modules,
	const struct maps *maps, const struct registry *r)
{
	const struct reg_session *session = registry_session(r, s->id);
	const struct arch *arch = arch_host();
	struct data_needs needs = session_needs(s);
	AUTO(selection_deinit) struct selection selection = {0};
	struct probe_error *error;

	if (!session || !is_shown(session))
		return probe_error_new(PROBE_ERROR_NOT_FOUND,
			"process %d has no persistent session %u", s->target->pid, s->id);
	if (!data_fits(session, &needs))
		return probe_error_new(PROBE_ERROR_STATE,
			"session %u of process %d gathers something other than what was requested",
			s->id, s->target->pid);
	open_view(s, maps, session);
	if (session->flags & REG_SESSION_KERNEL_TIME)
		clock_init(&s->clock, NULL);
	take_clock(s);
	modules->catalogue = s->options.catalogue;
	error = recall_probes(modules, s->target->pid, maps, r)
			?: select_probes(
				   modules, s->patterns, s->request.pattern_count, &selection);
	if (!error) {
		/* Keep only probes that belong to the session and are mapped. */
		for (size_t i = 0; i < selection.probe_count; i++)
			selection.probes[i].unwanted =
				!selection.probes[i].module->object ||
				!registry_probe(r, selection.probes[i].key, s->id);
		selection_drop_unwanted(&selection);
		error = check_all_known(s, modules, r, &selection);
	}
	error = error ?: session_stack_start(s, arch) ?: session_resume(s, arch, &selection, r);
	if (!error && s->options.overwrite)
		error = notes_take_layouts(s);
	return error ?: session_take_probes(s, r, &selection) ?: session_watch(s, r);
}

struct probe_error *probe_session_open(struct probe_target *target, uint32_t id,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_session **ret)
{
	AUTO(registry_deinit) struct registry registry = {0};
	AUTO(modules_deinit) struct modules modules = {0};
	AUTO(maps_deinit) struct maps maps = {0};
	struct probe_session *s;
	struct probe_error *error =
		session_create(target, arch_process()->counter, request, options, &s);

	if (error)
		return error;
	s->id = id;
	s->opened = s->stopped = true;
	error = maps_read(target->pid, &maps)
		?: registry_load(target->pid, &maps, &registry)
		?: modules_read(target->pid, NULL, &modules)
		?: resume(s, &modules, &maps, &registry);
	if (error)
		probe_session_free(s);
	else
		*ret = s;
	return error;
}

/* ---- Ending ----------------------------------------------------------------------------- */

struct probe_error *probe_target_end(struct probe_target *target, uint32_t id)
{
	AUTO(change_end) struct change c;
	struct probe_error *error = change_begin(target, &c);
	struct reg_session *session;

	if (error)
		return error;
	session = registry_session(&c.registry, id);
	if (!session || !is_shown(session))
		return probe_error_new(PROBE_ERROR_NOT_FOUND,
			"process %d has no persistent session %u", target->pid, id);
	registry_retire(&c.registry, session);
	return uninstall_unreferenced(&c);
}
