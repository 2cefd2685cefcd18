/* SPDX-License-Identifier: MIT */
/* The names of the functions in which sites are. */
#include <string.h>

#include "cli/list/listing.h"
#include "probe/symbol.h"

struct probe_error *listing_function(const struct probe_site_detail *detail, char **ret)
{
	struct probe_error *error;

	*ret = NULL;
	if (!detail->function)
		return NULL;
	error = probe_demangle(detail->function, ret);
	if (error || *ret)
		return error;
	*ret = strdup(detail->function);
	return *ret ? NULL : probe_error_no_memory();
}
