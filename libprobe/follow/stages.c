/* SPDX-License-Identifier: MIT */
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/follow/follow.h"

/* ==== Program ================================================================================= */

/*
 * Finds out whether a program has a loader. glibc's loader is also in static programs, but does not
 * run there before the program's code: ifunc resolvers come first, and then the thread pointer. A
 * real loader has a name (DT_SONAME), even if executed directly (ld.so PROGRAM).
 *
 * Sources: glibc, csu/libc-start.c (ARCH_SETUP_IREL comes before ARCH_SETUP_TLS), elf/Makefile.
 */

/* Returns the entry of a process's program in `files`, or NULL, also if `files` is NULL. */
static struct file *program_file(pid_t pid, const struct files *files)
{
	struct stat st;

	return files && stat(procfs_path("/proc/%d/exe", pid).text, &st) == 0
		       ? files_known(files, &st)
		       : NULL;
}

static bool is_glibc_loader(const struct module *m)
{
	return threads_is_loader(m) && object_is_64bit(m->object) && object_soname(m->object);
}

/* Is the program's loader glibc's? Other loaders are not followed. `files` may be NULL. */
static bool program_has_glibc_loader(pid_t pid, struct files *files)
{
	struct file *program = program_file(pid, files);
	AUTO(modules_deinit) struct modules modules = {0};
	struct probe_error *error;
	bool found = false;

	if (program && program->glibc_loads)
		return true;
	error = modules_read(pid, files, &modules);
	for (size_t i = 0; !error && i < modules.count && !found; i++) {
		struct module *m = &modules.items[i];
		uint64_t value, size;

		found = is_glibc_loader(m) &&
			object_symbol(m->object, "_dl_allocate_tls", 16, &value, &size);
	}
	program = program_file(pid, files);
	if (program)
		program->glibc_loads = found;
	probe_error_free(error);
	return found;
}

bool program_is_loading(pid_t pid, struct files *files)
{
	AUTO(modules_deinit) struct modules modules = {0};
	struct probe_error *error = modules_read(pid, files, &modules);
	bool loading = false;

	for (size_t i = 0; !error && i < modules.count; i++) {
		struct module *m = &modules.items[i];
		struct r_debug debug;
		uint64_t value, size;

		if (!is_glibc_loader(m) ||
			!object_symbol(m->object, "_r_debug", 8, &value, &size) ||
			memory_read(pid, value + m->bias, &debug, sizeof(debug)) != sizeof(debug))
			continue;
		loading = debug.r_version == 0 || debug.r_state != RT_CONSISTENT;
		break;
	}
	probe_error_free(error);
	return loading;
}

/* ==== Leaf ==================================================================================== */

/*
 * A program's imports show what it may do. Other functions of libc are reached only by its own
 * machine code, or through functions of libc, which the list contains, too. The list leaves out
 * functions that load converters of character sets (gettext, wide characters), because nearly every
 * program imports one. So this is a forecast, and a leaf's mapped files are checked at its end.
 *
 * Sources: the GNU C Library Reference Manual; glibc, the callers of __libc_dlopen, clone and
 * pthread_create.
 */

enum { ENVIRONMENT_MAX = 32768 /* a process with a larger environment is not a leaf */ };

/* clang-format off */
static const char *const calls[] = {
	/* load code, or find functions that are not imported */
	"dlopen", "dlmopen", "dlsym", "dlvsym", "__libc_dlopen_mode", "__libc_dlsym",
	/* start processes */
	"fork", "vfork", "_Fork", "__fork", "__vfork", "__libc_fork", "clone", "__clone",
	"__clone2", "clone3", "posix_spawn", "posix_spawnp", "pidfd_spawn", "pidfd_spawnp",
	"popen", "_IO_popen", "_IO_proc_open", "system", "__libc_system", "wordexp", "daemon",
	"forkpty", "grantpt", "rcmd", "rcmd_af", "rexec", "rexec_af",
	/* execute programs */
	"execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe", "execveat",
	"fexecve", "__execve",
	/* start threads, also in the background */
	"pthread_create", "__pthread_create", "thrd_create", "aio_read", "aio_read64",
	"aio_write", "aio_write64", "aio_fsync", "aio_fsync64", "lio_listio", "lio_listio64",
	"getaddrinfo_a", "timer_create", "mq_notify",
	/* make any system call, filter system calls, trace */
	"syscall", "prctl", "ptrace",
	/* load the unwinder */
	"backtrace", "pthread_exit", "thrd_exit", "pthread_cancel", "__pthread_unwind_next",
	/* load and unload converters of character sets that the caller names */
	"iconv_open",
	/* load modules of the name service switch */
	"getaddrinfo", "getnameinfo", "getgrouplist", "initgroups", "innetgr", "setnetgrent",
	"glob", "glob64", "getpw", "getlogin", "getlogin_r", "cuserid", "ruserok", "ruserok_af",
	"iruserok", "iruserok_af", "ether_hostton", "ether_ntohost", "getpublickey",
	"getsecretkey", "netname2user", "res_init", "__res_init",
};

/* More functions of the name service switch; each has variants (_r, …). */
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
 * May leaves map all these modules? No wanted probe is in them, and they import only what leaves
 * may import; libc and its loader may import anything.
 */
static bool may_all_be_mapped(const struct modules *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = &modules->items[i];
		struct file *file = module->file;

		if (!file || !module->object || !file->passed_over)
			return false;
		if (file->role == FILE_UNKNOWN)
			file->role = module_is_libc(module) || object_imports_none(module->object,
								       is_call, NULL)
					     ? FILE_OF_LEAF
					     : FILE_OTHER;
		if (file->role == FILE_OTHER)
			return false;
	}
	return modules->count > 0;
}

void leaf_pass_over(pid_t pid, struct files *files)
{
	AUTO(modules_deinit) struct modules modules = {0};
	struct probe_error *error = modules_read(pid, files, &modules);
	struct file *program = program_file(pid, files);

	for (size_t i = 0; !error && i < modules.count; i++)
		if (modules.items[i].file)
			modules.items[i].file->passed_over = true;
	if (!error && program && program->glibc_loads && program->leaf == LEAF_UNKNOWN &&
		may_all_be_mapped(&modules))
		program->leaf = LEAF_YES;
	probe_error_free(error);
}

/* Records that a program is no leaf, because it did what no leaf does. */
static void leaf_forget(const struct leaf *leaf, struct files *files)
{
	struct file *program = files_mapped(files, leaf->dev, leaf->inode);

	if (program)
		program->leaf = LEAF_NO;
}

/* ---- Processes ------------------------------------------------------------------------- */

/* Returns true if no environment variable names libraries, or folders for the loader to search. */
static bool has_plain_environment(pid_t pid)
{
	char text[ENVIRONMENT_MAX];
	size_t length =
		file_read_whole(procfs_path("/proc/%d/environ", pid).text, text, sizeof(text));

	for (size_t at = 0; at < length; at += strlen(text + at) + 1)
		if (strncmp(text + at, "LD_", strlen("LD_")) == 0 ||
			strncmp(text + at, "GLIBC_TUNABLES=", strlen("GLIBC_TUNABLES=")) == 0)
			return false;
	/* An empty text means that the file may be unreadable. */
	return length && length < sizeof(text) - 1;
}

/*
 * Returns true if all mapped code is known to be a leaf's. Makes few system calls; false if
 * anything is unknown.
 */
static bool has_known_code(pid_t pid, const struct files *files)
{
	AUTO(maps_deinit) struct maps maps = {0};
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
	return known;
}

/* Returns true if a module may have probes that were never searched for. */
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

/* ==== Stages ================================================================================== */

enum {
	LOADER_CALLS_MAX = 100000,
	/* The stop at a system call, with PTRACE_O_TRACESYSGOOD. */
	SYSCALL_STOP = SIGTRAP | 0x80,
	OPTIONS = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC,
	/* A leaf never forks or clones. If it does, its child is traced from the start. */
	LEAF_OPTIONS = OPTIONS | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
		       PTRACE_O_TRACEEXIT
};

/*
 * Limits of waiting: a running thread loses nothing while it waits for a disk, but a stopped one is
 * delayed.
 */
#define RUNNING_NS UINT64_C(10000000000)
#define HELD_NS UINT64_C(2000000000)
/* Time after which a leaf is stopped, because another tracer may be waiting for it. */
#define LEAF_NS UINT64_C(5000000)
/*
 * The limit of execve(2), which usually takes less. If execve(2) fails, the thread runs on during
 * this time.
 */
#define THROUGH_NS UINT64_C(5000000)

/* Enters a state; its time limit begins now. */
static void stage_enter(struct passage *p, enum passage_state state)
{
	static const uint64_t allowed[] = {
		[PASSAGE_THROUGH] = THROUGH_NS,
		[PASSAGE_SEIZED] = HELD_NS,
		[PASSAGE_CALL] = RUNNING_NS,
		[PASSAGE_PROGRAM] = RUNNING_NS,
		[PASSAGE_LOADER] = RUNNING_NS,
		[PASSAGE_LEAF] = LEAF_NS,
		[PASSAGE_STOPPING] = HELD_NS,
		[PASSAGE_HELD] = HELD_NS,
	};

	p->state = state;
	p->nothing_lost |= state == PASSAGE_LEAF;
	p->deadline_ns = clock_monotonic_ns() + allowed[state];
}

static void stage_interrupt(struct passage *p)
{
	if (arch_process()->hidden_call)
		restart_look(p->pid, p->tid, &p->seen);
	ptrace(PTRACE_INTERRUPT, p->tid, NULL, NULL);
}

static void stage_ask_to_stop(struct passage *p, enum passage_state state)
{
	stage_enter(p, state);
	stage_interrupt(p);
}

static void stage_let_go(struct passage *p)
{
	if (p->is_again) {
		struct control_thread thread = {.tid = p->tid, .pid = p->pid, .regs = p->regs};

		settle_detach(&(struct control_signals){0}, &thread);
		p->state = thread.is_running ? PASSAGE_LEAVING : PASSAGE_OVER;
		if (thread.is_running)
			stage_interrupt(p);
		return;
	}
	/* The thread has just been killed: wait for its end. */
	p->state = ptrace(PTRACE_DETACH, p->tid, NULL, NULL) < 0 ? PASSAGE_LEAVING : PASSAGE_OVER;
}

/*
 * If a stop that we asked for has ended a wait of the thread, makes the thread repeat the wait, and
 * returns true.
 */
static bool has_ended_wait(struct passage *p)
{
	p->is_again = false;
	if (!restart_wait(&p->regs, &p->seen))
		return false;
	registers_write(p->tid, &p->regs);
	p->is_again = arch_process()->hidden_call != 0;
	return true;
}

static void run_on(struct passage *p, int signal)
{
	bool is_free = p->state == PASSAGE_THROUGH || p->is_leaf;

	/* Any stop cancels an earlier PTRACE_INTERRUPT. */
	if (p->state == PASSAGE_STOPPING)
		ptrace(PTRACE_INTERRUPT, p->tid, NULL, NULL);
	/* If this fails, the thread was killed, and its end is reported. */
	ptrace(is_free ? PTRACE_CONT : PTRACE_SYSCALL, p->tid, NULL, (long)signal);
}

static bool is_on_way(const struct arch_registers *regs)
{
	long number = (long)arch_get(regs, ARCH_CALL);

	/* A thread at the gate is in futex(2) or restart_syscall(2). */
	return number == SYS_futex || number == SYS_restart_syscall || number == SYS_execve;
}

/* Handles a system call on the way to execve(2). Returns false if it is another, or fails. */
static bool step_call(struct passage *p)
{
	struct arch_registers regs;

	if (!registers_read(p->tid, &regs) || !is_on_way(&regs))
		return false;
	if ((long)arch_get(&regs, ARCH_CALL) != SYS_execve)
		return true;
	if (p->called)
		return false;
	p->called = true;
	return !p->may_follow || p->may_follow(p->tid, arch_get(&regs, ARCH_ARG0));
}

/* Handles the stop of a thread outside execve(2), and releases it unless it is on its way there. */
static bool step_seized(struct passage *p)
{
	if (registers_read(p->tid, &p->regs) && !has_ended_wait(p) &&
		((long)arch_get(&p->regs, ARCH_CALL) < 0 || is_on_way(&p->regs))) {
		stage_enter(p, PASSAGE_CALL);
		return true;
	}
	stage_let_go(p);
	return false;
}

/* Returns true if a call's result is in the register of its first argument. */
static bool result_hides_argument(void)
{
	const int8_t *registers = arch_process()->registers;

	return registers[ARCH_RESULT] == registers[ARCH_ARG0];
}

/* Handles the exit of a loader's call. Returns true if all libraries are mapped. */
static bool is_mapped(struct passage *p)
{
	bool ready = p->thread_ready;
	uint64_t argument;

	p->thread_ready = arch_get(&p->regs, ARCH_TP) != 0;
	switch ((long)arch_get(&p->regs, ARCH_CALL)) {
	case SYS_set_tid_address:
	case SYS_set_robust_list:
		return false;
	case SYS_rseq:
		p->facts.known = true;
		p->facts.has_rseq = arch_get(&p->regs, ARCH_RESULT) == 0;
		argument = result_hides_argument() ? p->argument : arch_get(&p->regs, ARCH_ARG0);
		p->facts.rseq_offset = (int32_t)(argument - arch_get(&p->regs, ARCH_TP));
		p->facts.rseq_signature = (uint32_t)arch_get(&p->regs, ARCH_ARG3);
		return true;
	}
	/* A call after the thread pointer is set: an older glibc, or no rseq. */
	p->facts.known = ready;
	return ready;
}

/* ---- Leaves ---------------------------------------------------------------------------- */

/*
 * If a just executed program will be a leaf, enters PASSAGE_LEAF. It must be known as one, and its
 * environment must not make the loader load anything else. None of its code has run.
 */
static bool enter_leaf(struct passage *p)
{
	const struct file *program = program_file(p->pid, p->files);

	if (!program || program->leaf != LEAF_YES || !has_plain_environment(p->pid))
		return false;
	p->leaf = (struct leaf){
		.dev = program->dev, .inode = program->inode, .since_ns = clock_monotonic_ns()};
	if (ptrace(PTRACE_SETOPTIONS, p->tid, NULL, LEAF_OPTIONS) < 0)
		return false;
	p->is_leaf = true;
	stage_enter(p, PASSAGE_LEAF);
	return true;
}

/*
 * Checks the code of a leaf that is about to end with `status` (waitpid(2)). If it may have had
 * probes, passage->told reports that.
 */
static void check_leaf(struct passage *p, int status)
{
	AUTO(modules_deinit) struct modules modules = {0};
	struct probe_error *error;

	if (has_known_code(p->pid, p->files))
		return;
	error = modules_read(p->pid, p->files, &modules);
	if (error || !may_all_be_mapped(&modules))
		leaf_forget(&p->leaf, p->files);
	for (size_t i = 0; !error && !p->told && i < modules.count; i++)
		if (may_have_probes(&modules.items[i]))
			p->told = error_numbered(PROBE_ERROR_ENDED, status,
				"process %d ended soon after it had mapped %s: hits of probes in "
				"it are not reported",
				p->pid, modules.items[i].path);
	if (error && !p->told)
		p->told = error_numbered(PROBE_ERROR_ENDED, status,
			"process %d ended, and what it had mapped is not known (%s): hits of "
			"probes in it are not reported",
			p->pid, error->message);
	probe_error_free(error);
}

/* A leaf is about to end, or has started a process or thread: releases both. */
static void step_leaf(struct passage *p, int event)
{
	unsigned long message = 0;

	p->is_ending = event == PTRACE_EVENT_EXIT;
	if (p->is_ending && ptrace(PTRACE_GETEVENTMSG, p->tid, NULL, &message) == 0)
		check_leaf(p, (int)message);
	else
		leaf_forget(&p->leaf, p->files);
	stage_let_go(p);
}

/* ---- One stop, continued ----------------------------------------------------------------- */

/*
 * Handles the stop of a leaf after a while. If its loader is still at work, the leaf continues, and
 * this returns true. If not, holds it, and lets it end without a stop (PTRACE_O_TRACEEXIT).
 */
static bool step_stopping(struct passage *p)
{
	uint64_t age = clock_monotonic_ns() - p->leaf.since_ns;

	if (!registers_read(p->tid, &p->regs))
		return true;
	has_ended_wait(p);
	if ((age < RUNNING_NS && program_is_loading(p->pid, p->files)) ||
		ptrace(PTRACE_SETOPTIONS, p->tid, NULL, OPTIONS) < 0) {
		stage_enter(p, PASSAGE_LEAF);
		p->is_again = false;
		return true;
	}
	p->is_leaf = false;
	p->unseen_ns = 0;
	/* If it has mapped what no leaf maps, its code may have passed probes. */
	if (!has_known_code(p->pid, p->files)) {
		struct modules modules = {0};
		struct probe_error *error = modules_read(p->pid, p->files, &modules);

		if (error || !may_all_be_mapped(&modules)) {
			leaf_forget(&p->leaf, p->files);
			p->unseen_ns = age;
		}
		probe_error_free(error);
		modules_deinit(&modules);
	}
	p->has_run = true;
	stage_enter(p, PASSAGE_HELD);
	return false;
}

/* Handles a stop at a system call. Returns true if the thread continues. */
static bool step_system_call(struct passage *p)
{
	bool behind = p->returning;
	struct arch_registers regs;

	if (p->state <= PASSAGE_CALL) {
		if (step_call(p))
			return true;
		stage_let_go(p);
		return false;
	}
	p->returning = !p->returning;
	/* The exit of a loader's call may not show its first argument (is_mapped()). */
	if (!behind && p->state == PASSAGE_LOADER && result_hides_argument() &&
		registers_read(p->tid, &regs)) {
		p->argument = arch_get(&regs, ARCH_ARG0);
		p->thread_ready = arch_get(&regs, ARCH_TP) != 0;
	}
	if (!behind)
		return true;
	if (!registers_read(p->tid, &p->regs))
		return true;
	if (p->state == PASSAGE_PROGRAM && program_has_glibc_loader(p->pid, p->files)) {
		stage_enter(p, PASSAGE_LOADER);
		return true;
	}
	/*
	 * Move the thread only now, because the scheduler may move a new program back to its idle
	 * processor.
	 */
	if (p->state == PASSAGE_LOADER && p->calls == 1)
		nearby_move(p->pid, p->tid);
	if (p->state == PASSAGE_LOADER && !is_mapped(p) && p->calls++ < LOADER_CALLS_MAX)
		return true;
	stage_enter(p, PASSAGE_HELD);
	return false;
}

/* Handles a ptrace(2) event. Returns true if the thread continues. */
static bool step_event(struct passage *p, int event, int signal)
{
	if (event == PTRACE_EVENT_EXEC) {
		/*
		 * A leaf has executed another program, which is followed like others. The files
		 * that the leaf had mapped are unknown. It still counts as a leaf, because it makes
		 * its own system calls, which no gate can hold.
		 */
		if (p->is_leaf) {
			ptrace(PTRACE_SETOPTIONS, p->tid, NULL, OPTIONS);
			*p = (struct passage){.pid = p->pid,
				.tid = p->tid,
				.may_follow = p->may_follow,
				.files = p->files,
				.yield = p->yield,
				.told = probe_error_new(PROBE_ERROR_ENDED,
					"process %d has executed another program by a system call "
					"of its own: hits of probes in what it had mapped before "
					"are not reported",
					p->pid)};
		}
		p->returning = true;
		if (!enter_leaf(p))
			stage_enter(p, PASSAGE_PROGRAM);
	} else if (event != PTRACE_EVENT_STOP) {
		step_leaf(p, event);
		return false;
	} else if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
		/* A signal has stopped the whole process, until SIGCONT. */
		ptrace(PTRACE_LISTEN, p->tid, NULL, NULL);
		return false;
	} else if (p->state == PASSAGE_STOPPING) {
		return step_stopping(p);
	} else if (p->state == PASSAGE_SEIZED) {
		return step_seized(p);
	}
	return true;
}

/* Handles a stop (`status` is waitpid(2)'s), and usually lets the thread continue. */
static void stage_stop(struct passage *p, int status)
{
	int event = (int)((unsigned int)status >> 16), signal = WSTOPSIG(status);
	unsigned long tid;

	if (event == PTRACE_EVENT_EXEC)
		p->tid = p->pid;
	/*
	 * A leaf has started a process or thread. The kernel traces it from its start, and it
	 * begins stopped.
	 */
	if ((event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
		    event == PTRACE_EVENT_CLONE) &&
		ptrace(PTRACE_GETEVENTMSG, p->tid, NULL, &tid) == 0)
		p->stray = (pid_t)tid;
	if (p->state == PASSAGE_LEAVING && event == PTRACE_EVENT_STOP && signal == SIGTRAP) {
		if (registers_read(p->tid, &p->regs))
			has_ended_wait(p);
		stage_let_go(p);
	} else if (p->state == PASSAGE_LEAVING) {
		/* Deliver the signal that stopped the thread. */
		if (ptrace(PTRACE_DETACH, p->tid, NULL,
			    (long)(event || signal == SYSCALL_STOP ? 0 : signal)) == 0)
			p->state = PASSAGE_OVER;
	} else if (event) {
		if (step_event(p, event, signal))
			run_on(p, 0);
	} else if (signal == SYSCALL_STOP) {
		if (step_system_call(p))
			run_on(p, 0);
	} else {
		run_on(p, signal);
	}
}

/* ==== Passage ================================================================================= */

/*
 * A passage is a state machine, driven by the stops of one thread:
 *
 *   THROUGH ------------+   +------> LEAF ---------------+---> (its process ends)
 *      |                |   |                            |
 *      v                v   |                            v
 *   SEIZED --> CALL --> PROGRAM --> LOADER -+        STOPPING --+
 *     |          |         |          |     |            |      |
 *     |          |         |          |     +------------|------+--> HELD --> (a target)
 *     +----------+---------+----------+------------------+------------+--> LEAVING --> OVER
 *
 *   THROUGH   the thread is traced, and runs through execve(2)
 *   SEIZED    it was asked to stop: its file must be checked, or execve(2) took too long
 *   CALL      it runs from one system call to the next, up to the event of execve(2)
 *   PROGRAM   the new program is mapped, and none of its code has run
 *   LOADER    the program's loader works
 *   LEAF      no probe of its files is wanted, and it neither starts nor loads anything: it runs
 *             without a stop
 *   STOPPING  a leaf has run for a while, and has been asked to stop
 *   HELD      everything is mapped; if it is not a leaf, no code of the program has run
 *
 * No step waits for the thread, or for another thread on which it depends (its child or parent in
 * vfork(2)). We only decide where the thread stops and for how long it is held there. At all other
 * times the thread runs. Each state has a time limit, after which the thread is released.
 *
 * glibc's loader first maps all libraries, then sets the thread up. The last system call of the
 * set-up tells the kernel the thread's rseq area. Only then does it relocate the libraries (which
 * may run their ifunc resolvers) and run constructors. So when the rseq call returns, everything is
 * mapped, none of its code has run, and the thread pointer is set. No breakpoint is needed: if we
 * die, the kernel detaches us from the process, and the process does not notice. Without an rseq
 * call (before glibc 2.35, or if it is switched off), we hold the thread at the next call after the
 * thread pointer is set and after the calls that tell the kernel about the thread (before glibc
 * 2.34 these calls do not exist). A program without a loader (static: see "Program"), or whose
 * loader is not glibc's, is held right after execve(2); its stubs then do without the thread
 * pointer.
 *
 * Many programs that a build or a shell starts are leaves (see "Leaf"): they have no wanted probe,
 * import no function that starts or loads anything, and end within some milliseconds. Gates would
 * cost a leaf more than its own work. A leaf stops only once, when its process is about to end:
 * there its mappings are compared with the expected ones. If it starts a process or thread
 * (PTRACE_O_TRACEFORK and similar options), both are released before they continue. If it executes
 * another program, that program is followed. What may have been missed is reported.
 *
 * A thread runs through execve(2) by itself, because it stops after the call anyway. If the call
 * fails, we are not notified. The thread usually comes to the gate again, for the next folder of
 * PATH. If it does not, it is stopped after some milliseconds, and released.
 *
 * If a thread other than the main thread calls execve(), it takes over the id of the main thread
 * with the event, and its own id is gone.
 *
 * Sources: ptrace(2), "execve(2) under ptrace"; glibc, elf/rtld.c and
 * sysdeps/nptl/dl_tls_init_tp.c.
 */

enum {
	YIELDS = 8,
	ENDING_NS = 1000000000 /* limit between the stop before a process ends and its end */
};

void passage_begin(struct passage *passage, pid_t pid, pid_t tid, bool may_go)
{
	passage->pid = pid;
	passage->tid = tid;
	passage->state = PASSAGE_OVER;
	if (ptrace(PTRACE_SEIZE, tid, NULL, OPTIONS) == 0)
		passage_again(passage, may_go);
}

void passage_again(struct passage *passage, bool may_go)
{
	if (may_go)
		stage_enter(passage, PASSAGE_THROUGH);
	else
		stage_ask_to_stop(passage, PASSAGE_SEIZED);
}

/* Like control_wait(), also for the main thread's id, which the thread may have taken over. */
static pid_t next_stop(const struct passage *p, int *status_ret)
{
	pid_t id = control_wait(p->tid, status_ret);

	return id < 0 && p->tid != p->pid ? control_wait(p->pid, status_ret) : id;
}

/*
 * Like next_stop(). With `yields`, yields a moment first, because the next stop usually comes soon.
 */
static pid_t next_stop_soon(const struct passage *p, bool yields, int *status_ret)
{
	pid_t id = next_stop(p, status_ret);

	/* A leaf runs for longer than a yield. */
	yields &= p->state != PASSAGE_LEAF;

	for (int i = 0; i < YIELDS && id == 0 && yields && yield_once(p->yield); i++)
		id = next_stop(p, status_ret);
	return id;
}

bool passage_step(struct passage *passage)
{
	bool any = false;

	while (passage->state != PASSAGE_OVER) {
		int status;
		pid_t id = next_stop_soon(passage, any, &status);

		if (id == 0)
			break;
		any = true;
		if (id < 0) {
			passage->nothing_lost |= passage_is_through(passage);
			passage->state = PASSAGE_OVER;
		} else {
			stage_stop(passage, status);
		}
		if (passage->state == PASSAGE_OVER && passage->stray) {
			passage->state = PASSAGE_LEAVING;
			passage->pid = passage->tid = passage->stray;
			passage->stray = 0;
		}
	}
	return any;
}

void passage_leave(struct passage *passage)
{
	passage->nothing_lost = false;
	if (passage->state == PASSAGE_HELD) {
		stage_let_go(passage);
	} else if (passage->state < PASSAGE_HELD) {
		passage->state = PASSAGE_LEAVING;
		stage_interrupt(passage);
	}
	passage_step(passage);
}

void passage_expire(struct passage *passage)
{
	if (passage->state == PASSAGE_THROUGH)
		stage_ask_to_stop(passage, PASSAGE_SEIZED);
	else if (passage->state == PASSAGE_LEAF)
		stage_ask_to_stop(passage, PASSAGE_STOPPING);
	else
		passage_leave(passage);
}

bool passage_is_through(const struct passage *passage)
{
	return (passage->state >= PASSAGE_PROGRAM && passage->state <= PASSAGE_HELD) ||
	       passage->state == PASSAGE_OVER;
}

bool passage_lingers(const struct passage *passage, uint64_t now_ns)
{
	return passage->is_ending &&
	       (now_ns < passage->deadline_ns ||
		       (now_ns - passage->deadline_ns < ENDING_NS && kill(passage->pid, 0) == 0 &&
			       !procfs_is_zombie(passage->pid)));
}

struct probe_error *passage_take(struct passage *passage, struct probe_target *target)
{
	struct control *control = &target->control;

	control->threads = calloc(1, sizeof(*control->threads));
	if (!control->threads)
		return probe_error_no_memory();
	control->pid = passage->pid;
	control->count = 1;
	control->threads[0] = (struct control_thread){.tid = passage->pid,
		.pid = passage->pid,
		.is_again = passage->is_again,
		.regs = passage->regs};
	target->pid = passage->pid;
	target->held = target->hurry = target->alone = true;
	target->attached = passage->has_run;
	target->facts = passage->facts;
	target->files = files_hold(passage->files);
	target->start_time = procfs_start_time(passage->pid);
	passage->state = PASSAGE_OVER;
	return NULL;
}
