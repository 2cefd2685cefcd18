/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/record/take_host.h"

enum { RINGS_SHIFT = 21 };

static void add_site(struct take_host *h, size_t i, struct arch_capture capture)
{
	h->probes[i] = (struct probe_session_probe){
		.provider = "p", .name = i ? "text" : "number", .path = "/bin/p"};
	h->sites[i] = (struct session_site){.probe = i,
		.number = (uint32_t)i,
		.layout = {.args = {{.value = i ? -1 : 0,
				   .string = i ? 0 : -1,
				   .size = i ? 8 : 4,
				   .is_signed = !i}},
			.arg_count = 1,
			.captures = {capture},
			.capture_count = 1,
			.recorded = 1}};
}

void take_session_open(struct take_host *h)
{
	struct probe_session *s = &h->session;
	int fd = memfd_create("ring", MFD_CLOEXEC);

	h->layout = (struct reg_session){.id = 1,
		.cpus = 1,
		.data = TAKE_PAGE,
		.data_size = TAKE_PAGE + (UINT64_C(2) << RINGS_SHIFT),
		.rings = 2 * TAKE_PAGE,
		.rings_shift = RINGS_SHIFT,
		.ring_bytes = TAKE_RING_BYTES};
	assert_int_equal(ftruncate(fd, (off_t)h->layout.data_size), 0);
	assert_null(rings_open(fd, &h->layout, &s->data.rings));
	close(fd);
	add_site(h, 0, (struct arch_capture){.arg = {.size = 4}});
	add_site(h, 1,
		(struct arch_capture){.arg = {.size = 8}, .is_string = true, .bytes_max = 64});
	s->options.kind = PROBE_SESSION_RECORD;
	s->probes = h->probes;
	s->known = h->known;
	s->probe_count = 2;
	s->sites = h->sites;
	s->site_count = 2;
	s->record_max = 128;
	s->processes.root = TAKE_PID;
	clock_init(&s->clock, NULL);
}

void take_open(struct take_host *h, const char *folder, const struct probe_ctf_options *options)
{
	*h = (struct take_host){0};
	take_session_open(h);
	snprintf(h->path, sizeof(h->path), "%s/probectl-take.XXXXXX", folder);
	assert_non_null(mkdtemp(h->path));
	assert_null(probe_ctf_create(h->path, options, &h->ctf));
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	return remove(path);
}

void take_close(struct take_host *h)
{
	probe_ctf_free(h->ctf);
	rings_close(&h->session.data.rings);
	assert_int_equal(nftw(h->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

void take_hit(struct take_host *h, uint64_t time, uint32_t site, uint32_t tid, const char *text)
{
	struct ring *ring = &h->session.data.rings.rings[0];
	uint64_t head = ring->header->head;
	uint8_t *at = (uint8_t *)ring->data + (head & (TAKE_RING_BYTES - 1));
	const struct ring_record record = {.time = time, .site = site, .tid = tid};
	uint32_t word = site ? (uint32_t)strlen(text) : (uint32_t)(head / TAKE_NUMBER);

	memcpy(at, &record, TAKE_RECORD);
	memcpy(at + TAKE_RECORD, &word, sizeof(word));
	if (site)
		memcpy(at + TAKE_RECORD + sizeof(word), text, word);
	ring->header->head = head + ring_padded(TAKE_RECORD + 4 + (site ? word : 0), RING_ALIGN);
}

static const char *name_of(void *data, pid_t pid, pid_t tid, uint64_t time_ns)
{
	(void)time_ns;
	/* A child's word is looked for among all processes. */
	assert_true(pid == TAKE_PID || tid == 3);
	return tid == 77 ? data : NULL;
}

uint64_t take_hits(struct take_host *h, enum probe_ctf_amount amount)
{
	const struct probe_ctf_names names = {name_of, "comm"};
	struct probe_ctf_taken taken;

	assert_null(probe_ctf_take(h->ctf, &h->session, amount, &names, &taken));
	assert_true(taken.can);
	return taken.hits;
}

uint8_t *take_contents(const struct take_host *h, const char *name, size_t *size_ret)
{
	char path[128];
	struct stat status;
	uint8_t *bytes;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", h->path, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	assert_int_equal(fstat(fd, &status), 0);
	bytes = calloc(1, (size_t)status.st_size + 1);
	assert_non_null(bytes);
	assert_int_equal(read(fd, bytes, (size_t)status.st_size), status.st_size);
	close(fd);
	*size_ret = (size_t)status.st_size;
	return bytes;
}

uint64_t take_number(const uint8_t *at, size_t size)
{
	uint64_t value = 0;

	memcpy(&value, at, size);
	return value;
}

static void read_packet(const uint8_t *packet, struct take_found *found)
{
	size_t content = take_number(packet + 40, 8) / 8, at = CTF_TAKEN_HEADER_BYTES;

	assert_int_equal(take_number(packet, 4), 0xc1fc1fc1);
	assert_true(take_number(packet + 24, 8) >= found->last);
	assert_int_equal(take_number(packet + 76, 4), TAKE_PID);
	while (at < content) {
		uint64_t time = take_number(packet + at, 8);

		assert_true(time >= found->last);
		found->last = time;
		if (take_number(packet + at + 8, 4) == CTF_THREAD_ID) {
			at += TAKE_RECORD + 8 +
			      strlen((const char *)packet + at + TAKE_RECORD + 8) + 1;
			found->names++;
		} else {
			assert_int_equal(take_number(packet + at + 8, 4), 0);
			found->in_order &=
				take_number(packet + at + TAKE_RECORD, 4) == found->next++;
			found->hits++;
			at += TAKE_NUMBER;
		}
		assert_true(at <= content);
		at = ring_padded(at, RING_ALIGN);
	}
	/* It may be that of the first one in the next packet. */
	assert_true(take_number(packet + 32, 8) >= found->last);
}

struct take_found take_stream(const struct take_host *h, const char *name)
{
	struct take_found found = {.in_order = true};
	size_t size = 0, at = 0, length;
	uint8_t *bytes = take_contents(h, name, &size);

	assert_non_null(bytes);
	for (; at < size; at += length) {
		length = take_number(bytes + at + 48, 8) / 8;
		assert_true(length && length % TAKE_PAGE == 0 && length <= size - at);
		assert_int_equal(take_number(bytes + at + 56, 8), found.packets++);
		found.largest = length > found.largest ? length : found.largest;
		read_packet(bytes + at, &found);
		found.lost = take_number(bytes + at + 64, 8);
	}
	free(bytes);
	return found;
}
