/* SPDX-License-Identifier: MIT */
#include "elf/pointers.h"

size_t eh_pointer_size(uint8_t encoding, bool wide)
{
	switch (encoding & EH_FORMAT) {
	case EH_ABSPTR:
	case EH_SIGNED:
		return wide ? 8 : 4;
	case EH_UDATA2:
	case EH_SDATA2:
		return 2;
	case EH_UDATA4:
	case EH_SDATA4:
		return 4;
	case EH_UDATA8:
	case EH_SDATA8:
		return 8;
	default:
		return 0;
	}
}

static uint64_t read_format(struct bytes *bytes, uint8_t encoding)
{
	size_t size = eh_pointer_size(encoding, bytes->wide);

	switch (encoding & EH_FORMAT) {
	case EH_ULEB128:
		return bytes_uleb(bytes);
	case EH_SLEB128:
		return (uint64_t)bytes_sleb(bytes);
	default:
		break;
	}
	if (!size) {
		bytes->failed = true;
		return 0;
	}
	if (encoding & EH_SIGNED)
		return (uint64_t)bytes_signed(bytes, size);
	return bytes_unsigned(bytes, size);
}

static uint64_t base_of(struct bytes *bytes, uint8_t encoding, const struct eh_bases *bases)
{
	switch (encoding & EH_BASE) {
	case EH_ABSPTR:
	case EH_ALIGNED:
		return 0;
	case EH_PCREL:
		return bytes_here(bytes);
	case EH_DATAREL:
		if (bases->has_data)
			return bases->data;
		break;
	case EH_FUNCREL:
		if (bases->has_function)
			return bases->function;
		break;
	default:
		break;
	}
	/* No Linux system uses pointers relative to the text segment. */
	bytes->failed = true;
	return 0;
}

uint64_t eh_pointer(
	struct bytes *bytes, uint8_t encoding, const struct eh_bases *bases, uint64_t *raw_ret)
{
	uint64_t width = bytes->wide ? 8 : 4;
	uint64_t base, raw, value;

	if ((encoding & EH_BASE) == EH_ALIGNED) {
		bytes_skip(bytes, -bytes_here(bytes) & (width - 1));
		encoding = EH_ABSPTR;
	}
	base = base_of(bytes, encoding, bases);
	raw = read_format(bytes, encoding);
	value = base + raw;
	if (raw_ret)
		*raw_ret = raw;
	return bytes->wide ? value : value & 0xffffffff;
}
