/* SPDX-License-Identifier: MIT */
/*
 * Finding what a probe means. What was added last is asked first, so that a user's file overrides
 * the library's, and within a file a later line an earlier one with wildcards.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/catalogue/builtin.h"
#include "libprobe/catalogue/catalogue.h"

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
	for (size_t i = catalogue ? catalogue->file_count : 0; i-- > 0;) {
		const struct catalogue_file *file = &catalogue->files[i];

		for (size_t k = file->probe_count; k-- > 0;) {
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

/* ---- Files ------------------------------------------------------------------------------ */

static struct probe_error *add_text(
	struct probe_catalogue *catalogue, const char *path, const char *text, size_t length)
{
	struct probe_error *error;

	if (!ARRAY_ROOM(catalogue->files, catalogue->file_count))
		return probe_error_no_memory();
	error = catalogue_parse(path, text, length, &catalogue->files[catalogue->file_count]);
	catalogue->file_count += !error;
	return error;
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
	error = add_text(catalogue, "the catalogue", catalogue_builtin, catalogue_builtin_length);
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
	for (size_t i = 0; i < catalogue->file_count; i++)
		catalogue_file_deinit(&catalogue->files[i]);
	free(catalogue->files);
	free(catalogue);
}
