/* SPDX-License-Identifier: MIT */
/* What SVE has in registers is still there after a stub has asked the kernel, which clears it. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#include <unistd.h>
#endif

#include <cmocka.h>

#include "tests/unit/query/expr_random.h"
#include "tests/unit/form/form_world.h"
#include "tests/unit/skip.h"

#if defined(__aarch64__) && defined(HWCAP_SVE)

enum { VECTORS = 32, PREDICATES = 16, VECTOR_MAX = 256, PREDICATE_MAX = VECTOR_MAX / 8 };

/* As the processor stores them, one behind the other. */
struct state {
	uint8_t vectors[VECTORS * VECTOR_MAX];
	uint8_t predicates[PREDICATES * PREDICATE_MAX], ffr[PREDICATE_MAX];
};

static void write_call(struct form *f, void *arg)
{
	(void)arg;
	FORM(f, .op = FORM_KERNEL, .value = FORM_CALL_GETPID);
	form_store(f, FORM_VALUE, form_temp(0));
}

#define EACH_VECTOR(insn)                                                                          \
	".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,"  \
	"30,31\n" insn " z\\n, [%[vectors], #\\n, mul vl]\n.endr\n"
#define EACH_PREDICATE(insn)                                                                       \
	".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n" insn                                      \
	" p\\n, [%[predicates], #\\n, mul vl]\n.endr\n"

/* Calls a function with this state, and leaves what it then is. */
static void call(form_native_function *function, uint8_t *memory, struct state *state)
{
	register uint8_t *first __asm__("x0") = memory;

	__asm__ volatile(".arch_extension sve\n"
			 "ldr p0, [%[ffr]]\n"
			 "wrffr p0.b\n" EACH_VECTOR("ldr")
				 EACH_PREDICATE("ldr") "blr %[function]\n" EACH_VECTOR("str")
					 EACH_PREDICATE("str") "rdffr p0.b\n"
							       "str p0, [%[ffr]]\n"
			 : "+r"(first)
			 : [function] "r"(function), [vectors] "r"(state->vectors),
			 [predicates] "r"(state->predicates), [ffr] "r"(state->ffr)
			 : "memory", "cc", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9",
			 "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x30", "v0", "v1",
			 "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",
			 "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23",
			 "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}

static void kept(void **state)
{
	struct form_fixture *x = *state;
	struct state before, after;
	form_native_function *function;

	x->thread.loses_vectors = true;
	function = form_fixture_make(x, write_call, NULL);
	for (int n = 0; n < 200; n++) {
		for (size_t i = 0; i < sizeof(before); i++)
			((uint8_t *)&before)[i] = (uint8_t)(expr_random(&x->random) >> 40);
		/* Up to a byte of the vectors, all elements. */
		memset(before.ffr, 0, sizeof(before.ffr));
		before.ffr[0] = (uint8_t)(0xff >> n % 9);
		after = before;
		call(function, (uint8_t *)x->memory.temps, &after);
		assert_memory_equal(&after, &before, sizeof(after));
		assert_int_equal(x->memory.temps[0], getpid());
	}
}

static bool has_vectors(void)
{
	return getauxval(AT_HWCAP) & HWCAP_SVE;
}

#else

static void kept(void **state)
{
	(void)state;
}

static bool has_vectors(void)
{
	return false;
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(kept, form_fixture_setup, form_fixture_teardown),
	};

	if (!has_vectors())
		return skip_all("this processor has no SVE");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
