/* SPDX-License-Identifier: MIT */
/*
 * Arguments that filters and keys compute with: structures behind pointers, some of them bad,
 * floating-point numbers, and texts that differ in their literals only.
 *
 *	values [HITS]	waits, hits each probe HITS times (default: 1000), prints "done", waits
 *
 *	values:node(i, pointer)	 to a struct node with count -i, next->tag i % 7 and the name "even"
 *				 or "odd"; every tenth pointer is bad
 *	values:ratio(d, f)	 (i - 500) / 4.0, as a double and as a float; every tenth is NaN
 *	values:item(items, i, k) an array of struct item {I, "textI"}, and the index of one of them;
 *				 k is where the digit of a text is; every tenth array is null
 *	values:query(text)	 SELECT, UPDATE, and a path, each with other numbers
 */
#include <math.h>
#include <sys/sdt.h>

#include "../target.h"

struct node {
	uint8_t tag;
	int16_t small;
	int32_t count;
	struct node *next;
	const char *name;
};

static const uint64_t bad[] = {0, 1, 0x10000, UINT64_C(1) << 63, UINT64_MAX};

__attribute__((noinline)) static void hit_node(long i)
{
	struct node next = {.tag = (uint8_t)(i % 7)};
	struct node node = {.tag = (uint8_t)i,
		.small = (int16_t)-i,
		.count = (int32_t)-i,
		.next = &next,
		.name = i % 2 ? "odd" : "even"};
	struct node *pointer = &node;

	if (i % 10 == 9)
		pointer = (struct node *)(uintptr_t)bad[i / 10 % 5];
	__asm__ volatile("" : : "r"(&node), "r"(&next) : "memory");
	STAP_PROBE2(values, node, i, pointer);
	target_room_behind();
}

__attribute__((noinline)) static void hit_ratio(long i)
{
	double d = i % 10 == 9 ? NAN : (double)(i - 500) / 4;
	float f = (float)d;

	/* <sys/sdt.h> may lack the `f` of floating-point arguments. */
	__asm__ volatile("990: nop\n"
			 ".pushsection .note.stapsdt, \"?\", \"note\"\n"
			 ".balign 4\n"
			 ".4byte 992f-991f, 994f-993f, 3\n"
			 "991: .asciz \"stapsdt\"\n"
			 "992: .balign 4\n"
			 "993: .8byte 990b, _.stapsdt.base, 0\n"
			 ".asciz \"values\"\n"
			 ".asciz \"ratio\"\n"
			 ".asciz \"8f@%0 4f@%1\"\n"
			 "994: .balign 4\n"
			 ".popsection\n"
			 :
			 : "x"(d), "x"(f));
	target_room_behind();
}

__attribute__((noinline)) static void hit_query(long i)
{
	static const char *const forms[] = {
		"SELECT name FROM users WHERE id = %ld AND note = 'n %ld'",
		"UPDATE t2 SET x = x + %ld.%ld", "/var/spool/%ld/job-%ld"};
	char text[128];

	snprintf(text, sizeof(text), forms[i % 3], i, i * 7);
	STAP_PROBE1(values, query, text);
	target_room_behind();
}

struct item {
	uint32_t number;
	char text[12];
};

__attribute__((noinline)) static void hit_item(long i)
{
	static const struct item items[] = {{0, "text0"}, {1, "text1"}, {2, "text2"}, {3, "text3"}};
	const struct item *start = i % 10 == 9 ? NULL : items;
	int index = (int)(i % 4);
	uint16_t digit = 4;

	STAP_PROBE3(values, item, start, index, digit);
	target_room_behind();
}

int main(int argc, char **argv)
{
	long hits = argc > 1 ? atol(argv[1]) : 1000;

	target_allow_tracing();
	target_wait();
	for (long i = 0; i < hits; i++) {
		hit_node(i);
		hit_ratio(i);
		hit_query(i);
		hit_item(i);
	}
	puts("done");
	fflush(stdout);
	target_wait();
	return 0;
}
