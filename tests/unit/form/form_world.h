/* SPDX-License-Identifier: MIT */
/* The memory that forms run in, by the machine and by the processor: each finds the same. */
#ifndef TESTS_FORM_WORLD_H
#define TESTS_FORM_WORLD_H

#include "tests/unit/form/form_machine.h"
#include "tests/unit/form/form_native.h"

enum { WORLD_TEMPS = 24, WORLD_SAVED = 32, WORLD_DATA = 64, WORLD_BELOW = 16384 };

struct form_memory {
	uint8_t below[WORLD_BELOW]; /* for signals */
	uint64_t temps[WORLD_TEMPS], saved[WORLD_SAVED];
	uint64_t data[WORLD_DATA];
} __attribute__((aligned(16)));

struct form_fixture {
	struct form_memory memory, machine_memory, before;
	struct form_machine machine;
	struct form_native native;
	struct frame frame; /* has the registers, except what form_native_live is */
	struct arch_thread thread;
	struct form_world world;
	uint64_t random;
	uint32_t words[4]; /* 0, and others */
};

/* For cmocka; *state is a form_fixture. */
int form_fixture_setup(void **state);
int form_fixture_teardown(void **state);

/*
 * Runs a form with the fixture's memory in both ways; what they leave in it must be the same, and
 * is there afterwards.
 */
void form_fixture_run(
	struct form_fixture *fixture, form_native_function *function, const char *text);
/* Writes a form for both. */
form_native_function *form_fixture_make(
	struct form_fixture *fixture, void (*write)(struct form *f, void *arg), void *arg);

#endif
