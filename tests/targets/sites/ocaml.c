/* SPDX-License-Identifier: MIT */
/*
 * Drives the sites of ocaml_sites.S. Commands on standard input:
 *
 *	hit	calls each function 10 times, with 0 to 9, except ocaml_loop()
 *	loop	calls that once, for three rounds
 *	print	"hits PLAIN DOTTED FIRST SECOND LOOP NEXT semaphores S0 S1 … S13": what the
 *		handlers counted, and the u16 (plain +0 +2, dotted +0 +2, …)
 *	quit
 */
#include <string.h>

#include "../target.h"

extern volatile uint64_t ocaml_hits[6];
extern volatile uint16_t ocaml_semaphores[14];

uint64_t ocaml_plain(uint64_t value);
uint64_t ocaml_dotted(uint64_t value);
uint64_t ocaml_first(uint64_t value);
uint64_t ocaml_second(uint64_t value);
uint64_t ocaml_loop(uint64_t rounds);

static void print(void)
{
	printf("hits");
	for (int i = 0; i < 6; i++)
		printf(" %llu", (unsigned long long)ocaml_hits[i]);
	printf(" semaphores");
	for (int i = 0; i < 14; i++)
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
		} else if (strcmp(line, "loop") == 0) {
			ocaml_loop(2);
			printf("done\n");
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
