/* SPDX-License-Identifier: MIT */
/* Arguments of probes as users name them. */
#ifndef LIBPROBE_QUERY_ARGUMENT_H
#define LIBPROBE_QUERY_ARGUMENT_H

#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"

enum { ARGUMENT_TEXT = 512 };

/*
 * Parses the name of an argument, "arg0" to "arg31", at the start of a text. Returns a pointer
 * past it, or NULL if there is no complete name ("arg01", "arg32", "arg1x").
 */
const char *argument_parse(const char *text, uint8_t *ret);

/*
 * Writes "2 arguments: -4@%edi 8@%rsi", as the note has them, or "no arguments". A list that is
 * too long ends with "...".
 */
void argument_list(const struct arch_arg *specs, size_t count, char text[ARGUMENT_TEXT]);

#endif
