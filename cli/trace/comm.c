/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace/comm.h"
#include "libprobe/base/file.h"

enum {
	COMM_ENTRIES = 4096, /* a power of two; threads that share one take turns */
	COMM_MAX_AGE_NS = 100000000,
	COMM_GONE_NS = 1000000000 /* that of a thread that is gone may be so old */
};

struct comm_entry {
	pid_t pid, tid; /* 0: empty */
	uint64_t asked_ns, read_ns;
	char comm[COMM_BYTES];
};

struct comm_cache {
	struct comm_entry entries[COMM_ENTRIES];
};

struct comm_cache *comm_cache_create(void)
{
	return calloc(1, sizeof(struct comm_cache));
}

void comm_cache_free(struct comm_cache *cache)
{
	free(cache);
}

static bool comm_read(const char *path, char ret[COMM_BYTES])
{
	char text[COMM_BYTES + 1];
	size_t length = file_read(path, text, sizeof(text));

	if (!length)
		return false;
	/* One newline is the kernel's; the name itself may hold others. */
	if (text[length - 1] == '\n')
		text[length - 1] = '\0';
	memcpy(ret, text, COMM_BYTES);
	ret[COMM_BYTES - 1] = '\0';
	return true;
}

static struct comm_entry *entry_of(struct comm_cache *cache, pid_t tid)
{
	return &cache->entries[(unsigned int)tid % COMM_ENTRIES];
}

const char *comm_cache_get(struct comm_cache *cache, pid_t pid, pid_t tid, uint64_t time_ns)
{
	struct comm_entry *entry = entry_of(cache, tid);
	char path[64];

	if (entry->pid != pid || entry->tid != tid)
		*entry = (struct comm_entry){.pid = pid, .tid = tid};
	else if (time_ns < entry->asked_ns + COMM_MAX_AGE_NS)
		return entry->comm[0] ? entry->comm : NULL;
	entry->asked_ns = time_ns;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	if (comm_read(path, entry->comm))
		entry->read_ns = time_ns;
	else if (time_ns >= entry->read_ns + COMM_GONE_NS)
		entry->comm[0] = '\0';
	return entry->comm[0] ? entry->comm : NULL;
}

const char *comm_cache_known(struct comm_cache *cache, pid_t pid, pid_t tid)
{
	const struct comm_entry *entry = entry_of(cache, tid);

	return entry->pid == pid && entry->tid == tid && entry->comm[0] ? entry->comm : NULL;
}

void comm_cache_forget(struct comm_cache *cache, pid_t pid)
{
	for (size_t i = 0; i < COMM_ENTRIES; i++)
		if (cache->entries[i].pid == pid)
			cache->entries[i] = (struct comm_entry){0};
}
