/* SPDX-License-Identifier: MIT */
/* Random expressions over arg0, arg1 and arg2, and numbers for them. */
#ifndef TESTS_EXPR_RANDOM_H
#define TESTS_EXPR_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* The next random number; the state is not 0. */
uint64_t expr_random(uint64_t *state);
/* Numbers at the edges of types. */
uint64_t expr_random_edge(uint64_t *state);
/* Appends a random expression; there is room for so many bytes, and 100 more. */
void expr_random_text(uint64_t *state, char *text, size_t room, int depth);

#endif
