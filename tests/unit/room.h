/* SPDX-License-Identifier: MIT */
/*
 * ROOM() after a probe is a 5-byte nop: a jump fits there, whatever else is linked. Without it,
 * about one site in fifty cannot be patched in one build but can in the next, because bytes
 * elsewhere happen to look like a jump to the address after it.
 */
#ifndef UNIT_ROOM_H
#define UNIT_ROOM_H

#ifdef __x86_64__
#define ROOM() __asm__ volatile(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00")
#else
#define ROOM()
#endif

#endif
