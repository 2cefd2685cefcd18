/* SPDX-License-Identifier: MIT */
/*
 * The version of the library.
 *
 * A program that was linked with libprobe.so.N runs with every later libprobe.so.N: a new version
 * may add functions and fields, but changes and removes none. Before 1.0, N is 0, and this promise
 * does not hold yet. libprobe/libprobe.map lists the exported functions by the version that added
 * them.
 */
#ifndef PROBE_VERSION_H
#define PROBE_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the version of the library that is running: "0.1.0". A static string. */
const char *probe_version(void);

#ifdef __cplusplus
}
#endif
#endif
