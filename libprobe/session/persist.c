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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "arch/process.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/patch/patch.h"
#include "libprobe/registry/registry.h"
#include "libprobe/session/session.h"

/* ==== Notes =================================================================================== */

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

static void put_padded(struct buffer *out, const char *const texts[3], const uint32_t lengths[3])
{
	static const char zeros[8];
	size_t length = 0;

	for (int i = 0; i < 3; i++) {
		buffer_bytes(out, texts[i], lengths[i]);
		length += lengths[i];
	}
	buffer_bytes(out, zeros, -length & 7);
}

static void put_probe(struct buffer *out, const struct probe_session_probe *probe)
{
	const char *const texts[3] = {probe->provider, probe->name, probe->path};
	struct notes_probe note = {0};
	uint32_t lengths[3];

	for (int i = 0; i < 3; i++)
		lengths[i] = (uint32_t)strlen(texts[i]) + 1;
	note.provider = lengths[0];
	note.name = lengths[1];
	note.path = lengths[2];
	buffer_bytes(out, &note, sizeof(note));
	put_padded(out, texts, lengths);
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

static struct notes_header header_of(const struct probe_session *s)
{
	const struct reg_session *l = &s->rings.layout;
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

	read_boot(header.boot);
	procfs_comm(s->target->pid, header.command, sizeof(header.command));
	return header;
}

/* Appends a prepared session's notes. `out` may be {0}. */
static void notes_put(const struct probe_session *session, struct buffer *out)
{
	struct notes_header header = header_of(session);
	size_t start = out->length;

	buffer_bytes(out, &header, sizeof(header));
	for (size_t i = 0; i < session->probe_count; i++)
		put_probe(out, &session->probes[i]);
	for (size_t i = 0; i < session->site_count; i++)
		put_site(out, &session->sites[i]);
	if (out->no_memory)
		return;
	header.bytes = (uint32_t)(out->length - start);
	memcpy(out->data + start, &header, sizeof(header));
}

size_t notes_bytes(const struct probe_session *session)
{
	struct buffer out = {0};
	size_t bytes;

	if (!session->options.overwrite)
		return 0;
	notes_put(session, &out);
	bytes = out.no_memory || out.length > NOTES_BYTES_MAX ? 0 : out.length;
	buffer_deinit(&out);
	return bytes;
}

/* Writes the notes into the session's memory. Errors: PROBE_ERROR_MEMORY. */
static struct probe_error *notes_write(struct probe_session *s)
{
	const struct reg_session *l = &s->rings.layout;
	uint64_t offset = data_notes_offset(l);
	struct data_notes place = {.offset = offset};
	struct buffer out = {0};

	if (!s->options.overwrite)
		return NULL;
	notes_put(s, &out);
	if (out.no_memory) {
		buffer_deinit(&out);
		return probe_error_no_memory();
	}
	place.bytes = out.length;
	if (offset && out.length <= l->data_size - offset) {
		memcpy(s->rings.base + offset, out.data, out.length);
		memcpy(s->rings.base + DATA_NOTES_OFFSET, &place, sizeof(place));
	}
	buffer_deinit(&out);
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

static bool read_captures(struct cursor *cursor, struct record_layout *layout)
{
	const struct notes_capture *captures = take(cursor, layout->recorded * sizeof(*captures));

	for (size_t i = 0; captures && i < layout->recorded; i++) {
		if (captures[i].bytes_max > UINT16_MAX)
			return false;
		layout->captures[i] = (struct arch_capture){.arg = {.size = captures[i].size},
			.bytes_max = (uint16_t)captures[i].bytes_max,
			.is_string = captures[i].is_string,
			.has_length = captures[i].has_length};
	}
	return captures != NULL;
}

/* Returns true if an argument's captures exist, and the one of its string is a string. */
static bool makes_sense(const struct notes_arg *arg, const struct record_layout *layout)
{
	const struct arch_capture *string;

	if (arg->value >= layout->recorded || arg->string >= layout->recorded)
		return false;
	string = arg->string >= 0 ? &layout->captures[arg->string] : NULL;
	return !string || string->is_string || string->has_length;
}

static bool read_args(const struct notes_arg *args, struct record_layout *layout)
{
	for (size_t i = 0; i < layout->arg_count; i++) {
		if (!makes_sense(&args[i], layout))
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
	const struct notes_arg *args;

	if (!note || note->probe >= probes || note->arg_count > ARCH_ARGS_MAX ||
		note->recorded > ARCH_ARGS_MAX)
		return false;
	*ret = (struct session_site){.pc = note->pc, .probe = note->probe, .number = note->number};
	layout->arg_count = note->arg_count;
	layout->capture_count = layout->recorded = note->recorded;
	layout->checked = note->checked;
	args = take(cursor, note->arg_count * sizeof(*args));
	return args && read_captures(cursor, layout) && read_args(args, layout);
}

/* Reads where the rings are. Their contents are checked later. */
static bool read_places(
	const struct notes_header *header, uint64_t file_bytes, struct reg_session *ret)
{
	if (header->rings_shift > UINT8_MAX)
		return false;
	*ret = (struct reg_session){.id = header->session,
		.flags = REG_SESSION_RECORDS | REG_SESSION_OVERWRITES | header->flags,
		.cpus = header->cpus,
		.data_size = header->data_size,
		.rings = header->rings,
		.rings_shift = (uint8_t)header->rings_shift,
		.ring_bytes = header->ring_bytes};
	return header->session && header->ring_bytes && header->data_size <= file_bytes &&
	       data_rings_make_sense(ret);
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

struct probe_error *notes_read(
	struct probe_session *session, const uint8_t *bytes, size_t size, uint64_t file_bytes)
{
	struct cursor cursor = {bytes, size};
	const struct notes_header *header = take(&cursor, sizeof(*header));

	if (!header || header->magic != NOTES_MAGIC || header->bytes > size)
		return malformed("its beginning");
	if (header->version != NOTES_VERSION)
		return probe_error_new(PROBE_ERROR_FORMAT,
			"the flight recorder was left by another version of probectl (format %u, "
			"not %d)",
			header->version, NOTES_VERSION);
	if (!read_places(header, file_bytes, &session->rings.layout))
		return malformed("its rings");
	if (header->record_max < sizeof(struct ring_record) || header->record_max > RING_RECORD_MAX)
		return malformed("the length of its records");
	if (header->pid <= 0 || !read_clock(header, &session->clock))
		return malformed("its process or clock");
	session->id = header->session;
	session->record_max = header->record_max;
	memcpy(session->command, header->command,
		strnlen(header->command, NOTES_COMMAND_BYTES - 1));
	session->options = (struct probe_session_options){
		.kind = PROBE_SESSION_RECORD, .overwrite = true, .ring_bytes = header->ring_bytes};
	session->target_pid = (uint32_t)header->pid;
	session->processes.root = header->pid;
	session->opened = session->stopped = session->dead = true;
	session->view.layout = session->rings.layout;
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

static const struct session_site *find_noted(const struct probe_session *noted, uint32_t number)
{
	for (size_t i = 0; i < noted->site_count; i++)
		if (noted->sites[i].number == number)
			return &noted->sites[i];
	return NULL;
}

static struct probe_error *take_layouts(struct probe_session *s, const struct probe_session *noted)
{
	for (size_t i = 0; i < s->site_count; i++) {
		const struct session_site *site = find_noted(noted, s->sites[i].number);

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

/*
 * Takes the layout of records from the notes: the starting controller chose it, perhaps with
 * another catalogue. Errors: as notes_read(); PROBE_ERROR_STATE (other probes than in the notes).
 */
static struct probe_error *notes_take_layouts(struct probe_session *s)
{
	uint64_t size = s->rings.layout.data_size;
	struct probe_session noted = {0};
	struct data_notes place;
	struct probe_error *error;
	uint8_t *bytes;

	if (!snapshot_read(&s->view, DATA_NOTES_OFFSET, &place, sizeof(place)))
		return malformed("it cannot be read");
	if (place.offset % 8 || place.bytes % 8 || place.bytes > NOTES_BYTES_MAX ||
		place.offset > size || place.bytes > size - place.offset)
		return malformed("where it is");
	bytes = malloc(place.bytes + 8);
	if (!bytes)
		return probe_error_no_memory();
	error = snapshot_read(&s->view, place.offset, bytes, place.bytes)
			? notes_read(&noted, bytes, place.bytes, size)
			: malformed("it cannot be read");
	if (!error)
		error = take_layouts(s, &noted);
	free(noted.probes);
	free(noted.known);
	free(noted.sites);
	free(bytes);
	return error;
}

/* ==== Persist ================================================================================= */

enum { TEXT_MAX = 1 << 16, MAX_OFF_PERCENT = 1, CALIBRATION_NS = 20000000 };

/* ---- Leaving ---------------------------------------------------------------------------- */

static struct probe_error *check_leaving(const struct probe_session *s, const char *text)
{
	if (s->stopped)
		return probe_error_new(PROBE_ERROR_STATE, "the session has ended");
	if (s->leader || s->member_count)
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

/* Stores when the clock started: readers measure ticks since then. */
static void keep_clock(struct probe_session *s)
{
	struct data_clock clock = {.stamp = s->clock.first_stamp,
		.realtime_ns = s->clock.first_ns,
		.steady_stamp = s->clock.first_steady_stamp,
		.steady_ns = s->clock.first_steady_ns};

	memcpy(s->rings.base + DATA_CLOCK_OFFSET, &clock, sizeof(clock));
	/* Measure the tick precisely now: a reader cannot measure it after a reboot. */
	while (s->options.overwrite && clock_monotonic_ns() - clock.steady_ns < CALIBRATION_NS)
		nanosleep(&(struct timespec){.tv_nsec = CALIBRATION_NS / 4}, NULL);
	clock_sync(&s->clock);
}

static struct probe_error *leave(struct probe_session *s, struct registry *r, const char *text)
{
	struct reg_session *session = registry_session(r, s->id);

	if (!session || session->stamp != s->rings.layout.stamp)
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d has become another program, or another controller has ended "
			"the session",
			s->target->pid);
	session->flags |= REG_SESSION_PERSISTENT;
	session->owner = 0;
	session->owner_start = 0;
	for (size_t i = 0; i < r->probe_count; i++)
		for (size_t k = 0; k < s->probe_count; k++)
			if (r->probes[i].session == s->id && r->probes[i].slot == s->known[k].slot)
				r->probes[i].part = session_part_word(&s->known[k].part);
	return registry_set_text(r, s->id, text) ? NULL : probe_error_no_memory();
}

struct probe_error *probe_session_plain(
	const struct probe_session *session, struct probe_session_options *options)
{
	return asked_plain(&session->asked, options);
}

struct probe_error *probe_session_leave(struct probe_session *session, const char *text)
{
	struct probe_error *error = check_leaving(session, text);
	struct change c;

	if (error)
		return error;
	keep_clock(session);
	error = notes_write(session);
	if (!error)
		error = change_begin(session->target, &c);
	if (error)
		return error;
	error = leave(session, &c.registry, text);
	if (!error)
		error = change_store(&c, true);
	change_end(&c);
	session->stopped = !error;
	if (session->stopped)
		inherited_forget(&session->goes_on);
	return error;
}

/* ---- Listing sessions ------------------------------------------------------------------- */

static bool is_shown(const struct reg_session *session)
{
	return (session->flags & (REG_SESSION_PERSISTENT | REG_SESSION_RETIRED)) ==
	       REG_SESSION_PERSISTENT;
}

static struct probe_error *load(pid_t pid, struct maps *maps, struct registry *registry)
{
	struct probe_error *error = maps_read(pid, maps);

	return error ? error : registry_load(pid, maps, registry);
}

static size_t count_probes(const struct registry *r, uint32_t session)
{
	size_t count = 0;

	for (size_t i = 0; i < r->probe_count; i++)
		count += r->probes[i].session == session && r->probes[i].refcount;
	return count;
}

/* Makes one block: the array, then the texts. */
static struct probe_kept *list(const struct registry *r, char **texts, size_t *count_ret)
{
	size_t count = 0, bytes = 0;
	struct probe_kept *ret;
	char *at;

	for (size_t i = 0; i < r->session_count; i++)
		bytes += texts[i] ? strlen(texts[i]) + 1 : 0;
	ret = malloc(r->session_count * sizeof(*ret) + bytes + 1);
	if (!ret)
		return NULL;
	at = (char *)(ret + r->session_count);
	for (size_t i = 0; i < r->session_count; i++) {
		if (!is_shown(&r->sessions[i]))
			continue;
		ret[count] = (struct probe_kept){
			.id = r->sessions[i].id, .probes = count_probes(r, r->sessions[i].id)};
		if (texts[i]) {
			ret[count].text = at;
			at = stpcpy(at, texts[i]) + 1;
		}
		count++;
	}
	*count_ret = count;
	return ret;
}

struct probe_error *probe_target_kept(
	struct probe_target *target, struct probe_kept **ret, size_t *count_ret)
{
	struct registry registry = {0};
	struct maps maps = {0};
	struct probe_error *error = load(target->pid, &maps, &registry);
	char **texts = error ? NULL : calloc(registry.session_count + 1, sizeof(*texts));

	if (!error) {
		for (size_t i = 0; texts && i < registry.session_count; i++)
			texts[i] = registry_text(&registry, registry.sessions[i].id);
		*ret = texts ? list(&registry, texts, count_ret) : NULL;
		error = *ret ? NULL : probe_error_no_memory();
	}
	for (size_t i = 0; texts && i < registry.session_count; i++)
		free(texts[i]);
	free(texts);
	registry_deinit(&registry);
	maps_deinit(&maps);
	return error;
}

/* ---- Opening ---------------------------------------------------------------------------- */

/* Opens the file of a session's data. Returns -1 on failure, or if it could be truncated. */
static int open_data(pid_t pid, const struct maps *maps, const struct reg_session *session)
{
	const struct mapping *found = NULL;
	struct stat status;
	char path[80];
	int name, fd;

	for (size_t i = 0; i < maps->count && !found; i++)
		if (maps->items[i].start == session->data &&
			maps->items[i].end == session->data + session->data_size)
			found = &maps->items[i];
	if (!found)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%jx-%jx", procfs_living(pid),
		(uintmax_t)found->start, (uintmax_t)found->end);
	name = open(path, O_PATH | O_CLOEXEC);
	fd = name < 0 ? -1 : procfs_open_regular(name, O_RDONLY);
	if (name >= 0)
		close(name);
	if (fd < 0)
		return -1;
	if (fcntl(fd, F_GET_SEALS) >= 0 && fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK &&
		fstat(fd, &status) == 0 && (uint64_t)status.st_size >= session->data_size)
		return fd;
	close(fd);
	return -1;
}

static void open_view(
	struct probe_session *s, const struct maps *maps, const struct reg_session *session)
{
	void *base = MAP_FAILED;

	s->rings.layout = *session;
	s->view = (struct snapshot){.fd = -1, .pid = s->target->pid, .layout = *session};
	s->data = open_data(s->target->pid, maps, session);
	if (s->data >= 0)
		base = mmap(NULL, session->data_size, PROT_READ, MAP_SHARED | MAP_NORESERVE,
			s->data, 0);
	if (base == MAP_FAILED) {
		served_begin(s->view.pid, &s->served);
		s->view.served = &s->served;
		return;
	}
	s->view.base = base;
	s->view.fd = s->data;
}

/* Uses the start time in the session's memory if it is plausible: the target can write it. */
static void take_clock(struct probe_session *s)
{
	struct clock clock = s->clock;
	struct data_clock kept;
	double tick_ns, kept_ns;

	if (!snapshot_read(&s->view, DATA_CLOCK_OFFSET, &kept, sizeof(kept)) || !kept.stamp)
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

/* Keeps only probes that belong to the session and are mapped. */
static void keep_own(
	const struct probe_session *s, const struct registry *r, struct selection *selection)
{
	for (size_t i = 0; i < selection->probe_count; i++)
		selection->probes[i].unwanted = !selection->probes[i].module->object ||
						!registry_probe(r, selection->probes[i].key, s->id);
	selection_drop_unwanted(selection);
}

/* Refuses a session with a probe of an unreadable file: its hits would be unknown, not 0. */
static struct probe_error *check_all_known(const struct probe_session *s,
	const struct modules *modules, const struct registry *r, const struct selection *selection)
{
	const struct module *unread = NULL;
	size_t count = 0;

	for (size_t i = 0; i < r->probe_count; i++)
		count += r->probes[i].session == s->id && r->probes[i].refcount;
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
	struct selection selection = {0};
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
	error = recall_probes(modules, s->target->pid, maps, r, NULL, 0);
	if (!error)
		error = select_probes(modules, s->patterns, s->request.pattern_count, &selection);
	if (!error) {
		keep_own(s, r, &selection);
		error = check_all_known(s, modules, r, &selection);
	}
	if (!error)
		error = session_stack_start(s, arch);
	if (!error)
		error = session_resume(s, arch, &selection, r);
	if (!error && s->options.overwrite)
		error = notes_take_layouts(s);
	if (!error)
		error = session_take_probes(s, r, &selection);
	if (!error)
		error = session_watch(s, r);
	selection_deinit(&selection);
	return error;
}

struct probe_error *probe_session_open(struct probe_target *target, uint32_t id,
	const struct probe_request *request, const struct probe_session_options *options,
	struct probe_session **ret)
{
	struct registry registry = {0};
	struct modules modules = {0};
	struct maps maps = {0};
	struct probe_session *s;
	struct probe_error *error =
		session_create(target, arch_process()->counter, request, options, &s);

	if (error)
		return error;
	s->id = id;
	s->opened = s->stopped = true;
	error = load(target->pid, &maps, &registry);
	if (!error)
		error = modules_read(target->pid, NULL, &modules);
	if (!error)
		error = resume(s, &modules, &maps, &registry);
	registry_deinit(&registry);
	modules_deinit(&modules);
	maps_deinit(&maps);
	if (error) {
		probe_session_free(s);
		return error;
	}
	*ret = s;
	return NULL;
}

/* ---- Ending ----------------------------------------------------------------------------- */

struct probe_error *probe_target_end(struct probe_target *target, uint32_t id)
{
	AUTO_CHANGE struct change c;
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
