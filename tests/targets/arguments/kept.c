/* SPDX-License-Identifier: MIT */
/*
 * flags: -D_GNU_SOURCE -pthread
 *
 * Checks on aarch64 that hits leave every register unchanged: the general ones, NZCV, FPCR, FPSR,
 * and all that SVE has (vectors, predicates, FFR), while a timer's handler overwrites them as well.
 *
 *	kept THREADS	prints "ready" or, elsewhere, "none"; answers each line "PASSES ROUNDS", of
 *			each thread, with "wrong N"
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/time.h>

#include "../target.h"

#ifdef __aarch64__

enum { VECTOR_MAX = 256, THREADS_MAX = 8, SVE_CAPABLE = 1 << 22, TIMER_US = 300 };

/* kept_sites.S relies on the offsets. */
struct kept {
	uint64_t x[31], nzcv, fpcr, fpsr;
	uint8_t ffr[VECTOR_MAX / 8], p[16 * VECTOR_MAX / 8], v[32 * VECTOR_MAX];
};
_Static_assert(offsetof(struct kept, nzcv) == 248 && offsetof(struct kept, ffr) == 272, "");
_Static_assert(offsetof(struct kept, v) == 816, "");

void kept_run(const struct kept *in, struct kept *out, uint64_t passes, uint64_t has_sve);
void kept_spoil(void);

static unsigned long passes, rounds;
static size_t vector;
static atomic_ulong wrong;
static const char text[] = "a text behind a pointer";

static void on_timer(int number)
{
	(void)number;
	if (vector)
		kept_spoil();
}

static uint64_t next(uint64_t *random)
{
	*random = *random * 6364136223846793005U + 1442695040888963407U;
	return *random ^ *random >> 29;
}

static void fill(struct kept *k, uint64_t *random)
{
	size_t first = vector ? next(random) % (vector + 1) : 0;

	memset(k, 0, sizeof(*k));
	for (int i = 0; i < 31; i++)
		k->x[i] = next(random);
	if (*random >> 60 & 1)
		k->x[1] = (uintptr_t)text;
	k->x[28] = 0;
	k->nzcv = next(random) & UINT64_C(0xf0000000);
	k->fpcr = next(random) & UINT64_C(0x03c00000);
	k->fpsr = next(random) & UINT64_C(0x0800009f);
	for (size_t i = 0; i < 32 * (vector ? vector : 16); i++)
		k->v[i] = (uint8_t)next(random);
	for (size_t i = 0; i < 16 * vector / 8; i++)
		k->p[i] = (uint8_t)next(random);
	/* True up to the first false: others cannot be. */
	for (size_t i = 0; i < first; i++)
		k->ffr[i / 8] |= (uint8_t)(1 << i % 8);
}

static void complain(const struct kept *before, const struct kept *after)
{
	const uint8_t *b = (const uint8_t *)before, *a = (const uint8_t *)after;
	size_t i = 0;

	while (b[i] == a[i])
		i++;
	fprintf(stderr, "kept: byte %zu was %#x, is %#x\n", i, b[i], a[i]);
	atomic_fetch_add(&wrong, 1);
}

static void *run(void *data)
{
	uint64_t random = (uint64_t)(uintptr_t)data * 88172645463325252U + 1;
	static _Thread_local struct kept before, after;

	for (unsigned long i = 0; i < rounds; i++) {
		fill(&before, &random);
		memset(&after, 0, sizeof(after));
		kept_run(&before, &after, passes, vector != 0);
		if (memcmp(&before, &after, sizeof(before)) != 0)
			complain(&before, &after);
	}
	return NULL;
}

static size_t vector_bytes(void)
{
	size_t bytes = 0;

	if (getauxval(AT_HWCAP) & SVE_CAPABLE)
		__asm__ volatile(".arch armv8-a+sve\n\trdvl %0, 1" : "=r"(bytes));
	return bytes;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	const struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
	const struct itimerval often = {{0, TIMER_US}, {0, TIMER_US}}, never = {{0, 0}, {0, 0}};
	pthread_t threads[THREADS_MAX];
	char line[64];

	if (count < 1 || count > THREADS_MAX)
		return 2;
	vector = vector_bytes();
	target_allow_tracing();
	sigaction(SIGALRM, &action, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (target_read_line(line, sizeof(line)) &&
		sscanf(line, "%lu %lu", &passes, &rounds) == 2) {
		setitimer(ITIMER_REAL, &often, NULL);
		for (int i = 0; i < count; i++)
			pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)i);
		for (int i = 0; i < count; i++)
			pthread_join(threads[i], NULL);
		setitimer(ITIMER_REAL, &never, NULL);
		printf("wrong %lu\n", atomic_load(&wrong));
	}
	return 0;
}

#else

int main(void)
{
	printf("none\n");
	return 0;
}

#endif
