/* SPDX-License-Identifier: MIT */
/*
 * jit-PID.dump, as a process may write it: any bytes, in two parts, give names that are in the
 *file.
 *
 *	input	where the second part begins, 2 bytes; the file
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libprobe/modules/jit_dump.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct jit_dump *dump, size_t size)
{
	for (size_t i = 0; i < dump->entries.count; i++) {
		const struct jit_entry *entry = &dump->entries.items[i];
		uint64_t start = 0;
		const char *name = jit_dump_find(dump, entry->end - 1, &start);

		require(entry->start < entry->end, "a range is empty");
		require(entry->name < dump->names.length, "a name is not there");
		require(!i || dump->entries.items[i - 1].start <= entry->start, "out of order");
		/* Of many that overlap, only the next ones are looked at. */
		require(!name || (start < entry->end && strlen(name) && strlen(name) < size),
			"a name that nobody wrote");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jit_dump dump;
	uint16_t half;

	if (size < sizeof(half))
		return 0;
	memcpy(&half, data, sizeof(half));
	data += sizeof(half);
	size -= sizeof(half);
	if (half > size)
		half = (uint16_t)size;
	jit_dump_init(&dump);
	dump.fd = memfd_create("jit-1.dump", MFD_CLOEXEC);
	require(dump.fd >= 0, "no file");
	require(write(dump.fd, data, half) == half, "no file");
	(void)jit_dump_read(&dump);
	check(&dump, size);
	require(write(dump.fd, data + half, size - half) == (ssize_t)(size - half), "no file");
	(void)jit_dump_read(&dump);
	check(&dump, size);
	jit_dump_deinit(&dump);
	return 0;
}
