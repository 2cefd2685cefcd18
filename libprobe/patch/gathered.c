/* SPDX-License-Identifier: MIT */
/*
 * The hits of sessions that gather (`enable -t count -k ...`): they are in cells, of which a table
 * may have a million. They are read through the target, to which reading gives memory for those
 * pages that were not touched so far; so larger tables are left to who asks for what is in them.
 */
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"
#include "libprobe/patch/patch.h"

#define CELLS_BYTES_MAX (UINT64_C(4) << 20)

bool gathered_has_cells(const struct reg_session *session)
{
	return session->cell_bytes != 0;
}

uint64_t *gathered_hits(pid_t pid, const struct reg_session *session)
{
	struct served served AUTO_SERVED;
	struct snapshot view = {.fd = -1, .pid = pid, .served = &served, .layout = *session};
	uint64_t cells = data_has_table(session) ? session->entries : session->slot_capacity;

	served_begin(pid, &served);
	if (cells * session->cell_bytes > CELLS_BYTES_MAX / (session->cpus + UINT64_C(1)))
		return NULL;
	return snapshot_hits(&view, &(struct view_keys){0});
}
