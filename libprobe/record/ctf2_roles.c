/* SPDX-License-Identifier: MIT */
/* What fields are for: roles of CTF 2, and names of CTF 1.8. */
#include <string.h>

#include "libprobe/record/ctf2.h"

static const struct {
	enum ctf2_place place;
	const char *name, *role;
} roles[] = {
	{CTF2_PACKET_HEADER, "magic", "packet-magic-number"},
	{CTF2_PACKET_HEADER, "uuid", "metadata-stream-uuid"},
	{CTF2_PACKET_HEADER, "stream_id", "data-stream-class-id"},
	{CTF2_PACKET_HEADER, "stream_instance_id", "data-stream-id"},
	{CTF2_PACKET_CONTEXT, "timestamp_begin", "default-clock-timestamp"},
	{CTF2_PACKET_CONTEXT, "timestamp_end", "packet-end-default-clock-timestamp"},
	{CTF2_PACKET_CONTEXT, "content_size", "packet-content-length"},
	{CTF2_PACKET_CONTEXT, "packet_size", "packet-total-length"},
	{CTF2_PACKET_CONTEXT, "packet_seq_num", "packet-sequence-number"},
	{CTF2_PACKET_CONTEXT, "events_discarded", "discarded-event-record-counter-snapshot"},
	{CTF2_EVENT_HEADER, "id", "event-record-class-id"},
	{CTF2_EVENT_HEADER, "timestamp", "default-clock-timestamp"},
};
enum { ROLES = sizeof(roles) / sizeof(roles[0]) };

const char *ctf2_origin(enum ctf2_place place)
{
	static const char *const origins[] = {
		[CTF2_PACKET_HEADER] = "packet-header",
		[CTF2_PACKET_CONTEXT] = "packet-context",
		[CTF2_EVENT_HEADER] = "event-record-header",
		[CTF2_EVENT_CONTEXT] = "event-record-common-context",
		[CTF2_EVENT_PAYLOAD] = "event-record-payload",
	};

	return origins[place];
}

const char *ctf2_role(enum ctf2_place place, const char *name)
{
	for (size_t i = 0; i < ROLES; i++)
		if (roles[i].place == place && strcmp(roles[i].name, name) == 0)
			return roles[i].role;
	return NULL;
}

const char *ctf2_name(enum ctf2_place place, const char *role)
{
	for (size_t i = 0; i < ROLES; i++)
		if (roles[i].place == place && strcmp(roles[i].role, role) == 0)
			return roles[i].name;
	return NULL;
}
