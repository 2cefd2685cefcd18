/* SPDX-License-Identifier: MIT */
/*
 * throw.cc with frame pointers.
 * flags: -fno-omit-frame-pointer -fno-optimize-sibling-calls
 */
#include "throw.cc"
