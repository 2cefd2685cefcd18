/* SPDX-License-Identifier: MIT */
/*
 * The loader's function is `_dl_debug_state`, empty and exported. The loader calls it after mapping
 * libraries, before relocation and constructors; r_state in `struct r_debug` tells if its list is
 * complete (RT_CONSISTENT, 0). Threads with user events call it, too (ARCH_GATE_CALLER), maybe
 * while the loader, even in the same thread, changes the list.
 *
 * Sources: <link.h>, struct r_debug; gdb and glibc, "Rendezvous structure used by the run-time
 * dynamic linker".
 */
#include <dirent.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/file.h"
#include "libprobe/base/procfs.h"
#include "libprobe/follow/follow.h"

/* ==== Gate ==================================================================================== */

static const char state_function[] = "_dl_debug_state", state_variable[] = "_r_debug";
static const char exec_function[] = "execve";

/*
 * Finds the module that defines a function, and its address there. Other libraries may wrap libc's
 * execve(): libc also defines `__environ`.
 */
static struct module *find_function(struct change *change, const char *name, uint64_t *ret)
{
	for (size_t i = 0; i < change->modules.count; i++) {
		struct module *m = &change->modules.items[i];
		uint64_t size, value;

		if (!m->object || (name == exec_function &&
					  !object_symbol(m->object, "__environ", 9, &value, &size)))
			continue;
		if (object_symbol(m->object, name, strlen(name), ret, &size))
			return m;
	}
	return NULL;
}

static const char *name_of(enum gate_place place)
{
	return place == GATE_EXEC ? exec_function : state_function;
}

/* Describes a function's entry as a selection of one probe with one site. */
struct entry {
	struct sdt_note note;
	struct select_probe probe;
	struct select_site site;
	struct selection selection;
};

static struct probe_error *find_entry(
	struct change *change, enum gate_place place, struct entry *ret)
{
	*ret = (struct entry){
		.note = {.provider = "probectl", .name = "gate", .args = "", .kind = SDT_GATE}};
	ret->probe = (struct select_probe){
		.provider = ret->note.provider, .name = ret->note.name, .site_count = 1};
	ret->site.note = &ret->note;
	ret->selection = (struct selection){
		.probes = &ret->probe, .probe_count = 1, .sites = &ret->site, .site_count = 1};
	ret->probe.module = find_function(change, name_of(place), &ret->note.pc);
	if (!ret->probe.module)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d has no dynamic loader whose libraries could be followed",
			change->pid);
	ret->site.pc = ret->probe.key = ret->note.pc + ret->probe.module->bias;
	return NULL;
}

static struct probe_error *install_entry(struct install *install, enum gate_place place)
{
	AUTO(probe_report_deinit) struct probe_report report = {0};
	struct probe_error *error = install_all(install, &report);

	if (error && report.refusal_count) {
		probe_error_free(error);
		error = probe_error_new(PROBE_ERROR_REFUSED, "%s() cannot be patched: %s",
			name_of(place), report.refusals[0].reason);
	}
	return error;
}

static void end_entry(struct entry *entry, struct install *install, struct transaction *t)
{
	install_deinit(install);
	transaction_end(t);
	free(entry->selection.plans);
}

struct probe_error *gate_attach(struct change *change, uint32_t session,
	const struct probe_request *request, enum gate_place place, bool children)
{
	/* The user's plans are for probes only. */
	struct probe_request its = *request;
	struct transaction t = transaction_of(change, TRANSACTION_ADDS);
	struct entry entry;
	struct install install = install_of(&t, &entry.selection, &its);
	struct probe_error *error = find_entry(change, place, &entry);
	uint64_t size, variable;

	if (error)
		return error;
	its.plans = NULL;
	its.plan_count = 0;
	install.session = session;
	install.stubs.follow_children = children;
	install.stubs.gate_offset = place == GATE_EXEC ? DATA_EXEC_GATE_OFFSET : DATA_GATE_OFFSET;
	if (place == GATE_LIBRARIES && object_symbol(entry.probe.module->object, state_variable,
					       strlen(state_variable), &variable, &size))
		install.stubs.gate_unless =
			variable + entry.probe.module->bias + offsetof(struct r_debug, r_state);
	error = change_judge(change);
	if (!error && !(change->seccomp.allowed & SECCOMP_WAIT))
		error = seccomp_error(&change->seccomp, SECCOMP_WAIT);
	error = error ?: install_entry(&install, place);
	end_entry(&entry, &install, &t);
	return error;
}

struct probe_error *gate_attach_call(struct change *change, uint64_t caller,
	void (*describe)(const void *data, const struct reg_session *session, uint32_t slot,
		uint32_t number, struct arch_stub *stub),
	const void *data, uint32_t *session_ret)
{
	const struct probe_request request = {0};
	struct transaction t = transaction_of(change, TRANSACTION_ADDS);
	struct entry entry;
	struct install install = install_of(&t, &entry.selection, &request);
	struct probe_error *error = find_entry(change, GATE_LIBRARIES, &entry);

	if (error)
		return error;
	install.stubs.describe = describe;
	install.stubs.data = data;
	install.caller = caller;
	error = install_entry(&install, GATE_LIBRARIES);
	*session_ret = install.session;
	end_entry(&entry, &install, &t);
	return error;
}

/* Reads whether the loader is changing its list. Returns false for an unknown loader. */
static bool read_list(struct change *change, struct r_debug *ret)
{
	uint64_t unused, size, variable;
	struct module *loader = find_function(change, state_function, &unused);

	return loader &&
	       object_symbol(
		       loader->object, state_variable, strlen(state_variable), &variable, &size) &&
	       memory_read(change->pid, variable + loader->bias, ret, sizeof(*ret)) ==
		       sizeof(*ret) &&
	       ret->r_version;
}

bool gate_is_expected(struct change *change)
{
	struct r_debug debug;

	return change->target->held && change->target->facts.known && read_list(change, &debug) &&
	       debug.r_state == RT_ADD;
}

bool gate_list_changes(struct change *change)
{
	struct r_debug debug;

	return read_list(change, &debug) && debug.r_state != RT_CONSISTENT;
}

/* ==== Gate waiter ============================================================================= */

/*
 * The controller's side of a gate.
 *
 * If the controller dies, its gate releases all threads. If nobody serves the gate, it disarms
 * itself (struct probe_gate), so a stopped controller delays its target once, by two seconds. When
 * the controller continues, it arms the gate again.
 *
 * The kernel reports a death through a thread's list of robust futexes. glibc sets one up for each
 * thread's mutexes; the waiter thread has none, so it can use the gate's list.
 *
 * The waiter starts before its gate exists, because it may have to wait for a processor, and a held
 * program should not.
 *
 * Sources: futex(2); get_robust_list(2); the kernel's Documentation/locking/robust-futexes.rst.
 */

static _Atomic uint32_t *shared_word(uint32_t *word)
{
	return (_Atomic uint32_t *)word;
}

static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

/* Returns a turn's owner word while the controller lives. */
static uint32_t turn_word(const struct gate *gate, uint32_t turn)
{
	return gate->owner | GATE_WAITED | (gate->flips & 1u << turn ? GATE_FLIP : 0);
}

void gate_leave(struct gate *gate)
{
	for (uint32_t i = 0; gate->shared && i < GATE_TURNS; i++) {
		atomic_store(shared_word(&gate->shared->turns[i].owner), 0);
		futex(&gate->shared->turns[i].owner, FUTEX_WAKE, INT_MAX, NULL);
	}
}

static void set_and_wake(uint32_t *word)
{
	atomic_store(shared_word(word), 1);
	futex(word, FUTEX_WAKE, 1, NULL);
}

static void wait_until_set(uint32_t *word)
{
	while (!atomic_load(shared_word(word)))
		futex(word, FUTEX_WAIT, 0, NULL);
}

/* The waiter thread. It owns no turn until the gate is open. */
static void *wait_for_threads(void *data)
{
	static const struct timespec a_while = {.tv_sec = 2};
	struct gate *gate = data;
	uint32_t seen = 0;

	gate->owner = (uint32_t)syscall(SYS_gettid) & GATE_OWNER;
	gate->robust.list.next = &gate->robust.list;
	syscall(SYS_set_robust_list, &gate->robust, sizeof(gate->robust));
	set_and_wake(&gate->owned);
	wait_until_set(&gate->opened);
	/*
	 * Signal the eventfd when a thread has taken a number. Arriving threads wake the waiter. A
	 * target can suppress that by writing the word, or FUTEX_REQUEUE; it only delays its own
	 * threads, and the waiter's end.
	 */
	while (!atomic_load((_Atomic bool *)&gate->ending)) {
		uint32_t arrived = atomic_load(shared_word(&gate->shared->arrived));

		if (arrived != seen) {
			seen = arrived;
			gate_raise(gate->event);
			continue;
		}
		futex(&gate->shared->arrived, FUTEX_WAIT, seen, &a_while);
	}
	syscall(SYS_set_robust_list, NULL, sizeof(gate->robust));
	set_and_wake(&gate->ended);
	return NULL;
}

struct probe_error *gate_prepare(struct gate *gate)
{
	int err;

	*gate = (struct gate){0};
	err = worker_start(&gate->waiter, wait_for_threads, gate);
	if (err)
		return probe_error_system(err, "cannot start a thread");
	gate->waiting = true;
	return NULL;
}

/* Arms or disarms the gate, and notes whether a thread has disarmed it since. */
static void set_armed(struct gate *gate, bool armed)
{
	uint32_t before = atomic_exchange(shared_word(&gate->shared->armed), armed);

	gate->lapsed |= gate->armed && !before;
	gate->armed = armed;
}

void gate_open(struct gate *gate, struct probe_gate *shared, int event)
{
	gate->shared = shared;
	gate->event = event;
	wait_until_set(&gate->owned);
	/* The waiter owns all turns, so the kernel ends them with its death. */
	for (uint32_t i = 0; i < GATE_TURNS; i++) {
		gate->turns[i].next = i + 1 < GATE_TURNS ? &gate->turns[i + 1] : &gate->robust.list;
		atomic_store(shared_word(&shared->turns[i].owner), turn_word(gate, i));
	}
	gate->robust.futex_offset = (long)shared->turns - (long)gate->turns;
	atomic_signal_fence(memory_order_seq_cst);
	gate->robust.list.next = &gate->turns[0];
	set_and_wake(&gate->opened);
	set_armed(gate, true);
}

void gate_clear(int event)
{
	uint64_t count;

	/* This fails if the eventfd was not raised, which does no harm. */
	if (read(event, &count, sizeof(count)) < 0)
		return;
}

void gate_raise(int event)
{
	uint64_t one = 1;

	/* This fails at the eventfd's maximum, when it is readable anyway. */
	if (write(event, &one, sizeof(one)) < 0)
		return;
}

bool gate_take(struct gate *gate)
{
	if (!gate->shared)
		return false;
	gate->taken = atomic_load(shared_word(&gate->shared->arrived));
	return gate->taken != atomic_load(shared_word(&gate->shared->released));
}

uint32_t gate_arrivals(const struct gate *gate)
{
	return gate->shared ? atomic_load(shared_word(&gate->shared->arrived)) : 0;
}

bool gate_is_busy(const struct gate *gate)
{
	return gate->shared &&
	       gate_arrivals(gate) != atomic_load(shared_word(&gate->shared->released));
}

bool gate_holds_turn(const struct gate *gate, uint32_t turn)
{
	uint32_t first = atomic_load(shared_word(&gate->shared->released)) + 1;

	return (turn - first) % GATE_TURNS < gate_waiting(gate);
}

uint32_t gate_waiting(const struct gate *gate)
{
	return gate->taken - atomic_load(shared_word(&gate->shared->released));
}

void gate_arm(struct gate *gate, bool armed)
{
	if (!gate->shared)
		return;
	set_armed(gate, armed);
	if (!armed && gate_take(gate))
		gate_release(gate);
}

bool gate_has_lapsed(struct gate *gate)
{
	bool lapsed;

	if (!gate->shared)
		return false;
	set_armed(gate, gate->armed);
	lapsed = gate->lapsed;
	gate->lapsed = false;
	return lapsed;
}

void gate_release(struct gate *gate)
{
	uint32_t count = gate_waiting(gate);

	atomic_store(shared_word(&gate->shared->released), gate->taken);
	for (uint32_t i = 0; i < count && i < GATE_TURNS; i++) {
		uint32_t turn = (gate->taken - i) % GATE_TURNS;

		gate->flips ^= 1u << turn;
		atomic_store(shared_word(&gate->shared->turns[turn].owner), turn_word(gate, turn));
		futex(&gate->shared->turns[turn].owner, FUTEX_WAKE, INT_MAX, NULL);
	}
}

void gate_shut(struct gate *gate)
{
	if (gate->shared)
		set_armed(gate, false);
	if (!gate->waiting)
		return;
	atomic_store((_Atomic bool *)&gate->ending, true);
	set_and_wake(&gate->opened);
	if (gate->shared)
		futex(&gate->shared->arrived, FUTEX_WAKE, INT_MAX, NULL);
}

void gate_close(struct gate *gate)
{
	static const struct timespec a_moment = {.tv_nsec = 1000 * 1000};

	gate_shut(gate);
	/* A wake-up is lost if it comes just before the waiter waits, so wake it repeatedly. */
	while (gate->waiting && gate->shared && !atomic_load(shared_word(&gate->ended))) {
		futex(&gate->shared->arrived, FUTEX_WAKE, INT_MAX, NULL);
		futex(&gate->ended, FUTEX_WAIT, 0, &a_moment);
	}
	if (gate->waiting)
		worker_join(&gate->waiter);
	gate->waiting = false;
	if (!gate->shared)
		return;
	gate_take(gate);
	gate_release(gate);
	gate_leave(gate);
	gate->shared = NULL;
}

/* ==== Waiters ================================================================================= */

/*
 * A thread at a gate sleeps in futex(2) on one of its turns, whose address
 * /proc/PID/task/TID/syscall shows; forked children's do so on the same memory and address.
 *
 * A thread may have to wait for a processor before it sleeps. So if a thread is missing, we wait as
 * long as a running thread could be the missing one. A thread killed after it took its number is
 * never found.
 *
 * Sources: proc_pid_syscall(5); futex(2).
 */

enum {
	FIND_NS = 500000000,	 /* limit between arriving at the gate and waiting there */
	FIND_IDLE_NS = 10000000, /* the limit if no running thread could be the missing one */
	/*
	 * The minimum number of searches, because we may get the processor as rarely as the threads
	 * do.
	 */
	FIND_LOOKS = 50,
	FIND_PAUSE_NS = 100000 /* pause between two searches */
};

/*
 * Returns the turn in which a thread waits (-1 if in none), and its stack pointer. `address` is the
 * first turn's. *runs_ret is true if the thread does not sleep in a system call. (Call -1 is a page
 * fault.)
 */
static int turn_of(pid_t pid, pid_t tid, uint64_t address, bool *runs_ret, unsigned long long *sp)
{
	enum { TURN_BYTES = sizeof(((struct probe_gate *)NULL)->turns[0]) };
	char text[128];
	unsigned long long word;
	long number;

	if (!file_read(procfs_path("/proc/%d/task/%d/syscall", pid, tid).text, text, sizeof(text)))
		return -1;
	*runs_ret |= strncmp(text, "running", strlen("running")) == 0 || text[0] == '-';
	*sp = 0;
	if (sscanf(text, "%ld %llx %*x %*x %*x %*x %*x %llx", &number, &word, sp) < 2 ||
		(number != SYS_futex && number != SYS_restart_syscall) || word < address ||
		word - address >= GATE_TURNS * TURN_BYTES)
		return -1;
	return (int)((word - address) / TURN_BYTES);
}

static void look_at(
	struct waiters *waiters, const struct waiters_place *place, pid_t pid, pid_t tid)
{
	unsigned long long sp;
	int turn = turn_of(pid, tid, place->address, &waiters->others_run, &sp);

	if (turn < 0 || (place->leave_out && place->leave_out(place->data, turn, pid, tid)))
		return;
	if (!ARRAY_ROOM(waiters->items, waiters->count))
		return;
	waiters->items[waiters->count++] = (struct waiter){.pid = pid, .tid = tid, .sp = sp};
}

static void find_in(struct waiters *waiters, const struct waiters_place *place, pid_t pid)
{
	AUTO_DIR DIR *threads = procfs_threads(pid);
	pid_t tid;

	while ((tid = procfs_next_thread(pid, threads)))
		look_at(waiters, place, pid, tid);
}

static void find_below(struct waiters *waiters, const struct waiters_place *place, pid_t pid)
{
	AUTO_FREE pid_t *pids = children_of(pid);

	for (size_t i = 0; pids && pids[i]; i++) {
		find_in(waiters, place, pids[i]);
		/* The child's own children wait, too, only if the gate holds children. */
		if (place->children)
			find_below(waiters, place, pids[i]);
	}
}

bool waiters_find(struct waiters *waiters, struct gate *gate, struct waiters_place *place)
{
	static const struct timespec pause = {.tv_nsec = FIND_PAUSE_NS};
	uint64_t now = clock_monotonic_ns(), patience;
	uint32_t wanted;
	AUTO_FREE pid_t *pids = NULL;

	if (!gate_take(gate)) {
		place->since_ns = 0;
		return true;
	}
	if (!place->since_ns) {
		place->since_ns = now;
		place->looks = 0;
	}
	/* Search main threads first: children's, because most processes wait for a child. */
	wanted = gate_waiting(gate);
	pids = children_of_thread(place->pid, place->pid);
	for (size_t i = 0; pids && pids[i] && waiters->count < wanted; i++)
		look_at(waiters, place, pids[i], pids[i]);
	if (waiters->count < wanted)
		look_at(waiters, place, place->pid, place->pid);
	if (waiters->count < wanted) {
		waiters->count = 0;
		find_in(waiters, place, place->pid);
		find_below(waiters, place, place->pid);
	}
	if (waiters->count < wanted && place->image) {
		/* Find those whose parents have ended, too. */
		AUTO_FREE pid_t *heirs = inherited_heirs(place->image);

		waiters->count = 0;
		for (size_t i = 0; heirs && heirs[i]; i++)
			find_in(waiters, place, heirs[i]);
	}
	/* Threads that have arrived in the meantime may have been found, and are released, too. */
	gate_take(gate);
	patience = waiters->others_run ? FIND_NS : FIND_IDLE_NS;
	if (waiters->count < gate_waiting(gate) &&
		(now - place->since_ns < patience || place->looks < FIND_LOOKS)) {
		place->looks++;
		nanosleep(&pause, NULL);
		return false;
	}
	place->since_ns = 0;
	return true;
}
