/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "arch/stub/unwind.h"

/* An FDE, with its length. */
struct fde {
	uint32_t length;
	uint32_t cie; /* distance from here back to the CIE */
	uint64_t start, size;
	uint8_t augmentation, nops[7];
};
_Static_assert(sizeof(struct fde) == 32, "entries are aligned");

size_t unwind_section(const uint8_t *cie, uint32_t cie_bytes, const struct arch_extent *stubs,
	size_t count, uint8_t *out, size_t room)
{
	size_t at = sizeof(cie_bytes) + cie_bytes;
	size_t all = at + count * sizeof(struct fde) + sizeof(uint32_t);

	if (room < all)
		return all;
	memcpy(out, &cie_bytes, sizeof(cie_bytes));
	memcpy(out + sizeof(cie_bytes), cie, cie_bytes);
	for (size_t i = 0; i < count; i++, at += sizeof(struct fde)) {
		struct fde fde = {.length = sizeof(fde) - sizeof(fde.length),
			.cie = (uint32_t)(at + sizeof(fde.length)),
			.start = stubs[i].start,
			.size = stubs[i].size};

		memcpy(out + at, &fde, sizeof(fde));
	}
	memset(out + at, 0, sizeof(uint32_t)); /* the end */
	return all;
}
