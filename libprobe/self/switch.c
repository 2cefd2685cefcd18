/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "libprobe/query/query.h"
#include "libprobe/self/helper/controller.h"
#include "libprobe/self/helper/proxy.h"
#include "libprobe/self/self.h"

enum switch_how { SWITCH_ENABLE, SWITCH_DISABLE, SWITCH_SEVERAL };

/* The plans, the patterns and the actions follow in the message. */
struct switch_head {
	uint32_t how;
	uint8_t keep_going, later, force, atomic, pairs, has_plans;
	uint64_t plan_count, pattern_count, action_count;
};

/* The pattern's text follows in the message. */
struct switch_pattern {
	uint8_t is_there;
	/* The program's function of probe_pattern_predicate(), and its argument; 0 without one. */
	uint64_t function, data;
};

/* The patterns of the action follow in the message. */
struct switch_action {
	uint8_t disable;
};

/* ---- In the controller ---------------------------------------------------------------------- */

struct switching {
	struct switch_head head;
	enum probe_plan *plans;
	const struct probe_pattern **patterns;
	struct probe_action *actions;
	struct probe_pattern **owned; /* all patterns of the request; owned */
	struct proxy_predicate *predicates;
	size_t owned_count;
	int socket; /* socket to the program */
};

static void deinit(struct switching *s)
{
	for (size_t i = 0; i < s->owned_count; i++)
		probe_pattern_free(s->owned[i]);
	free(s->owned);
	free(s->predicates);
	free(s->plans);
	free(s->patterns);
	free(s->actions);
}

static struct probe_error *read_pattern(
	struct message *request, struct switching *s, const struct probe_pattern **ret)
{
	struct probe_pattern **to = &s->owned[s->owned_count];
	struct proxy_predicate *predicate = &s->predicates[s->owned_count];
	struct switch_pattern p;
	struct probe_error *error;
	const char *text;

	*ret = NULL;
	message_read(request, &p, sizeof(p));
	if (!p.is_there)
		return NULL;
	text = message_text(request);
	*predicate = (struct proxy_predicate){s->socket, p.function, p.data};
	error = request->is_bad ? controller_bad_request()
		: p.function	? probe_pattern_predicate(text, proxy_matches, predicate, to)
				: probe_pattern_parse(text, to);
	if (error)
		return error;
	*ret = *to;
	s->owned_count++;
	return NULL;
}

static struct probe_error *read_action(
	struct message *request, struct switching *s, struct probe_action *ret)
{
	struct switch_action a;
	struct probe_error *error;

	message_read(request, &a, sizeof(a));
	ret->disable = a.disable;
	error = read_pattern(request, s, &ret->pattern);
	return error ? error : read_pattern(request, s, &ret->end);
}

static struct probe_error *read_request(struct message *request, struct switching *s)
{
	struct switch_head *h = &s->head;
	struct probe_error *error = NULL;
	size_t all;

	message_read(request, h, sizeof(*h));
	h->plan_count = message_count(request, h->plan_count, sizeof(*s->plans));
	h->pattern_count = message_count(request, h->pattern_count, sizeof(struct switch_pattern));
	h->action_count = message_count(request, h->action_count, sizeof(struct switch_action));
	all = h->pattern_count + 2 * h->action_count + 1;
	s->plans = calloc(h->plan_count + 1, sizeof(*s->plans));
	s->patterns = calloc(h->pattern_count + 1, sizeof(*s->patterns));
	s->actions = calloc(h->action_count + 1, sizeof(*s->actions));
	s->owned = calloc(all, sizeof(*s->owned));
	s->predicates = calloc(all, sizeof(*s->predicates));
	if (!s->plans || !s->patterns || !s->actions || !s->owned || !s->predicates)
		return probe_error_no_memory();
	message_read(request, s->plans, h->plan_count * sizeof(*s->plans));
	for (size_t i = 0; i < h->pattern_count && !error; i++)
		error = read_pattern(request, s, &s->patterns[i]);
	for (size_t i = 0; i < h->action_count && !error; i++)
		error = read_action(request, s, &s->actions[i]);
	return error || !request->is_bad ? error : controller_bad_request();
}

struct probe_error *switch_act(struct probe_target *target, struct message *request,
	struct probe_report *report, void *result, size_t result_bytes)
{
	struct switching s = {.socket = *(const int *)target->proxy->data};
	struct probe_error *error = read_request(request, &s);
	const struct probe_request wanted = {.patterns = s.patterns,
		.pattern_count = s.head.pattern_count,
		.keep_going = s.head.keep_going,
		.later = s.head.later,
		.force = s.head.force,
		.atomic = s.head.atomic,
		.pairs = s.head.pairs,
		.plans = s.head.has_plans ? s.plans : NULL,
		.plan_count = s.head.plan_count};

	(void)result;
	(void)result_bytes;
	if (!error && s.head.how == SWITCH_SEVERAL)
		error = probe_target_switch(
			target, s.actions, s.head.action_count, &wanted, report);
	else if (!error && s.head.how == SWITCH_ENABLE)
		error = probe_target_enable(target, &wanted, report);
	else if (!error)
		error = probe_target_disable(target, &wanted, report);
	deinit(&s);
	return error;
}

/* ---- In the process ------------------------------------------------------------------------- */

static void add_pattern(struct buffer *to, const struct probe_pattern *pattern)
{
	struct switch_pattern p = {.is_there = pattern != NULL};

	if (pattern)
		pattern_predicate(pattern, &p.function, &p.data);
	buffer_bytes(to, &p, sizeof(p));
	if (pattern)
		message_add_text(to, probe_pattern_text(pattern));
}

static void add_action(struct buffer *to, const struct probe_action *action)
{
	const struct switch_action a = {.disable = action->disable};

	buffer_bytes(to, &a, sizeof(a));
	add_pattern(to, action->pattern);
	add_pattern(to, action->end);
}

static struct probe_error *change(enum switch_how how, const struct probe_action *actions,
	size_t count, const struct probe_request *request, struct probe_report *report)
{
	const struct switch_head head = {.how = how,
		.keep_going = request->keep_going,
		.later = request->later,
		.force = request->force,
		.atomic = request->atomic,
		.pairs = request->pairs,
		.has_plans = request->plans != NULL,
		.plan_count = request->plans ? request->plan_count : 0,
		.pattern_count = request->pattern_count,
		.action_count = count};
	struct helper_work work = {.act = CONTROLLER_SWITCH, .report = report};
	struct probe_error *error;
	int cancel;

	buffer_bytes(&work.request, &head, sizeof(head));
	buffer_bytes(&work.request, request->plans, head.plan_count * sizeof(*request->plans));
	for (size_t i = 0; i < request->pattern_count; i++)
		add_pattern(&work.request, request->patterns[i]);
	for (size_t i = 0; i < count; i++)
		add_action(&work.request, &actions[i]);
	cancel = self_lock();
	error = helper_run(&work);
	self_unlock(cancel);
	return error;
}

struct probe_error *probe_self_enable(
	const struct probe_request *request, struct probe_report *report)
{
	return change(SWITCH_ENABLE, NULL, 0, request, report);
}

struct probe_error *probe_self_disable(
	const struct probe_request *request, struct probe_report *report)
{
	return change(SWITCH_DISABLE, NULL, 0, request, report);
}

struct probe_error *probe_self_switch(const struct probe_action *actions, size_t count,
	const struct probe_request *request, struct probe_report *report)
{
	return change(SWITCH_SEVERAL, actions, count, request, report);
}
