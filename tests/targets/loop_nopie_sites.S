/* SPDX-License-Identifier: MIT */
#include "loop_sites.S"
