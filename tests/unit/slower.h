/* SPDX-License-Identifier: MIT */
/* TEST_SLOWER: by how much what only has to be much is less, as make says: an emulator is slow. */
#ifndef TESTS_UNIT_SLOWER_H
#define TESTS_UNIT_SLOWER_H

#ifndef TEST_SLOWER
#define TEST_SLOWER 1
#endif

#endif
