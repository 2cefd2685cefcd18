/* SPDX-License-Identifier: MIT */
/*
 * Adding sessions to a target, and removing what nothing uses any more.
 *
 *   install_add()        for each selection of probes:
 *     install_plan()     how each site will be patched, or why it is refused
 *     install_build()    memory, stubs and tails, written but not yet reachable
 *     install.take()     the controller maps and allocates what it needs
 *   install_commit()     all threads stopped, once for all that was added: bytes verified,
 *                        sites patched, semaphores raised
 */
#ifndef LIBPROBE_PATCH_INSTALL_H
#define LIBPROBE_PATCH_INSTALL_H

#include "libprobe/query/record_layout.h"
#include "libprobe/query/select.h"
#include "libprobe/patch/transaction.h"
#include "libprobe/registry/change.h"
#include "libprobe/registry/data.h"

/* What is being done to one site. */
struct install_site {
	bool wanted; /* it gets a stub */
	bool is_new; /* it is not patched yet: `reg` describes how it will be */
	/*
	 * Notes may name the same address: index of the first of its sites, which
	 * alone is planned and patched. The others' stubs are linked before its own.
	 */
	size_t first;
	struct reg_site reg;
	uint64_t hop;			 /* that a short jump leads to; 0: none */
	uint64_t write_start, write_end; /* the bytes that its plan may write */
	uint64_t entry; /* that the jump of a pun, or into a long nop, leads to; 0: to the stub */
	struct arch_twin twin; /* of PROBE_PLAN_TWIN; `first` is entry */
	uint64_t stub;
	uint64_t head;	/* of a `first`: the stub that its jump leads to */
	uint64_t link;	/* of a `first`: where another stub's jump to head is; 0: head is entered */
	uint32_t below; /* of a `first`: the order of the stub that was there before, under them */
	uint32_t order; /* of the stub; see reg_stub. Of a `first`: of head */
	bool joins;	/* it is new, and patched with a neighbour that is (neighbours.c) */
	struct arch_stub_code code;
	struct arch_moved moved;
	uint64_t moved_to; /* address of its copies; several sites may stand before them */
};

struct install {
	struct change *change; /* that of the transaction */
	struct transaction *transaction;
	struct install *next; /* of those that were added to it */
	struct probe_report *report;
	struct selection *selection;
	const struct probe_request *request;
	struct install_site *sites; /* as many as the selection has */
	size_t *order;		    /* indices of those with an address, by address */
	size_t order_count;
	/*
	 * Says what the stub of a site does; NULL: it counts. `slot` is its probe's,
	 * `number` what its records call the site.
	 */
	void (*describe)(const void *data, const struct reg_session *session, uint32_t slot,
		uint32_t number, struct arch_stub *stub);
	const void *describe_data;
	/*
	 * Tells, from describe_data, whether a site's stubs of another session are entered before
	 * those of this one. NULL: no others are.
	 */
	bool (*comes_before)(const void *data, uint32_t session);
	/*
	 * Takes all that the controller needs of the session, once its stubs exist and before any
	 * site leads to them: an error undoes everything. NULL: nothing.
	 */
	struct probe_error *(*take)(void *data, struct install *install);
	void *take_data;
	uint32_t first_site; /* the number of selection->sites[0], the others follow; but: */
	/* Of probes that the session has had before: the numbers of their sites, their counters. */
	const uint32_t *numbers, *slots;
	uint32_t session;     /* 0 until it is created; else one that is there already */
	const char *file;     /* where the session's memory outlives the target; or NULL */
	bool created;	      /* it was */
	bool asks;	      /* set: some stub makes system calls, or would if it were allowed */
	bool waits;	      /* its hits wait for room, and make system calls for that */
	bool asks_name;	      /* set: some stub asks for the name of its thread */
	bool asks_cpu;	      /* set: ... for the number of its CPU */
	bool asks_stack;      /* set: ... for pages of its stack, or would if it were allowed */
	bool takes_time;      /* the stubs read the time stamp counter */
	bool is_gate;	      /* the stubs wait for the controller (struct probe_gate) */
	uint64_t gate_offset; /* of that struct in the session's data */
	uint64_t gate_unless;
	bool persistent;
	/* Not 0: the stubs call functions of the target (REG_SESSION_CALLS); of whom. */
	uint64_t caller;
	struct data_needs needs; /* of a new session, beside counters */
	size_t spare_probes;	 /* room for probes of libraries to come */
	bool follow_children;	 /* forked children count as well */
	struct arch_safe safe;	 /* of the module whose stubs are being built */
	int fd;			 /* of the session's data, or -1 */
	uint64_t data_size;
	uint64_t *pun_pages;   /* of new sites, sorted */
	size_t pun_page_count; /* the first puns_mapped of them are mapped */
	size_t puns_mapped;
	struct reg_site *neighbours; /* new, of sites that share a jump, selected or not */
	size_t neighbour_count;
	bool served;  /* the same request switches others, or more may come: all may be refused */
	bool alone;   /* each site is planned as if there were no other; nothing is attached */
	bool no_puns; /* the target maps memory faster than it can be taken */
};

/* An install that will add this selection, and only counts; install_deinit() is due. */
struct install install_of(struct transaction *transaction, struct selection *selection,
	const struct probe_request *request);

/* The module of a site, by index; and where, in order[], the next module's sites begin. */
struct module *install_module(const struct install *install, size_t site);
size_t install_module_end(const struct install *install, size_t from);

/* Gives each site of a selection room for its plan, which is empty until it is planned. */
PROBE_MUST_CHECK struct probe_error *install_make_plans(struct selection *selection);

/* plan_sites() for sites of one module, whose proofs may be known. */
PROBE_MUST_CHECK struct probe_error *install_plan_notes(struct module *module,
	const struct sdt_note *const *notes, size_t count, const enum probe_plan *order,
	size_t order_count, struct plan *ret);

/* Plans every site of the selection; again, if it has been done. */
PROBE_MUST_CHECK struct probe_error *install_plan(struct install *install);

/*
 * Puts refused sites into the report. Unless request->keep_going they are an error
 * (PROBE_ERROR_REFUSED) if one is of a probe that was named, or all are refused.
 */
PROBE_MUST_CHECK struct probe_error *install_refusals(
	const struct install *install, struct probe_report *report);

PROBE_MUST_CHECK struct probe_error *install_build(struct install *install);
void install_deinit(struct install *install);

/*
 * Plans, creates the session unless there is one, and builds. The install and its selection
 * have to stay until the transaction has ended. An error undoes all of this one.
 */
PROBE_MUST_CHECK struct probe_error *install_add(
	struct install *install, struct probe_report *report);
/*
 * Patches what was added, and changes what is counted, in one stop; and reports. If that fails, all
 * of it is undone.
 */
PROBE_MUST_CHECK struct probe_error *install_commit(struct transaction *transaction);
/* The part of it in which the target is stopped (commit.c): an error leaves sites as they were. */
PROBE_MUST_CHECK struct probe_error *install_patch(struct transaction *transaction);
/* Both for one alone. */
PROBE_MUST_CHECK struct probe_error *install_all(
	struct install *install, struct probe_report *report);

/*
 * Ends everything that has a reference count of 0: sites without a stub get
 * their bytes back, others are linked again, semaphores are lowered, memory is
 * freed as soon as no thread can be in it.
 */
PROBE_MUST_CHECK struct probe_error *uninstall_unreferenced(struct change *change);
/* The same, with the other changes of the transaction (TRANSACTION_ENDS). */
PROBE_MUST_CHECK struct probe_error *uninstall(struct transaction *transaction);

/* Ends what dead controllers left, as uninstall_unreferenced() does. */
PROBE_MUST_CHECK struct probe_error *install_heal(struct change *change);

/* How many sites could not be restored, because another tool's bytes are there. */
size_t uninstall_count_left(const struct registry *registry);

/* Is there code in the target that nothing leads to any more, and that a thread was in? */
bool uninstall_has_leftovers(const struct registry *registry);

/*
 * PROBE_ERROR_STATE if so much is left that no more may be added: if it is unknown whether a
 * thread of a process returns to code, each session leaves its own.
 */
PROBE_MUST_CHECK struct probe_error *uninstall_check_leftovers(const struct change *change);

/*
 * Sets the reference counts of sessions whose controllers are dead to 0, and looks for stubs that
 * have ended; above 0: uninstall_unreferenced() is due, before a site is added: the registry may
 * have sites whose patches were never written, or were restored already.
 */
size_t uninstall_find_dead(struct change *change);
/* The same, and any other work that was not finished. */
size_t uninstall_find_stale(struct change *change);

#endif
