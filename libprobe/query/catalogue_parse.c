/* SPDX-License-Identifier: MIT */
/*
 * The format of catalogue files (docs/catalogue.md), by line:
 *
 *   # ...                            ignored, as are empty lines
 *   provider NAME                    the next lines are about its probes
 *   words NAME[:TYPE] NUMBER=WORD ...
 *                                    a type whose numbers have words
 *   probe NAME [ARG[:TYPE]]... [...] [-> TYPE]
 *                                    a probe and its arguments; "...": maybe more;
 *                                    behind the arrow, what a function returns. A
 *                                    function may have ARG->MEMBER:TYPE@PLACE, too
 *   means TEXT                       the meaning of a hit of the probe
 *   needs TEXT                       a condition for hits to occur; before the first
 *                                    probe: for all probes without their own
 *   inlined TEXT                     which calls of a function are missing
 *   with PROBE                       a probe whose semaphores must also be raised
 *   takes PROBE                      the pair does not nest, and its start events
 *                                    have the arguments of PROBE
 *   same ARG...                      arguments with equal values in the start event
 *                                    and the end event
 *   pair BEGIN END...                the probes that end what BEGIN, a probe above,
 *                                    begins
 *
 * Lines are cut in place: the strings of the result point into the file's text. Users write
 * these files, so the content is not trusted.
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/query/query.h"

struct probes_text {
	const char *path;
	unsigned int line;
	struct catalogue_file *file;
	char *at;	      /* the rest of the line, which is not parsed yet */
	const char *provider; /* provider that the lines are about, or NULL */
	const char *needs;    /* condition for all probes of the provider, or NULL */
	/* index of the provider's first probe, and of its first `words` line */
	size_t first_probe, first_words;
};

static struct probe_error *mistake(const struct probes_text *p, const char *format, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull, warn_unused_result));

static struct probe_error *mistake(const struct probes_text *p, const char *format, ...)
{
	va_list ap;
	AUTO_FREE char *why = NULL;
	int length;

	va_start(ap, format);
	length = vasprintf(&why, format, ap);
	va_end(ap);
	if (length < 0)
		return probe_error_no_memory();
	return probe_error_new(PROBE_ERROR_FORMAT, "%s:%u: %s", p->path, p->line, why);
}

/* ---- Words of a line -------------------------------------------------------------------- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Cuts off the next word. Returns NULL at the end of the line. */
static char *take_word(struct probes_text *p)
{
	char *word = p->at + strspn(p->at, " \t");
	size_t length = strcspn(word, " \t");

	if (!length)
		return NULL;
	p->at = word + length;
	if (*p->at)
		*p->at++ = '\0';
	return word;
}

/* Returns the rest of the line without surrounding blanks; NULL if nothing is left. */
static char *take_rest(struct probes_text *p)
{
	char *rest = p->at + strspn(p->at, " \t"), *end = rest + strlen(rest);

	while (end > rest && is_blank(end[-1]))
		*--end = '\0';
	p->at = end;
	return *rest ? rest : NULL;
}

static bool is_identifier(const char *text)
{
	return *text && !isdigit((unsigned char)*text) && !text[expr_word_length(text)];
}

/* Is this a member of an argument, such as order->customer.name? */
static bool is_member(const char *text)
{
	size_t name = expr_word_length(text), members = expr_members_length(text + name);

	return name && !isdigit((unsigned char)*text) && members && !text[name + members];
}

bool catalogue_is_reserved(const char *word, size_t length)
{
	static const char *const reserved[] = {"tid", "pid", "cpu", "str", "bytes", "duration",
		"begin", "end", "starts_with", "ends_with", "contains", "len", "in", "not", "norm",
		"sym", "comm", "ustack", "probe", "u8", "u16", "u32", "u64", "s8", "s16", "s32",
		"s64"};
	size_t digits = length > 3 && strncmp(word, "arg", 3) == 0 ? 3 : length;

	for (size_t i = 0; i < sizeof(reserved) / sizeof(*reserved); i++)
		if (reserved[i][0] == word[0] && strncmp(reserved[i], word, length) == 0 &&
			!reserved[i][length])
			return true;
	if (digits == length)
		return false;
	while (digits < length && isdigit((unsigned char)word[digits]))
		digits++;
	return digits == length;
}

/* ---- Arguments -------------------------------------------------------------------------- */

static int find_arg(const struct probe_meaning *probe, const char *name)
{
	for (size_t i = 0; i < probe->arg_count; i++)
		if (strcmp(probe->args[i].name, name) == 0)
			return (int)i;
	return -1;
}

int catalogue_same_arg(const struct probe_meaning *probe, const char *word, bool *number_ret)
{
	unsigned long number;

	*number_ret = strncmp(word, "arg", 3) == 0 && catalogue_is_reserved(word, strlen(word));
	if (!*number_ret)
		return find_arg(probe, word);
	number = strtoul(word + 3, NULL, 10);
	return number < probe->arg_count ? (int)number : -1;
}

/* The numbers of arguments are those of struct arch_entry and arch_functions.return_args. */
enum { FLOATS = 10 /* the number of the first floating argument */, FRETVAL = 1 };
static const struct probe_arg_meaning entry_args[ARCH_FUNCTION_ARGS] = {
	{.name = "arg0", .is_hidden = true}, {.name = "arg1", .is_hidden = true},
	{.name = "arg2", .is_hidden = true}, {.name = "arg3", .is_hidden = true},
	{.name = "arg4", .is_hidden = true}, {.name = "arg5", .is_hidden = true},
	{.name = "arg6", .is_hidden = true}, {.name = "arg7", .is_hidden = true},
	{.name = "arg8", .is_hidden = true}, {.name = "arg9", .is_hidden = true},
	{.name = "farg0", .is_hidden = true}, {.name = "farg1", .is_hidden = true},
	{.name = "farg2", .is_hidden = true}, {.name = "farg3", .is_hidden = true},
	{.name = "farg4", .is_hidden = true}, {.name = "farg5", .is_hidden = true},
	{.name = "farg6", .is_hidden = true}, {.name = "farg7", .is_hidden = true}};
static const struct probe_arg_meaning exit_args[] = {
	{.name = "retval"}, {.name = "fretval", .is_hidden = true}};

/* The types of numbers, with their sizes. */
static const struct {
	const char *type;
	signed char size;
} numbers[] = {{"u8", 1}, {"s8", -1}, {"u16", 2}, {"s16", -2}, {"u32", 4}, {"s32", -4}, {"u64", 8},
	{"s64", -8}, {"float", 4}, {"double", 8}};

static signed char size_of(const char *type)
{
	for (size_t i = 0; type && i < sizeof(numbers) / sizeof(*numbers); i++)
		if (strcmp(numbers[i].type, type) == 0)
			return numbers[i].size;
	return 0;
}

static bool is_floating(const char *type)
{
	return type && (strcmp(type, "float") == 0 || strcmp(type, "double") == 0);
}

/* Sets the type "string(length)" or "bytes(length)"; `open` points to the parenthesis. */
static struct probe_error *set_sized(const struct probes_text *p, const struct probe_meaning *probe,
	struct probe_arg_meaning *arg, const char *open)
{
	size_t length = strlen(open + 1);
	char name[64];
	int index;

	arg->kind = *arg->type == 's' ? PROBE_ARG_SIZED_STRING : PROBE_ARG_SIZED_BYTES;
	if (length < 2 || open[length] != ')' || length > sizeof(name))
		return mistake(p, "expected the argument that is the length in '%s'", arg->type);
	memcpy(name, open + 1, length - 1);
	name[length - 1] = '\0';
	index = find_arg(probe, name);
	if (index < 0)
		return mistake(p, "there is no argument '%s' that could be a length", name);
	arg->length = (unsigned char)index;
	return NULL;
}

static struct probe_error *set_type(const struct probes_text *p, const struct probe_meaning *probe,
	struct probe_arg_meaning *arg)
{
	/* A unit says only what a number counts. */
	static const char *const units[] = {
		"ns", "us", "ms", "s", "bytes", "words", "pages", "blocks", "rows"};
	static const struct {
		const char *type;
		enum probe_arg_kind kind;
	} kinds[] = {{"string", PROBE_ARG_STRING}, {"pointer", PROBE_ARG_POINTER},
		{"bool", PROBE_ARG_BOOLEAN}};
	const char *type = arg->type, *open = type ? strchr(type, '(') : NULL;

	arg->size = size_of(type);
	if (!type || arg->size)
		return NULL;
	arg->size = 8;
	if (open && (strncmp(type, "string(", 7) == 0 || strncmp(type, "bytes(", 6) == 0))
		return set_sized(p, probe, arg, open);
	if (strncmp(type, "string+", 7) == 0) {
		char *end;
		unsigned long offset = strtoul(type + 7, &end, 10);

		if (!isdigit((unsigned char)type[7]) || *end || offset > CATALOGUE_OFFSET_MAX)
			return mistake(p, "expected a number of bytes, at most %d, in '%s'",
				CATALOGUE_OFFSET_MAX, type);
		arg->kind = PROBE_ARG_STRING;
		arg->offset = (unsigned short)offset;
		return NULL;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (strcmp(units[i], type) == 0)
			return NULL;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(type, kinds[i].type) == 0) {
			arg->kind = kinds[i].kind;
			arg->size = arg->kind == PROBE_ARG_BOOLEAN ? 1 : 8;
			return NULL;
		}
	for (size_t i = p->first_words; i < p->file->words_count; i++) {
		if (strcmp(p->file->words[i].name, type) != 0)
			continue;
		arg->size = p->file->words[i].size;
		arg->words = p->file->words[i].words;
		arg->word_count = p->file->words[i].count;
		return NULL;
	}
	return mistake(p, "there is no type '%s'", type);
}

/*
 * Returns the number of the next argument of a type, and in *end_ret how many there can be.
 * Functions take integers and floating numbers from registers of different kinds.
 */
static size_t next_arg(const struct probes_text *p, const struct probe_meaning *probe,
	const char *type, const char *place, size_t *end_ret)
{
	size_t index = is_floating(type) ? FLOATS : 0;

	*end_ret = CATALOGUE_ARGS_MAX;
	if (place)
		return probe->arg_count > ARCH_FUNCTION_ARGS ? probe->arg_count
							     : ARCH_FUNCTION_ARGS;
	if (!event_is_of_function(p->provider))
		return probe->arg_count;
	*end_ret = is_floating(type) ? ARCH_FUNCTION_ARGS : FLOATS;
	while (index < *end_ret && !probe->args[index].is_hidden)
		index++;
	return index;
}

static struct probe_error *add_arg(const struct probes_text *p, struct probe_meaning *probe,
	char *word, struct probe_arg_meaning *args)
{
	char *place = event_is_of_function(p->provider) ? strchr(word, '@') : NULL, *colon;
	size_t index, end;

	if (place)
		*place++ = '\0';
	colon = strchr(word, ':');
	if (colon)
		*colon++ = '\0';
	index = next_arg(p, probe, colon, place, &end);
	if (index == end && event_is_of_function(p->provider))
		return mistake(p, "a function has at most %d arguments, and %d floating ones",
			FLOATS, ARCH_FUNCTION_ARGS - FLOATS);
	if (index == end)
		return mistake(p, "a probe has at most %d arguments", CATALOGUE_ARGS_MAX);
	if (place ? !is_member(word) || !*place : !is_identifier(word))
		return mistake(p, "'%s' is no name of an argument: expected %s", word,
			place ? "ARG->MEMBER@PLACE" : "letters, digits and _");
	if (catalogue_is_reserved(word, strlen(word)))
		return mistake(p,
			"no argument can be called '%s': in an expression, this is "
			"something else",
			word);
	if (find_arg(probe, word) >= 0)
		return mistake(p, "two arguments are called '%s'", word);
	args[index] = (struct probe_arg_meaning){
		.name = word, .type = colon, .place = place, .is_hidden = place != NULL};
	if (probe->arg_count <= index)
		probe->arg_count = index + 1;
	return NULL;
}

/*
 * Adds all arguments before setting types, because an argument's length may come later.
 * *returned_ret is the type of what a function returns, or NULL.
 */
static struct probe_error *take_args(
	struct probes_text *p, struct probe_meaning *probe, const char **returned_ret)
{
	bool is_function = event_is_of_function(p->provider);
	struct probe_arg_meaning *args;
	size_t most = CATALOGUE_ARGS_MAX; /* words are separated by blanks */
	struct probe_error *error = NULL;
	char *word;

	for (const char *c = p->at; *c; c++)
		most += is_blank(*c);
	probe->args = args = calloc(most, sizeof(*args));
	if (!args)
		return probe_error_no_memory();
	if (is_function)
		memcpy(args, entry_args, sizeof(entry_args));
	while (!error && !*returned_ret && (word = take_word(p))) {
		if (is_function && strcmp(word, "->") == 0) {
			*returned_ret = take_word(p);
			if (!*returned_ret)
				error = mistake(
					p, "expected the type of what the function returns");
		} else if (probe->open)
			error = mistake(p, "'...' comes last");
		else if (strcmp(word, "...") == 0)
			probe->open = true;
		else
			error = add_arg(p, probe, word, args);
	}
	/* Arguments that are not described have numbers for names. */
	if (is_function && probe->open && probe->arg_count < ARCH_FUNCTION_ARGS)
		probe->arg_count = ARCH_FUNCTION_ARGS;
	for (size_t i = 0; i < probe->arg_count && !error; i++)
		error = set_type(p, probe, &args[i]);
	/* A length must be a number, which is known once all types are set. */
	for (size_t i = 0; i < probe->arg_count && !error; i++) {
		const struct probe_arg_meaning *length = &args[args[i].length];
		bool is_sized = args[i].kind == PROBE_ARG_SIZED_STRING ||
				args[i].kind == PROBE_ARG_SIZED_BYTES;

		if (is_sized && length->kind != PROBE_ARG_NUMBER)
			error = mistake(p, "'%s' is no number, and so no length", length->name);
	}
	return error;
}

/* ---- Lines ------------------------------------------------------------------------------ */

static struct probe_error *take_provider(struct probes_text *p)
{
	p->provider = take_word(p);
	p->needs = NULL;
	p->first_probe = p->file->probe_count;
	p->first_words = p->file->words_count;
	return p->provider ? NULL : mistake(p, "expected the provider's name");
}

/* Adds the exits of the function that was added last, before it, for lines about it follow. */
static struct probe_error *add_exits(struct probes_text *p, const char *type)
{
	struct probe_meaning *entry, exit = {.provider = p->provider, .arg_count = 2};
	struct probe_arg_meaning *args;
	char *name;

	if (!ARRAY_ROOM(p->file->probes, p->file->probe_count))
		return probe_error_no_memory();
	entry = &p->file->probes[p->file->probe_count - 1];
	exit.needs = entry->needs;
	/* The name is behind the arguments, which the file frees. */
	args = malloc(sizeof(exit_args) + strlen(entry->name) + sizeof(SDT_RETURN));
	if (!args)
		return probe_error_no_memory();
	memcpy(args, exit_args, sizeof(exit_args));
	exit.args = args;
	exit.name = name = (char *)(args + 2);
	stpcpy(stpcpy(name, entry->name), SDT_RETURN);
	args[0].is_hidden = is_floating(type) || strcmp(type, "void") == 0;
	args[FRETVAL].is_hidden = !is_floating(type);
	entry[1] = *entry;
	*entry = exit;
	p->file->probe_count++;
	if (strcmp(type, "void") == 0)
		return NULL;
	args += is_floating(type) ? FRETVAL : 0;
	args->type = type;
	return set_type(p, &exit, args);
}

static struct probe_error *take_probe(struct probes_text *p)
{
	struct probe_meaning *probe;
	struct probe_error *error;
	const char *returned = NULL;
	char *name = take_word(p);

	if (!name)
		return mistake(p, "expected the probe's name");
	if (strchr(name, ':') && !event_is_of_function(p->provider))
		return mistake(p, "'%s' has a colon: the provider has a line of its own", name);
	if (!ARRAY_ROOM(p->file->probes, p->file->probe_count))
		return probe_error_no_memory();
	probe = &p->file->probes[p->file->probe_count++];
	*probe = (struct probe_meaning){.provider = p->provider, .name = name, .needs = p->needs};
	error = take_args(p, probe, &returned);
	return !error && returned ? add_exits(p, returned) : error;
}

static struct probe_error *take_words(struct probes_text *p)
{
	struct catalogue_words *words;
	char *word = take_word(p), *type = word ? strchr(word, ':') : NULL;

	if (type)
		*type++ = '\0';
	if (!word || !is_identifier(word) || (type && !size_of(type)))
		return mistake(p, "expected the name of the type");
	if (!ARRAY_ROOM(p->file->words, p->file->words_count))
		return probe_error_no_memory();
	words = &p->file->words[p->file->words_count++];
	/* An enumeration is an int. */
	*words = (struct catalogue_words){.name = word, .size = type ? size_of(type) : -4};
	while ((word = take_word(p))) {
		if (!ARRAY_ROOM(words->words, words->count))
			return probe_error_no_memory();
		struct probe_word *added = &words->words[words->count];
		char *equals = strchr(word, '='), *end;

		if (!equals || !equals[1])
			return mistake(p, "expected NUMBER=WORD instead of '%s'", word);
		*equals = '\0';
		errno = 0;
		*added = (struct probe_word){.number = strtoll(word, &end, 0), .word = equals + 1};
		if (errno || *end || end == word || isspace((unsigned char)*word))
			return mistake(p, "'%s' is no number", word);
		words->count++;
	}
	return words->count ? NULL : mistake(p, "expected NUMBER=WORD");
}

/* Returns the probe that the line is about, the last of the provider; or NULL. */
static struct probe_meaning *last_probe(const struct probes_text *p)
{
	return p->file->probe_count > p->first_probe ? &p->file->probes[p->file->probe_count - 1]
						     : NULL;
}

/*
 * Takes a line that is only a text. `offset` is that of its field in the probe above; without a
 * probe only `needs` is allowed, which then is for all probes of the provider.
 */
static struct probe_error *take_text(struct probes_text *p, size_t offset)
{
	const bool is_name = offset == offsetof(struct probe_meaning, with) ||
			     offset == offsetof(struct probe_meaning, takes);
	struct probe_meaning *probe = last_probe(p);
	const char **field = probe ? (const char **)((char *)probe + offset) : &p->needs;

	if (!probe && offset != offsetof(struct probe_meaning, needs))
		return mistake(p, "there is no probe above");
	*field = is_name ? take_word(p) : take_rest(p);
	return *field ? NULL : mistake(p, "expected %s", is_name ? "the probe's name" : "a text");
}

/* Replaces the list *names_ret by a copy of `names`. */
static struct probe_error *set_names(
	const char *const *names, size_t count, const char *const **names_ret, size_t *count_ret)
{
	const char **copy = calloc(count, sizeof(*copy));

	if (!copy)
		return probe_error_no_memory();
	memcpy(copy, names, count * sizeof(*copy));
	free((void *)*names_ret);
	*names_ret = copy;
	*count_ret = count;
	return NULL;
}

static struct probe_error *take_same(struct probes_text *p)
{
	struct probe_meaning *probe = last_probe(p);
	const char *names[PROBE_SAME_MAX], *name;
	size_t count = 0;
	bool is_number;

	if (!probe)
		return mistake(p, "there is no probe above");
	while ((name = take_word(p))) {
		if (count == PROBE_SAME_MAX)
			return mistake(p, "at most %d arguments are compared", PROBE_SAME_MAX);
		if (catalogue_same_arg(probe, name, &is_number) < 0)
			return mistake(p, "the probe above has no argument '%s'", name);
		names[count++] = name;
	}
	return count ? set_names(names, count, &probe->same, &probe->same_count)
		     : mistake(p, "expected names of arguments");
}

static struct probe_error *take_pair(struct probes_text *p)
{
	const char *begin = take_word(p), *ends[CATALOGUE_ARGS_MAX], *end;
	struct probe_error *error = NULL;
	bool found = false;
	size_t count = 0;

	while ((end = take_word(p))) {
		if (count == CATALOGUE_ARGS_MAX)
			return mistake(p, "a probe has at most %d ends", CATALOGUE_ARGS_MAX);
		ends[count++] = end;
	}
	if (!count)
		return mistake(p, "expected two probes or more, BEGIN END...");
	for (size_t i = p->first_probe; i < p->file->probe_count && !error; i++) {
		if (strcmp(p->file->probes[i].name, begin) != 0)
			continue;
		found = true;
		error = set_names(
			ends, count, &p->file->probes[i].ends, &p->file->probes[i].end_count);
	}
	return !error && !found ? mistake(p, "there is no line 'probe %s' above", begin) : error;
}

static const struct {
	const char *word;
	struct probe_error *(*take)(struct probes_text *p); /* NULL: take_text() */
	size_t offset;
} lines[] = {
	{"provider", take_provider, 0},
	{"probe", take_probe, 0},
	{"words", take_words, 0},
	{"means", NULL, offsetof(struct probe_meaning, means)},
	{"needs", NULL, offsetof(struct probe_meaning, needs)},
	{"inlined", NULL, offsetof(struct probe_meaning, inlined)},
	{"with", NULL, offsetof(struct probe_meaning, with)},
	{"takes", NULL, offsetof(struct probe_meaning, takes)},
	{"same", take_same, 0},
	{"pair", take_pair, 0},
};

static struct probe_error *take_line(struct probes_text *p)
{
	struct probe_error *error;
	const char *word;

	for (const char *c = p->at; *c; c++)
		if (iscntrl((unsigned char)*c) && *c != '\t')
			return mistake(
				p, "the line has a control character (0x%02x)", (unsigned char)*c);
	if (p->at[strspn(p->at, " \t")] == '#')
		return NULL;
	word = take_word(p);
	if (!word)
		return NULL;
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		if (strcmp(lines[i].word, word) != 0)
			continue;
		if (!p->provider && lines[i].take != take_provider)
			return mistake(p, "expected a line 'provider NAME' before this one");
		error = lines[i].take ? lines[i].take(p) : take_text(p, lines[i].offset);
		word = error ? NULL : take_word(p);
		return word ? mistake(p, "expected nothing after that, not '%s'", word) : error;
	}
	return mistake(p,
		"'%s' begins no line: expected provider, probe, words, means, needs, "
		"inlined, with, takes, same or pair",
		word);
}

/* ---- Files ------------------------------------------------------------------------------ */

struct probe_error *catalogue_parse(
	const char *path, const char *text, size_t length, struct catalogue_file *ret)
{
	struct probes_text p = {.path = path, .file = ret};
	struct probe_error *error = NULL;
	char *line, *end;

	*ret = (struct catalogue_file){0};
	if (length > CATALOGUE_FILE_MAX)
		return probe_error_new(PROBE_ERROR_FORMAT, "%s: the file has more than %d bytes",
			path, CATALOGUE_FILE_MAX);
	ret->text = malloc(length + 1);
	if (!ret->text)
		return probe_error_no_memory();
	memcpy(ret->text, text, length);
	line = ret->text;
	for (end = line + length; line < end && !error; line = p.at + 1) {
		char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t bytes = (size_t)((newline ? newline : end) - line);

		line[bytes] = '\0';
		p.line++;
		p.at = line;
		error = memchr(line, '\0', bytes) ? mistake(&p, "the line has a NUL")
						  : take_line(&p);
		p.at = line + bytes;
	}
	if (error)
		catalogue_file_deinit(ret);
	return error;
}

void catalogue_file_deinit(struct catalogue_file *file)
{
	for (size_t i = 0; i < file->probe_count; i++) {
		free((void *)file->probes[i].args);
		free((void *)file->probes[i].ends);
		free((void *)file->probes[i].same);
	}
	for (size_t i = 0; i < file->words_count; i++)
		free(file->words[i].words);
	free(file->probes);
	free(file->words);
	free(file->text);
	*file = (struct catalogue_file){0};
}

/* ---- Functions that no file describes --------------------------------------------------- */

static const struct probe_meaning any_entry = {.provider = SDT_FUNCTIONS,
	.name = "*",
	.args = entry_args,
	.arg_count = ARCH_FUNCTION_ARGS};
static const struct probe_meaning any_exit = {
	.provider = SDT_FUNCTIONS, .name = "*" SDT_RETURN, .args = exit_args, .arg_count = 2};

const struct probe_meaning *catalogue_any_function(bool is_return)
{
	return is_return ? &any_exit : &any_entry;
}

const char *catalogue_sized(
	const struct probe_meaning *meaning, const char *args, char ret[ARCH_FUNCTION_TEXT])
{
	const char *word = args;
	size_t at = 0;

	for (size_t i = 0; *word && at < ARCH_FUNCTION_TEXT; i++) {
		int size = meaning && i < meaning->arg_count ? meaning->args[i].size : 0;
		size_t digits = strspn(word, "-0123456789"), length = strcspn(word, " ");
		size_t room = ARCH_FUNCTION_TEXT - at;

		/* A lost argument stays "8@?". */
		if (size && strncmp(word + digits, "@?", 2) != 0)
			at += (size_t)snprintf(ret + at, room, "%s%d%.*s", i ? " " : "", size,
				(int)(length - digits), word + digits);
		else
			at += (size_t)snprintf(
				ret + at, room, "%s%.*s", i ? " " : "", (int)length, word);
		word += length + (word[length] == ' ');
	}
	return at && at < ARCH_FUNCTION_TEXT ? ret : args;
}
