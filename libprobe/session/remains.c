/* SPDX-License-Identifier: MIT */
/*
 * Writes what a flight recorder says of itself, and reads flight recorders from files.
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
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gelf.h>
#include <libelf.h>

#include "arch/process.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/session/session.h"

/* ==== Notes =================================================================================== */

/*
 * The description that a flight recorder keeps in its own memory.
 *
 * 	first page of the data, at DATA_NOTES_OFFSET: struct data_notes
 * 	at the offset in struct data_notes, 8-byte aligned:
 * 		struct notes_header
 * 		each probe:  struct notes_probe, provider, name, path; padded to 8
 * 		each site:   struct notes_site, struct notes_arg[], struct notes_capture[]
 */

enum {
	NOTES_VERSION = 4,
	NOTES_BOOT_BYTES = 40, /* length of /proc/sys/kernel/random/boot_id */
	NOTES_COMMAND_BYTES = SESSION_COMMAND_BYTES
};
#define NOTES_MAGIC UINT64_C(0x7365746f6e6f7270) /* "pronotes" */

struct notes_header {
	uint64_t magic;
	uint32_t version;
	uint32_t bytes; /* bytes of all notes, including this header */
	uint64_t data_size;
	uint64_t rings; /* offset of the rings in the data */
	uint32_t cpus, ring_bytes;
	uint32_t rings_shift;
	uint32_t flags; /* REG_SESSION_KERNEL_TIME */
	uint32_t session;
	int32_t pid; /* in the process's own namespace, like the thread ids in records */
	uint64_t record_max;
	struct data_clock clock;
	double tick_ns;			   /* as measured when the session was left */
	char boot[NOTES_BOOT_BYTES];	   /* id of the boot to which time stamps belong */
	char command[NOTES_COMMAND_BYTES]; /* name of the process (/proc/PID/comm), or "" */
	uint32_t probes, sites;
};

struct notes_probe {
	uint32_t provider, name, path; /* bytes of each string with its NUL */
	uint32_t unused;
};

struct notes_site {
	uint64_t pc;
	uint32_t number, probe;
	uint8_t arg_count, recorded, checked;
	uint8_t unused[5];
};

enum notes_text { NOTES_GUESS = 1, NOTES_KNOWN };

struct notes_arg {
	int8_t value, string;
	uint8_t is_signed, is_float;
	uint8_t text; /* enum notes_text; 0 if the argument has no text beside its number */
	uint8_t is_bytes;
	uint8_t size;
	uint8_t is_symbol;
};

struct notes_capture {
	uint32_t size, bytes_max;
	uint8_t is_string, has_length;
	uint8_t unused[6];
};

_Static_assert(sizeof(struct notes_header) % 8 == 0 && sizeof(struct notes_probe) % 8 == 0 &&
		       sizeof(struct notes_site) % 8 == 0 && sizeof(struct notes_arg) % 8 == 0 &&
		       sizeof(struct notes_capture) % 8 == 0,
	"everything is aligned");

/* Reads the id of the time stamps' boot; "" if unknown. */
static void read_boot(char ret[NOTES_BOOT_BYTES])
{
	size_t length;

	memset(ret, 0, NOTES_BOOT_BYTES);
	length = file_read("/proc/sys/kernel/random/boot_id", ret, NOTES_BOOT_BYTES);
	memset(ret + length, 0, NOTES_BOOT_BYTES - length);
}

/* ---- Writing ---------------------------------------------------------------------------- */

static void put_probe(struct buffer *out, const struct probe_session_probe *probe)
{
	const struct notes_probe note = {.provider = (uint32_t)strlen(probe->provider) + 1,
		.name = (uint32_t)strlen(probe->name) + 1,
		.path = (uint32_t)strlen(probe->path) + 1};

	buffer_bytes(out, &note, sizeof(note));
	buffer_bytes(out, probe->provider, note.provider);
	buffer_bytes(out, probe->name, note.name);
	buffer_bytes(out, probe->path, note.path);
	buffer_bytes(out, (const char[8]){0}, -(note.provider + note.name + note.path) & 7);
}

static void put_site(struct buffer *out, const struct session_site *site)
{
	const struct record_layout *layout = &site->layout;
	struct notes_site note = {.pc = site->pc,
		.number = site->number,
		.probe = (uint32_t)site->probe,
		.arg_count = layout->arg_count,
		.recorded = layout->recorded,
		.checked = layout->checked};

	buffer_bytes(out, &note, sizeof(note));
	for (size_t i = 0; i < layout->arg_count; i++) {
		const struct record_layout_arg *arg = &layout->args[i];
		const struct notes_arg its = {.value = arg->value,
			.string = arg->string,
			.is_signed = arg->is_signed,
			.is_float = arg->is_float,
			.text = arg->is_guess	? NOTES_GUESS
				: arg->is_known ? NOTES_KNOWN
						: 0,
			.is_bytes = arg->is_bytes,
			.size = arg->size,
			.is_symbol = arg->is_symbol};

		buffer_bytes(out, &its, sizeof(its));
	}
	for (size_t i = 0; i < layout->recorded; i++) {
		const struct arch_capture *capture = &layout->captures[i];
		const struct notes_capture its = {.size = arch_capture_size(capture),
			.bytes_max = capture->bytes_max,
			.is_string = capture->is_string,
			.has_length = capture->has_length};

		buffer_bytes(out, &its, sizeof(its));
	}
}

/* Appends a prepared session's notes. `out` may be {0}. */
static void notes_put(const struct probe_session *s, struct buffer *out)
{
	const struct reg_session *l = &s->data.rings.layout;
	struct notes_header header = {.magic = NOTES_MAGIC,
		.version = NOTES_VERSION,
		.data_size = l->data_size,
		.rings = l->rings - l->data,
		.cpus = l->cpus,
		.ring_bytes = l->ring_bytes,
		.rings_shift = l->rings_shift,
		.flags = l->flags & REG_SESSION_KERNEL_TIME,
		.session = s->id,
		.pid = s->target_pid ? (int32_t)s->target_pid : s->target->pid,
		.record_max = s->record_max,
		.clock = {.stamp = s->clock.first_stamp,
			.realtime_ns = s->clock.first_ns,
			.steady_stamp = s->clock.first_steady_stamp,
			.steady_ns = s->clock.first_steady_ns},
		.tick_ns = clock_tick_ns(&s->clock),
		.probes = (uint32_t)s->probe_count,
		.sites = (uint32_t)s->site_count};
	size_t start = out->length;

	read_boot(header.boot);
	procfs_comm(s->target->pid, header.command, sizeof(header.command));
	buffer_bytes(out, &header, sizeof(header));
	for (size_t i = 0; i < s->probe_count; i++)
		put_probe(out, &s->probes[i]);
	for (size_t i = 0; i < s->site_count; i++)
		put_site(out, &s->sites[i]);
	if (out->no_memory)
		return;
	header.bytes = (uint32_t)(out->length - start);
	memcpy(out->data + start, &header, sizeof(header));
}

size_t notes_bytes(const struct probe_session *session)
{
	AUTO(buffer_deinit) struct buffer out = {0};

	if (!session->options.overwrite)
		return 0;
	notes_put(session, &out);
	return out.no_memory || out.length > NOTES_BYTES_MAX ? 0 : out.length;
}

struct probe_error *notes_write(struct probe_session *s)
{
	const struct reg_session *l = &s->data.rings.layout;
	uint64_t offset = data_notes_offset(l);
	struct data_notes place = {.offset = offset};
	AUTO(buffer_deinit) struct buffer out = {0};

	if (!s->options.overwrite)
		return NULL;
	notes_put(s, &out);
	if (out.no_memory)
		return probe_error_no_memory();
	place.bytes = out.length;
	if (offset && out.length <= l->data_size - offset) {
		memcpy(s->data.rings.base + offset, out.data, out.length);
		memcpy(s->data.rings.base + DATA_NOTES_OFFSET, &place, sizeof(place));
	}
	return NULL;
}

/* ---- Reading ---------------------------------------------------------------------------- */

struct cursor {
	const uint8_t *at;
	size_t left;
};

static struct probe_error *malformed(const char *what)
{
	return probe_error_new(PROBE_ERROR_FORMAT,
		"what the flight recorder says about itself makes no sense (%s)", what);
}

/* Takes the next `size` bytes, a multiple of 8. Returns NULL if fewer are left. */
static const void *take(struct cursor *cursor, size_t size)
{
	const void *ret = cursor->at;

	if (size > cursor->left)
		return NULL;
	cursor->at += size;
	cursor->left -= size;
	return ret;
}

/* Returns true for a string whose only NUL is the last byte. */
static bool is_text(const char *text, uint32_t length)
{
	return length && strnlen(text, length) == length - 1;
}

static bool read_probe(struct cursor *cursor, struct probe_session_probe *ret)
{
	const struct notes_probe *note = take(cursor, sizeof(*note));
	const char *texts;
	uint64_t length;

	if (!note)
		return false;
	length = (uint64_t)note->provider + note->name + note->path;
	texts = length < NOTES_BYTES_MAX ? take(cursor, (length + 7) & ~UINT64_C(7)) : NULL;
	if (!texts || !is_text(texts, note->provider) ||
		!is_text(texts + note->provider, note->name) ||
		!is_text(texts + note->provider + note->name, note->path))
		return false;
	*ret = (struct probe_session_probe){.provider = texts,
		.name = texts + note->provider,
		.path = texts + note->provider + note->name};
	return true;
}

/* Reads a site's arguments. Their captures exist, and that of a string is a string. */
static bool read_args(const struct notes_arg *args, struct record_layout *layout)
{
	for (size_t i = 0; i < layout->arg_count; i++) {
		const struct arch_capture *string = NULL;

		if (args[i].value >= layout->recorded || args[i].string >= layout->recorded)
			return false;
		if (args[i].string >= 0)
			string = &layout->captures[args[i].string];
		if (string && !string->is_string && !string->has_length)
			return false;
		layout->args[i] = (struct record_layout_arg){.value = args[i].value,
			.string = args[i].string,
			.is_signed = args[i].is_signed,
			.is_float = args[i].is_float,
			.is_guess = args[i].text == NOTES_GUESS,
			.is_known = args[i].text == NOTES_KNOWN,
			.is_bytes = args[i].is_bytes,
			.is_symbol = args[i].is_symbol,
			.size = args[i].size,
			.number = (uint8_t)i};
	}
	return true;
}

static bool read_site(struct cursor *cursor, size_t probes, struct session_site *ret)
{
	const struct notes_site *note = take(cursor, sizeof(*note));
	struct record_layout *layout = &ret->layout;
	const struct notes_capture *captures;
	const struct notes_arg *args;

	if (!note || note->probe >= probes || note->arg_count > ARCH_ARGS_MAX ||
		note->recorded > ARCH_ARGS_MAX)
		return false;
	*ret = (struct session_site){.pc = note->pc, .probe = note->probe, .number = note->number};
	layout->arg_count = note->arg_count;
	layout->capture_count = layout->recorded = note->recorded;
	layout->checked = note->checked;
	args = take(cursor, note->arg_count * sizeof(*args));
	captures = take(cursor, note->recorded * sizeof(*captures));
	if (!args || !captures)
		return false;
	for (size_t i = 0; i < layout->recorded; i++) {
		if (captures[i].bytes_max > UINT16_MAX)
			return false;
		layout->captures[i] = (struct arch_capture){.arg = {.size = captures[i].size},
			.bytes_max = (uint16_t)captures[i].bytes_max,
			.is_string = captures[i].is_string,
			.has_length = captures[i].has_length};
	}
	return read_args(args, layout);
}

/*
 * Sets up the clock of a file's stamps. If the machine was not rebooted since, a tick can be
 * measured. If it was, the notes have the length measured when the session was left.
 */
static bool read_clock(const struct notes_header *header, struct clock *clock)
{
	const struct data_clock *kept = &header->clock;
	char boot[NOTES_BOOT_BYTES];
	double tick;

	if (!(header->tick_ns > 1e-3 && header->tick_ns < 1e3))
		return false;
	*clock = (struct clock){
		.counter = header->flags & REG_SESSION_KERNEL_TIME ? NULL : arch_process()->counter,
		.first_stamp = kept->stamp,
		.first_ns = kept->realtime_ns,
		.first_steady_stamp = kept->steady_stamp,
		.first_steady_ns = kept->steady_ns};
	read_boot(boot);
	if (boot[0] && !memcmp(boot, header->boot, sizeof(boot))) {
		clock_sync(clock);
		tick = clock->stamp_ns / header->tick_ns;
		if (tick > 0.99 && tick < 1.01 && clock->last_stamp > kept->stamp &&
			(double)(clock->last_stamp - kept->stamp) * clock->stamp_ns <
				NOTES_YEARS_NS)
			return true;
	}
	clock->last_stamp = kept->stamp;
	clock->last_ns = kept->realtime_ns;
	clock->stamp_ns = header->tick_ns;
	return true;
}

static struct probe_error *read_lists(
	struct probe_session *s, const struct notes_header *header, struct cursor *cursor)
{
	/*
	 * Each probe and site takes more than a byte of the notes, so their size limits the memory.
	 */
	if (header->probes > cursor->left || header->sites > cursor->left)
		return malformed("more probes than bytes");
	s->probes = calloc(header->probes + (size_t)1, sizeof(*s->probes));
	s->known = calloc(header->probes + (size_t)1, sizeof(*s->known));
	s->sites = calloc(header->sites + (size_t)1, sizeof(*s->sites));
	if (!s->probes || !s->known || !s->sites)
		return probe_error_no_memory();
	for (; s->probe_count < header->probes; s->probe_count++)
		if (!read_probe(cursor, &s->probes[s->probe_count]))
			return malformed("a probe");
	for (; s->site_count < header->sites; s->site_count++)
		if (!read_site(cursor, s->probe_count, &s->sites[s->site_count]))
			return malformed("a site");
	return NULL;
}

static struct probe_error *notes_read(
	struct probe_session *session, const uint8_t *bytes, size_t size, uint64_t file_bytes)
{
	struct cursor cursor = {bytes, size};
	struct reg_session *rings = &session->data.rings.layout;
	const struct notes_header *header = take(&cursor, sizeof(*header));

	if (!header || header->magic != NOTES_MAGIC || header->bytes > size)
		return malformed("its beginning");
	if (header->version != NOTES_VERSION)
		return probe_error_new(PROBE_ERROR_FORMAT,
			"the flight recorder was left by another version of probectl (format %u, "
			"not %d)",
			header->version, NOTES_VERSION);
	/* The contents of the rings are checked later. */
	*rings = (struct reg_session){.id = header->session,
		.flags = REG_SESSION_RECORDS | REG_SESSION_OVERWRITES | header->flags,
		.cpus = header->cpus,
		.data_size = header->data_size,
		.rings = header->rings,
		.rings_shift = (uint8_t)header->rings_shift,
		.ring_bytes = header->ring_bytes};
	if (header->rings_shift > UINT8_MAX || !header->session || !header->ring_bytes ||
		header->data_size > file_bytes || !data_rings_make_sense(rings))
		return malformed("its rings");
	if (header->record_max < sizeof(struct ring_record) || header->record_max > RING_RECORD_MAX)
		return malformed("the length of its records");
	if (header->pid <= 0 || !read_clock(header, &session->clock))
		return malformed("its process or clock");
	session->id = header->session;
	session->record_max = header->record_max;
	memcpy(session->remains.command, header->command,
		strnlen(header->command, NOTES_COMMAND_BYTES - 1));
	session->options = (struct probe_session_options){
		.kind = PROBE_SESSION_RECORD, .overwrite = true, .ring_bytes = header->ring_bytes};
	session->target_pid = (uint32_t)header->pid;
	session->processes.root = header->pid;
	session->opened = session->stopped = session->remains.dead = true;
	session->data.view.layout = *rings;
	return read_lists(session, header, &cursor);
}

/* Takes a site's layout from the notes, which have only the size of the stack's capture. */
static bool take_layout(struct session_site *site, const struct session_site *noted)
{
	struct record_layout *to = &site->layout;
	const struct record_layout *from = &noted->layout;

	if (from->arg_count != to->arg_count || from->recorded < to->stack || noted->pc != site->pc)
		return false;
	for (size_t i = 0; i < to->arg_count; i++) {
		uint8_t number = to->args[i].number;

		to->args[i] = from->args[i];
		to->args[i].number = number;
	}
	for (size_t i = to->stack; i < from->recorded; i++)
		to->captures[i] = from->captures[i];
	to->capture_count = to->recorded = from->recorded;
	to->checked = from->checked;
	return true;
}

static struct probe_error *take_layouts(struct probe_session *s, const struct probe_session *noted)
{
	for (size_t i = 0; i < s->site_count; i++) {
		const struct session_site *site = NULL;

		for (size_t k = 0; k < noted->site_count && !site; k++)
			if (noted->sites[k].number == s->sites[i].number)
				site = &noted->sites[k];
		/* The site has no records, because it was refused when the session began. */
		if (s->sites[i].number == UINT32_MAX)
			continue;
		if (!site || !take_layout(&s->sites[i], site))
			return probe_error_new(PROBE_ERROR_STATE,
				"session %u of process %d records something other than what was "
				"requested",
				s->id, s->target->pid);
	}
	s->record_max = noted->record_max;
	return NULL;
}

struct probe_error *notes_take_layouts(struct probe_session *s)
{
	uint64_t size = s->data.rings.layout.data_size;
	struct probe_session noted = {0};
	struct data_notes place;
	struct probe_error *error;
	AUTO_FREE uint8_t *bytes = NULL;

	if (!snapshot_read(&s->data.view, DATA_NOTES_OFFSET, &place, sizeof(place)))
		return malformed("it cannot be read");
	if (place.offset % 8 || place.bytes % 8 || place.bytes > NOTES_BYTES_MAX ||
		place.offset > size || place.bytes > size - place.offset)
		return malformed("where it is");
	bytes = malloc(place.bytes + 8);
	if (!bytes)
		return probe_error_no_memory();
	error = snapshot_read(&s->data.view, place.offset, bytes, place.bytes)
			? notes_read(&noted, bytes, place.bytes, size)
			: malformed("it cannot be read");
	error = error ?: take_layouts(s, &noted);
	free(noted.probes);
	free(noted.known);
	free(noted.sites);
	return error;
}

/* ==== Remains ================================================================================= */

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

/* Loads a recorder's notes, unchecked; the caller frees them, also after an error. */
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
	return read_at(r, start + place.offset, *ret, place.bytes)
		       ? NULL
		       : probe_error_system(EIO, "it cannot be read");
}

static struct probe_error *make_session(
	struct probe_remains *r, uint64_t start, uint64_t length, struct probe_session **ret)
{
	struct probe_session *s;
	AUTO_FREE uint8_t *notes = NULL;
	size_t size;
	struct probe_error *error = load_notes(r, start, length, &notes, &size);

	if (error)
		return error;
	s = calloc(1, sizeof(*s));
	if (!s)
		return probe_error_no_memory();
	*s = (struct probe_session){
		.data.fd = -1, .gates.event = -1, .remains = {.dead = true, .notes = notes}};
	notes = NULL;
	s->data.view = (struct snapshot){
		.fd = -1, .file = fcntl(r->fd, F_DUPFD_CLOEXEC, 0), .file_start = start};
	error = s->data.view.file < 0 ? probe_error_system(errno, "%s", r->path)
				      : notes_read(s, s->remains.notes, size, length);
	if (error)
		probe_session_free(s);
	else
		*ret = s;
	return error;
}

/* Takes the recorder at [start, start + length) of the file, if that is one. */
static struct probe_error *take_recorder(struct probe_remains *r, uint64_t start, uint64_t length)
{
	struct probe_session *session = NULL;
	struct data_header header;
	struct probe_error *error;
	char *text;

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
	if (!error)
		r->sessions[r->session_count++] = session;
	if (!error || error->code == PROBE_ERROR_MEMORY)
		return error;
	/* Leave out a damaged recorder, and store why. */
	text = ARRAY_ROOM(r->damages, r->damage_count) ? strdup(error->message) : NULL;
	probe_error_free(error);
	if (!text)
		return probe_error_no_memory();
	r->damages[r->damage_count++] = text;
	return NULL;
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

static struct probe_error *take_segments(struct probe_remains *r)
{
	struct probe_error *error = NULL;
	GElf_Ehdr header;
	GElf_Phdr segment;
	size_t count;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(r->fd, ELF_C_READ, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header) ||
		header.e_type != ET_CORE || elf_getphdrnum(elf, &count) != 0) {
		elf_end(elf);
		return no_format(r);
	}
	for (size_t i = 0; i < count && i < INT32_MAX && !error; i++) {
		if (!gelf_getphdr(elf, (int)i, &segment)) {
			error = no_format(r);
			break;
		}
		/* A core file may have been cut off (ulimit -c). */
		if (segment.p_type != PT_LOAD || segment.p_offset >= r->size)
			continue;
		if (segment.p_filesz > r->size - segment.p_offset)
			segment.p_filesz = r->size - segment.p_offset;
		error = take_recorder(r, segment.p_offset, segment.p_filesz);
	}
	elf_end(elf);
	return error;
}

static int compare_sessions(const void *a, const void *b)
{
	const struct probe_session *const *x = a, *const *y = b;

	return ORDER((*x)->id, (*y)->id);
}

struct probe_error *remains_of(int fd, const char *path, struct probe_remains **ret)
{
	struct probe_remains *r = calloc(1, sizeof(*r));
	struct probe_error *error = NULL;
	struct stat st;
	uint64_t magic;

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
		error = !read_at(r, 0, &magic, sizeof(magic)) ? no_format(r)
			: magic == DATA_MAGIC		      ? take_recorder(r, 0, r->size)
							      : take_segments(r);
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
	if (error)
		probe_remains_close(r);
	else
		*ret = r;
	return error;
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

	return session && session->remains.command[0] ? session->remains.command : NULL;
}
