/* SPDX-License-Identifier: MIT */
/*
 * Hashes for tables in memory. Short keys are hashed millions of times a second, so it is inline,
 * with one multiplication for eight bytes, whose halves are combined as in wyhash
 * (https://github.com/wangyi-fudan/wyhash). A program that chooses the keys can make them collide.
 */
#ifndef LIBPROBE_BASE_HASH_H
#define LIBPROBE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The lower bits of the hash depend on the upper bits of the word, too. */
static inline uint64_t hash_word(uint64_t seed, uint64_t word)
{
	unsigned __int128 product = (unsigned __int128)(seed ^ word) * UINT64_C(0xff51afd7ed558ccd);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_load(const char *from, size_t length)
{
	uint32_t low, high;
	uint64_t word;

	if (length >= sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		return word;
	}
	if (length >= sizeof(low)) {
		/* The two loads overlap, and cover all bytes. */
		memcpy(&low, from, sizeof(low));
		memcpy(&high, from + length - sizeof(high), sizeof(high));
		return (uint64_t)high << 32 | low;
	}
	word = length ? (unsigned char)from[0] : 0;
	for (size_t i = 1; i < length; i++)
		word = word << 8 | (unsigned char)from[i];
	return word;
}

static inline uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t length)
{
	const char *from = bytes;
	uint64_t hash = seed ^ length * UINT64_C(0x9e3779b97f4a7c15);
	size_t left = length;

	for (; left > 8; left -= 8, from += 8)
		hash = hash_word(hash, hash_load(from, 8));
	/* The last eight bytes; some are hashed already. */
	if (length > 8)
		return hash_word(hash, hash_load(from + left - 8, 8));
	return hash_word(hash, hash_load(from, left));
}

#endif
