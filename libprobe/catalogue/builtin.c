/* SPDX-License-Identifier: MIT */
/*
 * The catalogue that is part of the library: the files libprobe/catalogue/probes/ *.probes, one
 * after the other. The makefile makes string literals of their lines.
 */
#include "libprobe/catalogue/builtin.h"

const char catalogue_builtin[] =
#include "catalogue.inc"
	;
const size_t catalogue_builtin_length = sizeof(catalogue_builtin) - 1;
