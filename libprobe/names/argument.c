/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "arch/arch.h"
#include "libprobe/names/argument.h"

const char *argument_parse(const char *text, uint8_t *ret)
{
	unsigned int number = 0;
	const char *digit;

	if (strncmp(text, "arg", 3) != 0)
		return NULL;
	for (digit = text + 3; isdigit((unsigned char)*digit); digit++) {
		if ((number == 0 && digit > text + 3) || number >= ARCH_ARGS_MAX)
			return NULL;
		number = number * 10 + (unsigned int)(*digit - '0');
	}
	if (digit == text + 3 || number >= ARCH_ARGS_MAX || isalnum((unsigned char)*digit) ||
		*digit == '_')
		return NULL;
	*ret = (uint8_t)number;
	return digit;
}
