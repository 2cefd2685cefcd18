/* SPDX-License-Identifier: MIT */
/* Names of one process's addresses: symbols of its files, and of code that it generates. */
#ifndef LIBPROBE_SESSION_NAMING_H
#define LIBPROBE_SESSION_NAMING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/base/error.h"
#include "probe/hit.h"

struct naming;
struct unwind;

struct naming_options {
	bool lines; /* frames have source lines, where there is debug information */
};

/*
 * Prepares for a process whose modules are read now. Errors: those of modules_read();
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *naming_create(
	pid_t pid, struct naming_options options, struct naming **ret);
/* NULL is allowed. */
void naming_free(struct naming *naming);

/* Reads the process's modules again. If that fails, the known ones stay. */
void naming_refresh(struct naming *naming);

/*
 * Is there code at an address? Looks again if not: a library may have been opened, or code
 * generated, since the last look.
 */
bool naming_find_code(struct naming *naming, uint64_t address);

/* Are there as many frames as there may be? Then naming_frame() makes no more. */
bool naming_is_full(const struct naming *naming);

/*
 * The frame of an address; with is_return, of a return address: a call may be the last instruction
 * of its function, and then that is in the next one. Owned by `naming`, and valid until its end;
 * NULL without memory.
 */
const struct probe_frame *naming_frame(struct naming *naming, uint64_t ip, bool is_return);

/*
 * The name of what is at an address: the symbol of a function or of data, demangled, or the name of
 * generated code; in a file without symbols, the file and where the function begins, such as
 * postgres+0x472280. All addresses in one function have the same. Owned by `naming`, and valid
 * until its end; NULL: nobody knows it.
 */
const char *naming_name(struct naming *naming, uint64_t address);

/*
 * The rules to unwind the code at an address, and the bias of its module. NULL: there are none.
 * Owned by `naming`, and valid until naming_refresh() or naming_find_code().
 */
struct unwind *naming_rules(struct naming *naming, uint64_t address, uint64_t *bias_ret);

#endif
