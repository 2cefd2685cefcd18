/* SPDX-License-Identifier: MIT */
#include "libprobe/base/event.h"
#include "libprobe/tracer/wire.h"

void wire_put(struct buffer *out, enum wire_type type)
{
	struct wire_header header = {type, sizeof(header)};

	buffer_bytes(out, &header, sizeof(header));
}

bool wire_put_hit(struct buffer *out, enum probe_tracer_tag tag, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm, bool filtered)
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
	*wire = (struct wire_hit){{WIRE_HIT, (uint32_t)length}, tag, filtered};
	event_pack(&event, wire + 1);
	out->length += length;
	return true;
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
		.options = {.time_ns = event->time_ns,
			.cpu = event->cpu,
			.filtered = wire->filtered,
			.extra = event->comm},
	};
	return true;
}
