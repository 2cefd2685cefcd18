/* SPDX-License-Identifier: MIT */
/*
 * C++ exceptions through frames whose code was moved.
 *
 *	throw [ROUNDS]	waits, throws, prints "caught N cleaned M", waits
 *
 * There is a probe right after a call that throws (its return address is the site), one right
 * before such a call (which is among the moved instructions), and one at the start of a landing
 * pad.
 */
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <sys/sdt.h>

#include "../target.h"

static unsigned long cleaned;

struct guard {
	int value;
	~guard()
	{
		STAP_PROBE1(cxx, cleanup, value);
		cleaned++;
	}
};

__attribute__((noinline)) static int thrower(int value)
{
	STAP_PROBE1(cxx, enter, value);
	if (value % 3 == 0)
		throw std::runtime_error("three " + std::to_string(value));
	if (value % 3 == 1)
		throw value;
	return value;
}

__attribute__((noinline)) static int around(int value)
{
	guard kept{value};
	int result;

	/* `nop; call`: the patch covers the call, and the unwinder meets its frame. */
	__asm__ volatile("" ::: "memory");
	STAP_PROBE1(cxx, before, value);
	result = thrower(value);
	STAP_PROBE1(cxx, behind, result);
	return result + kept.value;
}

__attribute__((noinline)) static int catcher(int value)
{
	try {
		return around(value) & 0;
	} catch (const std::exception &error) {
		STAP_PROBE1(cxx, caught_error, error.what());
		return 1;
	} catch (int number) {
		STAP_PROBE1(cxx, caught_int, number);
		return 1;
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? std::atoi(argv[1]) : 3000;
	long caught = 0;

	target_allow_tracing();
	target_wait();
	for (int i = 0; i < rounds; i++)
		caught += catcher(i);
	std::printf("caught %ld cleaned %lu\n", caught, cleaned);
	std::fflush(stdout);
	target_wait();
	return 0;
}
