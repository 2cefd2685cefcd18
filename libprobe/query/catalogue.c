/* SPDX-License-Identifier: MIT */
/*
 * Looks up the meaning of a probe. Sources are searched from the last added to the first, so a
 * user's file overrides the library's text. In a file, later lines override earlier ones: a line
 * after one with wildcards may describe an exception.
 *
 * A command asks about few providers, and parsing all of the library's text would take a quarter of
 * the instructions of a short trace. So at first only the names of providers are searched for. The
 * lines about a provider, which are contiguous, are parsed on demand.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/buffer.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"
#include "libprobe/base/map.h"
#include "libprobe/query/query.h"

/* ---- Names ------------------------------------------------------------------------------ */

/* Reads a character of a name; `__` is one dash. Returns a pointer past it. */
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

const char *probe_meaning_word(const struct probe_arg_meaning *arg, int64_t number)
{
	for (size_t i = 0; i < arg->word_count; i++)
		if (arg->words[i].number == number)
			return arg->words[i].word;
	return NULL;
}

/* ---- The library's text ----------------------------------------------------------------- */

static const char provider_line[] = "\nprovider ";

/* Returns the next "provider" line, or `end`. */
static const char *next_provider(const char *text, const char *end)
{
	const char *line =
		memmem(text, (size_t)(end - text), provider_line, sizeof(provider_line) - 1);

	return line ? line + 1 : end;
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
	const char *about = its->text ? its->text + sizeof(provider_line) - 2 : NULL;
	size_t length = provider ? strlen(provider) : 0;
	/* Pairs with atomic_compare_exchange_strong() below. */
	struct catalogue_file *mine, *file = atomic_load_explicit(&its->file, memory_order_acquire);

	if (file || (provider && (strncmp(about, provider, length) != 0 || about[length] != '\n')))
		return file;
	probe_error_free(parse("the catalogue", its->text, its->length, &mine));
	if (mine && !atomic_compare_exchange_strong(&its->file, &file, mine)) {
		free_file(mine); /* another thread has already stored its result */
		return file;
	}
	return mine;
}

/* ---- Debug information ------------------------------------------------------------------ */

struct learned_file {
	struct learned_file *next; /* the one learned before */
	struct catalogue_file file;
	struct map by_name; /* struct probe_meaning * by the probe's name */
	char *text;	    /* the file as it was learned */
	char object[];	    /* which object it is about */
};

struct catalogue_learned {
	_Atomic(struct learned_file *) newest;
	pthread_mutex_t lock;  /* for what follows */
	struct map asked;      /* functions that were asked for, also in vain */
	struct buffer members; /* members of structures that texts name, each with a NUL */
};

static struct probe_error *learned_init(struct catalogue_learned **ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return probe_error_no_memory();
	pthread_mutex_init(&(*ret)->lock, NULL);
	return NULL;
}

static void learned_free(struct catalogue_learned *learned)
{
	struct learned_file *file = learned ? atomic_load(&learned->newest) : NULL;

	if (!learned)
		return;
	while (file) {
		struct learned_file *next = file->next;

		catalogue_file_deinit(&file->file);
		map_clear(&file->by_name);
		free(file->text);
		free(file);
		file = next;
	}
	pthread_mutex_destroy(&learned->lock);
	map_clear(&learned->asked);
	buffer_deinit(&learned->members);
	free(learned);
}

static const struct learned_file *learned_at(const struct probe_catalogue *catalogue, size_t index)
{
	/* Pairs with atomic_store_explicit() in add_learned(). */
	struct learned_file *file =
		catalogue && catalogue->learned
			? atomic_load_explicit(&catalogue->learned->newest, memory_order_acquire)
			: NULL;

	while (file && index-- > 0)
		file = file->next;
	return file;
}

static const struct probe_meaning *learned_find(
	const struct learned_file *file, const char *provider, const char *name)
{
	AUTO_FREE char *key = strdup(name);
	const struct probe_meaning *const *found;

	if (!key || !file->file.probe_count || strcmp(file->file.probes->provider, provider) != 0)
		return NULL;
	/* In names of C++'s templates, `*` stands for a blank. */
	for (char *c = key; *c; c++)
		if (isspace((unsigned char)*c))
			*c = '*';
	found = map_find(&file->by_name, MAP_KEY(map_text(key)));
	return found ? *found : NULL;
}

const struct probe_meaning *probe_catalogue_find(const struct probe_catalogue *catalogue,
	const char *provider, const char *name, size_t arg_count)
{
	const bool is_function = event_is_of_function(provider);
	const struct learned_file *learned;

	for (size_t i = catalogue ? catalogue->source_count : 0; i-- > 0;) {
		const struct catalogue_file *file = catalogue_file_of(catalogue, i, provider);

		for (size_t k = file ? file->probe_count : 0; k-- > 0;) {
			const struct probe_meaning *meaning = &file->probes[k];
			bool has_args = arg_count == SIZE_MAX || is_function ||
					meaning->arg_count == arg_count ||
					(meaning->open && meaning->arg_count < arg_count);

			if (has_args && strcmp(meaning->provider, provider) == 0 &&
				catalogue_name_matches(meaning->name, name))
				return meaning;
		}
	}
	if (!is_function)
		return NULL;
	for (size_t i = 0; (learned = learned_at(catalogue, i)); i++) {
		const struct probe_meaning *meaning = learned_find(learned, provider, name);

		if (meaning)
			return meaning;
	}
	return catalogue_any_function(sdt_kind_of(provider, name) == SDT_EXIT);
}

const struct probe_meaning *catalogue_meaning_at(
	const struct probe_catalogue *catalogue, size_t index)
{
	const struct catalogue_file *file;
	const struct learned_file *learned;

	for (size_t i = catalogue->source_count; i-- > 0;) {
		file = catalogue_file_of(catalogue, i, NULL);
		const size_t count = file ? file->probe_count : 0;

		if (index < count)
			return &file->probes[index];
		index -= count;
	}
	for (size_t i = 0; (learned = learned_at(catalogue, i)); i++) {
		if (index < learned->file.probe_count)
			return &learned->file.probes[index];
		index -= learned->file.probe_count;
	}
	return index < 2 ? catalogue_any_function(index) : NULL;
}

static bool has_text(const struct buffer *list, const char *text, size_t length)
{
	for (size_t at = 0; at < list->length; at += strlen(list->data + at) + 1)
		if (strlen(list->data + at) == length &&
			strncmp(list->data + at, text, length) == 0)
			return true;
	return false;
}

struct probe_error *catalogue_want(
	const struct probe_catalogue *catalogue, const char *member, size_t length)
{
	struct buffer *members = &catalogue->learned->members;
	bool no_memory;

	pthread_mutex_lock(&catalogue->learned->lock);
	if (!has_text(members, member, length)) {
		buffer_bytes(members, member, length);
		buffer_char(members, '\0');
	}
	no_memory = members->no_memory;
	pthread_mutex_unlock(&catalogue->learned->lock);
	return no_memory ? probe_error_no_memory() : NULL;
}

static bool same_args(const struct probe_meaning *a, const struct probe_meaning *b)
{
	size_t count = a->arg_count < ARCH_FUNCTION_ARGS ? a->arg_count : ARCH_FUNCTION_ARGS;

	if (count != (b->arg_count < ARCH_FUNCTION_ARGS ? b->arg_count : ARCH_FUNCTION_ARGS))
		return false;
	for (size_t i = 0; i < a->arg_count && i < b->arg_count; i++)
		if (strcmp(a->args[i].name, b->args[i].name) != 0 ||
			a->args[i].size != b->args[i].size || a->args[i].kind != b->args[i].kind ||
			(a->args[i].place && b->args[i].place &&
				strcmp(a->args[i].place, b->args[i].place) != 0))
			return false;
	return true;
}

/* Refuses two files of one name whose functions differ: a name could mean either. */
static struct probe_error *check_other(
	const struct probe_catalogue *catalogue, const struct learned_file *file)
{
	for (const struct learned_file *other = atomic_load(&catalogue->learned->newest); other;
		other = other->next)
		for (size_t i = 0; i < file->file.probe_count; i++) {
			const struct probe_meaning *mine = &file->file.probes[i];
			const struct probe_meaning *its =
				learned_find(other, mine->provider, mine->name);

			if (its && strcmp(other->object, file->object) != 0 &&
				!same_args(mine, its))
				return probe_error_new(PROBE_ERROR_UNSUPPORTED,
					"%s:%s has other arguments in %s than in %s: trace one of "
					"them at a time",
					mine->provider, mine->name, file->object, other->object);
		}
	return NULL;
}

/* Adds a text, which it takes. It is not trusted: one with a mistake is dropped. */
static struct probe_error *add_learned(
	const struct probe_catalogue *catalogue, const char *object, char *text)
{
	struct learned_file *file = calloc(1, sizeof(*file) + strlen(object) + 1);
	struct probe_error *error;

	if (!file) {
		free(text);
		return probe_error_no_memory();
	}
	file->text = text;
	strcpy(file->object, object);
	error = catalogue_parse(object, text, strlen(text), &file->file);
	for (size_t i = 0; i < file->file.probe_count && !error; i++) {
		const struct probe_meaning *probe = &file->file.probes[i], **its;

		its = map_add(&file->by_name, sizeof(*its), MAP_KEY(map_text(probe->name)));
		if (!its)
			error = probe_error_no_memory();
		else
			*its = probe;
	}
	error = error ?: check_other(catalogue, file);
	if (!error) {
		file->next = atomic_load(&catalogue->learned->newest);
		atomic_store_explicit(&catalogue->learned->newest, file, memory_order_release);
		return NULL;
	}
	catalogue_file_deinit(&file->file);
	map_clear(&file->by_name);
	free(text);
	free(file);
	if (error->code != PROBE_ERROR_FORMAT)
		return error;
	probe_error_free(error);
	return NULL;
}

static struct probe_error *learn_locked(const struct probe_catalogue *catalogue,
	struct object *object, const char *provider, struct types_function *functions, size_t count)
{
	struct catalogue_learned *learned = catalogue->learned;
	const struct arch *arch = arch_of_machine(object_machine(object));
	const char *id = object_build_id(object), *key = *id ? id : object_path(object);
	struct types_request request = {.provider = provider,
		.functions = functions,
		.count = count,
		.members = learned->members.data,
		.members_length = learned->members.length,
		.result_is_argument = arch && arch->functions->result_is_argument,
		.is_reserved = catalogue_is_reserved};
	struct probe_error *error = NULL;
	char *text = NULL;
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		bool *is_asked = map_add(&learned->asked, sizeof(*is_asked),
			MAP_KEY(MAP_OBJECT(request.members_length), map_text(provider),
				map_text(key), map_text(functions[i].name)));

		if (!is_asked)
			return probe_error_no_memory();
		any |= !*is_asked;
		*is_asked = true;
	}
	if (any)
		error = types_describe(object, &request, &text);
	if (text)
		error = add_learned(catalogue, object_path(object), text);
	return error;
}

struct probe_error *catalogue_learn(const struct probe_catalogue *catalogue, struct object *object,
	const char *provider, struct types_function *functions, size_t count)
{
	struct probe_error *error;

	ARRAY_SORT(functions, count, address);
	pthread_mutex_lock(&catalogue->learned->lock);
	error = learn_locked(catalogue, object, provider, functions, count);
	pthread_mutex_unlock(&catalogue->learned->lock);
	return error;
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

static struct probe_error *add_builtin(struct probe_catalogue *catalogue)
{
	const char *end = catalogue_builtin + catalogue_builtin_length;
	const char *text = next_provider(catalogue_builtin, end), *next;
	struct catalogue_source *sources;
	size_t count;

	for (; text < end; text = next) {
		struct catalogue_source *source;
		struct probe_error *error = add_source(catalogue, &source);

		if (error)
			return error;
		next = next_provider(text, end);
		source->text = text;
		source->length = (size_t)(next - text);
	}
	/* The first provider in the text is searched first. */
	sources = catalogue->sources;
	count = catalogue->source_count;
	for (size_t i = 0; i < count / 2; i++) {
		struct catalogue_source source = sources[i];

		sources[i] = sources[count - 1 - i];
		sources[count - 1 - i] = source;
	}
	return NULL;
}

/*
 * Reads a file. Reads one byte more than permitted if the file is too long, so that
 * catalogue_parse() refuses it.
 */
static struct probe_error *read_file(const char *path, char *text, size_t *length_ret)
{
	/* O_NONBLOCK: do not wait at a FIFO. */
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t got = 0;

	*length_ret = 0;
	if (fd < 0 || fstat(fd, &st))
		return probe_error_system(errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return probe_error_new(PROBE_ERROR_FORMAT, "%s: this is no regular file", path);
	do {
		*length_ret += (size_t)got;
		got = read(fd, text + *length_ret, CATALOGUE_FILE_MAX + 1 - *length_ret);
	} while (got > 0);
	return got < 0 ? probe_error_system(errno, "%s", path) : NULL;
}

struct probe_error *probe_catalogue_add(struct probe_catalogue *catalogue, const char *path)
{
	AUTO_FREE char *text = malloc(CATALOGUE_FILE_MAX + 1);
	struct catalogue_source *source;
	struct catalogue_file *file = NULL;
	struct probe_error *error;
	size_t length;

	if (!text)
		return probe_error_no_memory();
	error = read_file(path, text, &length)
		?: parse(path, text, length, &file)
		?: add_source(catalogue, &source);
	if (error)
		free_file(file);
	else
		atomic_init(&source->file, file);
	return error;
}

/* The text that was learned as number `index` is in this file of a record. Hidden: no stream. */
static char *learned_path(const char *directory, size_t index)
{
	char *ret;

	return asprintf(&ret, "%s/.functions-%zu.probes", directory, index) < 0 ? NULL : ret;
}

struct probe_error *probe_catalogue_save(
	const struct probe_catalogue *catalogue, const char *directory)
{
	struct probe_error *error = NULL;
	size_t count = 0;

	while (learned_at(catalogue, count))
		count++;
	for (size_t i = 0; i < count && !error; i++) {
		const char *text = learned_at(catalogue, count - 1 - i)->text;
		AUTO_FREE char *path = learned_path(directory, i);
		AUTO_FD int fd =
			path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;

		if (!path)
			error = probe_error_no_memory();
		else if (fd < 0 ? errno != EEXIST : !file_write(fd, text, strlen(text)))
			error = probe_error_system(errno, "cannot write %s", path);
	}
	return error;
}

struct probe_error *probe_catalogue_load(struct probe_catalogue *catalogue, const char *directory)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; !error; i++) {
		AUTO_FREE char *path = learned_path(directory, i);

		if (!path)
			return probe_error_no_memory();
		if (access(path, F_OK))
			break;
		error = probe_catalogue_add(catalogue, path);
	}
	return error;
}

struct probe_error *probe_catalogue_create(struct probe_catalogue **ret)
{
	struct probe_catalogue *catalogue = calloc(1, sizeof(*catalogue));
	struct probe_error *error;

	*ret = NULL;
	if (!catalogue)
		return probe_error_no_memory();
	error = learned_init(&catalogue->learned) ?: add_builtin(catalogue);
	if (error)
		probe_catalogue_free(catalogue);
	else
		*ret = catalogue;
	return error;
}

void probe_catalogue_free(struct probe_catalogue *catalogue)
{
	if (!catalogue)
		return;
	for (size_t i = 0; i < catalogue->source_count; i++)
		free_file(catalogue->sources[i].file);
	learned_free(catalogue->learned);
	free(catalogue->sources);
	free(catalogue);
}
