/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "arch/process.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/session/session.h"
#include "libprobe/registry/registry.h"

_Static_assert(sizeof(struct notes_header) % 8 == 0 && sizeof(struct notes_probe) % 8 == 0 &&
		       sizeof(struct notes_site) % 8 == 0 && sizeof(struct notes_arg) % 8 == 0 &&
		       sizeof(struct notes_capture) % 8 == 0,
	"everything is aligned");

/* The boot that time stamps count in; "" if the kernel does not report it. */
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

void notes_put(const struct probe_session *session, struct buffer *out)
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

struct probe_error *notes_write(struct probe_session *s)
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

/* The next `size` bytes, a multiple of 8; NULL: there are fewer. */
static const void *take(struct cursor *cursor, size_t size)
{
	const void *ret = cursor->at;

	if (size > cursor->left)
		return NULL;
	cursor->at += size;
	cursor->left -= size;
	return ret;
}

/* A text with its NUL at the end, and nowhere else. */
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

/* Do its captures exist, and is that of a string one? */
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

/* The places of the rings; their contents are looked at later. */
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
 * In the same boot, the clocks that have run since then tell how long a tick is. After a reboot, or
 * on another machine, only the measurement from that time is known.
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
	/* Each takes more than a byte, so there is memory for as many. */
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

/* What was captured of the stack is as it was bound: notes have only its size. */
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

		/* It was refused when the session began. */
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
