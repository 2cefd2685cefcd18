/* SPDX-License-Identifier: MIT */
/* Opens the catalogue of known probes, including the user's own files. */
#ifndef CLI_CATALOGUE_H
#define CLI_CATALOGUE_H

#include "libprobe/base/error.h"
#include "probe/catalogue.h"

/*
 * Creates the library's catalogue, and adds the files NAME.probes in
 * $XDG_CONFIG_HOME/probectl/probes.d (default: ~/.config/probectl/probes.d), sorted by name. Warns
 * about unusable files.
 */
PROBE_MUST_CHECK struct probe_error *catalogue_open(struct probe_catalogue **ret);

#endif
