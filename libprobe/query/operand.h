/* SPDX-License-Identifier: MIT */
/* An argument, or what it points to, as users write it. */
#ifndef LIBPROBE_QUERY_OPERAND_H
#define LIBPROBE_QUERY_OPERAND_H

#include "libprobe/query/captures.h"

/*
 * Parses argN or *(TYPE *)ADDRESS at *at, and sets the argument of *ret and the steps from it.
 * Returns NULL, with *at after it; or what was expected at *at.
 */
const char *operand_parse(const char **at, struct capture *ret);
/* The same of a string or bytes, which may be at an ADDRESS without parentheses: arg0 + 8. */
const char *operand_parse_address(const char **at, struct capture *ret);

#endif
