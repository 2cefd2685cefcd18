/* SPDX-License-Identifier: MIT */
/* The catalogue of known probes, with the user's files. */
#ifndef CLI_CATALOGUE_H
#define CLI_CATALOGUE_H

#include "libprobe/base/error.h"
#include "probe/catalogue.h"

/*
 * Makes the library's catalogue and adds the files NAME.probes in
 * $XDG_CONFIG_HOME/probectl/probes.d
 * (~/.config/probectl/probes.d), by their names. A file that cannot be used is warned of, and left
 * out. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *catalogue_open(struct probe_catalogue **ret);

#endif
