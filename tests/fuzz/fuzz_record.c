/* SPDX-License-Identifier: MIT */
/* Records with any metadata: its length in 2 bytes, the metadata, and a stream. */
#include "tests/fuzz/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t length;

	if (size < 2)
		return 0;
	length = (size_t)data[0] | (size_t)data[1] << 8;
	data += 2;
	size -= 2;
	length = length < size ? length : size;
	put(METADATA, data, length);
	put(STREAM, data + length, size - length);
	read_record();
	return 0;
}
