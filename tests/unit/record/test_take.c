/* SPDX-License-Identifier: MIT */
/* A record of rings' own bytes: packets byte by byte, large and small ones, and bad rings. */
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/record/ctf_writer.h"
#include "libprobe/session/session.h"

enum {
	PAGE = CTF_PACKET_BYTES,
	RING_BYTES = 1 << 20,
	RINGS_SHIFT = 21,
	RECORD = sizeof(struct ring_record),
	NUMBER = 20, /* bytes of a record of site 0 */
	PID = 4321
};

/* A session with one CPU; site 0 has a number of 4 bytes, site 1 a string. */
struct host {
	struct probe_session session;
	struct probe_session_probe probes[2];
	struct session_probe known[2];
	struct session_site sites[2];
	struct reg_session layout;
	char path[64];
	struct probe_ctf *ctf;
};

static void add_site(struct host *h, size_t i, struct arch_capture capture)
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

static void session_open(struct host *h)
{
	struct probe_session *s = &h->session;
	int fd = memfd_create("ring", MFD_CLOEXEC);

	h->layout = (struct reg_session){.id = 1,
		.cpus = 1,
		.data = PAGE,
		.data_size = PAGE + (UINT64_C(2) << RINGS_SHIFT),
		.rings = 2 * PAGE,
		.rings_shift = RINGS_SHIFT,
		.ring_bytes = RING_BYTES};
	assert_int_equal(ftruncate(fd, (off_t)h->layout.data_size), 0);
	assert_null(rings_open(fd, &h->layout, &s->rings));
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
	s->processes.root = PID;
	clock_init(&s->clock, NULL);
}

static void host_open(struct host *h, const char *folder, const struct probe_ctf_options *options)
{
	*h = (struct host){0};
	session_open(h);
	snprintf(h->path, sizeof(h->path), "%s/probectl-take.XXXXXX", folder);
	assert_non_null(mkdtemp(h->path));
	assert_null(probe_ctf_create(h->path, options, &h->ctf));
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	return remove(path);
}

static void host_close(struct host *h)
{
	probe_ctf_free(h->ctf);
	rings_close(&h->session.rings);
	assert_int_equal(nftw(h->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* What a stub does: a record in ring 0. */
static void hit(struct host *h, uint64_t time, uint32_t site, uint32_t tid, const char *text)
{
	struct ring *ring = &h->session.rings.rings[0];
	uint64_t head = ring->header->head;
	uint8_t *at = (uint8_t *)ring->data + (head & (RING_BYTES - 1));
	const struct ring_record record = {.time = time, .site = site, .tid = tid};
	uint32_t word = site ? (uint32_t)strlen(text) : (uint32_t)(head / NUMBER);

	memcpy(at, &record, RECORD);
	memcpy(at + RECORD, &word, sizeof(word));
	if (site)
		memcpy(at + RECORD + sizeof(word), text, word);
	ring->header->head = head + ring_padded(RECORD + 4 + (site ? word : 0), RING_ALIGN);
}

static const char *name_of(void *data, pid_t pid, pid_t tid, uint64_t time_ns)
{
	(void)time_ns;
	/* A child's word is looked for among all processes. */
	assert_true(pid == PID || tid == 3);
	return tid == 77 ? data : NULL;
}

static uint64_t take(struct host *h, enum probe_ctf_amount amount)
{
	const struct probe_ctf_names names = {name_of, "comm"};
	struct probe_ctf_taken taken;

	assert_null(probe_ctf_take(h->ctf, &h->session, amount, &names, &taken));
	assert_true(taken.can);
	return taken.hits;
}

/* The contents of a file; the caller frees them. */
static uint8_t *contents(const struct host *h, const char *name, size_t *size_ret)
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

static uint64_t number(const uint8_t *at, size_t size)
{
	uint64_t value = 0;

	memcpy(&value, at, size);
	return value;
}

/* What is in a stream of hits of site 0. */
struct found {
	size_t packets, largest, hits, names, lost;
	uint64_t last; /* time */
	uint32_t next; /* number */
	bool in_order;
};

static void read_packet(const uint8_t *packet, struct found *found)
{
	size_t content = number(packet + 40, 8) / 8, at = CTF_TAKEN_HEADER_BYTES;

	assert_int_equal(number(packet, 4), 0xc1fc1fc1);
	assert_true(number(packet + 24, 8) >= found->last);
	assert_int_equal(number(packet + 76, 4), PID);
	while (at < content) {
		uint64_t time = number(packet + at, 8);

		assert_true(time >= found->last);
		found->last = time;
		if (number(packet + at + 8, 4) == CTF_THREAD_ID) {
			at += RECORD + 8 + strlen((const char *)packet + at + RECORD + 8) + 1;
			found->names++;
		} else {
			assert_int_equal(number(packet + at + 8, 4), 0);
			found->in_order &= number(packet + at + RECORD, 4) == found->next++;
			found->hits++;
			at += NUMBER;
		}
		assert_true(at <= content);
		at = ring_padded(at, RING_ALIGN);
	}
	/* It may be that of the first one in the next packet. */
	assert_true(number(packet + 32, 8) >= found->last);
}

static struct found read_stream(const struct host *h, const char *name)
{
	struct found found = {.in_order = true};
	size_t size = 0, at = 0, length;
	uint8_t *bytes = contents(h, name, &size);

	assert_non_null(bytes);
	for (; at < size; at += length) {
		length = number(bytes + at + 48, 8) / 8;
		assert_true(length && length % PAGE == 0 && length <= size - at);
		assert_int_equal(number(bytes + at + 56, 8), found.packets++);
		found.largest = length > found.largest ? length : found.largest;
		read_packet(bytes + at, &found);
		found.lost = number(bytes + at + 64, 8);
	}
	free(bytes);
	return found;
}

static void test_bytes(void **state)
{
	static const uint8_t fields[] = {3, 0, 0, 0, 'a', 'b', 'c'};
	struct host h;
	uint64_t time, size;
	uint8_t *bytes;
	size_t length;

	(void)state;
	host_open(&h, "/tmp", NULL);
	time = clock_monotonic_ns();
	hit(&h, time, 1, 77, "abc");
	hit(&h, time + 1, 0, 77, NULL);
	/* It is not worth a write. */
	assert_int_equal(take(&h, PROBE_CTF_MUCH), 0);
	assert_int_equal(take(&h, PROBE_CTF_ALL), 2);
	assert_int_equal(h.known[0].consumed, 1);
	assert_int_equal(h.session.rings.rings[0].header->tail, 44);

	bytes = contents(&h, "stream_0_cpu0", &length);
	assert_non_null(bytes);
	assert_int_equal(length, PAGE);
	assert_int_equal(number(bytes + 20, 4), 1);
	assert_int_equal(number(bytes + 24, 8), time);
	assert_int_equal(number(bytes + 32, 8), time + 1);
	/* The name takes 29 bytes, the string 23, the number 20; each is aligned. */
	size = CTF_TAKEN_HEADER_BYTES + 32 + 24 + 20;
	assert_int_equal(number(bytes + 40, 8), 8 * size);
	assert_int_equal(number(bytes + 88, 4), CTF_THREAD_ID);
	assert_int_equal(number(bytes + 92, 4), 77);
	assert_int_equal(number(bytes + 96, 4), PID);
	assert_string_equal((char *)bytes + 104, "comm");
	assert_int_equal(number(bytes + 112, 8), time);
	assert_int_equal(number(bytes + 120, 4), 1);
	assert_memory_equal(bytes + 128, fields, sizeof(fields));
	assert_int_equal(number(bytes + 136, 8), time + 1);
	free(bytes);

	bytes = contents(&h, "metadata", &length);
	assert_non_null(strstr((char *)bytes, "clock {\n\tname = \"monotonic\";"));
	assert_non_null(strstr((char *)bytes, "freq = 1000000000;"));
	assert_non_null(strstr((char *)bytes,
		"event {\n\tname = \"p:text\";\n\tid = 1;\n\tstream_id = 1;\n"
		"\tmodel.emf.uri = \"/bin/p\";\n\tfields := struct {\n"
		"\t\tlength_t _arg0_length;\n\t\tbit_t arg0_truncated;\n"
		"\t\tbit_t arg0_unreadable;\n\t\tchar_t arg0[_arg0_length];\n"));
	assert_non_null(strstr((char *)bytes, "\t\tint32_t arg0;\n"));
	free(bytes);
	host_close(&h);
}

/* Fills the ring so that it goes across its end. */
static size_t fill(struct host *h, uint64_t time)
{
	struct ring *ring = &h->session.rings.rings[0];
	size_t count = 0;

	while (ring->header->head - ring->header->tail + 2 * NUMBER <= RING_BYTES)
		hit(h, time + count++, 0, 77, NULL);
	return count;
}

static void check_large(const char *folder, bool direct)
{
	struct host h;
	struct found found;
	uint64_t time;
	size_t count = 0;

	host_open(&h, folder, NULL);
	time = clock_monotonic_ns();
	for (int round = 0; round < 3; round++) {
		size_t more = fill(&h, time);

		while (clock_monotonic_ns() <= time + more)
			continue;
		assert_int_equal(take(&h, PROBE_CTF_ALL), more);
		assert_int_equal(h.session.rings.rings[0].header->tail,
			h.session.rings.rings[0].header->head);
		time += more;
		count += more;
	}
	found = read_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.hits, count);
	assert_true(found.in_order);
	assert_int_equal(found.names, 1);
	if (direct)
		assert_true(found.largest > RING_BYTES / 2);
	else
		assert_int_equal(found.largest, PAGE);
	host_close(&h);
}

static void test_large(void **state)
{
	char path[] = "/tmp/probectl-take.XXXXXX";
	struct statx status = {0};
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status), 0);
	check_large("/tmp", status.stx_mask & STATX_DIOALIGN && status.stx_dio_offset_align);
	close(fd);
	unlink(path);
	/* Memory has no direct writes. */
	if (access("/dev/shm", W_OK) == 0)
		check_large("/dev/shm", false);
}

static void test_bad_times(void **state)
{
	struct host h;
	struct found found;
	uint64_t time;
	size_t count;

	(void)state;
	host_open(&h, "/tmp", NULL);
	time = clock_monotonic_ns();
	hit(&h, time, 0, 1, NULL);
	hit(&h, UINT64_MAX, 0, 2, NULL);
	hit(&h, 0, 0, 3 | RING_TID_CHILD, NULL);
	assert_int_equal(take(&h, PROBE_CTF_ALL), 3);
	/* Also among many. */
	count = fill(&h, 1);
	assert_int_equal(take(&h, PROBE_CTF_ALL), count);
	found = read_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.hits, 3 + count);
	assert_true(found.in_order);
	assert_int_equal(found.names, 4);
	assert_true(found.last <= clock_monotonic_ns());
	host_close(&h);
}

static void test_damage(void **state)
{
	struct host h;
	struct found found;

	(void)state;
	host_open(&h, "/tmp", NULL);
	hit(&h, clock_monotonic_ns(), 0, 1, NULL);
	hit(&h, clock_monotonic_ns(), 0, 1, NULL);
	hit(&h, clock_monotonic_ns(), 0, 1, NULL);
	((uint8_t *)h.session.rings.rings[0].data)[NUMBER + 8] = 2;
	assert_int_equal(take(&h, PROBE_CTF_ALL), 1);
	assert_int_equal(rings_damaged(&h.session.rings), 1);
	assert_int_equal(take(&h, PROBE_CTF_ALL), 0);
	/* Further than the ring is long. */
	h.session.rings.rings[0].header->head += 2 * RING_BYTES;
	assert_int_equal(take(&h, PROBE_CTF_ALL), 0);
	assert_int_equal(rings_damaged(&h.session.rings), 2);
	found = read_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.hits, 1);
	host_close(&h);
}

static void test_losses(void **state)
{
	struct host h;
	size_t length;
	uint8_t *bytes;

	(void)state;
	host_open(&h, "/tmp", NULL);
	hit(&h, clock_monotonic_ns(), 0, 1, NULL);
	assert_int_equal(take(&h, PROBE_CTF_ALL), 1);
	assert_null(probe_ctf_discarded(h.ctf, &h.session, 5));
	assert_null(probe_ctf_flush(h.ctf));
	assert_null(probe_ctf_flush(h.ctf));
	hit(&h, clock_monotonic_ns(), 0, 1, NULL);
	assert_int_equal(take(&h, PROBE_CTF_ALL), 1);
	bytes = contents(&h, "stream_0_cpu0", &length);
	assert_int_equal(length, 3 * PAGE);
	assert_int_equal(number(bytes + 64, 8), 0);
	assert_int_equal(number(bytes + PAGE + 40, 8), 8 * CTF_TAKEN_HEADER_BYTES);
	assert_int_equal(number(bytes + PAGE + 64, 8), 5);
	assert_int_equal(number(bytes + 2 * PAGE + 64, 8), 5);
	free(bytes);
	host_close(&h);
}

/* No room, in the middle of a large packet: whole packets stay, as many as there is room for. */
static void test_no_room(void **state)
{
	struct rlimit limit, small;
	struct probe_ctf_taken taken;
	struct probe_error *error;
	struct found found;
	struct host h;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	host_open(&h, "/tmp", NULL);
	fill(&h, clock_monotonic_ns() - RING_BYTES);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = (struct rlimit){.rlim_cur = 100000, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	error = probe_ctf_take(h.ctf, &h.session, PROBE_CTF_ALL, NULL, &taken);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "which is whole so far: File too large"));
	probe_error_free(error);
	found = read_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.packets, 100000 / PAGE);
	assert_true(found.in_order);
	/* Nothing is added any more. */
	assert_null(probe_ctf_take(h.ctf, &h.session, PROBE_CTF_ALL, NULL, &taken));
	assert_int_equal(taken.hits, 0);
	host_close(&h);
}

/*
 * Packets that could not be written as a whole, of more threads than one may have: what was handed
 * over after the first one was not written either, and all comes in packets of a page.
 */
static void test_late_room(void **state)
{
	enum { THREADS = 1500 };
	struct rlimit limit, small;
	struct found found;
	struct host h;
	uint64_t time, hits;
	size_t count = 0;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	host_open(&h, "/tmp", NULL);
	time = clock_monotonic_ns();
	for (; (count + 2) * NUMBER <= RING_BYTES; count++)
		hit(&h, time + count, 0, 100 + (uint32_t)(count * NUMBER * THREADS / RING_BYTES),
			NULL);
	usleep(1000);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = (struct rlimit){.rlim_cur = 100000, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	hits = take(&h, PROBE_CTF_MUCH);
	if (h.ctf->writer) {
		assert_int_equal(ctf_writer_finished(h.ctf->writer, true), 2);
		assert_int_equal(hits, 0);
	}
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	hits += take(&h, PROBE_CTF_ALL);
	assert_int_equal(hits, count);
	assert_int_equal(h.known[0].consumed, count);
	found = read_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.hits, count);
	assert_int_equal(found.names, THREADS);
	assert_int_equal(found.largest, PAGE);
	assert_true(found.in_order);
	host_close(&h);
}

/* Ends the thread that writes: it is as a disk that takes nothing. */
static void stop_writer(struct ctf_writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	writer->over = true;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	worker_join(&writer->worker);
}

/* It does what was given to it; then jobs are done at once. */
static void finish_writer(struct ctf_writer *writer)
{
	struct ctf_job *job;

	for (size_t i = 0; (job = ctf_writer_waiting(writer, i)); i++) {
		assert_int_equal(write(job->fd, job->bytes, job->size), job->size);
		job->done = true;
	}
	writer->finished = writer->given;
	writer->has_thread = false;
}

/* Nobody waits for a slow disk until everything is to be written. */
static void test_slow(void **state)
{
	struct probe_ctf_taken taken;
	struct found found;
	struct host h;
	size_t before, count;
	uint64_t tail;

	(void)state;
	host_open(&h, "/tmp", NULL);
	count = before = fill(&h, clock_monotonic_ns());
	usleep(1000);
	assert_int_equal(take(&h, PROBE_CTF_ALL), count);
	if (!h.ctf->writer) {
		host_close(&h);
		skip();
	}
	stop_writer(h.ctf->writer);
	for (size_t i = 0; i < CTF_JOBS; i++) {
		count += fill(&h, clock_monotonic_ns());
		usleep(1000);
		assert_int_equal(take(&h, PROBE_CTF_MUCH), 0);
	}
	/* There is no room, neither for little nor for much; it is asked again soon. */
	tail = h.session.rings.rings[0].tail;
	hit(&h, clock_monotonic_ns(), 0, 77, NULL);
	assert_int_equal(take(&h, PROBE_CTF_NOW), 0);
	count += 1 + fill(&h, clock_monotonic_ns());
	usleep(1000);
	assert_null(probe_ctf_take(h.ctf, &h.session, PROBE_CTF_NOW, NULL, &taken));
	assert_int_equal(taken.hits, 0);
	assert_int_equal(tail, h.session.rings.rings[0].tail);
	assert_true(taken.active);
	assert_in_range(taken.due_ns, 500000, 5000000);
	/* What was lost is told later. */
	assert_null(probe_ctf_discarded(h.ctf, &h.session, 5));
	assert_null(probe_ctf_flush(h.ctf));
	finish_writer(h.ctf->writer);
	assert_int_equal(take(&h, PROBE_CTF_ALL), count - before);
	found = read_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.hits, count);
	assert_int_equal(found.names, 1);
	assert_int_equal(found.lost, 5);
	assert_true(found.in_order);
	host_close(&h);
}

static void test_parts(void **state)
{
	const struct probe_ctf_options options = {.rotate_bytes = PAGE};
	struct found first, second;
	struct host h;

	(void)state;
	host_open(&h, "/tmp", &options);
	for (int i = 0; i < 2; i++) {
		hit(&h, clock_monotonic_ns(), 0, 77, NULL);
		assert_int_equal(take(&h, PROBE_CTF_ALL), 1);
	}
	first = read_stream(&h, "000001/stream_0_cpu0");
	second = read_stream(&h, "000002/stream_0_cpu0");
	assert_int_equal(first.hits, 1);
	assert_int_equal(second.hits, 1);
	/* Each part by itself says who has hit. */
	assert_int_equal(second.names, 1);
	assert_true(first.last < second.last);
	host_close(&h);
}

/*
 * A part tells of what was lost before it ended, though nothing follows there; and what is lost in
 * the next one was not lost before it began.
 */
static void test_losses_of_parts(void **state)
{
	const struct probe_ctf_options options = {.rotate_bytes = PAGE};
	struct probe_ctf_taken taken;
	struct host h, other = {0};
	uint64_t time;
	size_t length;
	uint8_t *bytes;

	(void)state;
	host_open(&h, "/tmp", &options);
	session_open(&other);
	time = clock_monotonic_ns();
	hit(&h, time, 0, 77, NULL);
	assert_int_equal(take(&h, PROBE_CTF_ALL), 1);
	assert_null(probe_ctf_discarded(h.ctf, &h.session, 5));
	hit(&other, clock_monotonic_ns(), 0, 77, NULL);
	assert_null(probe_ctf_take(h.ctf, &other.session, PROBE_CTF_ALL, NULL, &taken));
	bytes = contents(&h, "000001/stream_0_cpu0", &length);
	assert_int_equal(length, 2 * PAGE);
	assert_int_equal(number(bytes + PAGE + 64, 8), 5);
	free(bytes);
	assert_null(probe_ctf_discarded(h.ctf, &h.session, 6));
	bytes = contents(&h, "000002/stream_1_cpu0", &length);
	assert_int_equal(length, 2 * PAGE);
	assert_true(number(bytes + 24, 8) > time);
	assert_int_equal(number(bytes + PAGE + 64, 8), 6);
	free(bytes);
	rings_close(&other.session.rings);
	host_close(&h);
}

/*
 * A part lasts from its first hit on, and ends in time though hardly anything is in the rings: what
 * is older than its end is in it, however late it is read, and none is empty.
 */
static void test_times(void **state)
{
	const uint64_t length_ns = 20000000;
	const struct probe_ctf_options options = {.rotate_ns = length_ns};
	struct probe_ctf_taken taken;
	struct host h;
	uint64_t time;

	(void)state;
	host_open(&h, "/tmp", &options);
	usleep(30000);
	time = clock_monotonic_ns();
	hit(&h, time, 0, 77, NULL);
	assert_null(probe_ctf_take(h.ctf, &h.session, PROBE_CTF_MUCH, NULL, &taken));
	assert_int_equal(taken.hits, 1);
	assert_true(taken.due_ns <= length_ns);
	hit(&h, time + length_ns / 2, 0, 77, NULL);
	while (clock_monotonic_ns() < time + 3 * length_ns)
		usleep(1000);
	hit(&h, time + 2 * length_ns, 0, 77, NULL);
	hit(&h, time + 2 * length_ns + length_ns / 2, 0, 77, NULL);
	assert_int_equal(take(&h, PROBE_CTF_MUCH), 3);
	assert_int_equal(read_stream(&h, "000001/stream_0_cpu0").hits, 2);
	assert_int_equal(read_stream(&h, "000002/stream_0_cpu0").hits, 2);
	usleep(30000);
	/* A part that has ended waits for its next one's first hit. */
	assert_int_equal(take(&h, PROBE_CTF_MUCH), 0);
	assert_int_equal(h.ctf->part_count, 2);
	host_close(&h);
}

/* Nothing waits for hits that claim to be old once the part before is closed. */
static void test_old_hits(void **state)
{
	const struct probe_ctf_options options = {.rotate_bytes = PAGE};
	struct host h;
	size_t length;
	uint8_t *bytes;

	(void)state;
	host_open(&h, "/tmp", &options);
	for (int i = 0; i < 2; i++) {
		hit(&h, clock_monotonic_ns(), 0, 77, NULL);
		assert_int_equal(take(&h, PROBE_CTF_ALL), 1);
	}
	for (int i = 0; i < 2; i++)
		assert_null(probe_ctf_flush(h.ctf));
	hit(&h, 1, 0, 77, NULL);
	assert_int_equal(take(&h, PROBE_CTF_ALL), 1);
	assert_int_equal(read_stream(&h, "000002/stream_0_cpu0").hits, 2);
	bytes = contents(&h, "000003/metadata", &length);
	assert_non_null(bytes);
	free(bytes);
	host_close(&h);
}

static uint64_t counter_ahead;

static uint64_t counter(void)
{
	return clock_monotonic_ns() + counter_ahead;
}

/* What metadata says of the counter's frequency. */
static uint64_t frequency(const struct host *h)
{
	size_t length;
	uint8_t *bytes = contents(h, "metadata", &length);
	const char *at = strstr((char *)bytes, "name = \"counter\"");
	uint64_t value;

	assert_non_null(at);
	value = strtoull(strstr(at, "freq = ") + strlen("freq = "), NULL, 10);
	free(bytes);
	return value;
}

/* A machine sleeps, and its counter begins again: hits are kept, and the times of those before. */
static void test_counter_again(void **state)
{
	struct host h;
	struct found found;
	uint64_t last;

	(void)state;
	host_open(&h, "/tmp", NULL);
	counter_ahead = UINT64_C(1) << 50;
	clock_init(&h.session.clock, counter);
	last = counter();
	hit(&h, last, 0, 77, NULL);
	assert_int_equal(take(&h, PROBE_CTF_ALL), 1);
	assert_null(probe_ctf_flush(h.ctf));
	assert_in_range(frequency(&h), 900000000, 1100000000);
	counter_ahead = 0;
	hit(&h, counter(), 0, 77, NULL);
	assert_int_equal(take(&h, PROBE_CTF_ALL), 1);
	assert_null(probe_ctf_flush(h.ctf));
	assert_in_range(frequency(&h), 900000000, 1100000000);
	found = read_stream(&h, "stream_0_cpu0");
	assert_int_equal(found.hits, 2);
	assert_int_equal(found.last, last);
	host_close(&h);
}

/* Sessions share what they agree on. */
static void test_kinds(void **state)
{
	struct probe_ctf_taken taken;
	struct host h, same, other;
	size_t length;
	uint8_t *bytes;

	(void)state;
	host_open(&h, "/tmp", NULL);
	same = other = (struct host){0};
	session_open(&same);
	session_open(&other);
	other.probes[1].name = "else";
	hit(&h, clock_monotonic_ns(), 0, 1, NULL);
	hit(&same, clock_monotonic_ns(), 0, 1, NULL);
	hit(&other, clock_monotonic_ns(), 1, 1, "");
	assert_int_equal(take(&h, PROBE_CTF_ALL), 1);
	assert_null(probe_ctf_take(h.ctf, &same.session, PROBE_CTF_ALL, NULL, &taken));
	assert_null(probe_ctf_take(h.ctf, &other.session, PROBE_CTF_ALL, NULL, &taken));
	bytes = contents(&h, "stream_1_cpu0", &length);
	assert_int_equal(number(bytes + 20, 4), 1);
	free(bytes);
	bytes = contents(&h, "stream_2_cpu0", &length);
	assert_int_equal(number(bytes + 20, 4), 2);
	free(bytes);
	bytes = contents(&h, "metadata", &length);
	assert_non_null(
		strstr((char *)bytes, "\tname = \"p:else\";\n\tid = 1;\n\tstream_id = 2;\n"));
	assert_null(strstr(strstr((char *)bytes, "\"p:number\"") + 1, "\"p:number\""));
	free(bytes);

	/* Names of addresses need the controller. */
	other.sites[1].layout.args[0].is_symbol = true;
	assert_null(probe_ctf_forget(h.ctf, &other.session));
	assert_null(probe_ctf_take(h.ctf, &other.session, PROBE_CTF_ALL, NULL, &taken));
	assert_false(taken.can);
	rings_close(&same.session.rings);
	rings_close(&other.session.rings);
	host_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_bad_times),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_late_room),
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_losses_of_parts),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_old_hits),
		cmocka_unit_test(test_counter_again),
		cmocka_unit_test(test_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
