/* SPDX-License-Identifier: MIT */
/*
 * Finds flight recorders' memory in files.
 *
 * A recorder's own file begins with it. A core file (core(5)) has a segment for each dumped
 * mapping, and /proc/PID/coredump_filter usually includes shared memory without a name. Segments
 * that begin like a session's data are examined. The process may have crashed by writing to random
 * addresses, so nothing is trusted.
 *
 * The file is read, not mapped, because it may become shorter.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gelf.h>
#include <libelf.h>

#include "libprobe/base/array.h"
#include "libprobe/session/session.h"
#include "probe/remains.h"

enum { RECORDERS_MAX = 1024 };

struct probe_remains {
	char *path;
	int fd;
	uint64_t size;
	struct probe_session **sessions;
	size_t session_count;
	char **damages;
	size_t damage_count;
};

/* ---- One recorder ----------------------------------------------------------------------- */

static bool read_at(const struct probe_remains *r, uint64_t offset, void *to, size_t size)
{
	return pread(r->fd, to, size, (off_t)offset) == (ssize_t)size;
}

/* Loads a recorder's notes, unchecked; the caller frees them. */
static struct probe_error *load_notes(const struct probe_remains *r, uint64_t start,
	uint64_t length, uint8_t **ret, size_t *size_ret)
{
	struct data_notes place;

	if (!read_at(r, start + DATA_NOTES_OFFSET, &place, sizeof(place)) || !place.offset)
		return probe_error_new(PROBE_ERROR_NOT_FOUND, "no flight recorder");
	if (place.offset % 8 || place.bytes > NOTES_BYTES_MAX || place.offset > length ||
		place.bytes > length - place.offset)
		return probe_error_new(PROBE_ERROR_FORMAT,
			"what it says about itself is not in the file, which may have been cut");
	*size_ret = place.bytes;
	*ret = malloc(place.bytes + 8);
	if (!*ret)
		return probe_error_no_memory();
	if (read_at(r, start + place.offset, *ret, place.bytes))
		return NULL;
	free(*ret);
	*ret = NULL;
	return probe_error_system(EIO, "it cannot be read");
}

static struct probe_error *make_session(
	struct probe_remains *r, uint64_t start, uint64_t length, struct probe_session **ret)
{
	struct probe_session *s;
	struct probe_error *error;
	uint8_t *notes = NULL;
	size_t size;

	error = load_notes(r, start, length, &notes, &size);
	if (error)
		return error;
	s = calloc(1, sizeof(*s));
	if (!s) {
		free(notes);
		return probe_error_no_memory();
	}
	*s = (struct probe_session){.data = -1, .event = -1, .dead = true, .notes = notes};
	s->view = (struct snapshot){
		.fd = -1, .file = fcntl(r->fd, F_DUPFD_CLOEXEC, 0), .file_start = start};
	error = s->view.file < 0 ? probe_error_system(errno, "%s", r->path)
				 : notes_read(s, notes, size, length);
	if (error)
		probe_session_free(s);
	else
		*ret = s;
	return error;
}

/* Leaves out a damaged recorder and stores why. */
static struct probe_error *note_damage(struct probe_remains *r, struct probe_error *error)
{
	char *text = strdup(error->message);

	probe_error_free(error);
	if (!text || !ARRAY_ROOM(r->damages, r->damage_count)) {
		free(text);
		return probe_error_no_memory();
	}
	r->damages[r->damage_count++] = text;
	return NULL;
}

/* Takes the recorder at [start, start + length) of the file, if that is one. */
static struct probe_error *take(struct probe_remains *r, uint64_t start, uint64_t length)
{
	struct probe_session *session = NULL;
	struct data_header header;
	struct probe_error *error;

	if (length < REGISTRY_PAGE || r->session_count + r->damage_count >= RECORDERS_MAX ||
		!read_at(r, start, &header, sizeof(header)) || header.magic != DATA_MAGIC)
		return NULL;
	if (!ARRAY_ROOM(r->sessions, r->session_count))
		return probe_error_no_memory();
	error = make_session(r, start, length, &session);
	if (error && error->code == PROBE_ERROR_NOT_FOUND) {
		probe_error_free(error);
		return NULL;
	}
	if (error && error->code != PROBE_ERROR_MEMORY)
		return note_damage(r, error);
	if (!error)
		r->sessions[r->session_count++] = session;
	return error;
}

/* ---- Files ------------------------------------------------------------------------------ */

static struct probe_error *no_format(const struct probe_remains *r)
{
	return probe_error_new(PROBE_ERROR_FORMAT,
		"%s is neither the file of a flight recorder nor a core file (a compressed core "
		"has "
		"to be unpacked: coredumpctl dump -o core)",
		r->path);
}

static struct probe_error *take_segments(struct probe_remains *r, Elf *elf)
{
	struct probe_error *error = NULL;
	GElf_Ehdr header;
	GElf_Phdr segment;
	size_t count;

	if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header) || header.e_type != ET_CORE ||
		elf_getphdrnum(elf, &count) != 0)
		return no_format(r);
	for (size_t i = 0; i < count && i < INT32_MAX && !error; i++) {
		if (!gelf_getphdr(elf, (int)i, &segment))
			return no_format(r);
		/* A core file may have been cut off (ulimit -c). */
		if (segment.p_type != PT_LOAD || segment.p_offset >= r->size)
			continue;
		if (segment.p_filesz > r->size - segment.p_offset)
			segment.p_filesz = r->size - segment.p_offset;
		error = take(r, segment.p_offset, segment.p_filesz);
	}
	return error;
}

static struct probe_error *take_core(struct probe_remains *r)
{
	struct probe_error *error;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(r->fd, ELF_C_READ, NULL);
	error = elf ? take_segments(r, elf) : no_format(r);
	elf_end(elf);
	return error;
}

static int compare_sessions(const void *a, const void *b)
{
	const struct probe_session *const *x = a, *const *y = b;

	return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

static struct probe_error *take_file(struct probe_remains *r)
{
	uint64_t magic;

	if (!read_at(r, 0, &magic, sizeof(magic)))
		return no_format(r);
	return magic == DATA_MAGIC ? take(r, 0, r->size) : take_core(r);
}

struct probe_error *remains_of(int fd, const char *path, struct probe_remains **ret)
{
	struct probe_remains *r = calloc(1, sizeof(*r));
	struct probe_error *error = NULL;
	struct stat st;

	if (!r) {
		close(fd);
		return probe_error_no_memory();
	}
	r->fd = fd;
	r->path = strdup(path);
	if (!r->path)
		error = probe_error_no_memory();
	else if (fstat(fd, &st) < 0)
		error = probe_error_system(errno, "%s", path);
	else if (!S_ISREG(st.st_mode))
		error = probe_error_new(PROBE_ERROR_FORMAT, "%s is no regular file", path);
	else
		r->size = (uint64_t)st.st_size;
	if (!error)
		error = take_file(r);
	/*
	 * Sort sessions as `probectl read -p` lists them. In a core, later sessions come first,
	 * because they are at lower addresses.
	 */
	if (!error && r->session_count)
		qsort(r->sessions, r->session_count, sizeof(*r->sessions), compare_sessions);
	if (!error && !r->session_count && !r->damage_count)
		error = probe_error_new(PROBE_ERROR_NOT_FOUND,
			"%s holds no flight recorder: `probectl enable -t ring` leaves one in a "
			"process, whose core has it if bit 1 of /proc/PID/coredump_filter is set",
			path);
	if (error) {
		probe_remains_close(r);
		return error;
	}
	*ret = r;
	return NULL;
}

struct probe_error *probe_remains_open(const char *path, struct probe_remains **ret)
{
	/* Without O_NONBLOCK, a FIFO would wait for its writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	return fd < 0 ? probe_error_system(errno, "cannot open %s", path)
		      : remains_of(fd, path, ret);
}

void probe_remains_close(struct probe_remains *remains)
{
	if (!remains)
		return;
	for (size_t i = 0; i < remains->session_count; i++)
		probe_session_free(remains->sessions[i]);
	for (size_t i = 0; i < remains->damage_count; i++)
		free(remains->damages[i]);
	free(remains->sessions);
	free(remains->damages);
	free(remains->path);
	close(remains->fd);
	free(remains);
}

struct probe_session *probe_remains_session(const struct probe_remains *remains, size_t index)
{
	return index < remains->session_count ? remains->sessions[index] : NULL;
}

const char *probe_remains_damage(const struct probe_remains *remains, size_t index)
{
	return index < remains->damage_count ? remains->damages[index] : NULL;
}

const char *probe_remains_command(const struct probe_remains *remains, size_t index)
{
	const struct probe_session *session = probe_remains_session(remains, index);

	return session && session->command[0] ? session->command : NULL;
}
