/* SPDX-License-Identifier: MIT */
/*
 * The loader's function is `_dl_debug_state`, empty and exported, and it says by r_state of `struct
 * r_debug` whether the list is being changed or whole again (RT_CONSISTENT, 0). It is called after
 * mapping and before relocation and constructors. User events call it, too (ARCH_GATE_CALLER), also
 * while another thread, or theirs, is changing the list.
 *
 * A gate whose controller has died releases all threads at once, and one that nobody serves disarms
 * itself (struct probe_gate): a stopped controller delays its target once, by two seconds.
 *
 * The kernel reports the death through the thread's list of robust futexes. glibc sets one up for
 * each thread, for its own mutexes; the waiter locks none, and puts the gate's in its place.
 *
 * Sources: <link.h>, struct r_debug; gdb and glibc, "Rendezvous structure used
 * by the run-time dynamic linker"; futex(2); get_robust_list(2); the kernel's
 * Documentation/locking/robust-futexes.rst.
 */
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/follow/gate.h"
#include "libprobe/process/memory.h"
#include "libprobe/target/target.h"

static const char state_function[] = "_dl_debug_state", state_variable[] = "_r_debug";
static const char exec_function[] = "execve";

/* ---- In the target ----------------------------------------------------------------- */

/*
 * The module of a function, and its address there. execve() is the one of libc, which also has the
 * environment: other libraries may wrap it.
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

/* A function's entry as a selection of one site. */
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
		.note = {.provider = plan_entry_provider, .name = "gate", .args = ""}};
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
	struct probe_report report = {0};
	struct probe_error *error = install_all(install, &report);

	if (error && report.refusal_count) {
		probe_error_free(error);
		error = probe_error_new(PROBE_ERROR_REFUSED, "%s() cannot be patched: %s",
			name_of(place), report.refusals[0].reason);
	}
	probe_report_deinit(&report);
	return error;
}

struct probe_error *gate_attach(struct change *change, uint32_t session,
	const struct probe_request *request, enum gate_place place, bool children)
{
	/* The plans that the user chose apply to the probes only. */
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
	install.is_gate = true;
	install.follow_children = children;
	install.gate_offset = place == GATE_EXEC ? DATA_EXEC_GATE_OFFSET : DATA_GATE_OFFSET;
	if (place == GATE_LIBRARIES && object_symbol(entry.probe.module->object, state_variable,
					       strlen(state_variable), &variable, &size))
		install.gate_unless =
			variable + entry.probe.module->bias + offsetof(struct r_debug, r_state);
	error = change_judge(change);
	if (!error && !(change->seccomp.allowed & SECCOMP_WAIT))
		error = seccomp_error(&change->seccomp, SECCOMP_WAIT);
	if (!error)
		error = install_entry(&install, place);
	install_deinit(&install);
	transaction_end(&t);
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
	install.describe = describe;
	install.describe_data = data;
	install.caller = caller;
	error = install_entry(&install, GATE_LIBRARIES);
	*session_ret = install.session;
	install_deinit(&install);
	transaction_end(&t);
	return error;
}

/* What the loader says of its list; false if there is none that we know. */
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

/* ---- In this process ----------------------------------------------------------------- */

static _Atomic uint32_t *shared_word(uint32_t *word)
{
	return (_Atomic uint32_t *)word;
}

static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

/* What the owner of a turn is while the controller lives. */
static uint32_t turn_word(const struct gate *gate, uint32_t turn)
{
	return gate->owner | GATE_WAITED | (gate->flips & 1u << turn ? GATE_FLIP : 0);
}

/* From here on, the kernel ends every turn when the calling thread dies. */
static void own_turns(struct gate *gate)
{
	gate->owner = (uint32_t)syscall(SYS_gettid) & GATE_OWNER;
	gate->robust.list.next = &gate->turns[0];
	gate->robust.futex_offset = (long)gate->shared->turns - (long)gate->turns;
	for (uint32_t i = 0; i < GATE_TURNS; i++) {
		gate->turns[i].next = i + 1 < GATE_TURNS ? &gate->turns[i + 1] : &gate->robust.list;
		atomic_store(shared_word(&gate->shared->turns[i].owner), turn_word(gate, i));
	}
	syscall(SYS_set_robust_list, &gate->robust, sizeof(gate->robust));
}

/* From here on, nobody waits in a turn. */
static void leave_turns(struct probe_gate *shared)
{
	for (uint32_t i = 0; i < GATE_TURNS; i++) {
		atomic_store(shared_word(&shared->turns[i].owner), 0);
		futex(&shared->turns[i].owner, FUTEX_WAKE, INT_MAX, NULL);
	}
}

/*
 * Signals the descriptor whenever a thread has taken a number. Looks now and then without being
 * woken: a target that writes the word as it likes can suppress any wake-up.
 */
static void *wait_for_threads(void *data)
{
	static const struct timespec a_while = {.tv_nsec = 100 * 1000 * 1000};
	struct gate *gate = data;
	uint32_t seen = 0;

	own_turns(gate);
	atomic_store(shared_word(&gate->owned), 1);
	futex(&gate->owned, FUTEX_WAKE, 1, NULL);
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
	return NULL;
}

struct probe_error *gate_open(struct gate *gate, struct probe_gate *shared, int event)
{
	int err;

	*gate = (struct gate){.shared = shared, .event = event};
	err = worker_start(&gate->waiter, wait_for_threads, gate);
	if (err)
		return probe_error_system(err, "cannot start a thread");
	gate->waiting = true;
	while (!atomic_load(shared_word(&gate->owned)))
		futex(&gate->owned, FUTEX_WAIT, 0, NULL);
	atomic_store(shared_word(&shared->armed), 1);
	return NULL;
}

void gate_clear(int event)
{
	uint64_t count;

	/* Fails if it was not raised. */
	if (read(event, &count, sizeof(count)) < 0)
		return;
}

void gate_raise(int event)
{
	uint64_t one = 1;

	/* Fails if its counter is at the maximum. */
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
	atomic_store(shared_word(&gate->shared->armed), armed);
	if (!armed && gate_take(gate))
		gate_release(gate);
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

void gate_close(struct gate *gate)
{
	if (!gate->shared)
		return;
	atomic_store(shared_word(&gate->shared->armed), 0);
	if (gate->waiting) {
		atomic_store((_Atomic bool *)&gate->ending, true);
		/* The waiter may be about to wait: the word must differ from what it saw. */
		atomic_fetch_add(shared_word(&gate->shared->arrived), 1);
		futex(&gate->shared->arrived, FUTEX_WAKE, INT_MAX, NULL);
		worker_join(&gate->waiter);
	}
	gate_take(gate);
	gate_release(gate);
	leave_turns(gate->shared);
	gate->shared = NULL;
}
