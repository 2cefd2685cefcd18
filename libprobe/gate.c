/* SPDX-License-Identifier: MIT */
/*
 * The loader's function is `_dl_debug_state`, empty and exported, and it says
 * by r_state of `struct r_debug` whether the list is being changed or whole
 * again (RT_CONSISTENT, 0). It is called behind mapping and before relocation
 * and constructors.
 *
 * A gate nobody serves disarms itself (struct probe_gate), so a controller that
 * dies delays its target once, by two seconds at most.
 *
 * Sources: <link.h>, struct r_debug; gdb and glibc, "Rendezvous structure used
 * by the run-time dynamic linker"; futex(2).
 */
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/gate.h"
#include "libprobe/threads.h"

static const char state_function[] = "_dl_debug_state", state_variable[] = "_r_debug";

/* ---- In the target ----------------------------------------------------------------- */

static struct module *find_loader(struct change *change)
{
	for (size_t i = 0; i < change->modules.count; i++)
		if (threads_is_loader(&change->modules.items[i]))
			return &change->modules.items[i];
	return NULL;
}

struct probe_error *gate_attach(
	struct change *change, uint32_t session, const struct probe_request *request)
{
	struct module *loader = find_loader(change);
	struct sdt_note note = {.provider = plan_entry_provider, .name = "gate", .args = ""};
	struct select_probe probe = {
		.module = loader, .provider = note.provider, .name = note.name, .site_count = 1};
	struct select_site site = {.note = &note};
	struct selection selection = {
		.probes = &probe, .probe_count = 1, .sites = &site, .site_count = 1};
	struct attach attach = {.change = change,
		.selection = &selection,
		.request = request,
		.session = session,
		.is_gate = true,
		.fd = -1};
	struct probe_report report = {0};
	struct probe_error *error;
	uint64_t size, variable;

	if (!loader || !object_symbol(loader->object, state_function, strlen(state_function),
			       &note.pc, &size))
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d has no dynamic loader whose libraries could be followed",
			change->pid);
	site.pc = probe.key = note.pc + loader->bias;
	if (object_symbol(loader->object, state_variable, strlen(state_variable), &variable, &size))
		attach.gate_unless = variable + loader->bias + offsetof(struct r_debug, r_state);
	error = attach_all(&attach, &report);
	probe_report_deinit(&report);
	attach_deinit(&attach);
	return error;
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

/*
 * Tells the descriptor whenever a thread has taken a number. Looks up now and
 * then: a target that writes the word as it likes can make any wake-up miss.
 */
static void *wait_for_threads(void *data)
{
	static const struct timespec a_while = {.tv_nsec = 100 * 1000 * 1000};
	struct gate *gate = data;
	uint32_t seen = 0;

	while (!atomic_load((_Atomic bool *)&gate->ending)) {
		uint32_t arrived = atomic_load(shared_word(&gate->shared->arrived));

		if (arrived != seen) {
			uint64_t one = 1;

			seen = arrived;
			if (write(gate->event, &one, sizeof(one)) < 0 && errno != EAGAIN)
				return NULL;
			continue;
		}
		futex(&gate->shared->arrived, FUTEX_WAIT, seen, &a_while);
	}
	return NULL;
}

struct probe_error *gate_open(struct gate *gate, struct probe_gate *shared)
{
	sigset_t all, old;
	int err;

	*gate = (struct gate){.shared = shared};
	gate->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (gate->event < 0)
		return probe_error_system(errno, "cannot make an event descriptor");
	/* Signals are for the caller's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&gate->waiter, NULL, wait_for_threads, gate);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return probe_error_system(err, "cannot start a thread");
	gate->waiting = true;
	atomic_store(shared_word(&shared->armed), 1);
	return NULL;
}

bool gate_take(struct gate *gate)
{
	uint64_t count;

	if (!gate->shared)
		return false;
	if (read(gate->event, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return false;
	gate->taken = atomic_load(shared_word(&gate->shared->arrived));
	return gate->taken != atomic_load(shared_word(&gate->shared->released));
}

void gate_release(struct gate *gate)
{
	atomic_store(shared_word(&gate->shared->released), gate->taken);
	futex(&gate->shared->released, FUTEX_WAKE, INT_MAX, NULL);
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
		pthread_join(gate->waiter, NULL);
	}
	gate_take(gate);
	gate_release(gate);
	close(gate->event);
	gate->shared = NULL;
	gate->event = -1;
}
