/* SPDX-License-Identifier: MIT */
/* What tests of readers share: the next event, what it holds, and a file of a record. */
#ifndef TESTS_UNIT_READER_READ_BACK_H
#define TESTS_UNIT_READER_READ_BACK_H

#include <stdbool.h>
#include <stddef.h>

#include "probe/reader.h"

/* Reads an event, which must succeed; false at the end. */
bool read_next(struct probe_reader *reader, struct probe_event *ret);
/* Each of these fails the test if both differ. */
void check_text(const char *got, const char *want); /* NULL: there is none */
void check_value(const struct probe_value *got, const struct probe_value *want);
void check_stack(const struct probe_stack *got, const struct probe_stack *want);
/* Writes a file of the record in `folder`. */
void put_file(const char *folder, const char *name, const void *bytes, size_t length);

#endif
