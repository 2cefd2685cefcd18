/* SPDX-License-Identifier: MIT */
/*
 * compare BEFORE AFTER: what changed from one record to another, with the pairs of each by thread.
 */
#include <stdbool.h>

#include <probe/catalogue.h>
#include <probe/reader.h>
#include <probe/summary.h>

#include "example.h"

static struct probe_summary *summarize(const char *folder, struct probe_catalogue *catalogue)
{
	static const char *const keys[] = {"tid"};
	const struct probe_summary_options options = {
		.keys = keys, .key_count = 1, .pairs = true, .catalogue = catalogue};
	struct probe_summary *summary;
	struct probe_reader *reader;
	struct probe_event event;
	bool there;

	check(probe_catalogue_load(catalogue, folder));
	check(probe_summary_create(&options, &summary));
	check(probe_reader_open(folder, &reader));
	for (;;) {
		check(probe_reader_next(reader, &event, &there));
		if (!there)
			break;
		check(probe_summary_add(summary, &event));
	}
	probe_reader_close(reader);
	return summary;
}

int main(int argc, char **argv)
{
	struct probe_summary_view views[2] = {{.top = 5, .ascii = true}, {.top = 5, .ascii = true}};
	struct probe_summary *summaries[2];
	struct probe_catalogue *catalogue;
	size_t length;
	char *text;

	if (argc != 3)
		return 2;
	check(probe_catalogue_create(&catalogue));
	for (int i = 0; i < 2; i++) {
		views[i].title = argv[i + 1];
		summaries[i] = summarize(argv[i + 1], catalogue);
	}
	check(probe_summary_compare(summaries[0], &views[0], summaries[1], &views[1],
		PROBE_SUMMARY_TEXT, &text, &length));
	fwrite(text, 1, length, stdout);
	free(text);
	check(probe_summary_check_keys(summaries[0], summaries[1]));
	for (int i = 0; i < 2; i++)
		probe_summary_free(summaries[i]);
	probe_catalogue_free(catalogue);
	return 0;
}
