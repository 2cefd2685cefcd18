/* SPDX-License-Identifier: MIT */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/unit/self/self_text.h"

void self_ok(struct probe_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

void self_fails(struct probe_error *error, enum probe_error_code code, const char *text)
{
	assert_non_null(error);
	if (error->code != code || !strstr(error->message, text))
		fail_msg("error %d: %s", error->code, error->message);
	probe_error_free(error);
}

/* ---- Memory --------------------------------------------------------------------------- */

struct text {
	const uint8_t *start;
	size_t size;
	uint8_t *copy;
};
static struct text text;

/* The first module is the program. */
static int find_text(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	(void)data;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
			text.start =
				(const uint8_t *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
			text.size = info->dlpi_phdr[i].p_memsz;
		}
	return 1;
}

/* Not memcpy(): it must not read what the sanitizers do not know. */
__attribute__((no_sanitize("address"))) void self_text_save(void)
{
	dl_iterate_phdr(find_text, NULL);
	free(text.copy);
	text.copy = malloc(text.size);
	assert_non_null(text.copy);
	for (size_t i = 0; i < text.size; i++)
		text.copy[i] = text.start[i];
}

__attribute__((no_sanitize("address"))) void self_text_same(void)
{
	for (size_t i = 0; i < text.size; i++)
		if (text.copy[i] != text.start[i])
			fail_msg("the text is not as it was, at %p", (const void *)&text.start[i]);
}

void self_nothing_left(void)
{
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "/memfd:probectl"))
			fail_msg("left: %s", line);
	fclose(maps);
}

/* ---- Switching ------------------------------------------------------------------------ */

enum { PATTERNS_MAX = 32 };

const struct probe_request *self_request(const char *pattern)
{
	static struct {
		const char *text;
		const struct probe_pattern *parsed;
		struct probe_request request;
	} known[PATTERNS_MAX];
	struct probe_pattern *parsed;
	size_t i = 0;

	while (known[i].text && strcmp(known[i].text, pattern))
		assert_true(++i < PATTERNS_MAX);
	if (!known[i].text) {
		self_ok(probe_pattern_parse(pattern, &parsed));
		known[i].text = pattern;
		known[i].parsed = parsed;
		known[i].request =
			(struct probe_request){.patterns = &known[i].parsed, .pattern_count = 1};
	}
	return &known[i].request;
}

void self_enable(const char *pattern)
{
	struct probe_report report = {0};

	self_ok(probe_self_enable(self_request(pattern), &report));
	probe_report_deinit(&report);
}

void self_disable(const char *pattern)
{
	struct probe_report report = {0};

	self_ok(probe_self_disable(self_request(pattern), &report));
	probe_report_deinit(&report);
}

struct probe_status self_status(const char *provider, const char *name)
{
	struct probe_status *states, found = {0};
	size_t count, matches = 0;

	self_ok(probe_self_status(&states, &count));
	for (size_t i = 0; i < count; i++) {
		if (strcmp(states[i].provider, provider) || strcmp(states[i].name, name))
			continue;
		found = states[i];
		matches++;
	}
	free(states);
	found.provider = found.name = found.path = NULL;
	assert_int_equal(matches, 1);
	return found;
}

void self_join(pid_t child)
{
	int status;

	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail_msg("the child ended with %#x", status);
}
