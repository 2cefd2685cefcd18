/* SPDX-License-Identifier: MIT */
/*
 * Drives the sites of ocaml_sites.S. Commands on standard input:
 *
 *	hit	calls each function 10 times
 *	print	"hits PLAIN DOTTED FIRST SECOND semaphores S0 S1 … S9": what the
 *		handlers counted, and the ten u16 (plain +0 +2, dotted +0 +2, …)
 *	quit
 */
#include <string.h>

#include "target.h"

extern volatile uint64_t ocaml_hits[4];
extern volatile uint16_t ocaml_semaphores[10];

uint64_t ocaml_plain(uint64_t value);
uint64_t ocaml_dotted(uint64_t value);
uint64_t ocaml_first(uint64_t value);
uint64_t ocaml_second(uint64_t value);

static void print(void)
{
	printf("hits");
	for (int i = 0; i < 4; i++)
		printf(" %llu", (unsigned long long)ocaml_hits[i]);
	printf(" semaphores");
	for (int i = 0; i < 10; i++)
		printf(" %u", ocaml_semaphores[i]);
	printf("\n");
}

int main(void)
{
	char line[64];

	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (target_read_line(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		if (strcmp(line, "print") == 0) {
			print();
		} else {
			for (uint64_t i = 0; i < 10; i++) {
				ocaml_plain(i);
				ocaml_dotted(i);
				ocaml_first(i);
				ocaml_second(i);
			}
			printf("done\n");
		}
		fflush(stdout);
	}
	return 0;
}
