/* SPDX-License-Identifier: MIT */
/*
 * Metadata for CTF 2: translated from what it is for CTF 1.8, so that there is one place which says
 * what the bytes of events are.
 */
#include "libprobe/record/ctf2.h"
#include "libprobe/record/ctf.h"

struct probe_error *ctf_metadata_in_json(struct buffer *text)
{
	struct probe_error *error;
	struct buffer json;
	struct tsdl tsdl;

	if (text->no_memory || !buffer_init(&json))
		return probe_error_no_memory();
	error = tsdl_parse(text->data, text->length, &tsdl);
	if (!error)
		ctf2_write(&json, &tsdl);
	tsdl_free(&tsdl);
	if (!error && json.no_memory)
		error = probe_error_no_memory();
	if (error) {
		buffer_deinit(&json);
		return probe_error_prefix(error, "cannot write the metadata as JSON");
	}
	buffer_deinit(text);
	*text = json;
	return NULL;
}
