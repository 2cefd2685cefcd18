/* SPDX-License-Identifier: MIT */
/*
 * What two user contexts of one thread do takes turns, and does not nest.
 *
 *	fibers [ROUNDS]
 *
 * In each round, outer begins in the main context, which then resumes another one, where inner
 * begins; outer ends; and inner ends when the main context has resumed it once more. Both are
 * fibers:work__start(name, id) and fibers:work__done(name, id), whose names are in different
 * places. At last there is one end, of "stray", that has no begin.
 *
 * Prints what it did as one line of JSON: for each name, the number and the sums of times inside
 * the probes (`inner`) and around them (`outer`), which a tracer's time lies between.
 */
#include <string.h>
#include <sys/sdt.h>
#include <ucontext.h>

#include "../target.h"

enum { STACK = 1 << 18, ROUNDS = 5, LONG_MS = 40, SHORT_MS = 4 };

struct work {
	const char *name;
	uint64_t around, inside; /* when it began */
	uint64_t count, inner, outer;
	char begun[16], ended[16];
};

static ucontext_t main_context, other_context;
static struct work outer = {.name = "outer"}, inner = {.name = "inner"};

static void start(struct work *work, int id)
{
	strcpy(work->begun, work->name);
	work->around = target_now_ns();
	STAP_PROBE2(fibers, work__start, work->begun, id);
	target_room_behind();
	work->inside = target_now_ns();
}

static void done(struct work *work, int id)
{
	uint64_t inside = target_now_ns();

	strcpy(work->ended, work->name);
	STAP_PROBE2(fibers, work__done, work->ended, id);
	target_room_behind();
	work->outer += target_now_ns() - work->around;
	work->inner += inside - work->inside;
	work->count++;
}

static void nap(int ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void run_other(int id)
{
	start(&inner, id);
	swapcontext(&other_context, &main_context);
	done(&inner, id);
}

static void work_round(char *stack, int id)
{
	getcontext(&other_context);
	other_context.uc_stack.ss_sp = stack;
	other_context.uc_stack.ss_size = STACK;
	other_context.uc_link = &main_context;
	makecontext(&other_context, (void (*)(void))(void *)run_other, 1, id);
	start(&outer, id);
	nap(LONG_MS);
	swapcontext(&main_context, &other_context);
	nap(SHORT_MS);
	done(&outer, id);
	nap(SHORT_MS);
	swapcontext(&main_context, &other_context);
}

static void print(const struct work *work, const char *separator)
{
	printf("\"%s\": {\"count\": %llu, \"inner\": %llu, \"outer\": %llu}%s", work->name,
		(unsigned long long)work->count, (unsigned long long)work->inner,
		(unsigned long long)work->outer, separator);
}

int main(int argc, char **argv)
{
	struct work stray = {.name = "stray"};
	int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
	char *stack = malloc(STACK);

	if (!stack)
		return 1;
	for (int i = 0; i < rounds; i++)
		work_round(stack, i);
	done(&stray, 0);
	printf("{");
	print(&outer, ", ");
	print(&inner, "}\n");
	free(stack);
	return 0;
}
