/* SPDX-License-Identifier: MIT */
/* Several installs, and counts of what is on already, in one transaction: all of it or nothing. */
/* Not under ThreadSanitizer: nothing has threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"
#include "tests/unit/live.h"

/* A transaction of the target, to which patterns are added one by one. */
struct work {
	struct change change;
	struct transaction transaction;
	struct probe_request request;
	struct part {
		struct selection selection;
		struct install install;
		struct probe_report report;
	} parts[2];
	size_t count;
};

static void begin(struct work *w, struct live *l)
{
	*w = (struct work){.count = 0};
	live_ok(change_begin(l->target, &w->change));
	w->transaction = transaction_of(&w->change, TRANSACTION_ADDS);
}

/* To a session of the target; 0: to a new one. */
static struct probe_error *add_to(struct work *w, uint32_t session, const char *text)
{
	struct part *part = &w->parts[w->count++];
	struct probe_pattern *pattern;
	struct probe_error *error;

	live_ok(probe_pattern_parse(text, &pattern));
	live_ok(select_probes(&w->change.modules, (const struct probe_pattern *const *)&pattern, 1,
		&part->selection));
	part->install = install_of(&w->transaction, &part->selection, &w->request);
	part->install.persistent = true;
	part->install.session = session;
	error = install_add(&part->install, &part->report);
	probe_pattern_free(pattern);
	return error;
}

static struct probe_error *add(struct work *w, const char *text)
{
	return add_to(w, 0, text);
}

static void end(struct work *w)
{
	for (size_t i = 0; i < w->count; i++) {
		install_deinit(&w->parts[i].install);
		selection_deinit(&w->parts[i].selection);
		probe_report_deinit(&w->parts[i].report);
	}
	transaction_end(&w->transaction);
	assert_int_equal(w->change.taken.count, 0);
	change_end(&w->change);
}

/* "op__start=1,20 value=2,0": counts and hits of the target's probes that are on. */
static void states(struct live *l, const char *expected)
{
	struct probe_status *all;
	char text[128] = "";
	size_t count, length = 0;

	live_ok(probe_target_status(l->target, &all, &count));
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(all[i].inconsistent, 0);
		if (strcmp(all[i].provider, "live") == 0 && all[i].refcount)
			length += (size_t)snprintf(text + length, sizeof(text) - length,
				"%s%s=%u,%ju", length ? " " : "", all[i].name, all[i].refcount,
				(uintmax_t)all[i].hits);
	}
	free(all);
	assert_string_equal(text, expected);
}

static void change_all(struct live *l, const char *text,
	struct probe_error *(*change)(struct probe_target *target,
		const struct probe_request *request, struct probe_report *report))
{
	struct probe_report report = {0};
	struct probe_pattern *pattern;
	struct probe_request request = {
		.patterns = (const struct probe_pattern *const *)&pattern, .pattern_count = 1};

	live_ok(probe_pattern_parse(text, &pattern));
	live_ok(change(l->target, &request, &report));
	probe_pattern_free(pattern);
	probe_report_deinit(&report);
}

static void is_clean(struct live *l)
{
	struct probe_stale stale;
	struct maps maps;

	live_ok(probe_target_stale(l->target, &stale));
	assert_int_equal(stale.sessions + stale.probes + stale.semaphores, 0);
	assert_int_equal(stale.mappings + stale.descriptors + stale.frames, 0);
	live_ok(maps_read(l->pid, &maps));
	for (size_t i = 0; i < maps.count; i++)
		assert_null(strstr(maps.items[i].path, "memfd:probectl"));
	maps_deinit(&maps);
}

static void two_in_one_stop(void **state)
{
	struct live *l = *state;
	struct work w;

	begin(&w, l);
	live_ok(add(&w, "live:value"));
	live_ok(add(&w, "live:op__start"));
	assert_int_not_equal(w.parts[0].install.session, w.parts[1].install.session);
	live_ok(install_commit(&w.transaction));
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(w.parts[i].report.probes, 1);
		assert_int_equal(w.parts[i].report.sites, 1);
	}
	end(&w);
	states(l, "op__start=1,0 value=1,0");
	live_order(l, 'o');
	live_order(l, '1');
	states(l, "op__start=1,1 value=1,20000");
	change_all(l, "live:op__start", probe_target_disable);
	change_all(l, "live:value", probe_target_disable);
	states(l, "");
	is_clean(l);
}

/* One that cannot be added leaves the other alone. */
static void one_refused(void **state)
{
	static const enum probe_plan none[] = {PROBE_PLAN_TOGGLE};
	struct live *l = *state;
	struct probe_error *error;
	struct work w;

	begin(&w, l);
	live_ok(add(&w, "live:value"));
	w.request.plans = none;
	w.request.plan_count = 1;
	error = add(&w, "live:op__start");
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_REFUSED);
	probe_error_free(error);
	live_ok(install_commit(&w.transaction));
	assert_int_equal(w.parts[1].report.probes, 0);
	end(&w);
	states(l, "value=1,0");
	change_all(l, "live:value", probe_target_disable);
	is_clean(l);
}

/* Somebody else's byte at one of the sites: neither is patched, and counts are as they were. */
static void all_or_nothing(void **state)
{
	static const uint8_t foreign = 0xcc;
	struct live *l = *state;
	struct probe_error *error;
	uint64_t patch, done;
	uint8_t byte;
	struct work w;

	change_all(l, "live:op__done", probe_target_enable);
	begin(&w, l);
	done = w.change.registry.probes[0].key;
	live_ok(add(&w, "live:value"));
	live_ok(add(&w, "live:op__start"));
	assert_true(transaction_count(&w.transaction, done, 1));
	patch = w.parts[1].install.sites[0].reg.patch;
	live_ok(memory_read_all(l->pid, patch, &byte, 1));
	live_ok(memory_write_code(w.change.mem, patch, &foreign, 1));
	error = install_commit(&w.transaction);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_REFUSED);
	assert_non_null(strstr(error->message, "live:op__start: the memory at "));
	probe_error_free(error);
	live_ok(memory_write_code(w.change.mem, patch, &byte, 1));
	end(&w);
	states(l, "op__done=1,0");
	change_all(l, "live:op__done", probe_target_disable);
	is_clean(l);
}

/* What is on already is counted up in the same stop. */
static void counts_as_well(void **state)
{
	struct live *l = *state;
	struct work w;

	change_all(l, "live:op__done", probe_target_enable);
	begin(&w, l);
	assert_true(transaction_count(&w.transaction, w.change.registry.probes[0].key, 1));
	live_ok(add(&w, "live:value"));
	live_ok(install_commit(&w.transaction));
	end(&w);
	states(l, "op__done=2,0 value=1,0");
	change_all(l, "live:op__done", probe_target_disable);
	change_all(l, "live:value", probe_target_disable);
	states(l, "op__done=1,0");
	change_all(l, "live:op__done", probe_target_disable);
	is_clean(l);
}

/* What was announced as ending is on again. */
static void the_way_back(void **state)
{
	struct live *l = *state;
	struct transaction t;
	struct change c;

	change_all(l, "live:value", probe_target_enable);
	live_ok(change_begin(l->target, &c));
	t = transaction_of(&c, TRANSACTION_ENDS);
	live_ok(transaction_keep_way_back(&t));
	for (int i = 0; i < 5; i++) {
		c.registry.probes[0].refcount = 0;
		live_ok(change_store(&c, true));
		assert_int_not_equal(c.registry.image, t.before.start);
	}
	states(l, "");
	transaction_go_back(&t);
	assert_int_equal(c.registry.probes[0].refcount, 1);
	transaction_end(&t);
	change_end(&c);
	states(l, "value=1,0");
	live_order(l, 'o');
	states(l, "value=1,20000");
	change_all(l, "live:value", probe_target_disable);
	is_clean(l);
}

/* The last thing that a killed controller leaves, when nothing else of it is there any more. */
static void frame_of_a_killed_one(void **state)
{
	struct live *l = *state;
	struct probe_repair repaired = {0};
	struct probe_stale stale;
	char before[sizeof(ROOM_MARK)] = "", after[sizeof(ROOM_MARK)] = "?";
	struct rooms rooms;
	struct change c;
	uint64_t mark;

	live_ok(change_begin(l->target, &c));
	live_ok(rooms_find(l->pid, c.mem, &c.maps, &c.modules, false, &rooms));
	assert_true(rooms.count > 0 && rooms.items[0].kind == ROOM_TAIL);
	mark = rooms.items[0].start + arch_process()->frame_mark;
	assert_int_equal(memory_read(l->pid, mark, before, sizeof(before)), sizeof(before));
	live_ok(memory_write_code(c.mem, mark, ROOM_MARK, sizeof(ROOM_MARK)));
	change_end(&c);
	live_ok(probe_target_stale(l->target, &stale));
	assert_int_equal(stale.frames, 1);
	live_ok(probe_target_repair(l->target, &repaired));
	assert_int_equal(repaired.frames, 1);
	assert_int_equal(memory_read(l->pid, mark, after, sizeof(after)), sizeof(after));
	assert_memory_equal(after, before, sizeof(before));
	is_clean(l);
	repaired.frames = 0;
	live_ok(probe_target_repair(l->target, &repaired));
	assert_int_equal(repaired.frames, 0);
}

/* A session whose memory the program has taken is ended before anything can be added to it. */
static void session_that_is_lost(void **state)
{
	struct live *l = *state;
	struct probe_error *error;
	struct reg_session *session;
	struct work w;

	change_all(l, "live:value", probe_target_enable);
	begin(&w, l);
	assert_int_equal(w.change.registry.session_count, 1);
	session = &w.change.registry.sessions[0];
	registry_retire(&w.change.registry, session);
	w.change.lost = w.change.lost_ends = true;
	error = add_to(&w, session->id, "live:op__start");
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_STATE);
	assert_non_null(strstr(error->message, "the session has ended"));
	probe_error_free(error);
	end(&w);
	is_clean(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(two_in_one_stop, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(one_refused, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(all_or_nothing, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(counts_as_well, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(the_way_back, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(frame_of_a_killed_one, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(session_that_is_lost, live_setup, live_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
