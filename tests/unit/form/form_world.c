/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/form/form_world.h"

int form_fixture_setup(void **state)
{
	struct form_fixture *x = aligned_alloc(16, (sizeof(*x) + 15) / 16 * 16);

	assert_non_null(x);
	memset(x, 0, sizeof(*x));
	form_native_init(&x->native);
	for (int i = 0; i < FRAME_REGISTERS; i++)
		x->frame.saved[i] = (int)offsetof(struct form_memory, saved) - WORLD_BELOW + 8 * i;
	x->frame.saved[form_native_live] = -1;
	x->frame.size = (int)(sizeof(x->memory) - WORLD_BELOW);
	x->world = (struct form_world){.frame = &x->frame,
		.memory = (uint8_t *)x->memory.temps,
		.live = form_native_live,
		.stack = form_native_stack};
	x->random = 88172645463325252U;
	memcpy(x->words, (uint32_t[]){0, 1, 0x10000, 0x80000000}, sizeof(x->words));
	*state = x;
	return 0;
}

int form_fixture_teardown(void **state)
{
	struct form_fixture *x = *state;

	form_native_deinit(&x->native);
	free(x);
	return 0;
}

form_native_function *form_fixture_make(
	struct form_fixture *x, void (*write)(struct form *f, void *arg), void *arg)
{
	form_machine_init(&x->machine);
	write(&x->machine.form, arg);
	return form_native_make(&x->native, &x->frame, &x->thread, write, arg);
}

void form_fixture_run(struct form_fixture *x, form_native_function *function, const char *text)
{
	size_t bytes = sizeof(x->memory) - WORLD_BELOW;
	const uint64_t *machine = x->machine_memory.temps, *native = x->memory.temps;
	double vector;

	memcpy(&vector, &x->world.vector_value, sizeof(vector));
	memcpy(x->before.temps, x->memory.temps, bytes);
	form_machine_run(&x->machine, &x->world);
	memcpy(x->machine_memory.temps, x->memory.temps, bytes);
	memcpy(x->memory.temps, x->before.temps, bytes);
	function((uint8_t *)x->memory.temps, x->world.live_value, vector);
	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		if (machine[i] != native[i])
			fail_msg("%s: word %zu: the processor leaves %#lx, the machine %#lx", text,
				i, native[i], machine[i]);
}
