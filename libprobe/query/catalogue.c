/* SPDX-License-Identifier: MIT */
/*
 * Finding what a probe means. What was added last is asked first, so that a user's file overrides
 * the library's, and within a file a later line an earlier one with wildcards.
 *
 * A command asks for the probes of one or two providers, and parsing what is known of all would
 * take a quarter of the instructions of a short trace. So of the library's text only the names of
 * the providers are looked for, each of which has its lines in one place.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/query/query.h"

/* ---- Names ------------------------------------------------------------------------------ */

/* One character, or the two of a `__` that stand for a dash. *ret: that of the dash. */
static const char *next(const char *name, char *ret)
{
	*ret = *name;
	if (*name != '_' || name[1] != '_')
		return name + 1;
	*ret = '-';
	return name + 2;
}

bool catalogue_name_matches(const char *pattern, const char *name)
{
	const char *star = NULL, *again = NULL;

	while (*name) {
		char wanted, is;
		const char *pattern_next = next(pattern, &wanted), *name_next = next(name, &is);

		if (*pattern == '*') {
			star = ++pattern;
			again = name;
		} else if (*pattern && wanted == is) {
			pattern = pattern_next;
			name = name_next;
		} else if (star) {
			pattern = star;
			name = again = next(again, &is);
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

static bool has_args(const struct probe_meaning *meaning, size_t count)
{
	return count == SIZE_MAX || meaning->arg_count == count ||
	       (meaning->open && meaning->arg_count < count);
}

const struct probe_meaning *probe_catalogue_find(const struct probe_catalogue *catalogue,
	const char *provider, const char *name, size_t arg_count)
{
	for (size_t i = catalogue ? catalogue->source_count : 0; i-- > 0;) {
		const struct catalogue_file *file = catalogue_file_of(catalogue, i, provider);

		for (size_t k = file ? file->probe_count : 0; k-- > 0;) {
			const struct probe_meaning *meaning = &file->probes[k];

			if (strcmp(meaning->provider, provider) == 0 &&
				has_args(meaning, arg_count) &&
				catalogue_name_matches(meaning->name, name))
				return meaning;
		}
	}
	return NULL;
}

const char *probe_meaning_word(const struct probe_arg_meaning *arg, int64_t number)
{
	for (size_t i = 0; i < arg->word_count; i++)
		if (arg->words[i].number == number)
			return arg->words[i].word;
	return NULL;
}

/* ---- The library's text ----------------------------------------------------------------- */

static const char provider_line[] = "\nprovider ";

/* Where the next provider begins; `end` if there is none. */
static const char *next_provider(const char *text, const char *end)
{
	const char *line =
		memmem(text, (size_t)(end - text), provider_line, sizeof(provider_line) - 1);

	return line ? line + 1 : end;
}

static bool is_about(const struct catalogue_source *source, const char *provider)
{
	const char *name = source->text + sizeof(provider_line) - 2;
	size_t length = strlen(provider);

	return strncmp(name, provider, length) == 0 && name[length] == '\n';
}

static void free_file(struct catalogue_file *file)
{
	if (file)
		catalogue_file_deinit(file);
	free(file);
}

static struct probe_error *parse(
	const char *path, const char *text, size_t length, struct catalogue_file **ret)
{
	struct catalogue_file *file = malloc(sizeof(*file));
	struct probe_error *error =
		file ? catalogue_parse(path, text, length, file) : probe_error_no_memory();

	if (error)
		free(file);
	*ret = error ? NULL : file;
	return error;
}

const struct catalogue_file *catalogue_file_of(
	const struct probe_catalogue *catalogue, size_t source, const char *provider)
{
	struct catalogue_source *its = &catalogue->sources[source];
	/* Pairs with the exchange below. */
	struct catalogue_file *mine, *file = atomic_load_explicit(&its->file, memory_order_acquire);

	if (file || (provider && !is_about(its, provider)))
		return file;
	probe_error_free(parse("the catalogue", its->text, its->length, &mine));
	if (mine && !atomic_compare_exchange_strong(&its->file, &file, mine)) {
		free_file(mine); /* another thread was faster */
		return file;
	}
	return mine;
}

/* ---- Files ------------------------------------------------------------------------------ */

static struct probe_error *add_source(
	struct probe_catalogue *catalogue, struct catalogue_source **ret)
{
	if (!ARRAY_ROOM(catalogue->sources, catalogue->source_count))
		return probe_error_no_memory();
	*ret = &catalogue->sources[catalogue->source_count++];
	**ret = (struct catalogue_source){.text = NULL};
	return NULL;
}

static struct probe_error *add_text(
	struct probe_catalogue *catalogue, const char *path, const char *text, size_t length)
{
	struct catalogue_source *source;
	struct catalogue_file *file;
	struct probe_error *error = parse(path, text, length, &file);

	if (!error)
		error = add_source(catalogue, &source);
	if (error)
		free_file(file);
	else
		atomic_init(&source->file, file);
	return error;
}

/* The first provider goes first. */
static void reverse(struct catalogue_source *sources, size_t count)
{
	for (size_t i = 0; i < count / 2; i++) {
		struct catalogue_source source = sources[i];

		sources[i] = sources[count - 1 - i];
		sources[count - 1 - i] = source;
	}
}

static struct probe_error *add_builtin(struct probe_catalogue *catalogue)
{
	const char *end = catalogue_builtin + catalogue_builtin_length;
	const char *text = next_provider(catalogue_builtin, end), *next;

	for (; text < end; text = next) {
		struct catalogue_source *source;
		struct probe_error *error = add_source(catalogue, &source);

		if (error)
			return error;
		next = next_provider(text, end);
		source->text = text;
		source->length = (size_t)(next - text);
	}
	reverse(catalogue->sources, catalogue->source_count);
	return NULL;
}

/* As much of the file as fits; one byte more than is allowed is enough to say so. */
static struct probe_error *read_file(const char *path, char *text, size_t *length_ret)
{
	/* Another kind of file would be waited for. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t got = 0;

	*length_ret = 0;
	if (fd < 0 || fstat(fd, &st)) {
		int err = errno;

		if (fd >= 0)
			close(fd);
		return probe_error_system(err, "%s", path);
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return probe_error_new(PROBE_ERROR_FORMAT, "%s: this is no regular file", path);
	}
	do {
		*length_ret += (size_t)got;
		got = read(fd, text + *length_ret, CATALOGUE_FILE_MAX + 1 - *length_ret);
	} while (got > 0);
	if (got < 0) {
		int err = errno;

		close(fd);
		return probe_error_system(err, "%s", path);
	}
	close(fd);
	return NULL;
}

struct probe_error *probe_catalogue_add(struct probe_catalogue *catalogue, const char *path)
{
	AUTO_FREE char *text = malloc(CATALOGUE_FILE_MAX + 1);
	struct probe_error *error;
	size_t length;

	if (!text)
		return probe_error_no_memory();
	error = read_file(path, text, &length);
	return error ? error : add_text(catalogue, path, text, length);
}

struct probe_error *probe_catalogue_create(struct probe_catalogue **ret)
{
	struct probe_catalogue *catalogue = calloc(1, sizeof(*catalogue));
	struct probe_error *error;

	*ret = NULL;
	if (!catalogue)
		return probe_error_no_memory();
	error = add_builtin(catalogue);
	if (error) {
		probe_catalogue_free(catalogue);
		return error;
	}
	*ret = catalogue;
	return NULL;
}

void probe_catalogue_free(struct probe_catalogue *catalogue)
{
	if (!catalogue)
		return;
	for (size_t i = 0; i < catalogue->source_count; i++)
		free_file(catalogue->sources[i].file);
	free(catalogue->sources);
	free(catalogue);
}
