/* SPDX-License-Identifier: MIT */
/*
 * Fills every register and the flags, on x86-64 the red zone, too, and checks that they keep their
 * values, round after round. Returns if one does not.
 */
#ifndef TESTS_STOP_KEEP_REGISTERS_H
#define TESTS_STOP_KEEP_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>

void keep_registers(_Atomic uint64_t *rounds);

/*
 * The same of vector registers, all of their bytes, and of what belongs to them. `bytes` is the
 * length of a vector, if this machine has several. False: it has no such registers.
 */
bool keep_vectors_possible(unsigned int bytes);
void keep_vectors(_Atomic uint64_t *rounds, unsigned int bytes);

#endif
