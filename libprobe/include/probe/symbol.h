/* SPDX-License-Identifier: MIT */
/* Names of functions, as their programmers wrote them. */
#ifndef PROBE_SYMBOL_H
#define PROBE_SYMBOL_H

#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Demangles the symbol of a C++ or Rust function. *ret is NULL if the symbol is not mangled, is
 * malformed, or its name would be longer than 16 KiB; otherwise free it with free(). The symbol may
 * come from a file that is not trusted. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_demangle(const char *symbol, char **ret);

#ifdef __cplusplus
}
#endif
#endif
