/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/event.h"
#include "libprobe/base/value.h"
#include "probe/session.h"

bool event_is_of_function(const char *provider)
{
	return strncmp(provider, SDT_FUNCTIONS, strlen(SDT_FUNCTIONS)) == 0;
}

bool event_needs_quotes(const char *provider, const char *name)
{
	size_t length = strlen(name);

	return !event_is_of_function(provider) && length &&
	       (strpbrk(name, ":()*?[]\\{}\"") || strstr(name, " /") || strchr(" \t", *name) ||
		       strchr(" \t", name[length - 1]));
}

void event_put_name(struct buffer *out, const char *provider, const char *name)
{
	const char *quote = event_needs_quotes(provider, name) ? "\"" : "";

	buffer_string(out, quote);
	buffer_printable(out, name);
	buffer_string(out, quote);
}

void event_put_probe(struct buffer *out, const char *provider, const char *name)
{
	buffer_printable(out, provider);
	buffer_char(out, ':');
	event_put_name(out, provider, name);
}

struct probe_event probe_event_of_hit(
	const struct probe_hit *hit, const struct probe_session_probe *probe, const char *comm)
{
	return (struct probe_event){.kind = PROBE_EVENT_HIT,
		.time_ns = hit->time_ns,
		.provider = probe->provider,
		.name = probe->name,
		.pid = hit->pid,
		.tid = hit->tid,
		.cpu = hit->cpu,
		.pc = hit->pc,
		.comm = comm,
		.args = hit->args,
		.arg_count = hit->arg_count,
		.frame = hit->frame};
}

static size_t text_size(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static size_t stack_size(const struct probe_stack *stack)
{
	size_t size = sizeof(*stack);

	for (size_t i = 0; i < stack->count; i++)
		size += sizeof(void *) + sizeof(struct probe_frame) +
			text_size(stack->frames[i]->module) + text_size(stack->frames[i]->symbol) +
			text_size(stack->frames[i]->file);
	return size;
}

/* Returns the packed size of an event, without its pair's start event. */
static size_t size_alone(const struct probe_event *event)
{
	size_t size = sizeof(*event) + event->arg_count * sizeof(*event->args) +
		      text_size(event->provider) + text_size(event->name) + text_size(event->comm);

	for (size_t i = 0; i < event->arg_count; i++)
		size += value_has_bytes(&event->args[i]) ? event->args[i].length : 0;
	size += event->stack ? stack_size(event->stack) : 0;
	return (size + _Alignof(struct probe_event) - 1) / _Alignof(struct probe_event) *
	       _Alignof(struct probe_event);
}

size_t event_packed_size(const struct probe_event *event)
{
	return size_alone(event) + (event->begin ? size_alone(event->begin) : 0);
}

/* Appends bytes. Returns their offset, which is stored in place of a pointer. */
static const char *put(char *block, size_t *used, const char *bytes, size_t size)
{
	size_t offset = *used;

	if (size)
		memcpy(block + offset, bytes, size);
	*used += size;
	return (const char *)(uintptr_t)offset;
}

static const char *put_text(char *block, size_t *used, const char *text)
{
	return text ? put(block, used, text, text_size(text)) : NULL;
}

/*
 * A packed stack: this struct, pointers to frames, frames. The frames' texts are elsewhere in the
 * block.
 */
struct packed_stack {
	struct probe_stack stack;
	const struct probe_frame *frames[];
};

static struct probe_frame *frames_of(struct packed_stack *packed, size_t count)
{
	return (struct probe_frame *)(packed->frames + count);
}

/* Packs a stack at offset *used, which is aligned. */
static void put_stack(char *block, size_t *used, const struct probe_stack *stack)
{
	struct packed_stack *to = (struct packed_stack *)(block + *used);
	struct probe_frame *frames = frames_of(to, stack->count);

	to->stack = *stack;
	*used += sizeof(*to) + stack->count * (sizeof(to->frames[0]) + sizeof(*frames));
	for (size_t i = 0; i < stack->count; i++) {
		frames[i] = *stack->frames[i];
		frames[i].module = put_text(block, used, frames[i].module);
		frames[i].symbol = put_text(block, used, frames[i].symbol);
		frames[i].file = put_text(block, used, frames[i].file);
		frames[i].build_id = NULL; /* no event shows build ids */
	}
}

static void pack_alone(const struct probe_event *event, void *block)
{
	struct probe_event *to = block;
	struct probe_value *values = (struct probe_value *)(to + 1);
	size_t used = sizeof(*to) + event->arg_count * sizeof(*values);

	*to = *event;
	if (event->stack)
		put_stack(block, &used, event->stack);
	for (size_t i = 0; i < event->arg_count; i++) {
		values[i] = event->args[i];
		if (value_has_bytes(&values[i]))
			values[i].bytes = put(block, &used, values[i].bytes, values[i].length);
	}
	to->provider = put_text(block, &used, event->provider);
	to->name = put_text(block, &used, event->name);
	to->comm = put_text(block, &used, event->comm);
	to->begin = NULL;
	memset((char *)block + used, 0, size_alone(event) - used);
}

void event_pack(const struct probe_event *event, void *block)
{
	size_t alone = size_alone(event);

	pack_alone(event, block);
	if (!event->begin)
		return;
	pack_alone(event->begin, (char *)block + alone);
	((struct probe_event *)block)->begin = (const struct probe_event *)(uintptr_t)alone;
}

/*
 * Converts the offset in *text into a pointer (0 into NULL). Returns false if the text is not
 * inside the block.
 */
static bool take_text(char *block, size_t size, const char **text)
{
	size_t offset = (uintptr_t)*text;

	if (!offset)
		return true;
	if (offset >= size || !memchr(block + offset, '\0', size - offset))
		return false;
	*text = block + offset;
	return true;
}

/* Returns the stack at `offset`, or NULL if it extends beyond the block. */
static const struct probe_stack *take_stack(char *block, size_t size, size_t offset)
{
	struct packed_stack *packed = (struct packed_stack *)(block + offset);
	struct probe_frame *frames;
	size_t count, left = size - offset;

	if (left < sizeof(*packed) || (unsigned int)packed->stack.end > PROBE_STACK_LOST)
		return NULL;
	count = packed->stack.count;
	if (count > PROBE_FRAMES_MAX ||
		count * (sizeof(void *) + sizeof(*frames)) > left - sizeof(*packed))
		return NULL;
	frames = frames_of(packed, count);
	for (size_t i = 0; i < count; i++) {
		if (!take_text(block, size, &frames[i].module) ||
			!take_text(block, size, &frames[i].symbol) ||
			!take_text(block, size, &frames[i].file))
			return NULL;
		packed->frames[i] = &frames[i];
	}
	packed->stack.frames = packed->frames;
	return &packed->stack;
}

static struct probe_event *unpack_alone(void *block, size_t size)
{
	struct probe_event *event = block;
	struct probe_value *values = (struct probe_value *)(event + 1);

	if (size < sizeof(*event) || event->arg_count > (size - sizeof(*event)) / sizeof(*values) ||
		!take_text(block, size, &event->provider) ||
		!take_text(block, size, &event->name) || !take_text(block, size, &event->comm))
		return NULL;
	for (size_t i = 0; i < event->arg_count; i++) {
		size_t offset = (uintptr_t)values[i].bytes;

		if (!value_has_bytes(&values[i])) {
			values[i].bytes = NULL;
			values[i].length = 0;
			continue;
		}
		if (offset > size || values[i].length > size - offset)
			return NULL;
		values[i].bytes = (char *)block + offset;
	}
	if (event->stack) {
		event->stack = take_stack(
			block, size, sizeof(*event) + event->arg_count * sizeof(*values));
		if (!event->stack)
			return NULL;
	}
	event->args = values;
	event->texts = 0; /* the next event may be in the same block */
	return event;
}

struct probe_event *event_unpack(void *block, size_t size)
{
	struct probe_event *event = block, *begin;
	size_t offset = size < sizeof(*event) ? 0 : (uintptr_t)event->begin;

	if (!offset)
		return unpack_alone(block, size);
	/* The first event is unpacked from before the second, so they cannot overlap. */
	if (offset > size || offset % _Alignof(struct probe_event) || !unpack_alone(block, offset))
		return NULL;
	begin = unpack_alone((char *)block + offset, size - offset);
	if (!begin || begin->begin)
		return NULL;
	event->begin = begin;
	return event;
}

struct probe_stack event_cut_stack(const struct probe_stack *stack)
{
	struct probe_stack cut = *stack;

	if (cut.count > PROBE_FRAMES_MAX) {
		cut.count = PROBE_FRAMES_MAX;
		cut.end = PROBE_STACK_TRUNCATED;
	}
	if ((unsigned int)cut.end > PROBE_STACK_LOST)
		cut.end = PROBE_STACK_LOST;
	return cut;
}

const struct probe_stack *event_copy_stack(const struct probe_stack *stack, void **block_ret)
{
	const struct probe_stack cut = event_cut_stack(stack);
	const struct probe_event only = {.stack = &cut};
	void *block = malloc(event_packed_size(&only));

	if (!block)
		return NULL;
	event_pack(&only, block);
	*block_ret = block;
	return event_unpack(block, event_packed_size(&only))->stack;
}

const struct probe_value *probe_event_arg(
	const struct probe_event *event, unsigned int number, bool string)
{
	for (size_t i = 0; i < event->arg_count; i++) {
		const struct probe_value *value = &event->args[i];
		bool is_string =
			value->kind == PROBE_VALUE_STRING || value->kind == PROBE_VALUE_TEXT;

		if ((value->number ? value->number - 1U : i) == number && (is_string || !string))
			return value;
	}
	return NULL;
}
