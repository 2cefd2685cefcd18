/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "cli/timer.h"
#include "cli/print/out.h"
#include "cli/print/print.h"

enum { TIME_BYTES = 32 };

/* ---- Text --------------------------------------------------------------------- */

char *printable(const char *text)
{
	struct buffer out = {0};

	out_printable(&out, text);
	buffer_char(&out, '\0');
	if (!out.no_memory)
		return out.data;
	buffer_deinit(&out);
	return NULL;
}

/* "probectl: process 12: slow:tick at 0x... in PATH: " */
static void print_site(const struct probe_bad_site *site, pid_t pid)
{
	fprintf(stderr, "probectl: process %d: ", (int)pid);
	if (site->name) {
		print_printable(stderr, site->provider);
		putc(':', stderr);
		print_printable(stderr, site->name);
	} else {
		fputs("the gate that notices libraries and programs", stderr);
	}
	fprintf(stderr, " at 0x%" PRIx64, site->pc);
	if (site->path) {
		fputs(" in ", stderr);
		print_printable(stderr, site->path);
	}
	fputs(": ", stderr);
}

void print_bad_site(const struct probe_bad_site *site, pid_t pid, const char *consequence)
{
	char fault[PROBE_FAULT_BYTES];

	probe_fault_text(fault, site->fault, site->bytes, site->length);
	print_site(site, pid);
	fprintf(stderr, "%s%s\n", fault, consequence);
}

/* "15:04:05.123", of the local time; "?" where it is not known. */
static void time_text(char text[TIME_BYTES], uint64_t ns)
{
	time_t seconds = (time_t)(ns / NSEC_PER_SEC);
	char clock[16] = "";
	struct tm tm;

	if (!ns || !localtime_r(&seconds, &tm) || !strftime(clock, sizeof(clock), "%H:%M:%S", &tm))
		snprintf(text, TIME_BYTES, "?");
	else
		snprintf(text, TIME_BYTES, "%s.%03u", clock,
			(unsigned int)(ns % NSEC_PER_SEC / (NSEC_PER_SEC / 1000)));
}

void print_site_news(const struct probe_site_news *news, pid_t pid)
{
	char good[TIME_BYTES], bad[TIME_BYTES], now[TIME_BYTES], text[160];

	time_text(good, news->good_ns);
	time_text(bad, news->bad_ns);
	time_text(now, news->now_ns);
	switch (news->event) {
	case PROBE_SITE_BAD:
		snprintf(text, sizeof(text),
			"; its hits are not counted, since %s at the latest (in order at %s)", bad,
			good);
		print_bad_site(&news->site, pid, text);
		break;
	case PROBE_SITE_BACK:
		print_site(&news->site, pid);
		fprintf(stderr, "patched again at %s; its hits since %s are missing\n", now, bad);
		break;
	case PROBE_SITE_LEFT:
		print_bad_site(&news->site, pid,
			"; it is left as it is, and so is the code that its jump leads to "
			"(probectl repair)");
		break;
	}
}

void print_printable(FILE *stream, const char *text)
{
	char *copy = printable(text);

	fputs(copy ? copy : "(out of memory)", stream);
	free(copy);
}
