/* SPDX-License-Identifier: MIT */
/*
 * A summary as an HTML page: page.html, with the summary's JSON in place of a line. Its script
 * makes charts and tables.
 */
#include <string.h>

#include "libprobe/output/output.h"
#include "libprobe/report/report.h"

static const char place[] = "\nRECORD\n";

void summary_html(struct buffer *out, const struct probe_summary *summary,
	const struct probe_summary_view *view)
{
	const char *rest = strstr(page_template, place) + 1;
	struct buffer json;

	if (!buffer_init(&json)) {
		out->no_memory = true;
		return;
	}
	summary_json(&json, summary, view, true);
	buffer_bytes(out, page_template, (size_t)(rest - page_template));
	/* Strings may hold `</script>` or `<!--`, which would end the element. */
	for (size_t i = 0; i < json.length; i++) {
		if (json.data[i] == '<')
			buffer_string(out, "\\u003c");
		else
			buffer_char(out, json.data[i]);
	}
	buffer_string(out, rest + strlen(place) - 1);
	out->no_memory |= json.no_memory;
	buffer_deinit(&json);
}
