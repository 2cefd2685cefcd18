/* SPDX-License-Identifier: MIT */
/*
 * The loader's function is `_dl_debug_state`, empty and exported, and it says by r_state of `struct
 * r_debug` whether the list is being changed or whole again (RT_CONSISTENT, 0). It is called after
 * mapping and before relocation and constructors. User events call it, too (ARCH_GATE_CALLER), also
 * while another thread, or theirs, is changing the list.
 *
 * Sources: <link.h>, struct r_debug; gdb and glibc, "Rendezvous structure used
 * by the run-time dynamic linker".
 */
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "libprobe/follow/follow.h"
#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"

static const char state_function[] = "_dl_debug_state", state_variable[] = "_r_debug";
static const char exec_function[] = "execve";

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
