/* SPDX-License-Identifier: MIT */
/*
 * Finds out how stubs can identify threads. glibc exports the facts, some of them for debuggers
 * only:
 *
 *   _thread_db_pthread_tid   in libc: {bits, elements, offset} of the thread's
 *                            id in its control block (nptl_db), which begins or
 *                            ends at the thread pointer
 *   _thread_db_sizeof_pthread   in libc: the bytes of that block
 *   __rseq_offset, _size     in the loader, since 2.35: offset of the thread's struct
 *                            rseq from the thread pointer; the size is 0 without rseq
 *
 * These facts hold for threads that glibc creates. A program may also create a thread itself
 * (clone(2)). Such a thread may share the thread pointer of its creator, and then both change one
 * counter at once. Or its thread pointer may point to anything, and then a stub would write there.
 * So all threads are checked while they are stopped, before anything is patched: the rseq area that
 * the kernel reports (PTRACE_GET_RSEQ_CONFIGURATION, Linux 5.13) must be glibc's. If it is not,
 * the target is marked, and from then on its stubs do without the thread pointer: they use locks
 * and ask the kernel.
 *
 * Sources: ptrace(2); rseq(2); nptl/pthread_create.c of glibc, which registers the area before a
 * thread runs code of the program.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "arch/process.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/registry/registry.h"

enum {
	RSEQ_CPU_ID = 4, /* offset in struct rseq; an i32, negative until registered */
	TID_BITS = 32,
	OFFSET_MAX = 1 << 16
};

bool threads_is_loader(const struct module *module)
{
	uint64_t value, size;

	return module->object &&
	       object_symbol(module->object, "_dl_debug_state", 15, &value, &size);
}

/* Reads a constant of the C library from its file. */
static bool read_constant(struct modules *modules, const char *name, void *value, size_t bytes)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct module *m = &modules->items[i];
		uint64_t address, size;

		if (m->object && object_symbol(m->object, name, strlen(name), &address, &size) &&
			object_read(m->object, address, value, bytes) == bytes)
			return true;
	}
	return false;
}

static bool read_tid_offset(struct modules *modules, int32_t *ret)
{
	uint32_t field[3], block = 0;

	if (!read_constant(modules, "_thread_db_pthread_tid", field, sizeof(field)) ||
		field[0] != TID_BITS || field[2] >= OFFSET_MAX)
		return false;
	if (arch_process()->tp_is_end &&
		(!read_constant(modules, "_thread_db_sizeof_pthread", &block, sizeof(block)) ||
			block >= OFFSET_MAX))
		return false;
	*ret = (int32_t)(field[2] - block);
	return true;
}

/* Reads the current value of a variable of the loader from the process. */
static bool read_variable(
	pid_t pid, struct modules *modules, const char *name, void *value, size_t size)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct module *m = &modules->items[i];
		uint64_t address, symbol_size;

		if (m->object &&
			object_symbol(m->object, name, strlen(name), &address, &symbol_size))
			return memory_read(pid, address + m->bias, value, size) == size;
	}
	return false;
}

void threads_model(struct probe_target *target, struct modules *modules, struct arch_thread *ret)
{
	bool starting = target->held && !target->attached;
	int64_t offset = 0;
	uint32_t size = 0;

	*ret = (struct arch_thread){0};
	if (target->odd_threads || (starting && !target->facts.known))
		return;
	if (target->model_known) {
		*ret = target->model;
		return;
	}
	ret->has_tid = read_tid_offset(modules, &ret->tid_offset);
	ret->has_tp = ret->has_tid;
	if (starting) {
		ret->has_rseq = target->facts.has_rseq && rseq_is_sound();
		ret->rseq_offset = target->facts.rseq_offset;
		ret->rseq_signature = target->facts.rseq_signature;
		return;
	}
	ret->rseq_signature = arch_process()->rseq_signature;
	ret->has_rseq =
		ret->has_tp &&
		read_variable(target->pid, modules, "__rseq_size", &size, sizeof(size)) && size &&
		read_variable(target->pid, modules, "__rseq_offset", &offset, sizeof(offset)) &&
		/*
		 * The loader sets the size first; at offset 0 is the thread's id, not the rseq
		 * area.
		 */
		offset && offset > -OFFSET_MAX && offset < OFFSET_MAX && rseq_is_sound();
	ret->rseq_offset = offset;
}

/* ---- Checks ------------------------------------------------------------------------- */

/*
 * Returns true if a control block is at a thread pointer. Where the ABI says so, the block begins
 * with its own address (System V ABI, TLS).
 */
static bool has_block(struct served *known, uint64_t pointer)
{
	uint64_t self;

	return !arch_process()->tp_is_self ||
	       (memory_read_known(known, pointer, &self, sizeof(self)) == sizeof(self) &&
		       self == pointer);
}

static bool is_as_modelled(
	struct served *known, const struct control_thread *thread, const struct arch_thread *model)
{
	struct __ptrace_rseq_configuration rseq = {0};
	uint64_t pointer = arch_get(&thread->regs, ARCH_TP);
	int32_t cpu;

	if (!model->has_rseq || ptrace(PTRACE_GET_RSEQ_CONFIGURATION, thread->tid, sizeof(rseq),
					&rseq) != sizeof(rseq))
		return has_block(known, pointer);
	if (rseq.rseq_abi_pointer)
		return rseq.rseq_abi_pointer == pointer + model->rseq_offset;
	/* A new thread may not have registered its rseq area yet. */
	return has_block(known, pointer) &&
	       memory_read_known(known, pointer + model->rseq_offset + RSEQ_CPU_ID, &cpu,
		       sizeof(cpu)) == sizeof(cpu) &&
	       cpu < 0;
}

/* Finds out whether two threads have the same thread pointer. */
static struct probe_error *find_shared(const struct control *control, bool *ret)
{
	AUTO_FREE uint64_t *pointers = calloc(control->count + 1, sizeof(*pointers));

	*ret = false;
	if (!pointers)
		return probe_error_no_memory();
	for (size_t i = 0; i < control->count; i++)
		pointers[i] = arch_get(&control->threads[i].regs, ARCH_TP);
	array_sort(pointers, control->count, sizeof(*pointers), 0);
	for (size_t i = 1; i < control->count; i++)
		*ret = *ret || pointers[i] == pointers[i - 1];
	return NULL;
}

struct probe_error *threads_check(
	struct probe_target *target, const struct control *control, const struct arch_thread *model)
{
	AUTO(served_end) struct served known = served_of(control->pid);
	struct probe_error *error;
	bool odd;

	if (!model->has_tp)
		return NULL;
	error = find_shared(control, &odd);
	if (error)
		return error;
	for (size_t i = 0; i < control->count && !odd; i++)
		odd = !is_as_modelled(&known, &control->threads[i], model);
	if (!odd)
		return NULL;
	target->odd_threads = true;
	target->lessons++;
	return probe_error_new(PROBE_ERROR_STATE,
		"process %d has threads that its C library does not know: try again", control->pid);
}

/* ---- The time stamp counter ------------------------------------------------------------ */

/*
 * Finds out whether a stopped thread may read the counter, by making it call prctl(2), which
 * answers only for its caller. True if the thread cannot make the call: its filter forbids the
 * call, it runs 32-bit code, or it is of another process that shares the memory.
 */
static struct probe_error *may_read_counter(
	struct change *change, size_t thread, uint64_t answer, bool *ret)
{
	struct control_call call = {.number = SYS_prctl, .args = {PR_GET_TSC, answer}};
	struct probe_error *error;
	int32_t mode = 0;

	*ret = true;
	change->seccomp.wanted = SECCOMP_TIME;
	if (!control_can_run(&change->control, &change->control.threads[thread]))
		return NULL;
	error = change_run_in(change, thread, "ask a thread for its clock", &call, 1);
	/* Most aarch64 kernels have no PR_GET_TSC; then every thread may read it. */
	if (error && call.result == -EINVAL) {
		probe_error_free(error);
		return NULL;
	}
	error = error ?: memory_read_all(change->pid, answer, &mode, sizeof(mode));
	*ret = mode != PR_TSC_SIGSEGV;
	return error;
}

struct probe_error *threads_check_counter(struct change *change, uint64_t answer)
{
	struct probe_target *target = change->target;
	struct probe_error *error = NULL;
	bool may = !target->no_counter;

	for (size_t i = 0; i < change->control.count && may && !error; i++)
		error = may_read_counter(change, i, answer, &may);
	if (error || may)
		return error;
	target->lessons += !target->no_counter;
	target->no_counter = true;
	return probe_error_new(PROBE_ERROR_STATE,
		"a thread of process %d may not read the time stamp counter (PR_SET_TSC) since "
		"the session began: begin a new one",
		change->pid);
}

/* ---- System calls ------------------------------------------------------------------------ */

struct probe_error *threads_check_dispatch(struct change *change)
{
	struct probe_target *target = change->target;

	for (size_t i = 0; i < change->control.count && !target->dispatches; i++) {
		if (!dispatch_is_on(change->control.threads[i].tid))
			continue;
		target->dispatches = true;
		target->lessons++;
		return probe_error_new(PROBE_ERROR_STATE,
			"a thread of process %d has its system calls handled by the program "
			"(PR_SET_SYSCALL_USER_DISPATCH) since the session began: begin a new one",
			change->pid);
	}
	return NULL;
}
