/* SPDX-License-Identifier: MIT */
#ifndef CLI_AGENT_WORDS_H
#define CLI_AGENT_WORDS_H

#include <stddef.h>

/*
 * Splits a line into words, as a shell does. Appends to *words, an array that array_grow() makes;
 * each word is to be freed, also on failure. Returns NULL, or what is wrong.
 */
const char *words_split(const char *line, char ***words, size_t *count);

void words_free(char **words, size_t count);

#endif
