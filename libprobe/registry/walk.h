/* SPDX-License-Identifier: MIT */
/*
 * Records one after the other, in a copy of a ring's bytes: the target may have written anything
 * there, but no longer changes it. Nothing outside the bytes given is touched.
 */
#ifndef LIBPROBE_REGISTRY_WALK_H
#define LIBPROBE_REGISTRY_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "arch/layout.h"

/* What the records of one site look like. It is compared byte by byte, so it has no padding. */
struct ring_form {
	uint16_t fixed; /* bytes before those that vary; 0: there is no such site */
	uint16_t count; /* of the words that say how many vary */
	struct ring_word {
		uint16_t at;   /* in the record */
		uint16_t most; /* bytes, at most */
	} words[ARCH_ARGS_MAX];
};

/* Those of a session's sites, by their numbers. */
struct ring_forms {
	const struct ring_form *forms;
	size_t count;
};

/*
 * The length of a record without its padding; 0 if the bytes make no sense. There are `size` bytes
 * at the record.
 */
size_t ring_record_length(const struct ring_forms *forms, const uint8_t *record, size_t size);

enum ring_walk_end {
	RING_WALK_ALL,	  /* all bytes, or as many as may be looked at */
	RING_WALK_CUT,	  /* the next record is of a later time */
	RING_WALK_TIME,	  /* it is older than the one before, or of the future */
	RING_WALK_FULL,	  /* its thread is one too many */
	RING_WALK_DAMAGED /* it makes no sense */
};

struct ring_walk {
	const struct ring_forms *forms;
	uint64_t *hits;	     /* of each site: added to */
	uint64_t last;	     /* time of the record before the first; then of the last one */
	uint64_t until, now; /* RING_WALK_CUT from there on; RING_WALK_TIME after that */
	/* Called where another thread begins; false: it is one too many. */
	bool (*thread)(void *data, uint32_t word);
	void *data;
	/* Results: */
	uint64_t first; /* time of the first record */
	size_t records;
	size_t content; /* bytes up to the end of the last one, without its padding */
	enum ring_walk_end end;
};

/*
 * Walks the records in `size` bytes, of which none begins at `begins` or later. Returns how many
 * bytes those have that make sense, with the padding.
 */
size_t ring_walk(struct ring_walk *walk, const uint8_t *from, size_t size, size_t begins);

#endif
