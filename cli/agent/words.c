/* SPDX-License-Identifier: MIT */
/*
 * A line that is accepted here has the words that it has in a shell, except that no file names are
 * put in for * and ?. So a command can be copied from a terminal, and what would mean something
 * else there (a pipe, a variable) is an error, not a strange word.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/agent/words.h"
#include "libprobe/base/array.h"
#include "libprobe/base/buffer.h"

static const char no_memory[] = "out of memory";

/* Takes what is in quotes; *at is behind the opening one. */
static const char *take_single(const char **at, struct buffer *word)
{
	const char *end = strchr(*at, '\'');

	if (!end)
		return "a ' is missing";
	buffer_bytes(word, *at, (size_t)(end - *at));
	*at = end + 1;
	return NULL;
}

static const char *take_double(const char **at, struct buffer *word)
{
	for (; **at != '"'; ++*at) {
		if (!**at)
			return "a \" is missing";
		if (**at == '$' || **at == '`')
			return "nothing is expanded here: put $ and ` into '...'";
		if (**at == '\\' && (*at)[1] && strchr("\\\"$`", (*at)[1]))
			++*at;
		buffer_char(word, **at);
	}
	++*at;
	return NULL;
}

static const char *take_word(const char **at, struct buffer *word)
{
	const char *wrong = NULL;

	while (!wrong && **at && **at != ' ' && **at != '\t') {
		char c = *(*at)++;

		if (c == '\'')
			wrong = take_single(at, word);
		else if (c == '"')
			wrong = take_double(at, word);
		else if (c == '\\' && !**at)
			return "there is nothing behind the last backslash";
		else if (strchr("$`|&;<>", c))
			return "no shell reads this: put $ ` | & ; < > into '...'";
		else
			buffer_char(word, c == '\\' ? *(*at)++ : c);
	}
	return wrong;
}

static const char *add_word(struct buffer *word, char ***words, size_t *count)
{
	buffer_char(word, '\0');
	if (word->no_memory || !ARRAY_ROOM(*words, *count))
		return no_memory;
	(*words)[(*count)++] = word->data;
	*word = (struct buffer){0};
	return NULL;
}

const char *words_split(const char *line, char ***words, size_t *count)
{
	const char *wrong = NULL;

	for (line += strspn(line, " \t"); !wrong && *line; line += strspn(line, " \t")) {
		struct buffer word = {0};

		wrong = take_word(&line, &word);
		if (!wrong)
			wrong = add_word(&word, words, count);
		buffer_deinit(&word);
	}
	return wrong;
}

void words_free(char **words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(words[i]);
	free(words);
}
