/* SPDX-License-Identifier: MIT */
/* `probectl list --json`; the names are a contract: probectl-list(1). */
#include <stdio.h>

#include "cli/listing.h"
#include "cli/print.h"

static json_t *args_json(const struct probe_arg *args, size_t count)
{
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(
			array, json_pack("{s:o, s:I, s:b, s:b}", "spec", json_text(args[i].spec),
				       "size", (json_int_t)args[i].size, "signed",
				       (int)args[i].is_signed, "float", (int)args[i].is_float));
	return array;
}

/* A state that could not be read is null. */
static void add_state(json_t *object, const struct probe_site *site)
{
	json_object_set_new_nocheck(object, "pid", json_integer(site->pid));
	json_object_set_new_nocheck(object, "address", json_hex(site->bias + site->pc));
	json_object_set_new_nocheck(
		object, "enabled", site->state_known ? json_boolean(site->enabled) : json_null());
	json_object_set_new_nocheck(
		object, "refcount", site->state_known ? json_integer(site->refcount) : json_null());
	if (site->plan != PROBE_PLAN_NONE)
		json_object_set_new_nocheck(
			object, "plan", json_string(probe_plan_name(site->plan)));
}

static json_t *bytes_json(const struct probe_site_detail *detail)
{
	char text[2 * sizeof(detail->bytes) + 1] = "";

	for (size_t i = 0; i < detail->byte_count; i++)
		snprintf(text + 2 * i, 3, "%02x", detail->bytes[i]);
	return json_string_nocheck(text);
}

static void add_detail(json_t *object, const struct probe_site_detail *detail, unsigned int details)
{
	json_object_set_new_nocheck(object, "function", json_text(detail->function));
	json_object_set_new_nocheck(object, "function_offset",
		detail->function ? json_integer((json_int_t)detail->function_offset) : json_null());
	json_object_set_new_nocheck(object, "file", json_text(detail->file));
	json_object_set_new_nocheck(
		object, "line", detail->file ? json_integer(detail->line) : json_null());
	if (details < 2)
		return;
	json_object_set_new_nocheck(object, "bytes", bytes_json(detail));
	if (detail->plan == PROBE_PLAN_NONE)
		return;
	json_object_set_new_nocheck(object, "plan", json_string(probe_plan_name(detail->plan)));
	if (detail->reason)
		json_object_set_new_nocheck(object, "reason", json_text(detail->reason));
}

static struct probe_error *print_site(const struct listing *listing, const struct listed_site *item)
{
	const struct probe_site *site = item->site;
	struct probe_site_detail detail;
	const struct probe_arg *args;
	struct probe_error *error;
	json_t *object;
	size_t count;

	error = probe_list_args(item->list, site, &args, &count);
	if (!error && listing->details > 0)
		error = probe_list_detail(item->list, site, listing->details > 1, &detail);
	if (error)
		return error;
	object = json_object();
	/* Without memory these do nothing, and print_json() says so. */
	json_object_set_new_nocheck(object, "provider", json_text(site->provider));
	json_object_set_new_nocheck(object, "name", json_text(site->name));
	json_object_set_new_nocheck(object, "path", json_text(site->path));
	json_object_set_new_nocheck(object, "build_id", json_text(site->build_id));
	json_object_set_new_nocheck(object, "pc", json_hex(site->pc));
	json_object_set_new_nocheck(object, "base", json_hex(site->base));
	json_object_set_new_nocheck(object, "semaphore", json_hex(site->semaphore));
	json_object_set_new_nocheck(object, "args_spec", json_text(site->args_spec));
	json_object_set_new_nocheck(object, "args", args_json(args, count));
	if (listing->is_process)
		add_state(object, site);
	if (listing->details > 0)
		add_detail(object, &detail, listing->details);
	return print_json(object);
}

struct probe_error *listing_print_json(const struct listing *listing)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < listing->count && !error; i++)
		error = print_site(listing, &listing->items[i]);
	return error;
}
