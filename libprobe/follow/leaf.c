/* SPDX-License-Identifier: MIT */
/*
 * The imports of a program show what it may do: it can reach a function of libc that it does not
 * name only by machine code of its own (system calls) or through another function of libc. Such
 * functions are on the list, too, except those that load converters of character sets for an
 * unusual locale (gettext, wide characters): nearly every program imports one. So it is a forecast,
 * not a proof, and what a leaf has mapped is compared at its end.
 *
 * Sources: the GNU C Library Reference Manual; glibc, the callers of __libc_dlopen, clone and
 * pthread_create.
 */
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/follow/follow.h"
#include "libprobe/process/process.h"

enum { ENVIRONMENT_MAX = 32768 /* with more it is no leaf */ };

/* clang-format off */
static const char *const calls[] = {
	/* load code, or find functions without importing them */
	"dlopen", "dlmopen", "dlsym", "dlvsym", "__libc_dlopen_mode", "__libc_dlsym",
	/* start processes */
	"fork", "vfork", "_Fork", "__fork", "__vfork", "__libc_fork", "clone", "__clone",
	"__clone2", "clone3", "posix_spawn", "posix_spawnp", "pidfd_spawn", "pidfd_spawnp",
	"popen", "_IO_popen", "_IO_proc_open", "system", "__libc_system", "wordexp", "daemon",
	"forkpty", "grantpt", "rcmd", "rcmd_af", "rexec", "rexec_af",
	/* execute programs */
	"execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe", "execveat",
	"fexecve", "__execve",
	/* start threads, also for what happens in the background */
	"pthread_create", "__pthread_create", "thrd_create", "aio_read", "aio_read64",
	"aio_write", "aio_write64", "aio_fsync", "aio_fsync64", "lio_listio", "lio_listio64",
	"getaddrinfo_a", "timer_create", "mq_notify",
	/* any system call, filters of system calls, tracing */
	"syscall", "prctl", "ptrace",
	/* load the unwinder */
	"backtrace", "pthread_exit", "thrd_exit", "pthread_cancel", "__pthread_unwind_next",
	/* load converters of character sets that the caller names, and unload them */
	"iconv_open",
	/* load modules of the name service switch */
	"getaddrinfo", "getnameinfo", "getgrouplist", "initgroups", "innetgr", "setnetgrent",
	"glob", "glob64", "getpw", "getlogin", "getlogin_r", "cuserid", "ruserok", "ruserok_af",
	"iruserok", "iruserok_af", "ether_hostton", "ether_ntohost", "getpublickey",
	"getsecretkey", "netname2user", "res_init", "__res_init",
};

/* More of those of the switch: each has variants (_r, …). */
static const char *const call_families[] = {
	"getpwnam", "getpwuid", "getpwent", "setpwent", "getgrnam", "getgrgid", "getgrent",
	"setgrent", "getspnam", "getspent", "setspent", "getsgnam", "getsgent", "setsgent",
	"gethostby", "gethostent", "sethostent", "getnetby", "getnetent", "setnetent",
	"getservby", "getservent", "setservent", "getprotoby", "getprotoent", "setprotoent",
	"getrpcby", "getrpcent", "setrpcent", "getaliasby", "getaliasent", "setaliasent",
	"getnetgrent", "res_nquery", "res_query", "res_search", "res_nsearch",
};
/* clang-format on */

/* ---- Files --------------------------------------------------------------------------- */

static bool is_call(const char *name, void *unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (strcmp(name, calls[i]) == 0)
			return true;
	for (size_t i = 0; i < sizeof(call_families) / sizeof(*call_families); i++)
		if (strncmp(name, call_families[i], strlen(call_families[i])) == 0)
			return true;
	return false;
}

/*
 * Does a module import only what leaves may import? libc and its loader define all of these
 * themselves.
 */
static bool imports_no_call(const struct module *module)
{
	struct file *file = module->file;

	if (file->role == FILE_UNKNOWN)
		file->role =
			module_is_libc(module) || object_imports_none(module->object, is_call, NULL)
				? FILE_OF_LEAF
				: FILE_OTHER;
	return file->role != FILE_OTHER;
}

static bool may_be_mapped(const struct module *module)
{
	return module->file && module->object && module->file->passed_over &&
	       imports_no_call(module);
}

static bool may_all_be_mapped(const struct modules *modules)
{
	bool all = modules->count > 0;

	for (size_t i = 0; i < modules->count && all; i++)
		all = may_be_mapped(&modules->items[i]);
	return all;
}

void leaf_pass_over(pid_t pid, struct files *files)
{
	struct modules modules = {0};
	struct probe_error *error = modules_read(pid, files, &modules);
	struct file *program = program_file(pid, files);

	for (size_t i = 0; !error && i < modules.count; i++)
		if (modules.items[i].file)
			modules.items[i].file->passed_over = true;
	if (!error && program && program->glibc_loads && program->leaf == LEAF_UNKNOWN &&
		may_all_be_mapped(&modules))
		program->leaf = LEAF_YES;
	probe_error_free(error);
	modules_deinit(&modules);
}

void leaf_forget(const struct leaf *leaf, struct files *files)
{
	struct file *program = files_mapped(files, leaf->dev, leaf->inode);

	if (program)
		program->leaf = LEAF_NO;
}

/* ---- Processes ------------------------------------------------------------------------- */

/* The loader's variables: they name libraries, or change how they are found. */
static bool has_plain_environment(pid_t pid)
{
	char path[32], text[ENVIRONMENT_MAX];
	size_t length;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	length = file_read_whole(path, text, sizeof(text));
	for (size_t at = 0; at < length; at += strlen(text + at) + 1)
		if (strncmp(text + at, "LD_", strlen("LD_")) == 0 ||
			strncmp(text + at, "GLIBC_TUNABLES=", strlen("GLIBC_TUNABLES=")) == 0)
			return false;
	/* 0: it may not be readable. */
	return length && length < sizeof(text) - 1;
}

bool leaf_begins(pid_t pid, const struct files *files, struct leaf *ret)
{
	const struct file *program = program_file(pid, files);

	if (!program || program->leaf != LEAF_YES || !has_plain_environment(pid))
		return false;
	*ret = (struct leaf){
		.dev = program->dev, .inode = program->inode, .since_ns = clock_monotonic_ns()};
	return true;
}

/* The common case, which takes a few system calls. False: it is not known. */
static bool has_known_code(pid_t pid, const struct files *files)
{
	struct maps maps = {0};
	struct probe_error *error = maps_read(pid, &maps);
	bool known = !error && maps.count;

	for (size_t i = 0; known && i < maps.count; i++) {
		const struct mapping *m = &maps.items[i];
		const struct file *file;

		if (!m->executable || !m->inode)
			continue;
		file = files_mapped(files, makedev(m->dev_major, m->dev_minor), m->inode);
		known = file && file->passed_over && file->role == FILE_OF_LEAF;
	}
	probe_error_free(error);
	maps_deinit(&maps);
	return known;
}

bool leaf_is_one(const struct leaf *leaf, pid_t pid, struct files *files)
{
	struct modules modules = {0};
	struct probe_error *error;
	bool is_one;

	if (has_known_code(pid, files))
		return true;
	error = modules_read(pid, files, &modules);
	is_one = !error && may_all_be_mapped(&modules);
	if (!is_one)
		leaf_forget(leaf, files);
	probe_error_free(error);
	modules_deinit(&modules);
	return is_one;
}

/* May it have probes that were not looked for? */
static bool may_have_probes(struct module *module)
{
	struct probe_error *error;
	bool may;

	if (module->file && module->file->passed_over)
		return false;
	error = module->object ? module_read_notes(module) : NULL;
	may = !module->object || error ||
	      (module->file ? module->file->notes.count : module->notes.count);
	probe_error_free(error);
	return may;
}

struct probe_error *leaf_end(const struct leaf *leaf, pid_t pid, struct files *files, int status)
{
	struct modules modules = {0};
	struct probe_error *error, *told = NULL;

	if (has_known_code(pid, files))
		return NULL;
	error = modules_read(pid, files, &modules);
	if (error || !may_all_be_mapped(&modules))
		leaf_forget(leaf, files);
	for (size_t i = 0; !error && !told && i < modules.count; i++)
		if (may_have_probes(&modules.items[i]))
			told = error_numbered(PROBE_ERROR_ENDED, status,
				"process %d ended soon after it had mapped %s: hits of probes in "
				"it are not reported",
				pid, modules.items[i].path);
	if (error)
		told = error_numbered(PROBE_ERROR_ENDED, status,
			"process %d ended, and what it had mapped is not known (%s): hits of "
			"probes in it are not reported",
			pid, error->message);
	probe_error_free(error);
	modules_deinit(&modules);
	return told;
}

struct probe_error *leaf_replaced(pid_t pid)
{
	return probe_error_new(PROBE_ERROR_ENDED,
		"process %d has executed another program by a system call of its own: hits of "
		"probes in what it had mapped before are not reported",
		pid);
}
