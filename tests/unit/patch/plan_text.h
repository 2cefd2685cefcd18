/* SPDX-License-Identifier: MIT */
/* What the tests of plans share: the assembler's text of notes, and reasons. */
#ifndef TESTS_UNIT_PLAN_TEXT_H
#define TESTS_UNIT_PLAN_TEXT_H

#include "tests/unit/elf/elf_image.h"

#include "elf/sdt.h"
#include "libprobe/patch/patch.h"

static const char plan_entered[] = "something in the module may jump to the bytes after the site";
static const char plan_entered_short[] = "a branch enters the instructions after the site";
static const char plan_call_returns[] = "a call returns to the bytes after the site";
static const char plan_jumps[] = "a jump or return follows the site";

/* The beginning of a text: NOTE NAME makes the note of the site at the label site_NAME. */
static const char plan_text_head[] =
	".macro NOTE name\n"
	" .pushsection .note.stapsdt, \"\", \"note\"\n .balign 4\n"
	" .long 892f - 891f, 894f - 893f, 3\n891: .asciz \"stapsdt\"\n892: .balign 4\n"
	"893: .quad site_\\name, 0, 0\n .asciz \"plan\"\n .asciz \"\\name\"\n .byte 0\n"
	"894: .balign 4\n .popsection\n.endm\n"
	" .text\npersonality: .cfi_startproc\n ret\n .cfi_endproc\n";

/* Does a compiler here make code of x86-64, which the texts are? */
static inline bool plan_text_compiles(void)
{
	return run("echo endbr64 | cc -c -x assembler -o /dev/null - 2> /dev/null");
}

/* The caller frees the array. */
static inline const struct sdt_note **plan_notes_of(const struct sdt_notes *notes)
{
	const struct sdt_note **ret = calloc(notes->count, sizeof(*ret));

	assert_non_null(ret);
	for (size_t i = 0; i < notes->count; i++)
		ret[i] = &notes->notes[i];
	return ret;
}

/* The number of the plan that is chosen for a site, of these; `order` NULL: of all. */
__attribute__((unused)) static enum probe_plan chosen_of(const struct plan *plan,
	const enum probe_plan *order, size_t count, const char **reason_ret)
{
	struct plan_order plans = plan_order_of(order, count);

	return plan_id(plan_choose(plan, &plans, reason_ret));
}

#endif
