/* SPDX-License-Identifier: MIT */
/* Arguments of probes as users name them. */
#ifndef LIBPROBE_NAMES_ARGUMENT_H
#define LIBPROBE_NAMES_ARGUMENT_H

#include <stdint.h>

/*
 * Parses the name of an argument, "arg0" to "arg31", at the start of a text. Returns a pointer
 * past it, or NULL if there is no complete name ("arg01", "arg32", "arg1x").
 */
const char *argument_parse(const char *text, uint8_t *ret);

#endif
