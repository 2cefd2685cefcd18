/* SPDX-License-Identifier: MIT */
/* A catalogue of a text, for tests. */
#ifndef TESTS_UNIT_CATALOGUE_MADE_H
#define TESTS_UNIT_CATALOGUE_MADE_H

#include "probe/catalogue.h"

/* It knows only what the text says; aborts if there is a mistake in it. */
struct probe_catalogue *catalogue_made(const char *text);

#endif
