/* SPDX-License-Identifier: MIT */
/* Call stacks of a session's hits and rows. */
#include "libprobe/session/session.h"
#include "libprobe/registry/registry.h"

struct probe_error *session_stack_start(struct probe_session *session, const struct arch *arch)
{
	bool wanted = session->options.stack != PROBE_STACK_NONE || session->asked.ustack;
	struct probe_error *error = session_names_start(session);

	if (!error && wanted && !session->unwinder)
		error = unwinder_create(arch, session->naming, &session->unwinder);
	return error;
}

void session_stack_refresh(struct probe_session *session)
{
	if (session->naming)
		naming_refresh(session->naming);
}

struct unwind_saved session_stack_saved(const struct probe_session *session, uint64_t pc)
{
	bool by_frames = session->options.stack == PROBE_STACK_FRAMES || session->asked.ustack;

	return by_frames ? unwinder_saved(session->unwinder, pc) : (struct unwind_saved){-1, -1};
}

const struct probe_stack *session_stack_read(struct probe_session *session,
	const struct session_site *site, const struct ring_record *record)
{
	struct unwinder_thread thread = {.pc = site->pc};
	struct record_layout_stack stack;
	struct probe_error *error;

	if (!session->unwinder ||
		!record_layout_read_stack(&site->layout, (const uint8_t *)record, &stack))
		return NULL;
	thread.registers = stack.registers;
	thread.bytes = stack.bytes;
	thread.length = stack.length;
	error = stack.registers ? unwinder_copy(session->unwinder, &thread, &session->stack)
				: unwinder_frames(session->unwinder, site->pc, stack.caller,
					  stack.bytes, stack.length / 8, &session->stack);
	/* Without memory there are fewer frames, and the stack says so. */
	probe_error_free(error);
	return &session->stack;
}

struct probe_error *probe_session_stack(
	struct probe_session *session, const struct probe_row *row, struct probe_stack *ret)
{
	const struct probe_value *returns, *site, *caller;

	if (!session->unwinder || !session->asked.stack)
		return probe_error_new(PROBE_ERROR_USAGE, "rows of this session have no stacks");
	returns = &row->keys[BIND_STACK_FRAMES];
	site = &row->keys[BIND_STACK_SITE];
	caller = &row->keys[BIND_STACK_CALLER];
	return unwinder_frames(session->unwinder, site->u, caller->u, returns->bytes,
		returns->kind == PROBE_VALUE_STRING ? returns->length / 8 : 0, ret);
}
