/* SPDX-License-Identifier: MIT */
/* Making lists of steps: where fields are, and which runs they form. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "libprobe/base/array.h"
#include "libprobe/record/record.h"

enum { BYTE = 8, WORD = 64 };

bool steps_fail(struct step_builder *b, const char *format, ...)
{
	va_list ap;
	char *why;
	int length;

	if (b->error)
		return false;
	va_start(ap, format);
	length = vasprintf(&why, format, ap);
	va_end(ap);
	if (length < 0) {
		b->error = probe_error_no_memory();
		return false;
	}
	b->error = probe_error_new(PROBE_ERROR_FORMAT, "%s", why);
	free(why);
	return false;
}

static struct step *add(struct step_builder *b, enum step_op op)
{
	struct step *step;

	if (b->error)
		return NULL;
	if (!ARRAY_ROOM(b->steps, b->count)) {
		b->error = probe_error_no_memory();
		return NULL;
	}
	step = &b->steps[b->count++];
	*step = (struct step){.op = (uint8_t)op, .from = STEP_NO_NUMBER};
	return step;
}

bool steps_align(struct step_builder *b, uint32_t align)
{
	struct step *run;

	if (!b->in_run || (align > BYTE && align > b->run_align)) {
		run = add(b, STEP_RUN);
		if (!run)
			return false;
		b->run = b->count - 1;
		b->in_run = true;
		b->run_align = align < BYTE ? BYTE : align;
		b->bits = 0;
		run->kind = (uint8_t)(b->run_align / BYTE - 1);
	}
	b->bits = (b->bits + align - 1) / align * align;
	b->steps[b->run].offset = (b->bits + BYTE - 1) / BYTE;
	return true;
}

struct step *steps_fixed(struct step_builder *b, enum step_op op, const struct tsdl_type *type)
{
	struct step *step = steps_align(b, type->align) ? add(b, op) : NULL;
	uint32_t shift = b->bits % BYTE;

	if (!step)
		return NULL;
	if (shift + type->size > WORD) {
		steps_fail(b, "a bit field reaches over more than %d bits", WORD);
		return NULL;
	}
	if (type->size == WORD && (op == STEP_UNSIGNED || op == STEP_SIGNED))
		step->op = STEP_WORD;
	step->offset = b->bits / BYTE;
	step->left = (uint8_t)(WORD - type->size - shift);
	step->right = (uint8_t)(WORD - type->size);
	b->bits += type->size;
	b->steps[b->run].offset = (b->bits + BYTE - 1) / BYTE;
	return step;
}

/* The bytes of an element, or of a character. */
static uint32_t element_bytes(const struct tsdl_type *type)
{
	if (type->kind == TSDL_STRING)
		return 1;
	return type->element->kind == TSDL_INTEGER && type->element->size % BYTE == 0
		       ? type->element->size / BYTE
		       : 0;
}

struct step *steps_variable(struct step_builder *b, enum step_op op, const struct tsdl_type *type)
{
	uint32_t bytes = element_bytes(type);
	struct step *step;

	if (!bytes) {
		steps_fail(b, "an array is not of integers of whole bytes");
		return NULL;
	}
	if (bytes * BYTE % type->align) {
		steps_fail(b, "the elements of an array have room between them");
		return NULL;
	}
	if (type->kind == TSDL_ARRAY && type->length > UINT32_MAX) {
		steps_fail(b, "an array is too long");
		return NULL;
	}
	if (!steps_align(b, type->align))
		return NULL;
	if (b->bits % BYTE) {
		steps_fail(b, "an array does not begin at a byte");
		return NULL;
	}
	step = add(b, op);
	if (!step)
		return NULL;
	step->kind = (uint8_t)bytes;
	step->offset = type->kind == TSDL_ARRAY ? (uint32_t)type->length : 0;
	b->in_run = false;
	return step;
}

bool steps_kind(struct step_builder *b, uint16_t value, enum probe_value_kind kind)
{
	struct step *step = add(b, STEP_KIND);

	if (!step)
		return false;
	step->to = value;
	step->kind = (uint8_t)kind;
	return true;
}

bool steps_end(struct step_builder *b)
{
	return add(b, STEP_END) != NULL;
}
