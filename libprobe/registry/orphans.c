/* SPDX-License-Identifier: MIT */
/*
 * A controller has the target create a file in memory, map it, and close it;
 * then the registry lists the mapping. Killed in between, it leaves an unknown
 * mapping or a descriptor. Both have our name, so nothing of the target's own is
 * ever mistaken for one:
 *
 *   code         private and executable, in no arena of the registry
 *   data         not executable; its header is empty or leads to this process's home, and
 *                no session of the registry has it
 *   descriptor   of either: the target itself never keeps one
 *   home         with a registry that has no session left
 *
 * A probectl that is itself a target has data mapped and open, too, which leads
 * to the home of another process.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/page.h"
#include "libprobe/registry/registry.h"
#include "libprobe/process/process.h"
#include "libprobe/base/procfs.h"

/*
 * A killed controller leaves a few; a program that maps thousands itself must not make others wait
 * until all of them are unmapped.
 */
enum { AT_ONCE = 64, MAPPINGS_AT_ONCE = 512 };

/* ---- Mappings --------------------------------------------------------------------------- */

static bool has_code(const struct registry *r, uint64_t address)
{
	for (size_t i = 0; i < r->arena_count; i++)
		if (address - r->arenas[i].start < r->arenas[i].size)
			return true;
	return false;
}

static bool leads_here(const struct data_header *header, const struct registry *r)
{
	return header->magic == 0 || (header->magic == DATA_MAGIC && header->home == r->home);
}

/* Of a lasting file: that of this process. A probectl has those of others mapped. */
static bool is_made_by(const struct data_header *header, pid_t pid)
{
	return header->magic == DATA_MAGIC && header->maker && header->maker == lasting_maker(pid);
}

static bool is_orphan(struct served *known, const struct mapping *m, const struct registry *r)
{
	struct data_header header;

	if (shared_is_code(m))
		return !has_code(r, m->start);
	if (!shared_is_data(m) || m->offset != 0 || registry_has_data(r, m->start))
		return false;
	/* What cannot be read was mapped before its file got a size. */
	if (memory_read_known(known, m->start, &header, sizeof(header)) != sizeof(header))
		return !shared_is_lasting(m);
	/* The program has protected this code (mprotect(2)), so no thread can run there. */
	if (!m->is_shared && header.magic != DATA_MAGIC)
		return true;
	return shared_is_lasting(m) ? is_made_by(&header, known->pid) : leads_here(&header, r);
}

/* The guard took the place of the first arena's last page: where it is missing, there it is. */
static bool lacks_guard(const struct mapping *m)
{
	return shared_is_code(m) && (m->end - m->start) % ARENA_BYTES == ARENA_BYTES - page_bytes();
}

struct probe_error *orphans_unmap(struct change *change, size_t *count_ret)
{
	AUTO_FREE struct own_extent *extents = calloc(2 * change->maps.count + 1, sizeof(*extents));
	struct served known AUTO_SERVED;
	struct lasting_names files = {0};
	struct probe_error *error = extents ? NULL : probe_error_no_memory();
	size_t count = 0;

	*count_ret = 0;
	served_begin(change->pid, &known);
	for (size_t i = 0; i < change->maps.count && *count_ret < MAPPINGS_AT_ONCE && !error; i++) {
		const struct mapping *m = &change->maps.items[i];

		if (!is_orphan(&known, m, &change->registry))
			continue;
		++*count_ret;
		if (!lasting_note(&files, &change->maps, m->start))
			error = probe_error_no_memory();
		extents[count++] =
			(struct own_extent){m->start, m->end - m->start, m->inode, false, false};
		if (lacks_guard(m))
			extents[count++] = (struct own_extent){
				m->end, page_bytes(), OWN_NEW_GUARD, true, false};
	}
	if (!error)
		error = own_unmap(change, extents, count);
	for (size_t i = 0; i < count && !error; i++)
		*count_ret -= extents[i].is_sealed;
	if (error)
		lasting_deinit(&files);
	else
		lasting_remove(&files, change->pid);
	return error;
}

/* ---- Descriptors ------------------------------------------------------------------------ */

static bool is_orphan_descriptor(pid_t pid, const char *name, const struct registry *r)
{
	static const char ours[] = "/memfd:" SHARED_NAME " (deleted)";
	struct data_header header = {0};
	char path[64], link[PATH_MAX];
	ssize_t length;
	bool lasting;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", pid, name);
	length = readlink(path, link, sizeof(link) - 1);
	link[length < 0 ? 0 : length] = '\0';
	lasting = shared_is_lasting_name(link);
	if (!lasting && strcmp(link, ours) != 0)
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = pread(fd, &header, sizeof(header), 0);
	close(fd);
	/* One that was just created is empty. */
	if (lasting)
		return length == 0 || (length > 0 && is_made_by(&header, pid));
	return length >= 0 && leads_here(&header, r);
}

/* The first of them, at most `room`: how many were found. */
static size_t find_descriptors(pid_t pid, const struct registry *r, int64_t *fds, size_t room)
{
	struct dirent *entry;
	size_t count = 0;
	char path[48];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && count < room && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && is_orphan_descriptor(pid, entry->d_name, r))
			fds[count++] = atoll(entry->d_name);
	if (dir)
		closedir(dir);
	return count;
}

/*
 * The thread whose descriptors /proc/PID/fd shows; others may have their own (unshare(2)). Not
 * found while it cannot make calls.
 */
static bool find_owner(struct change *change, size_t *ret)
{
	for (size_t i = 0; i < change->control.count; i++) {
		if (change->control.threads[i].tid != change->pid)
			continue;
		*ret = i;
		change->seccomp.wanted = SECCOMP_UNMAP;
		return control_can_run(&change->control, &change->control.threads[i]);
	}
	return false;
}

/* With all threads stopped: no thread closes one meanwhile, and opens another file there. */
static struct probe_error *close_orphans(struct change *change, size_t *count_ret)
{
	struct control_call calls[AT_ONCE];
	struct probe_error *error = NULL;
	int64_t fds[AT_ONCE];
	size_t owner, count = find_descriptors(change->pid, &change->registry, fds, AT_ONCE);

	if (!count)
		return NULL;
	error = change_judge(change);
	if (!error)
		error = change_stop(change);
	if (error)
		return error;
	count = find_descriptors(change->pid, &change->registry, fds, AT_ONCE);
	for (size_t i = 0; i < count; i++)
		calls[i] = change_call_close(fds[i]);
	if (!find_owner(change, &owner))
		count = 0;
	for (size_t i = 0; i < count; i++)
		lasting_remove_open(change->pid, change->pid, fds[i]);
	if (count)
		error = change_run_in(change, owner, "close a file", calls, count);
	change_resume(change);
	*count_ret += error ? 0 : count;
	return error;
}

/* ---- Both ------------------------------------------------------------------------------- */

void orphans_count(
	pid_t pid, const struct maps *maps, const struct registry *registry, struct orphans *ret)
{
	pid_t living = procfs_living(pid);
	struct served known AUTO_SERVED;
	int64_t fds[AT_ONCE];

	served_begin(pid, &known);
	*ret = (struct orphans){.descriptors = find_descriptors(living, registry, fds, AT_ONCE)};
	for (size_t i = 0; i < maps->count; i++)
		ret->mappings += is_orphan(&known, &maps->items[i], registry);
	if (!registry->session_count && !registry_is_sealed(registry))
		ret->mappings += registry->arena_count;
}

struct probe_error *orphans_remove(struct change *change, struct orphans *ret)
{
	size_t arenas = change->registry.arena_count;
	struct probe_error *error;

	*ret = (struct orphans){0};
	error = orphans_unmap(change, &ret->mappings);
	if (!error)
		error = close_orphans(change, &ret->descriptors);
	if (error || !change->registry.home || change->registry.session_count ||
		registry_is_sealed(&change->registry))
		return error;
	ret->mappings += arenas;
	return change_collect(change);
}
