/* SPDX-License-Identifier: MIT */
/*
 * A system call needs no gate only if it is on the list below; all others are treated as if they
 * did.
 *
 * Sources: ptrace(2), PTRACE_GET_SYSCALL_INFO; syscalls(2).
 */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "arch/process.h"
#include "libprobe/follow/idle.h"
#include "libprobe/follow/leaf.h"
#include "libprobe/follow/program.h"
#include "libprobe/modules/modules.h"
#include "libprobe/base/procfs.h"

enum { TRY_AGAIN = 16 };

/* ---- Files -------------------------------------------------------------------------- */

void idle_note(pid_t pid, struct files *files)
{
	struct modules modules = {0};
	struct probe_error *error = modules_read(pid, files, &modules);

	for (size_t i = 0; !error && i < modules.count; i++)
		if (modules.items[i].file)
			modules.items[i].file->passed_over = true;
	if (!error && files)
		leaf_learn(pid, files, &modules);
	probe_error_free(error);
	modules_deinit(&modules);
}

/*
 * The stops of an idle program cost more than gates if it needs these in the end. What it did
 * before tells; now and then it is tried again.
 */
static bool pays(pid_t pid, const struct files *files)
{
	struct file *program = program_file(pid, files);

	if (!program)
		return true;
	if (2 * program->idle_failed > program->idle_begun &&
		++program->idle_left_out % TRY_AGAIN != 0)
		return false;
	program->idle_begun++;
	return true;
}

void idle_fails(pid_t pid, const struct files *files)
{
	struct file *program = program_file(pid, files);

	if (program)
		program->idle_failed++;
}

bool idle_begins(pid_t pid, struct files *files)
{
	struct modules modules = {0};
	struct probe_error *error;
	bool idle;

	if (!files || !arch_process()->undo_call || procfs_status_number(pid, "Seccomp:") != 0)
		return false;
	error = modules_read(pid, files, &modules);
	idle = !error && modules.count;
	for (size_t i = 0; idle && i < modules.count; i++)
		idle = modules.items[i].file && modules.items[i].file->passed_over;
	if (idle)
		leaf_learn(pid, files, &modules);
	probe_error_free(error);
	modules_deinit(&modules);
	return idle && pays(pid, files);
}

/* ---- System calls ------------------------------------------------------------------- */

/* Does it map code of a file that was not noted? */
static bool maps_other_code(pid_t pid, const struct files *files, const uint64_t args[6])
{
	const struct file *file;
	char path[64];
	struct stat st;

	if (!(args[2] & PROT_EXEC) || (args[3] & MAP_ANONYMOUS))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, (int)args[4]);
	file = stat(path, &st) == 0 ? files_known(files, &st) : NULL;
	return !file || !file->passed_over;
}

static bool needs_no_gate(uint64_t number)
{
	const struct arch_process *arch = arch_process();

	for (size_t i = 0; i < arch->mere_call_count; i++)
		if (arch->mere_calls[i] == number)
			return true;
	return false;
}

bool idle_goes_on(pid_t pid, bool to_stop, const struct files *files)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) <= 0 ||
		info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return true;
	return !to_stop && info.arch == arch_process()->audit && needs_no_gate(info.entry.nr) &&
	       !(info.entry.nr == SYS_mmap && maps_other_code(pid, files, info.entry.args));
}
