/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_RECORD_CTF2_TYPE_H
#define LIBPROBE_RECORD_CTF2_TYPE_H

#include "libprobe/record/ctf2.h"
#include "libprobe/record/json.h"

/*
 * Takes a structure that is a member of a fragment, with fields called by their roles; times are of
 * this clock, or of none (NULL). *ret is NULL if there is no such member.
 */
bool ctf2_take_structure(struct tsdl_parser *p, const struct json *fragment, const char *name,
	enum ctf2_place place, const char *clock, const struct tsdl_type **ret);

/* A member that is a number, and not negative. Without it, *ret stays as it is. */
bool ctf2_take_number(
	struct tsdl_parser *p, const struct json *object, const char *name, uint64_t *ret);

#endif
