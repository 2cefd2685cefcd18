/* SPDX-License-Identifier: MIT */
/* Names of code that a process generates: its file jit-PID.dump. */
#ifndef LIBPROBE_MODULES_JIT_DUMP_H
#define LIBPROBE_MODULES_JIT_DUMP_H

#include <sys/types.h>

#include "libprobe/base/buffer.h"
#include "libprobe/modules/jit_entries.h"

/* Which name a function has by its number, for code that moves. */
struct jit_number {
	uint64_t number;
	size_t name;
};

struct jit_dump {
	int fd;	      /* -1: there is none, as far as is known */
	uint64_t at;  /* the first record that has not been read; 0: nor has the header */
	bool is_over; /* what follows makes no sense */
	struct jit_entries entries;
	struct jit_number *numbers; /* growing */
	size_t number_count;
	struct buffer names; /* each with its NUL */
};

void jit_dump_init(struct jit_dump *dump);
void jit_dump_deinit(struct jit_dump *dump);

/* Looks for the file in the process's mappings, until there is one. */
void jit_dump_look(struct jit_dump *dump, pid_t pid);

/* Reads what is new in the file. False if that is nothing. */
bool jit_dump_read(struct jit_dump *dump);

/* The name of an address and where its code starts; NULL if unknown. Valid until the next read. */
const char *jit_dump_find(const struct jit_dump *dump, uint64_t address, uint64_t *start_ret);

#endif
