/* SPDX-License-Identifier: MIT */
/*
 * Whole files through elf/ and the plans: headers, notes, build id, symbols, function bounds,
 * landing pads, and what a site's bytes allow. Any bytes give an error or results that stay
 * within the file.
 *
 * Inputs above INPUT_BYTES_MAX are skipped: tables are searched completely, and a fuzzer learns
 * more from many small files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/arch.h"
#include "elf/object.h"
#include "elf/sdt.h"
#include "libprobe/patch/patch.h"
#include "libprobe/query/query.h"
#include "tests/fuzz/require.h"

enum { INPUT_BYTES_MAX = 1 << 16, LOOKED_AT_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count_pad(uint64_t address, void *data)
{
	(void)address;
	++*(size_t *)data;
}

static void look_at(struct object *object, uint64_t address, size_t file_size)
{
	struct object_function function = {.lsda = 0};
	uint64_t start, offset;
	const char *name = object_symbol_at(object, address, &start);
	const char *data = object_data_at(object, address);
	size_t pads = 0;
	uint8_t byte;

	if (name) {
		require(start <= address, "a function begins behind what it covers");
		require(strlen(name) < file_size, "a name is longer than the file");
	}
	require(!data || strlen(data) < file_size, "the name of data is longer than the file");
	if (object_offset_of(object, address, &offset))
		require(offset < file_size, "an offset is behind the file's end");
	require(object_read(object, address, &byte, 1) <= 1, "more was read than asked for");
	if (object_function_at(object, address, &function))
		require(function.range.start <= address && address < function.range.end,
			"a function does not hold its address");
	(void)object_landing_pads(object, &function, count_pad, &pads);
	require(pads <= file_size, "more landing pads than bytes");
}

static void check_notes(const struct sdt_notes *notes, size_t file_size)
{
	require(notes->count <= file_size / 20 && notes->defect_count <= file_size + 16,
		"more notes than there is room for");
	for (size_t i = 0; i < notes->count; i++) {
		const struct sdt_note *note = &notes->notes[i];
		size_t bytes = strlen(note->provider) + strlen(note->name) + strlen(note->args);

		require(note->offset < file_size && bytes < file_size, "a note outside the file");
		require(*note->provider && *note->name, "a probe without a name");
	}
	for (size_t i = 0; i < notes->defect_count; i++)
		require(notes->defects[i].what != NULL, "a defect that says nothing");
}

static void check_move(const struct plan *plan, const struct plan_way *move, size_t jump)
{
	require(move->cannot ? !move->length : !move->length || move->length >= jump,
		"too little is moved");
	require(move->offset >= plan->row &&
			move->offset + move->length <= (int)(plan->row + plan->byte_count),
		"more is moved than was read");
}

static void check_plan(const struct plan *plan, size_t jump)
{
	require(plan->byte_count <= PLAN_BYTES, "a plan knows more bytes than it has");
	require(plan->nop.offset + (size_t)plan->nop.relies <= plan->byte_count,
		"a nop ends behind what was read");
	check_move(plan, &plan->behind, jump);
}

static void check_plans(struct object *object, const struct sdt_notes *notes)
{
	const struct arch *arch = arch_of_machine(object_machine(object));
	const struct sdt_note *sites[LOOKED_AT_MAX];
	static const struct plan_order behind = {.plans = {&plan_behind}, .count = 1};
	struct plan plans[LOOKED_AT_MAX];
	struct probe_error *error;
	size_t count = 0;

	for (size_t i = 0; i < notes->count && count < LOOKED_AT_MAX; i++)
		if (notes->notes[i].pc)
			sites[count++] = &notes->notes[i];
	error = plan_sites(object, notes, sites, count, &behind, plans);
	for (size_t i = 0; i < count && !error; i++)
		check_plan(&plans[i], arch ? arch->jump_length : 0);
	probe_error_free(error);
}

/* The functions of a file, also of those whose symbols are in .gnu_debugdata. */
static void check_functions(struct object *object, const struct sdt_notes *notes)
{
	const struct arch *arch = arch_of_machine(object_machine(object));
	struct probe_pattern *both = NULL;
	struct probe_error *error = probe_pattern_parse("fn:*", &both);
	static const struct plan_order order = {
		.plans = {&plan_behind, &plan_hop, &plan_before}, .count = 3};
	struct sdt_functions functions = {0};
	struct plan plans[LOOKED_AT_MAX];

	if (!error && probe_pattern_pair(both))
		error = select_functions(object, "input",
			(const struct probe_pattern *const *)&both, 1, NULL, NULL, &functions);
	for (size_t i = 0; i < functions.count && !error; i++) {
		const struct sdt_note *note = functions.items[i];

		require(event_is_of_function(note->provider) && *note->name,
			"a function has no name");
		require(strlen(note->args) < ARCH_FUNCTION_TEXT, "arguments without end");
		require(note->kind == SDT_ENTRY || note->kind == SDT_EXIT,
			"neither entry nor exit");
	}
	if (!error && arch && functions.count)
		error = plan_sites(object, notes, (const struct sdt_note *const *)functions.items,
			functions.count < LOOKED_AT_MAX ? functions.count : LOOKED_AT_MAX, &order,
			plans);
	probe_error_free(error);
	sdt_functions_deinit(&functions);
	probe_pattern_free(both);
}

static void check_object(struct object *object, size_t file_size)
{
	const struct object_segment *segments;
	struct probe_error *error;
	struct sdt_notes notes;
	uint64_t value, symbol_size;
	size_t count;

	require(strlen(object_build_id(object)) <= 512, "a build id without end");
	segments = object_segments(object, &count);
	for (size_t i = 0; i < count && i < LOOKED_AT_MAX; i++) {
		look_at(object, segments[i].address, file_size);
		look_at(object, segments[i].address + segments[i].file_size / 2, file_size);
	}
	if (object_symbol(object, "main", 4, &value, &symbol_size))
		look_at(object, value, file_size);
	error = sdt_read(object, &notes);
	if (error) {
		probe_error_free(error);
		return;
	}
	check_notes(&notes, file_size);
	for (size_t i = 0; i < notes.count && i < LOOKED_AT_MAX; i++)
		look_at(object, notes.notes[i].pc, file_size);
	check_plans(object, &notes);
	check_functions(object, &notes);
	sdt_notes_deinit(&notes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct probe_error *error;
	struct object *object;

	if (size > INPUT_BYTES_MAX)
		return 0;
	if (fd < 0)
		fd = memfd_create("input", MFD_CLOEXEC);
	require(fd >= 0 && !ftruncate(fd, (off_t)size) &&
			pwrite(fd, data, size, 0) == (ssize_t)size,
		"the input cannot be made a file");
	error = object_open_fd(fd, "input", &object);
	if (error) {
		require(*error->message, "an error that says nothing");
		probe_error_free(error);
		return 0;
	}
	check_object(object, size);
	object_close(object);
	return 0;
}
