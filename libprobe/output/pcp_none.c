/* SPDX-License-Identifier: MIT */
/* Replaces Performance Co-Pilot support if its headers were missing at build time. */
#include "libprobe/output/output.h"

#ifndef PCP_BUILT
#include "probe/pcp.h"

struct probe_error *probe_pcp_open(
	const struct probe_view *view, size_t key_count, struct probe_pcp **ret)
{
	(void)view, (void)key_count, (void)ret;
	return probe_error_new(PROBE_ERROR_UNSUPPORTED,
		"built without Performance Co-Pilot: to export metrics, install its headers "
		"(Debian: libpcp-mmv1-dev, libpcp3-dev) and rebuild (make clean all)");
}

/* Never called: no struct probe_pcp exists. */
struct probe_error *probe_pcp_add(
	struct probe_pcp *pcp, pid_t pid, const char *program, struct probe_table *table)
{
	(void)pcp, (void)pid, (void)program;
	probe_table_free(table);
	return NULL;
}

struct probe_error *probe_pcp_renew(
	struct probe_pcp *pcp, pid_t pid, const char *program, struct probe_table *table)
{
	return probe_pcp_add(pcp, pid, program, table);
}

void probe_pcp_end(struct probe_pcp *pcp, pid_t pid)
{
	(void)pcp, (void)pid;
}

struct probe_error *probe_pcp_update(struct probe_pcp *pcp)
{
	(void)pcp;
	return NULL;
}

const char *probe_pcp_name(const struct probe_pcp *pcp)
{
	(void)pcp;
	return "";
}

size_t probe_pcp_left_out(const struct probe_pcp *pcp)
{
	(void)pcp;
	return 0;
}

void probe_pcp_close(struct probe_pcp *pcp)
{
	(void)pcp;
}
#endif
