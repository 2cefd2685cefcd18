/* SPDX-License-Identifier: MIT */
/* Names of code that a process generates: its file /tmp/perf-PID.map. */
#ifndef LIBPROBE_PROCESS_JIT_MAP_H
#define LIBPROBE_PROCESS_JIT_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct jit_map;

/* NULL without memory. Nothing is read yet. */
struct jit_map *jit_map_create(pid_t pid);
void jit_map_free(struct jit_map *map); /* NULL is allowed */

/* Reads what is new in the file; at most four times a second unless `now`. */
void jit_map_refresh(struct jit_map *map, bool now);

/* Counts the refreshes that read something: names may have changed when it has. */
unsigned int jit_map_generation(const struct jit_map *map);

/* The name of an address and where its code starts; NULL if unknown. Valid until the refresh. */
const char *jit_map_find(const struct jit_map *map, uint64_t address, uint64_t *start_ret);

#endif
