/* SPDX-License-Identifier: MIT */
/* /proc/PID/maps: any text gives an error, or mappings in order that do not overlap. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/process/process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct maps maps;
	struct probe_error *error = maps_parse((const char *)data, size, &maps);

	if (error) {
		probe_error_free(error);
		return 0;
	}
	for (size_t i = 0; i < maps.count; i++) {
		const struct mapping *mapping = &maps.items[i];

		if (mapping->start >= mapping->end ||
			(i > 0 && mapping->start < maps.items[i - 1].end) ||
			maps_find(&maps, mapping->start) != mapping ||
			maps_find(&maps, mapping->end - 1) != mapping)
			abort();
		if (strlen(mapping->path) > size) /* this also reads the path to its end */
			abort();
	}
	maps_deinit(&maps);
	return 0;
}
