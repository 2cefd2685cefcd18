/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "tests/unit/query/expr_random.h"

uint64_t expr_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(2685821657736338717);
}

uint64_t expr_random_edge(uint64_t *state)
{
	static const uint64_t edges[] = {0, 1, 2, 7, 31, 32, 63, 64, 0x7f, 0x80, 0xff, 0x7fff,
		0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, INT64_MAX,
		UINT64_C(1) << 63};
	uint64_t value = edges[expr_random(state) % (sizeof(edges) / sizeof(*edges))];

	switch (expr_random(state) % 4) {
	case 0:
		return value;
	case 1:
		return -value;
	case 2:
		return expr_random(state) >> (expr_random(state) % 64);
	default:
		return value + expr_random(state) % 5 - 2;
	}
}

void expr_random_text(uint64_t *state, char *text, size_t room, int depth)
{
	static const char *const binary[] = {"+", "-", "*", "/", "%", "<<", ">>", "<", "<=", ">",
		">=", "==", "!=", "&", "^", "|", "&&", "||"};
	static const char *const unary[] = {"-", "~", "!"};
	size_t length = strlen(text);

	if (length + 80 > room)
		depth = 0;
	switch (depth > 0 ? expr_random(state) % 9 : expr_random(state) % 3) {
	case 0:
		snprintf(text + length, 64, "arg%d", (int)(expr_random(state) % 3));
		break;
	case 1:
		snprintf(text + length, 64, "%ld", (long)(expr_random(state) % 200));
		break;
	case 2: /* at the limits of types, but valid for the operator */
		snprintf(text + length, 64, "0x%lx",
			expr_random(state) % 2 ? UINT64_C(0x80000000) : expr_random(state) >> 31);
		break;
	case 3:
		strcat(text, unary[expr_random(state) % 3]);
		strcat(text, "(");
		expr_random_text(state, text, room, depth - 1);
		strcat(text, ")");
		break;
	case 4:
		strcat(text, "(");
		expr_random_text(state, text, room, depth - 1);
		strcat(text, expr_random(state) % 2 ? ") in (" : ") not in (");
		for (uint64_t n = expr_random(state) % 4; n > 0; n--)
			snprintf(text + strlen(text), 32, "%ld, ",
				(long)expr_random_edge(state) / 2);
		strcat(text, expr_random(state) % 2 ? "0, 1u)" : "-1)");
		break;
	default:
		strcat(text, "(");
		expr_random_text(state, text, room, depth - 1);
		strcat(text, ") ");
		strcat(text, binary[expr_random(state) % (sizeof(binary) / sizeof(*binary))]);
		strcat(text, " (");
		expr_random_text(state, text, room, depth - 1);
		strcat(text, ")");
		break;
	}
}
