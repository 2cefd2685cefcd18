/* SPDX-License-Identifier: MIT */
/*
 * Patterns: the text that users type to name probes.
 *
 * Each tracing tool spells a static probe in its own way, and users may type any of these
 * spellings; probe/pattern.h has the grammar. How the spellings are distinguished:
 *
 *   /…/            begins and ends with a slash. No name ends with a slash, so
 *                  this is never a path:provider:name with an absolute path.
 *   usdt:… u:…     a tool's prefix if there are three or more parts. With two, "usdt"
 *                  or "u" is a provider.
 *   sdt_P:N        the provider is P or sdt_P: both match. perf also writes a %
 *                  before it.
 *   A:N            if A has a slash, it is a path: no provider has a slash.
 *   A:P:N          the last two parts are provider and name: paths may contain
 *                  colons, provider and name may not.
 *
 *   P:"N"          a name in quotes is literal: any character may be in it.
 *
 * An empty part is `*`, as in DTrace. DTrace also turns `__` in a probe's name into `-`, so names
 * are compared with every `-` as `__`.
 */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/error.h"
#include "libprobe/query/query.h"
#include "probe/session.h"

/* ==== Captures ================================================================================ */

static const char *skip_blanks(const char *at)
{
	while (*at == ' ' || *at == '\t')
		at++;
	return at;
}

static bool take_word(const char **at, const char *word)
{
	size_t length = strlen(word);

	if (strncmp(*at, word, length) != 0)
		return false;
	*at = skip_blanks(*at + length);
	return true;
}

static bool take_arg(const char **at, uint8_t *ret)
{
	const char *end = argument_parse(*at, ret);

	if (end)
		*at = skip_blanks(end);
	return end != NULL;
}

/* Parses a string's length: an argument, or bytes. */
static const char *parse_length(const char **at, struct capture *capture)
{
	unsigned long number;
	char *end;

	capture->has_length = true;
	if (take_arg(at, &capture->length))
		return NULL;
	capture->length = capture->arg;
	number = **at >= '0' && **at <= '9' ? strtoul(*at, &end, 0) : 0;
	if (!number || number > PROBE_STRING_BYTES_MAX)
		return "expected the length: arg0 to arg31, or a number of bytes up to 8192";
	capture->fixed_length = (uint16_t)number;
	*at = skip_blanks(end);
	return NULL;
}

/* Parses one capture. Returns NULL, or a text that says what was expected at *at. */
static const char *parse_capture(const char **at, struct capture *capture)
{
	const char *expected, *start = *at;
	bool has_parenthesis;

	capture->is_string = take_word(at, "str");
	capture->has_length =
		!capture->is_string && (take_word(at, "bytes") || take_word(at, "hex"));
	capture->is_symbol = !capture->is_string && !capture->has_length && take_word(at, "sym");
	has_parenthesis = *at != start;
	if (has_parenthesis && !take_word(at, "("))
		return capture->is_string   ? "expected '(' after str"
		       : capture->is_symbol ? "expected '(' after sym"
					    : "expected '(' after bytes";
	expected = has_parenthesis && !capture->is_symbol ? operand_parse_address(at, capture)
							  : operand_parse(at, capture);
	if (expected)
		return start == *at && !has_parenthesis
			       ? "expected arg0 to arg31, str(argN), bytes(argN,argM) or "
				 "sym(argN)"
			       : expected;
	*at = skip_blanks(*at);
	if (has_parenthesis && !capture->is_symbol && take_word(at, ",")) {
		expected = parse_length(at, capture);
		if (expected)
			return expected;
	} else if (capture->has_length) {
		return "expected ',' and the length: an argument, or a number of bytes";
	}
	if (has_parenthesis && !take_word(at, ")"))
		return "expected ')'";
	return NULL;
}

/* Parses the arguments at the parenthesis *at. Returns NULL, or what was expected there. */
static const char *captures_parse(
	const char **at, struct capture captures[CAPTURES_MAX], size_t *count_ret)
{
	const char *expected;

	*count_ret = 0;
	*at = skip_blanks(*at + 1);
	do {
		if (*count_ret == CAPTURES_MAX)
			return "there are more than 32 arguments";
		captures[*count_ret] = (struct capture){0};
		expected = parse_capture(at, &captures[*count_ret]);
		if (expected)
			return expected;
		++*count_ret;
	} while (take_word(at, ","));
	return **at != ')' || (*at)[1] != '\0' ? "expected ',' or ')'" : NULL;
}

/* ==== Pattern ================================================================================= */

struct probe_pattern {
	char *text;
	/* Decides which probes match, or NULL. If set, only `text` and `data` are also used. */
	bool (*predicate)(const char *path, const char *provider, const char *name, void *data);
	void *data;
	bool is_regex;
	regex_t regex;	 /* used if is_regex is set; otherwise the following globs are used */
	char *path;	 /* glob for the path of the module, or NULL if any module matches */
	char *resolved;	 /* `path` without symbolic links, or NULL if there is no such file */
	bool is_library; /* `path` may be only the name of a library, such as "c" or "libc" */
	char *provider;
	const char *without_prefix; /* the part of `provider` after "sdt_", or NULL */
	char *name;		    /* glob for the name of the probe, with `-` as `__` */
	bool has_captures;
	struct capture captures[CAPTURES_MAX];
	size_t capture_count;
	/*
	 * The pattern names functions. Then `path` is a library, too, and `name` or `regex` is
	 * compared with a function's name without parameters.
	 */
	bool is_function;
	bool is_return;	 /* it names the exits of functions, not their entries */
	bool is_both;	 /* see probe_pattern_pair() */
	uint64_t offset; /* of an instruction inside the function; 0 for its entry */
	/* For names of arguments; borrowed. A list with names is parsed again for each probe. */
	const struct probe_catalogue *catalogue;
	/* the list in `text` if it contains names, otherwise NULL */
	const char *named_list;
};

/* The text being parsed. Columns count from 1. */
struct pattern_text {
	const char *text;
	struct probe_pattern *pattern;
};

static struct probe_error *mistake(
	const struct pattern_text *parser, const char *at, const char *expected)
{
	return probe_error_new(PROBE_ERROR_USAGE, "bad probe '%s', column %td: %s", parser->text,
		at - parser->text + 1, expected);
}

/*
 * Returns an error for programs of bpftrace and SystemTap, with how to ask probectl for the same.
 * They have a brace, a blank before a slash, or a quoted argument, unlike probes' names.
 */
static struct probe_error *check_other_language(const struct pattern_text *parser)
{
	const char *text = parser->text, *brace = strchr(text, '{'),
		   *predicate = strstr(text, " /");

	if (text[0] == '/')
		return NULL;
	if (strncmp(text, "process(", 8) == 0)
		return mistake(parser, text,
			"SystemTap's process(\"FILE\").mark(\"NAME\") is FILE:NAME here");
	if (predicate && (brace || text[strlen(text) - 1] == '/'))
		return mistake(parser, predicate + 1,
			"a condition is given with -f here, as in -f 'arg0 > 5'");
	if (brace)
		return mistake(parser, brace,
			"instead of actions in braces, -c counts, and -t sum, avg, hist or latency "
			"gather, with a row for each value of -k KEY");
	return NULL;
}

/* ---- Dashes --------------------------------------------------------------- */

/*
 * Copies a name or glob with `__` for `-`, except in brackets (`[a-z]`). In a glob, drops a
 * backslash before a dash.
 */
static char *double_dashes(const char *from, size_t length, bool is_glob)
{
	char *copy = malloc(2 * length + 1), *to = copy;
	const char *end = from + length;
	bool in_brackets = false;

	if (!copy)
		return NULL;
	while (from < end) {
		char c = *from++;

		if (is_glob && c == '\\' && from < end && *from == '-' && !in_brackets)
			continue;
		if (is_glob && c == '[')
			in_brackets = true;
		else if (c == ']')
			in_brackets = false;
		if (c == '-' && !in_brackets) {
			*to++ = '_';
			*to++ = '_';
		} else {
			*to++ = c;
		}
	}
	*to = '\0';
	return copy;
}

/* ---- Quotes --------------------------------------------------------------- */

/* Returns the quote before a quoted name, which is the whole text or follows a colon; or NULL. */
static const char *opening_quote(const char *from, const char *end)
{
	const char *quote = memchr(from, '"', (size_t)(end - from));

	while (quote && quote > from && quote[-1] != ':')
		quote = memchr(quote + 1, '"', (size_t)(end - quote) - 1);
	return quote && end - quote > 2 && end[-1] == '"' ? quote : NULL;
}

/* Makes a glob that matches only this name. */
static char *quoted_glob(const char *name, size_t length)
{
	AUTO_FREE char *doubled = double_dashes(name, length, false);
	char *glob = doubled ? malloc(2 * strlen(doubled) + 1) : NULL, *to = glob;

	for (const char *at = doubled; glob && *at; at++) {
		if (strchr("*?[\\", *at))
			*to++ = '\\';
		*to++ = *at;
	}
	if (glob)
		*to = '\0';
	return glob;
}

/* ---- The pattern itself ------------------------------------------------------ */

/* Parses the expression between the slashes at `from` and before `end`. */
static struct probe_error *parse_regex(
	const struct pattern_text *parser, const char *from, const char *end)
{
	struct probe_pattern *pattern = parser->pattern;
	AUTO_FREE char *source = strndup(from + 1, (size_t)(end - from) - 2);
	char why[128];
	int status;

	if (!source)
		return probe_error_no_memory();
	status = regcomp(&pattern->regex, source, REG_EXTENDED | REG_NOSUB);
	if (status == REG_ESPACE)
		return probe_error_no_memory();
	if (status) {
		regerror(status, &pattern->regex, why, sizeof(why));
		return mistake(parser, from + 1, why);
	}
	pattern->is_regex = true;
	return NULL;
}

/* Returns an error for an open bracket, which fnmatch(3) would match itself. */
static struct probe_error *check_brackets(
	const struct pattern_text *parser, const char *from, const char *end)
{
	for (const char *at = from; at < end; at++) {
		const char *close;

		if (*at == '\\') {
			at++;
			continue;
		}
		if (*at != '[')
			continue;
		/* A `]` right after the opening bracket is literal */
		close = at + 1;
		if (close < end && (*close == '!' || *close == '^'))
			close++;
		close = close < end ? memchr(close + 1, ']', (size_t)(end - close - 1)) : NULL;
		if (!close)
			return mistake(parser, at, "this bracket is not closed");
		at = close;
	}
	return NULL;
}

/* Returns an error for a parenthesis, because it belongs to a list that is not at the end. */
static struct probe_error *check_parentheses(
	const struct pattern_text *parser, const char *from, const char *end)
{
	for (; from < end; from++) {
		if (*from == '(' || *from == ')')
			return mistake(parser, from, "the arguments, as in (arg0), must come last");
	}
	return NULL;
}

static bool is_glob(const char *text)
{
	return strpbrk(text, "*?[\\") != NULL;
}

/* Returns the last colon outside brackets ([[:alpha:]]), or NULL. */
static const char *last_colon(const char *from, const char *end)
{
	int depth = 0;

	for (const char *at = end; at-- > from;) {
		if (*at == ']')
			depth++;
		else if (*at == '[' && depth > 0)
			depth--;
		else if (*at == ':' && depth == 0)
			return at;
	}
	return NULL;
}

/* Finds the target of a path that is a symbolic link (/lib), because /proc/PID/maps shows it. */
static struct probe_error *resolve_path(struct probe_pattern *pattern)
{
	if (pattern->path && strchr(pattern->path, '/') && !is_glob(pattern->path)) {
		pattern->resolved = realpath(pattern->path, NULL);
		if (!pattern->resolved && errno == ENOMEM)
			return probe_error_no_memory();
	}
	return NULL;
}

/* ---- Functions --------------------------------------------------------------- */

/* The prefixes of functions: our own, and those of bpftrace. */
static const struct {
	const char *text;
	bool is_return;
} function_prefixes[] = {{SDT_FUNCTIONS, false}, {"uprobe:", false}, {"uretprobe:", true}};

/* Returns the first colon outside brackets that is not one of C++'s `::`, or NULL. */
static const char *single_colon(const char *from, const char *end)
{
	for (const char *at = from; at < end; at++) {
		if (*at == '[') {
			const char *close = memchr(at, ']', (size_t)(end - at));

			at = close ? close : at;
		} else if (*at == ':' && at + 1 < end && at[1] == ':') {
			at++;
		} else if (*at == ':') {
			return at;
		}
	}
	return NULL;
}

/* Parses +OFFSET at the end of a function's name. Returns the end of the name. */
static const char *parse_offset(struct probe_pattern *pattern, const char *from, const char *end)
{
	const char *plus = memrchr(from, '+', (size_t)(end - from));
	AUTO_FREE char *digits = plus ? strndup(plus + 1, (size_t)(end - plus) - 1) : NULL;
	char *rest;

	if (!digits || plus == from || !isdigit((unsigned char)*digits))
		return end;
	errno = 0;
	pattern->offset = strtoull(digits, &rest, strncmp(digits, "0x", 2) == 0 ? 16 : 10);
	if (*rest || errno) {
		pattern->offset = 0;
		return end;
	}
	return plus;
}

/* Parses [FILE:]NAME[+OFFSET][:return] between `from` and `end`. NAME may be a /regex/. */
static struct probe_error *parse_function(
	const struct pattern_text *parser, const char *from, const char *end)
{
	struct probe_pattern *pattern = parser->pattern;
	const size_t length = sdt_function_length(from, (size_t)(end - from));
	const char *colon;
	struct probe_error *error = check_brackets(parser, from, end);

	pattern->is_function = pattern->is_library = true;
	pattern->is_return = from + length < end;
	end = from + length;
	colon = single_colon(from, end);
	if (error)
		return error;
	if (colon && colon > from) {
		pattern->path = strndup(from, (size_t)(colon - from));
		if (!pattern->path)
			return probe_error_no_memory();
	}
	from = colon ? colon + 1 : from;
	if (!pattern->is_return)
		end = parse_offset(pattern, from, end);
	if (from == end)
		return mistake(parser, end,
			"expected the name of a function: fn:FILE:NAME, or fn:NAME for any file");
	pattern->provider = strdup(SDT_FUNCTIONS "*");
	pattern->name = strndup(from, (size_t)(end - from));
	if (!pattern->provider || !pattern->name)
		return probe_error_no_memory();
	error = resolve_path(pattern);
	if (error)
		return error;
	return end - from > 2 && *from == '/' && end[-1] == '/' ? parse_regex(parser, from, end)
								: NULL;
}

/* Finds the prefix of functions at the start of the text. Returns its length, or 0. */
static size_t function_prefix(const char *text, bool *is_return_ret)
{
	for (size_t i = 0; i < sizeof(function_prefixes) / sizeof(*function_prefixes); i++) {
		size_t length = strlen(function_prefixes[i].text);

		*is_return_ret = function_prefixes[i].is_return;
		if (strncmp(text, function_prefixes[i].text, length) == 0)
			return length;
	}
	return 0;
}

/* Skips the prefix of bpftrace and bcc before a path. */
static const char *skip_tool(const char *from, const char *end)
{
	size_t length = strncmp(from, "usdt:", 5) == 0 ? 5 : strncmp(from, "u:", 2) == 0 ? 2 : 0;

	/* If only one colon follows, this is a provider, not a prefix. */
	return length > 0 && last_colon(from + length, end) ? from + length : from;
}

static struct probe_error *parse_globs(const struct pattern_text *parser, const char *end)
{
	struct probe_pattern *pattern = parser->pattern;
	const char *from = parser->text + (parser->text[0] == '%');
	const char *quote = opening_quote(from, end), *plain_end = quote ? quote : end;
	const char *start = skip_tool(from, plain_end);
	const char *name_colon = last_colon(start, plain_end), *colon = NULL;
	const char *provider = start, *name = name_colon ? name_colon + 1 : start;
	size_t path_length = 0, provider_length = 0;
	struct probe_error *error = quote ? NULL : check_other_language(parser);

	error = error ?: check_brackets(parser, from, plain_end);
	error = error ?: check_parentheses(parser, name, plain_end);
	if (error)
		return error;
	pattern->is_library = start != from;
	if (!name_colon && memchr(start, '/', (size_t)(end - start)))
		return mistake(parser, end,
			start[0] == '/' ? "expected ':' and a probe after the path, or "
					  "'/' at the end of a regular expression"
					: "expected ':' and a probe after the path");
	if (name_colon)
		colon = last_colon(start, name_colon);
	if (colon) {
		path_length = (size_t)(colon - start);
		provider = colon + 1;
		provider_length = (size_t)(name_colon - provider);
	} else if (name_colon) {
		size_t length = (size_t)(name_colon - start);
		bool is_path = pattern->is_library || memchr(start, '/', length);

		*(is_path ? &path_length : &provider_length) = length;
	}
	pattern->path = path_length ? strndup(start, path_length) : NULL;
	pattern->provider = provider_length ? strndup(provider, provider_length) : strdup("*");
	if (quote)
		pattern->name = quoted_glob(quote + 1, (size_t)(end - quote) - 2);
	else if (name < end)
		pattern->name = double_dashes(name, (size_t)(end - name), true);
	else
		pattern->name = strdup("*");
	if ((path_length && !pattern->path) || !pattern->provider || !pattern->name)
		return probe_error_no_memory();
	if (strncmp(pattern->provider, "sdt_", 4) == 0 && pattern->provider[4])
		pattern->without_prefix = pattern->provider + 4;
	return resolve_path(pattern);
}

/*
 * Returns the parenthesis of the list of arguments at the end, or the end of the text. A regular
 * expression ends with a slash before the list. `operator()` is a name in C++.
 */
static const char *find_captures(const char *text)
{
	static const char call[] = "operator()";
	const char *end = text + strlen(text);
	int depth = 0;

	if (end == text || end[-1] != ')' ||
		((size_t)(end - text) >= sizeof(call) && strcmp(end - sizeof(call) + 1, call) == 0))
		return end;
	for (const char *at = end; at-- > text;) {
		if (*at == ')')
			depth++;
		else if (*at == '(' && --depth == 0)
			return at;
	}
	return end;
}

static struct probe_error *parse(const struct pattern_text *parser)
{
	const char *text = parser->text, *captures = find_captures(text);
	size_t prefix = function_prefix(text, &parser->pattern->is_return);
	const char *expected, *end = captures;
	struct probe_error *error;

	while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	if (end == text)
		return mistake(parser, text, "expected provider:name");
	if (prefix)
		error = parse_function(parser, text + prefix, end);
	else if (end - text > 2 && text[0] == '/' && end[-1] == '/')
		error = parse_regex(parser, text, end);
	else
		error = parse_globs(parser, end);
	if (error || !*captures)
		return error;
	parser->pattern->has_captures = true;
	if (!parser->pattern->catalogue || !meaning_names_used(captures)) {
		expected = captures_parse(
			&captures, parser->pattern->captures, &parser->pattern->capture_count);
		return expected ? mistake(parser, captures, expected) : NULL;
	}
	parser->pattern->named_list = captures;
	return meaning_want(parser->pattern->catalogue, captures);
}

/* Allocates a pattern with a copy of the text. Returns NULL if out of memory. */
static struct probe_pattern *create(const char *text)
{
	struct probe_pattern *pattern = calloc(1, sizeof(*pattern));

	if (!pattern)
		return NULL;
	pattern->text = strdup(text);
	if (pattern->text)
		return pattern;
	free(pattern);
	return NULL;
}

struct probe_error *probe_pattern_parse(const char *text, struct probe_pattern **ret)
{
	return probe_pattern_parse_named(text, NULL, ret);
}

struct probe_error *probe_pattern_parse_named(
	const char *text, const struct probe_catalogue *catalogue, struct probe_pattern **ret)
{
	struct probe_pattern *pattern = create(text);
	struct probe_error *error;

	*ret = NULL;
	if (!pattern)
		return probe_error_no_memory();
	pattern->catalogue = catalogue;
	error = parse(&(struct pattern_text){pattern->text, pattern});
	if (error)
		probe_pattern_free(pattern);
	else
		*ret = pattern;
	return error;
}

struct probe_error *probe_pattern_predicate(const char *text,
	bool (*predicate)(const char *path, const char *provider, const char *name, void *data),
	void *data, struct probe_pattern **ret)
{
	struct probe_pattern *pattern = create(text);

	*ret = pattern;
	if (!pattern)
		return probe_error_no_memory();
	pattern->predicate = predicate;
	pattern->data = data;
	return NULL;
}

void probe_pattern_free(struct probe_pattern *pattern)
{
	if (!pattern)
		return;
	if (pattern->is_regex)
		regfree(&pattern->regex);
	free(pattern->path);
	free(pattern->resolved);
	free(pattern->provider);
	free(pattern->name);
	free(pattern->text);
	free(pattern);
}

const char *probe_pattern_text(const struct probe_pattern *pattern)
{
	return pattern->text;
}

void pattern_predicate(
	const struct probe_pattern *pattern, uint64_t *function_ret, uint64_t *data_ret)
{
	*function_ret = (uintptr_t)pattern->predicate;
	*data_ret = (uintptr_t)pattern->data;
}

bool pattern_is_function(const struct probe_pattern *pattern)
{
	return pattern->is_function;
}

bool probe_pattern_pair(struct probe_pattern *pattern)
{
	pattern->is_both = pattern->is_function && !pattern->is_return && !pattern->offset;
	return pattern->is_both;
}

uint64_t pattern_offset(const struct probe_pattern *pattern)
{
	return pattern->offset;
}

bool pattern_wants(const struct probe_pattern *pattern, bool is_return)
{
	return pattern->is_both || pattern->is_return == is_return;
}

bool pattern_is_exact(const struct probe_pattern *pattern)
{
	return !pattern->predicate && !pattern->is_regex && !is_glob(pattern->name);
}

const char *pattern_function(const struct probe_pattern *pattern, bool any_file)
{
	return pattern->is_function && (pattern->path || any_file) && !pattern->offset &&
			       pattern_is_exact(pattern)
		       ? pattern->name
		       : NULL;
}

bool pattern_names(
	const struct probe_pattern *pattern, const char **provider_ret, const char **name_ret)
{
	if (!pattern_is_exact(pattern) || is_glob(pattern->provider) || pattern->is_function)
		return false;
	*provider_ret = pattern->provider;
	*name_ret = pattern->name;
	return true;
}

bool pattern_has_captures(const struct probe_pattern *pattern)
{
	return pattern->has_captures;
}

bool pattern_has_symbols(const struct probe_pattern *pattern)
{
	/* sym is a reserved word, so this cannot be an argument's name. */
	bool ret = pattern->named_list && strstr(pattern->named_list, "sym");

	for (size_t i = 0; i < pattern->capture_count; i++)
		ret |= pattern->captures[i].is_symbol;
	return ret;
}

struct probe_error *pattern_captures(const struct probe_pattern *pattern, const char *provider,
	const char *name, size_t arg_count, bool absent_ok, struct capture captures[CAPTURES_MAX],
	size_t *count_ret)
{
	const char *at, *expected;
	struct probe_error *error;
	AUTO_FREE char *list = NULL;

	*count_ret = pattern->capture_count;
	memcpy(captures, pattern->captures, pattern->capture_count * sizeof(*captures));
	if (!pattern->named_list)
		return NULL;
	/* arg31 stands for a missing argument, because no probe has 32 arguments. */
	error = meaning_replace("the list", pattern->named_list,
		probe_catalogue_find(pattern->catalogue, provider, name, arg_count), NULL,
		absent_ok ? "arg31" : NULL, &list);
	if (!error) {
		at = list;
		expected = captures_parse(&at, captures, count_ret);
		if (expected)
			error = mistake(&(struct pattern_text){.text = list}, at, expected);
	}
	return probe_error_prefix(error, "%s:%s", provider, name);
}

/* ---- Matching ----------------------------------------------------------------- */

/* Returns true if `file` is the library's. bcc calls the C library "c", bpftrace "libc". */
static bool is_library_file(const char *library, const char *file)
{
	size_t length = strlen(library);

	if (strncmp(library, "lib", 3) != 0 && strncmp(file, "lib", 3) == 0)
		file += 3;
	if (strncmp(file, library, length) != 0)
		return false;
	file += length;
	/* Before glibc 2.34, the file was named like libc-2.31.so. */
	return strncmp(file, ".so", 3) == 0 ||
	       (file[0] == '-' && isdigit((unsigned char)file[1]) && strstr(file, ".so"));
}

/* Is `name` a symbolic link to the file, in the same folder, as /bin/redis-server often is? */
static bool is_link_to(const char *name, const char *path, size_t folder_length)
{
	AUTO_FREE char *link = NULL;
	struct stat its, file;

	if (asprintf(&link, "%.*s%s", (int)folder_length, path, name) < 0)
		return false;
	return lstat(link, &its) == 0 && S_ISLNK(its.st_mode) && stat(link, &its) == 0 &&
	       stat(path, &file) == 0 && its.st_dev == file.st_dev && its.st_ino == file.st_ino;
}

static bool matches_path(const struct probe_pattern *pattern, const char *path)
{
	const char *glob = pattern->path;
	const char *slash;

	if (!glob)
		return true;
	if (!strchr(glob, '/')) {
		slash = strrchr(path, '/');
		slash = slash ? slash + 1 : path;
		return fnmatch(glob, slash, 0) == 0 ||
		       (pattern->is_library && is_library_file(glob, slash)) ||
		       (!is_glob(glob) && is_link_to(glob, path, (size_t)(slash - path)));
	}
	if (fnmatch(glob, path, 0) == 0)
		return true;
	if (pattern->resolved && strcmp(pattern->resolved, path) == 0)
		return true;
	if (glob[0] == '/')
		return false;
	/* A relative path matches the end of an absolute one. */
	while (strncmp(glob, "./", 2) == 0)
		glob += 2;
	for (slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		if (fnmatch(glob, slash + 1, 0) == 0)
			return true;
	}
	return false;
}

/* Matches the name as written, with `__` for `-`, and with `-` for `__`. */
static bool matches_regex(const regex_t *regex, const char *provider, const char *name)
{
	size_t provider_length = strlen(provider);
	AUTO_FREE char *doubled = NULL, *subject = NULL;
	char *tail;
	bool matches;

	if (strchr(name, '-')) {
		doubled = double_dashes(name, strlen(name), false);
		if (!doubled)
			return false;
	}
	subject = malloc(provider_length + 1 + 2 * strlen(name) + 1);
	if (!subject)
		return false;
	memcpy(subject, provider, provider_length);
	subject[provider_length] = ':';
	tail = subject + provider_length + 1;
	strcpy(tail, name);
	matches = regexec(regex, subject, 0, NULL, 0) == 0;
	if (!matches && doubled) {
		strcpy(tail, doubled);
		matches = regexec(regex, subject, 0, NULL, 0) == 0;
	}
	if (!matches && strstr(name, "__")) {
		for (const char *from = name; *from; from += 1 + (*from == '_' && from[1] == '_'))
			*tail++ = *from == '_' && from[1] == '_' ? '-' : *from;
		*tail = '\0';
		matches = regexec(regex, subject, 0, NULL, 0) == 0;
	}
	return matches;
}

bool pattern_is_file(const struct probe_pattern *pattern, const char *path)
{
	const struct probe_pattern as_file = {.path = pattern->name, .is_library = true};

	return pattern->is_function && !pattern->path && !is_glob(pattern->name) &&
	       matches_path(&as_file, path);
}

bool pattern_names_function(
	const struct probe_pattern *pattern, const char *path, const char *function)
{
	if (!pattern->is_function || (path && !matches_path(pattern, path)))
		return false;
	if (!function)
		return true;
	if (pattern->is_regex)
		return regexec(&pattern->regex, function, 0, NULL, 0) == 0;
	return strcmp(pattern->name, function) == 0 || fnmatch(pattern->name, function, 0) == 0;
}

/* May a file of this path or name (also a glob) be the one of this provider of functions? */
static bool may_be_file(const char *path, const char *provider)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *end = strstr(name, ".so"), *file = provider + sizeof(SDT_FUNCTIONS) - 1;
	AUTO_FREE char *stem = strndup(name, end ? (size_t)(end - name) : strlen(name));
	AUTO_FREE char *library = NULL;

	if (!stem || asprintf(&library, "%s.so", file) < 0)
		return true;
	return fnmatch(name, file, 0) == 0 || fnmatch(stem, file, 0) == 0 ||
	       is_library_file(stem, library);
}

/* Does the pattern name a probe at the entries or exits of functions? `path` may be NULL. */
static bool matches_function(const struct probe_pattern *pattern, const char *path,
	const char *provider, const char *name)
{
	bool is_return = sdt_kind_of(provider, name) == SDT_EXIT;
	AUTO_FREE char *function = NULL;

	if (pattern->offset && !is_return) {
		const char *plus = strrchr(name, '+');

		if (!plus || strtoull(plus + 1, NULL, 16) != pattern->offset)
			return false;
		function = strndup(name, (size_t)(plus - name));
		return function && pattern_names_function(pattern, path, function);
	}
	if (!is_return)
		return pattern_wants(pattern, false) && pattern_names_function(pattern, path, name);
	function = strndup(name, sdt_function_length(name, strlen(name)));
	return function && pattern_wants(pattern, true) &&
	       pattern_names_function(pattern, path, function);
}

bool pattern_may_name(const struct probe_pattern *pattern, const char *provider, const char *name)
{
	AUTO_FREE char *doubled = NULL;

	if (pattern->predicate)
		return true;
	if (pattern->is_function || event_is_of_function(provider))
		return pattern->is_function && event_is_of_function(provider) &&
		       (!pattern->path || may_be_file(pattern->path, provider) ||
			       (pattern->resolved && may_be_file(pattern->resolved, provider))) &&
		       matches_function(pattern, NULL, provider, name);
	if (pattern->is_regex)
		return matches_regex(&pattern->regex, provider, name);
	if (fnmatch(pattern->provider, provider, 0) != 0 &&
		(!pattern->without_prefix || fnmatch(pattern->without_prefix, provider, 0) != 0))
		return false;
	if (!strchr(name, '-'))
		return fnmatch(pattern->name, name, 0) == 0;
	doubled = double_dashes(name, strlen(name), false);
	return doubled && fnmatch(pattern->name, doubled, 0) == 0;
}

bool probe_pattern_matches(const struct probe_pattern *pattern, const char *path,
	const char *provider, const char *name)
{
	if (pattern->predicate)
		return pattern->predicate(path, provider, name, pattern->data);
	if (!*path)
		return pattern_may_name(pattern, provider, name);
	if (pattern->is_function)
		return event_is_of_function(provider) &&
		       matches_function(pattern, path, provider, name);
	return pattern_may_name(pattern, provider, name) &&
	       (pattern->is_regex || matches_path(pattern, path));
}

/* ==== Lists without names ===================================================================== */

/*
 * A session that other controllers read must not depend on a catalogue, so argN replaces names. The
 * traced program's version is unknown: all versions' entries must give the same list.
 */

/*
 * Makes the list according to one entry of the catalogue. It must equal *ret, unless *ret is NULL.
 */
static struct probe_error *add_meaning(
	const char *named, const struct probe_meaning *meaning, char **ret)
{
	char *list;
	struct probe_error *error = meaning_replace("the list", named, meaning, NULL, NULL, &list);

	if (!error && *ret && strcmp(*ret, list) != 0)
		error = probe_error_new(PROBE_ERROR_USAGE,
			"the list '%s': these names are not the same arguments in all programs and "
			"versions, which give '%s' and '%s'; use one of these",
			named, *ret, list);
	if (*ret || error)
		free(list);
	else
		*ret = list;
	return probe_error_prefix(error, "%s:%s", meaning->provider, meaning->name);
}

/* Makes the list that all entries for the probe have in common. */
static struct probe_error *plain_list(const struct probe_pattern *pattern, char **ret)
{
	const struct probe_catalogue *catalogue = pattern->catalogue;
	const char *named = pattern->named_list;
	const struct probe_meaning *its;
	struct probe_error *error = NULL;

	*ret = NULL;
	for (size_t i = 0; !error && (its = catalogue_meaning_at(catalogue, i)); i++)
		/* Skip entries that another entry overrides. */
		if (pattern_may_name(pattern, its->provider, its->name) &&
			probe_catalogue_find(catalogue, its->provider, its->name, its->arg_count) ==
				its)
			error = add_meaning(named, its, ret);
	/* Debug information of functions is read when a session starts. */
	if (!error && !*ret && pattern->is_function) {
		*ret = strdup(named);
		return *ret ? NULL : probe_error_no_memory();
	}
	if (!error && !*ret)
		error = meaning_replace("the list", named, NULL, NULL, NULL, ret);
	if (error) {
		free(*ret);
		*ret = NULL;
	}
	return error;
}

struct probe_error *probe_pattern_plain_text(const struct probe_pattern *pattern, char **ret)
{
	const char *text = pattern->text, *named = pattern->named_list;
	struct probe_error *error;
	AUTO_FREE char *list = NULL;

	*ret = NULL;
	if (!named) {
		*ret = strdup(text);
		return *ret ? NULL : probe_error_no_memory();
	}
	if (!pattern_is_exact(pattern))
		return probe_error_new(PROBE_ERROR_USAGE,
			"'%s': wildcards match probes with other arguments, too; use argN in the "
			"list",
			text);
	error = plain_list(pattern, &list);
	if (error)
		return error;
	if (asprintf(ret, "%.*s%s", (int)(named - text), text, list) < 0)
		*ret = NULL;
	return *ret ? NULL : probe_error_no_memory();
}
