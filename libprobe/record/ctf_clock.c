/* SPDX-License-Identifier: MIT */
/*
 * The clocks of stubs, as metadata has them: a frequency, and what the clock was at the beginning
 * of 1970. Both are estimates that get better with time, so metadata is replaced while they do. A
 * part of a record begins where the part before it has ended, by that part's clock.
 */
#include "libprobe/record/record.h"

enum { SETTLED_NS = 500000000 };
#define NS_PER_S UINT64_C(1000000000)

/* CLOCK_REALTIME when the clock was read last; as if it had not been set meanwhile. */
static struct ctf_instant present(const struct clock *clock, double tick_ns)
{
	uint64_t stamps = clock->last_steady_stamp - clock->first_stamp;

	return (struct ctf_instant){
		clock->last_steady_stamp, clock->first_ns + (uint64_t)((double)stamps * tick_ns)};
}

struct ctf_line ctf_line_of(const struct clock *clock, const struct ctf_instant *from)
{
	double tick_ns = clock->counter ? clock_tick_ns(clock) : 1;
	struct ctf_instant now = present(clock, tick_ns);
	struct ctf_line line;
	__int128 base;

	/* It meets the clock again, however far off the part before was. */
	if (clock->counter && now.stamp > from->stamp && now.ns > from->ns + SETTLED_NS)
		tick_ns = (double)(now.ns - from->ns) / (double)(now.stamp - from->stamp);
	line.frequency = (uint64_t)(1e9 / tick_ns + 0.5);
	line.frequency += line.frequency == 0;
	base = (__int128)from->ns - (__int128)from->stamp * NS_PER_S / line.frequency;
	line.offset_s = (int64_t)(base / (__int128)NS_PER_S) - (base % (__int128)NS_PER_S < 0);
	base -= (__int128)line.offset_s * NS_PER_S;
	line.offset = (uint64_t)(base * line.frequency / NS_PER_S);
	return line;
}

uint64_t ctf_line_ns(const struct ctf_line *line, uint64_t stamp)
{
	unsigned __int128 stamps = (unsigned __int128)stamp + line->offset;

	return (uint64_t)line->offset_s * NS_PER_S +
	       (uint64_t)(stamps * NS_PER_S / line->frequency);
}

uint64_t ctf_clock_stamp_at(const struct clock *clock, uint64_t ns)
{
	double tick_ns = clock->counter ? clock_tick_ns(clock) : 1;

	return clock->last_stamp +
	       (uint64_t)(int64_t)((double)(int64_t)(ns - clock->last_ns) / tick_ns);
}
