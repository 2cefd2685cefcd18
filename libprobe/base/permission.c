/* SPDX-License-Identifier: MIT */
/* The errors for refused accesses to a process: which rule forbids it, and what to do. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/file.h"
#include "libprobe/base/permission.h"
#include "libprobe/base/procfs.h"

/*
 * The file may be another security module's, but only AppArmor adds a mode in parentheses.
 * "complain" forbids nothing.
 *
 * Source: security/apparmor/procattr.c of Linux.
 */
bool permission_profile(const char *text, char profile[PERMISSION_PROFILE])
{
	size_t length = strcspn(text, "\n");
	const char *mode = memrchr(text, '(', length);

	if (!mode || mode < text + 2 || mode[-1] != ' ' || text[length - 1] != ')' ||
		strncmp(mode, "(complain)", 10) == 0)
		return false;
	snprintf(profile, PERMISSION_PROFILE, "%.*s", (int)(mode - 1 - text), text);
	return true;
}

static void read_profile(const char *process, char profile[PERMISSION_PROFILE])
{
	static const char *const files[] = {"attr/apparmor/current", "attr/current"};
	char text[PERMISSION_PROFILE + 32];

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		struct procfs_path path = procfs_path("/proc/%s/%s", process, files[i]);

		if (file_read(path.text, text, sizeof(text)) && permission_profile(text, profile))
			return;
	}
	profile[0] = '\0';
}

static unsigned long long capabilities(pid_t pid, const char *key)
{
	char text[32];

	return procfs_status_text(pid, key, text, sizeof(text)) ? strtoull(text, NULL, 16) : 0;
}

static bool has_only(pid_t pid, const char *key, long id)
{
	long ids[PROCFS_NUMBERS_MAX];

	if (procfs_status_numbers(pid, key, ids) < 3)
		return false;
	return ids[0] == id && ids[1] == id && ids[2] == id;
}

/*
 * Returns true if the rules of ptrace(2) ("Ptrace access mode checking") allow the access, so that
 * only a security module can have refused it. False if /proc does not tell.
 */
static bool is_allowed_by_rules(pid_t pid)
{
	enum { SYS_PTRACE = 19 };
	unsigned long long ours = capabilities(getpid(), "CapEff:");
	struct stat st;

	/* Another user namespace usually means another user. */
	if (!procfs_is_same_text(pid, "uid_map"))
		return false;
	if (ours >> SYS_PTRACE & 1)
		return true;
	/* If the process is not dumpable, its files (not the folder) belong to root. */
	return geteuid() != 0 && has_only(pid, "Uid:", getuid()) &&
	       has_only(pid, "Gid:", getgid()) &&
	       stat(procfs_path("/proc/%d/status", pid).text, &st) == 0 && st.st_uid == geteuid() &&
	       !(capabilities(pid, "CapPrm:") & ~ours);
}

/*
 * Returns true if memory is readable but not writable. The rules of ptrace(2) do not distinguish
 * the two.
 */
static bool is_unwritable(pid_t pid)
{
	struct procfs_path path = procfs_path("/proc/%d/mem", pid);
	AUTO_FD int reads = open(path.text, O_RDONLY | O_CLOEXEC);
	AUTO_FD int writes = open(path.text, O_RDWR | O_CLOEXEC);

	return reads >= 0 && writes < 0 && (errno == EACCES || errno == EPERM);
}

static struct probe_error *denied_by_module(const struct permission_facts *a)
{
	/* Unconfined processes may trace all. Most profiles allow tracing within the profile. */
	if (a->own_profile[0] && strcmp(a->own_profile, a->profile) != 0)
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"process %d may not be traced: probectl runs under the AppArmor profile "
			"%s, the process %s%s: run probectl under the profile of the process (in "
			"its container), or without one (apparmor=unconfined)",
			a->pid, a->own_profile, a->profile[0] ? "under " : "under none",
			a->profile);
	if (a->is_allowed)
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"process %d may not be traced: Landlock or another security module forbids "
			"it: run probectl outside of that sandbox",
			a->pid);
	return NULL;
}

struct probe_error *permission_denied(const struct permission_facts *a)
{
	struct probe_error *error;

	if (a->is_unwritable)
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"process %d may be read, but not written to (/proc/%d/mem): Landlock or "
			"another security module forbids it: run probectl outside of that sandbox",
			a->pid, a->pid);
	if (a->tracer > 0)
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"process %d is being traced by process %ld (%s): end that first", a->pid,
			a->tracer, a->tracer_name);
	if (a->uid >= 0 && a->own_uid != 0 && a->uid != a->own_uid)
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"process %d belongs to user %ld: run probectl as that user or as root",
			a->pid, a->uid);
	if (a->own_uid != 0 && a->scope > 0)
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"process %d may not be traced: kernel.yama.ptrace_scope is %ld: set it to "
			"0 or run probectl as root",
			a->pid, a->scope);
	error = denied_by_module(a);
	if (error)
		return error;
	return probe_error_new(PROBE_ERROR_PERMISSION,
		"process %d may not be traced: it is not dumpable, has more capabilities or is in "
		"another user namespace: %s",
		a->pid,
		a->own_uid != 0 ? "run probectl as root"
				: "run probectl outside of its container, as the host's root");
}

static struct permission_facts facts_of(pid_t pid)
{
	struct permission_facts facts = {
		.pid = pid,
		.tracer = procfs_status_number(pid, "TracerPid:"),
		.uid = procfs_status_number(pid, "Uid:"),
		.own_uid = geteuid(),
		.scope = procfs_file_number("/proc/sys/kernel/yama/ptrace_scope"),
		.is_allowed = is_allowed_by_rules(pid),
		.is_unwritable = is_unwritable(pid),
	};
	char process[16];

	if (facts.tracer > 0)
		procfs_comm(facts.tracer, facts.tracer_name, sizeof(facts.tracer_name));
	snprintf(process, sizeof(process), "%d", (int)pid);
	read_profile("self", facts.own_profile);
	read_profile(process, facts.profile);
	return facts;
}

struct probe_error *permission_trace_error(pid_t pid)
{
	struct permission_facts facts = facts_of(pid);

	return permission_denied(&facts);
}
/*
 * Explains why /proc/PID/maps cannot be opened. Opening it takes PTRACE_MODE_READ (ptrace(2)): the
 * same user, a dumpable process, and no capabilities that we lack. Yama does not restrict it.
 */
struct probe_error *permission_maps_error(pid_t pid)
{
	long uid = procfs_status_number(pid, "Uid:"); /* the first number is the real uid */
	struct permission_facts facts = facts_of(pid);
	struct probe_error *error = denied_by_module(&facts);

	if (error)
		return error;
	if (geteuid() == 0 || uid < 0)
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"cannot read the mappings of process %d: it has capabilities that probectl "
			"lacks, or a security module forbids it",
			(int)pid);
	if (uid != (long)geteuid())
		return probe_error_new(PROBE_ERROR_PERMISSION,
			"cannot read the mappings of process %d: it belongs to user %ld; run as "
			"that user or as root",
			(int)pid, uid);
	return probe_error_new(PROBE_ERROR_PERMISSION,
		"cannot read the mappings of process %d: it is not dumpable (a set-user-ID "
		"program, or one with capabilities); run as root",
		(int)pid);
}
