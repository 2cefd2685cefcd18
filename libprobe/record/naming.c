/* SPDX-License-Identifier: MIT */
/* What the names of events and of their fields say. */
#include <stdlib.h>
#include <string.h>

#include "libprobe/query/argument.h"
#include "libprobe/record/reader.h"

enum { NAME_BYTES = 32 };

uint8_t reader_arg_number(const char *name)
{
	const char *end;
	uint8_t number;
	size_t length = strcspn(name, "_");
	char arg[NAME_BYTES];

	if (length >= sizeof(arg) || name[length + strspn(name + length, "_0123456789")])
		return 0;
	memcpy(arg, name, length);
	arg[length] = '\0';
	end = argument_parse(arg, &number);
	return end && !*end ? (uint8_t)(number + 1) : 0;
}

bool reader_split_name(const char *full, const char **provider_ret, const char **name_ret)
{
	size_t length = strlen(full);
	char *copy = calloc(1, length + 2), *colon;

	*provider_ret = copy;
	if (!copy)
		return false;
	/* Without a colon, the provider is the empty string before the name. */
	memcpy(copy + (strchr(full, ':') ? 0 : 1), full, length);
	colon = strchr(copy, ':');
	if (colon)
		*colon = '\0';
	*name_ret = colon ? colon + 1 : copy + 1;
	return true;
}
