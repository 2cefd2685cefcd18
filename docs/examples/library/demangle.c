/* SPDX-License-Identifier: MIT */
/* demangle SYMBOL...: the names of C++ and Rust functions. */
#include <probe/symbol.h>

#include "example.h"

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		char *name;

		check(probe_demangle(argv[i], &name));
		puts(name ? name : argv[i]);
		free(name);
	}
	return 0;
}
