/* SPDX-License-Identifier: MIT */
/*
 * ROOM() behind a probe is a nop of five bytes: a jump fits there, whatever else is linked.
 * Without it, one of some fifty sites cannot be patched for certain in one build and can in
 * the next, where bytes elsewhere happen to look like a jump to behind it.
 */
#ifndef UNIT_ROOM_H
#define UNIT_ROOM_H

#ifdef __x86_64__
#define ROOM() __asm__ volatile(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00")
#else
#define ROOM()
#endif

#endif
