/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "libprobe/tracer/value.h"
#include "libprobe/tracer/wire.h"

void wire_put(struct buffer *out, enum wire_type type)
{
	struct wire_header header = {type, sizeof(header)};

	buffer_bytes(out, &header, sizeof(header));
}

static void put_values(struct buffer *out, const struct probe_hit *hit, uint32_t bytes)
{
	size_t offset = bytes;

	for (size_t i = 0; i < hit->arg_count; i++) {
		struct probe_value value = hit->args[i];

		if (value_has_bytes(&value)) {
			value.bytes = (const char *)(uintptr_t)offset;
			offset += value.length;
		} else {
			value.bytes = NULL;
			value.length = 0;
		}
		buffer_bytes(out, &value, sizeof(value));
	}
}

/* Messages are padded, so that the next one's header is aligned. */
static size_t padded(size_t length)
{
	return (length + 7) & ~(size_t)7;
}

bool wire_put_hit(struct buffer *out, enum probe_tracer_tag tag, const struct probe_hit *hit,
	const struct probe_session_probe *probe, const char *comm, bool filtered)
{
	static const char zeros[8];
	size_t provider = strlen(probe->provider) + 1, name = strlen(probe->name) + 1;
	size_t comm_length = comm ? strlen(comm) + 1 : 0, length, bytes = 0;
	struct wire_hit wire = {
		.header = {.type = WIRE_HIT},
		.time_ns = hit->time_ns,
		.pc = hit->pc,
		.pid = hit->pid,
		.tid = hit->tid,
		.cpu = hit->cpu,
		.tag = tag,
		.arg_count = (uint32_t)hit->arg_count,
		.filtered = filtered,
		.name = (uint32_t)provider,
		.comm = comm ? (uint32_t)(provider + name) : 0,
		.bytes = (uint32_t)(provider + name + comm_length),
	};

	for (size_t i = 0; i < hit->arg_count; i++) {
		if (value_has_bytes(&hit->args[i]))
			bytes += hit->args[i].length;
	}
	length = sizeof(wire) + hit->arg_count * sizeof(struct probe_value) + wire.bytes + bytes;
	wire.header.length = (uint32_t)padded(length);
	/* All at once: half a message would be worse than none. */
	if (padded(length) > WIRE_MESSAGE_MAX || !buffer_reserve(out, padded(length)))
		return false;
	buffer_bytes(out, &wire, sizeof(wire));
	put_values(out, hit, wire.bytes);
	buffer_bytes(out, probe->provider, provider);
	buffer_bytes(out, probe->name, name);
	buffer_bytes(out, comm, comm_length);
	for (size_t i = 0; i < hit->arg_count; i++) {
		if (value_has_bytes(&hit->args[i]))
			buffer_bytes(out, hit->args[i].bytes, hit->args[i].length);
	}
	buffer_bytes(out, zeros, padded(length) - length);
	return true;
}

/* A NUL-terminated string at `offset` of the texts, or NULL. */
static const char *text_at(const char *texts, size_t room, uint32_t offset)
{
	return offset < room && memchr(texts + offset, '\0', room - offset) ? texts + offset : NULL;
}

bool wire_get_hit(char *message, size_t length, struct wire_got *ret)
{
	const struct wire_hit *wire = (const struct wire_hit *)(void *)message;
	struct probe_value *values = (struct probe_value *)(void *)(message + sizeof(*wire));
	size_t room;
	char *texts;

	if (length < sizeof(*wire) ||
		wire->arg_count > (length - sizeof(*wire)) / sizeof(*values) ||
		wire->tag >= PROBE_TAG_STATUS)
		return false;
	texts = (char *)(values + wire->arg_count);
	room = length - (size_t)(texts - message);
	for (size_t i = 0; i < wire->arg_count; i++) {
		uintptr_t offset = (uintptr_t)values[i].bytes;

		if (!value_has_bytes(&values[i]))
			continue;
		if (offset > room || values[i].length > room - offset)
			return false;
		values[i].bytes = texts + offset;
	}
	*ret = (struct wire_got){
		.tag = wire->tag,
		.tracee = {wire->pid, wire->tid},
		.term = {.provider = text_at(texts, room, 0),
			.name = text_at(texts, room, wire->name),
			.pc = wire->pc,
			.args = values,
			.arg_count = wire->arg_count},
		.options = {.time_ns = wire->time_ns,
			.cpu = wire->cpu,
			.filtered = wire->filtered,
			.extra = wire->comm ? text_at(texts, room, wire->comm) : NULL},
	};
	return ret->term.provider && ret->term.name;
}
