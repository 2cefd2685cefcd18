/* SPDX-License-Identifier: MIT */
/*
 * A probe whose argument should point to text, but sometimes does not.
 *
 *	badstring           waits, passes badstring:text(CASE, POINTER) for every
 *	                    case, prints "passed N", waits
 *	badstring --expect  prints what `str(arg1)` must yield with -s 64, in
 *	                    JSON: {"case":N,"text":…}, and null if it is unreadable
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>

#include "../target.h"

enum { PAGE = 4096, LONG_BYTES = 300, CUT_BYTES = 64 };

static char *pages; /* two: the first readable, the second not */
static char long_text[LONG_BYTES + 1];
static char *volatile writable_text;

static const char *pointer_of(unsigned int number)
{
	switch (number) {
	case 0:
		return "plain";
	case 1:
		return NULL;
	case 2:
		return (const char *)1;
	case 3: /* not mapped; the tracer might fill a hole among the mappings */
		return (const char *)0x10000;
	case 4: /* ends with the page, terminated */
		return strcpy(pages + PAGE - 6, "edge!");
	case 5: /* runs into the unreadable page */
		return memcpy(pages + PAGE - 6, "broken", 6);
	case 6:
		return long_text;
	case 7:
		return "";
	case 8: /* not canonical: the processor faults with another signal */
		return (const char *)0x8000000000000000u;
	case 9: /* the kernel's half */
		return (const char *)0xffffffff81000000u;
	case 10:
		return writable_text;
	case 11: /* bytes that are not UTF-8, and what JSON escapes */
		return "tab\there \"quoted\" back\\slash";
	default:
		return NULL;
	}
}

static const char *const expected[] = {"\"plain\"", "null", "null", "null", "\"edge!\"", NULL, NULL,
	"\"\"", "null", "null", "\"on the heap\"", "\"tab\\there \\\"quoted\\\" back\\\\slash\""};

enum { CASES = sizeof(expected) / sizeof(expected[0]) };

static void print_expected(void)
{
	for (unsigned int i = 0; i < CASES; i++) {
		printf("{\"case\":%u,\"text\":", i);
		if (i == 5) /* what could be read of it, or nothing */
			printf("[\"broken\",null]}\n");
		else if (i == 6)
			printf("\"%.*s\"}\n", CUT_BYTES, long_text);
		else
			printf("%s}\n", expected[i]);
	}
}

int main(int argc, char **argv)
{
	for (unsigned int i = 0; i < LONG_BYTES; i++)
		long_text[i] = (char)('a' + i % 26);
	if (argc > 1 && strcmp(argv[1], "--expect") == 0) {
		print_expected();
		return 0;
	}
	target_allow_tracing();
	writable_text = strdup("on the heap");
	pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE) != 0)
		return 1;
	target_wait();
	for (unsigned int i = 0; i < CASES; i++) {
		const char *text = pointer_of(i);

		STAP_PROBE2(badstring, text, i, text);
	}
	printf("passed %d\n", CASES);
	fflush(stdout);
	target_wait();
	return 0;
}
