/* SPDX-License-Identifier: MIT */
/*
 * Switching records on and off while stubs run: they test words of the session's
 * memory (arch_stub.on and .off), which are stored here. Nothing is stopped, and
 * nothing waits for hits that have passed the test already.
 */
#include <stdatomic.h>

#include "libprobe/session/session.h"

static _Atomic uint32_t *switch_of(const struct probe_session *s)
{
	return (_Atomic uint32_t *)(s->rings.base + DATA_SWITCH_OFFSET);
}

/* Set by a hit that finds no room, with options->until_full. */
static _Atomic uint32_t *full_of(const struct probe_session *s)
{
	return switch_of(s) + 1;
}

/* The target, too, can write the word. */
bool probe_session_is_on(const struct probe_session *session)
{
	return session->options.switched && session->rings.base &&
	       atomic_load_explicit(switch_of(session), memory_order_relaxed) &&
	       !atomic_load_explicit(full_of(session), memory_order_relaxed);
}

void probe_session_switch(struct probe_session *session, size_t probe, bool on)
{
	const struct reg_session *l = &session->rings.layout;
	uint64_t offset;

	if (!session->options.switched || !session->rings.base)
		return;
	if (probe == SIZE_MAX) {
		/* No hit gets in between that finds it neither full nor off. */
		if (!on)
			atomic_store_explicit(switch_of(session), false, memory_order_seq_cst);
		atomic_store_explicit(full_of(session), 0, memory_order_seq_cst);
		if (on)
			atomic_store_explicit(switch_of(session), true, memory_order_seq_cst);
		return;
	}
	if (probe >= session->probe_count)
		return;
	offset = l->slots - l->data + ((uint64_t)l->cpus << l->slots_shift) +
		 session->known[probe].slot * sizeof(struct probe_slot) +
		 offsetof(struct probe_slot, off);
	atomic_store_explicit(
		(_Atomic uint64_t *)(session->rings.base + offset), !on, memory_order_relaxed);
}
