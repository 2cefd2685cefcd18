/* SPDX-License-Identifier: MIT */
/*
 * The index of a log (the file .stream): data about its stream as lines of a keyword and values.
 * Also the table of event types and sets of types.
 *
 *	probectl-stream 1
 *	version probectl 0.1.0
 *	name NAME
 *	attributes CREATED RESOLUTION STREAM DATA POLICY INHERIT LOG_POLICY LOG USER SYSTEM
 *	type NUMBER NAME		a line for each type, except the stream's own types
 *	status RUNNING FULL OVERRUN ERROR LOG_OVERRUN LOG_FULL LOST FLUSHED
 *
 * Blanks, control characters and % in names are written as % and two hexadecimal digits. The file
 * is always replaced as a whole (rename(2)). The reader accepts arbitrary contents without harm.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"
#include "libprobe/stream/stream.h"

/* ==== Event types ============================================================================= */

_Static_assert(PROBE_STREAM_TYPES_END % 64 == 0, "sets consist of whole words");

/* Sets a type's text: "provider:name", then "provider", then "name". */
static bool set_names(struct stream_types *types, uint32_t type, const char *provider,
	size_t provider_length, char separator, const char *name)
{
	struct stream_type *t = &types->types[type];
	size_t name_length = strlen(name);
	size_t length = provider_length + (separator != '\0') + name_length;
	char *text = malloc(length + 1 + provider_length + 1 + name_length + 1), *at = text;
	uint32_t *number;

	if (!text)
		return false;
	at = mempcpy(at, provider, provider_length);
	if (separator)
		*at++ = separator;
	at = mempcpy(at, name, name_length + 1);
	t->provider = at;
	at = mempcpy(at, provider, provider_length);
	*at++ = '\0';
	t->name = memcpy(at, name, name_length + 1);
	number = map_add(&types->by_name, sizeof(*number), MAP_KEY(map_text(text)));
	if (!number) {
		free(text);
		return false;
	}
	*number = type;
	t->text = text;
	return true;
}

struct probe_error *stream_types_create(struct stream_types **ret)
{
	struct stream_types *types = calloc(1, sizeof(*types));

	if (!types)
		return probe_error_no_memory();
	types->next = PROBE_STREAM_UNNAMED + 1;
	for (uint32_t i = 0; i < sizeof(system_event_names) / sizeof(*system_event_names); i++) {
		if (system_event_names[i] &&
			!set_names(types, i, system_event_provider, strlen(system_event_provider),
				'_', system_event_names[i])) {
			stream_types_free(types);
			return probe_error_no_memory();
		}
	}
	*ret = types;
	return NULL;
}

void stream_types_free(struct stream_types *types)
{
	for (size_t i = 0; types && i < PROBE_STREAM_TYPES_END; i++)
		free(types->types[i].text);
	if (types)
		map_clear(&types->by_name);
	free(types);
}

struct probe_error *stream_types_of_name(
	struct stream_types *types, const char *name, uint32_t *ret)
{
	const uint32_t *known = map_find(&types->by_name, MAP_KEY(map_text(name)));
	const char *colon = strchr(name, ':');
	size_t provider = colon ? (size_t)(colon - name) : 0;

	if (known) {
		*ret = *known;
		return NULL;
	}
	*ret = PROBE_STREAM_UNNAMED;
	if (types->next == PROBE_STREAM_TYPES_END)
		return NULL;
	if (!set_names(types, types->next, name, provider, colon ? ':' : '\0',
		    colon ? colon + 1 : name))
		return probe_error_no_memory();
	*ret = types->next++;
	return NULL;
}

struct probe_error *stream_types_of_probe(
	struct stream_types *types, const char *provider, const char *name, uint32_t *ret)
{
	char text[PROBE_STREAM_TYPE_NAME_MAX + 1];
	int length = snprintf(text, sizeof(text), "%s:%s", provider, name);

	*ret = PROBE_STREAM_UNNAMED;
	if (length < 0 || length > PROBE_STREAM_TYPE_NAME_MAX ||
		(strcmp(provider, system_event_provider) == 0 &&
			strcmp(name, types->types[PROBE_STREAM_UNNAMED].text) == 0))
		return NULL;
	return stream_types_of_name(types, text, ret);
}

/* ---- Sets ------------------------------------------------------------------------------------ */

struct probe_error *probe_stream_set_fill(struct probe_stream_set *set, enum probe_stream_fill what)
{
	switch (what) {
	case PROBE_STREAM_WOPID_TYPES:
		*set = (struct probe_stream_set){0};
		return NULL;
	case PROBE_STREAM_OWN_TYPES:
		*set = (struct probe_stream_set){0};
		set->words[0] = (UINT64_C(1) << PROBE_STREAM_SYSTEM_TYPES) - 1;
		return NULL;
	case PROBE_STREAM_ALL_TYPES:
		memset(set, 0xff, sizeof(*set));
		return NULL;
	}
	return error_numbered(
		PROBE_ERROR_USAGE, EINVAL, "there is no such content of a set: %d", (int)what);
}

static struct probe_error *check_type(uint32_t type)
{
	if (type < PROBE_STREAM_TYPES_END)
		return NULL;
	return error_numbered(PROBE_ERROR_USAGE, EINVAL, "there can be no type of events %u", type);
}

struct probe_error *probe_stream_set_put(struct probe_stream_set *set, uint32_t type, bool in)
{
	struct probe_error *error = check_type(type);
	uint64_t bit = UINT64_C(1) << (type % 64);

	if (!error && in)
		set->words[type / 64] |= bit;
	else if (!error)
		set->words[type / 64] &= ~bit;
	return error;
}

struct probe_error *probe_stream_set_has(
	const struct probe_stream_set *set, uint32_t type, bool *ret)
{
	struct probe_error *error = check_type(type);

	if (!error)
		*ret = stream_set_has(set, type);
	return error;
}

struct probe_value stream_set_value(const struct probe_stream_set *set)
{
	const char *bytes = (const char *)set->words;
	size_t length = sizeof(set->words);

	while (length && !bytes[length - 1])
		length--;
	return (struct probe_value){.kind = PROBE_VALUE_BYTES, .bytes = bytes, .length = length};
}

struct probe_error *probe_stream_set_read(
	const struct probe_value *value, struct probe_stream_set *ret)
{
	if (value->kind != PROBE_VALUE_BYTES || value->truncated ||
		value->length > sizeof(ret->words))
		return error_numbered(PROBE_ERROR_USAGE, EINVAL, "the value is not a set of types");
	*ret = (struct probe_stream_set){0};
	if (value->length)
		memcpy(ret->words, value->bytes, value->length);
	return NULL;
}

/* ==== The file .stream ======================================================================== */

const char stream_index_name[] = ".stream";
static const char draft_name[] = ".stream.new";
static const char magic[] = "probectl-stream 1";

enum { LINE_BYTES = 4096, ATTRIBUTES = 10, STATUSES = 8 };

/* ---- Writing --------------------------------------------------------------------------------- */

static void write_name(FILE *file, const char *name)
{
	for (; *name; name++) {
		unsigned char c = (unsigned char)*name;

		if (c <= ' ' || c == '%' || c == 0x7f)
			fprintf(file, "%%%02x", c);
		else
			putc(c, file);
	}
	putc('\n', file);
}

static void write_all(FILE *file, const struct stream_index *index)
{
	const struct probe_stream_attributes *a = &index->attributes;
	const struct probe_stream_options *o = &a->options;
	const struct probe_stream_status *s = &index->status;

	fprintf(file, "%s\nversion ", magic);
	write_name(file, a->version);
	fputs("name ", file);
	write_name(file, o->name);
	fprintf(file, "attributes %" PRIu64 " %" PRIu64 " %zu %zu %d %d %d %" PRIu64 " %zu %zu\n",
		a->created_ns, a->clock_resolution_ns, o->stream_bytes, o->data_bytes,
		(int)o->policy, o->inherit, (int)o->log_policy, o->log_bytes, a->user_event_bytes,
		a->system_event_bytes);
	for (uint32_t i = PROBE_STREAM_UNNAMED + 1; i < index->types->next; i++) {
		fprintf(file, "type %u ", i);
		write_name(file, index->types->types[i].text);
	}
	fprintf(file, "status %d %d %d %d %d %d %" PRIu64 " %" PRIu64 "\n", s->running, s->full,
		s->overrun, s->flush_error, s->log_overrun, s->log_full, s->lost, s->flushed);
}

struct probe_error *stream_index_write(const char *folder, const struct stream_index *index)
{
	AUTO_FD int at = -1;
	int err = 0, fd;
	FILE *file;
	struct probe_error *error = file_folder(folder, false, &at);

	if (error)
		return probe_error_prefix(error, "%s", folder);
	/* A new file, whatever the folder's owner has put there. */
	unlinkat(at, draft_name, 0);
	fd = openat(at, draft_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (file) {
		write_all(file, index);
		/* A full disk may be reported only now. */
		if (fflush(file) != 0)
			err = errno;
		if (fclose(file) != 0 && !err)
			err = errno;
	} else {
		err = errno;
		cleanup_fd(&fd);
	}
	if (!err && renameat(at, draft_name, at, stream_index_name) != 0)
		err = errno;
	if (err)
		unlinkat(at, draft_name, 0);
	return err ? probe_error_system(err, "cannot write %s/%s", folder, stream_index_name)
		   : NULL;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static struct probe_error *malformed(void)
{
	return error_numbered(
		PROBE_ERROR_FORMAT, EINVAL, "%s is not what a stream writes", stream_index_name);
}

static int digit_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes a name written by write_name() in place. Returns false if the text is not such a name. */
static bool read_name(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text != '%') {
			*to++ = *text;
			continue;
		}
		if (digit_of(text[1]) < 0 || digit_of(text[2]) < 0)
			return false;
		*to = (char)(digit_of(text[1]) << 4 | digit_of(text[2]));
		if (!*to++)
			return false;
		text += 2;
	}
	*to = '\0';
	return true;
}

/* Reads exactly `count` numbers. Returns false for any other text. */
static bool read_numbers(const char *text, uint64_t *ret, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char *end;

		if (*text < '0' || *text > '9')
			return false;
		errno = 0;
		ret[i] = strtoull(text, &end, 10);
		if (errno || *end != (i + 1 == count ? '\0' : ' '))
			return false;
		text = end + 1;
	}
	return true;
}

static bool read_attributes(const char *text, struct probe_stream_attributes *ret)
{
	struct probe_stream_options *o = &ret->options;
	uint64_t n[ATTRIBUTES];

	if (!read_numbers(text, n, ATTRIBUTES) || n[4] > PROBE_STREAM_FLUSH ||
		n[6] > PROBE_STREAM_LOG_APPEND)
		return false;
	ret->created_ns = n[0];
	ret->clock_resolution_ns = n[1];
	o->stream_bytes = n[2];
	o->data_bytes = n[3];
	o->policy = (enum probe_stream_policy)n[4];
	o->inherit = n[5] != 0;
	o->log_policy = (enum probe_stream_log_policy)n[6];
	o->log_bytes = n[7];
	ret->user_event_bytes = n[8];
	ret->system_event_bytes = n[9];
	return true;
}

static bool read_status(const char *text, struct probe_stream_status *ret)
{
	uint64_t n[STATUSES];

	if (!read_numbers(text, n, STATUSES))
		return false;
	*ret = (struct probe_stream_status){.running = n[0] != 0,
		.full = n[1] != 0,
		.overrun = n[2] != 0,
		.flush_error = (int)(n[3] & INT32_MAX),
		.log_overrun = n[4] != 0,
		.log_full = n[5] != 0,
		.lost = n[6],
		.flushed = n[7]};
	return true;
}

/* Lines are in the order of numbers, so each type gets its number again. */
static struct probe_error *read_type(char *text, struct stream_types *types)
{
	char *space = strchr(text, ' ');
	uint64_t number;
	uint32_t type;
	struct probe_error *error;

	if (!space)
		return malformed();
	*space = '\0';
	if (!read_numbers(text, &number, 1) || !read_name(space + 1) || !space[1] ||
		strlen(space + 1) > PROBE_STREAM_TYPE_NAME_MAX || number != types->next)
		return malformed();
	error = stream_types_of_name(types, space + 1, &type);
	return error || type == number ? error : malformed();
}

static struct probe_error *read_string(char *text, char **ret)
{
	if (!read_name(text) || strlen(text) > PROBE_STREAM_NAME_MAX)
		return malformed();
	free(*ret);
	*ret = strdup(text);
	return *ret ? NULL : probe_error_no_memory();
}

static struct probe_error *read_line(char *line, struct stream_index *index)
{
	char *rest = strchr(line, ' ');

	if (!rest)
		return malformed();
	*rest++ = '\0';
	if (strcmp(line, "version") == 0)
		return read_string(rest, &index->strings[1]);
	if (strcmp(line, "name") == 0)
		return read_string(rest, &index->strings[0]);
	if (strcmp(line, "type") == 0)
		return read_type(rest, index->types);
	if (strcmp(line, "attributes") == 0)
		return read_attributes(rest, &index->attributes) ? NULL : malformed();
	if (strcmp(line, "status") == 0)
		return read_status(rest, &index->status) ? NULL : malformed();
	/* Ignore keywords of later versions. */
	return NULL;
}

static struct probe_error *read_all(FILE *file, struct stream_index *index)
{
	struct probe_error *error = NULL;
	char line[LINE_BYTES];
	bool first = true;

	while (!error && fgets(line, sizeof(line), file)) {
		size_t length = strlen(line);

		if (!length || line[length - 1] != '\n')
			return malformed();
		line[length - 1] = '\0';
		if (first && strcmp(line, magic) != 0)
			return malformed();
		if (!first)
			error = read_line(line, index);
		first = false;
	}
	return error || !first ? error : malformed();
}

struct probe_error *stream_index_read(const char *folder, struct stream_index *index)
{
	AUTO_FD int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FILE FILE *file = NULL;
	struct probe_error *error;
	int fd;

	if (at < 0)
		return probe_error_system(errno, "cannot open %s", folder);
	/* O_NONBLOCK, because the path may be a pipe without a writer. */
	fd = openat(at, stream_index_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? NULL
				       : probe_error_system(errno, "cannot open %s/%s", folder,
						 stream_index_name);
	file = fdopen(fd, "r");
	if (!file) {
		close(fd);
		return probe_error_no_memory();
	}
	error = read_all(file, index);
	index->attributes.options.name = index->strings[0];
	index->attributes.version = index->strings[1];
	return probe_error_prefix(error, "%s", folder);
}

void stream_index_deinit(struct stream_index *index)
{
	stream_types_free(index->types);
	for (size_t i = 0; i < sizeof(index->strings) / sizeof(*index->strings); i++)
		free(index->strings[i]);
	*index = (struct stream_index){0};
}
