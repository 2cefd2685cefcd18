/* SPDX-License-Identifier: MIT */
#include "libprobe/base/event.h"
#include "libprobe/session/session.h"

void wire_put(struct buffer *out, enum wire_type type)
{
	struct wire_header header = {type, sizeof(header)};

	buffer_bytes(out, &header, sizeof(header));
}

void wire_put_look(struct buffer *out, pid_t pid)
{
	struct wire_tracee look = {.header = {WIRE_LOOK, sizeof(look)}, .pid = pid};

	buffer_bytes(out, &look, sizeof(look));
}

bool wire_put_hit(struct buffer *out, enum probe_tracer_tag tag, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm)
{
	const struct probe_event event = {
		.kind = PROBE_EVENT_HIT,
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
	};
	size_t length = sizeof(struct wire_hit) + event_packed_size(&event);
	struct wire_hit *wire;

	/* Reserve all at once: half a message would be worse than none. */
	wire = length > WIRE_MESSAGE_MAX ? NULL : (void *)buffer_reserve(out, length);
	if (!wire)
		return false;
	*wire = (struct wire_hit){{WIRE_HIT, (uint32_t)length}, tag, probe->pair, hit->filter};
	event_pack(&event, wire + 1);
	out->length += length;
	return true;
}

static bool is_number(const struct probe_value *value)
{
	return value->kind == PROBE_VALUE_SIGNED || value->kind == PROBE_VALUE_UNSIGNED ||
	       value->kind == PROBE_VALUE_FLOAT;
}

/* Of an end, guest.c adds the time. */
static void add_extra(struct wire_got *got)
{
	if (got->tag != PROBE_TAG_OBSERVE && got->tag != PROBE_TAG_COUNT)
		return;
	for (size_t i = 0; i < got->term.arg_count && !got->options.extra; i++)
		if (is_number(&got->term.args[i]))
			got->options.extra = &got->term.args[i];
}

bool wire_get_hit(char *message, size_t length, struct wire_got *ret)
{
	const struct wire_hit *wire = (const struct wire_hit *)(void *)message;
	const struct probe_event *event;

	if (length < sizeof(*wire) || wire->tag >= PROBE_TAG_STATUS)
		return false;
	event = event_unpack(message + sizeof(*wire), length - sizeof(*wire));
	if (!event || !event->provider || !event->name)
		return false;
	*ret = (struct wire_got){
		.tag = wire->tag,
		.tracee = {event->pid, event->tid},
		.term = {.provider = event->provider,
			.name = event->name,
			.pc = event->pc,
			.args = event->args,
			.arg_count = event->arg_count},
		.options = {.time_ns = event->time_ns, .cpu = event->cpu, .comm = event->comm},
		.pair = wire->pair,
		.filter = wire->filter,
	};
	if (is_number(&ret->filter))
		ret->options.filter_result = &ret->filter;
	add_extra(ret);
	return true;
}
