/* SPDX-License-Identifier: MIT */
/*
 * The version of the library.
 *
 * Programs that were linked with libprobe.so.N run with every later libprobe.so.N:
 * functions and fields are added, none is changed or taken away. Before 1.0, N is 0 and
 * this is not promised yet. What is exported is listed in libprobe/libprobe.map, by the
 * version in which it came.
 */
#ifndef PROBE_VERSION_H
#define PROBE_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version that is running, "0.1.0"; static. */
const char *probe_version(void);

#ifdef __cplusplus
}
#endif
#endif
