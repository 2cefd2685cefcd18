/* SPDX-License-Identifier: MIT */
/*
 * Stubs of x86-64 whose hits wait for room in a full ring: for how long, what ends a wait, and what
 * the program sees of it.
 */
#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/base/clock.h"
#include "libprobe/registry/registry.h"
#include "arch/process.h"
#include "tests/unit/skip.h"
#include "tests/unit/stub/stub_crowd.h"
#include "tests/unit/stub/stub_variant.h"
#include "tests/unit/wait.h"

enum {
	OWNER = 12345,	/* any thread */
	ROOM_AT = 1024, /* in the host's first page */
	BOUND_MS = 50,
	ANEW = 9, /* so many times the bound a wait that begins anew may take */
	MS = 1000000,
	CROWD_THREADS = 4,
	CROWD_HITS = 16000
};

static struct probe_room *room_of(const struct stub_host *host)
{
	return (struct probe_room *)(host->memory + ROOM_AT);
}

/* For a wait that another thread is to end. */
static uint64_t long_ms(void)
{
	return UINT64_C(1000) * test_seconds();
}

/* Hits wait so long, and somebody reads. They sleep for less than a second each time. */
static void let_wait(struct stub_host *host, struct arch_stub *stub, uint64_t bound_ms)
{
	struct probe_room *room = room_of(host);
	struct clock clock;

	clock_init(&clock, arch_process()->counter);
	*room = (struct probe_room){.moved = 1};
	room->gate.turns[0].owner = OWNER | GATE_WAITED;
	stub->actions[0].record.room = (uintptr_t)room;
	stub->actions[0].record.wait_ticks = bound_ms * (clock_ticks_per_s(&clock) / 1000);
	stub->actions[0].record.wait_scale = clock_tick_ns32(&clock) / (bound_ms / 1000 + 1);
}

static struct arch_stub waiting_stub(struct variant *v, uint64_t bound_ms)
{
	static struct arch_capture captures[3];
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);

	captures[0] = variant_capture("8@%rsi");
	captures[1] = variant_capture("8@%r10");
	captures[2] = variant_capture("8@%r8");
	stub.captures = captures;
	stub.capture_count = stub.recorded = 3;
	let_wait(&v->host, &stub, bound_ms);
	return stub;
}

/* No ring has room: as if all had been written, and nothing read. */
static void fill(struct stub_host *host)
{
	for (uint32_t i = 0; i < stub_host_ring_count(host); i++) {
		struct ring_header *ring = stub_host_ring(host, i);

		ring->head = ring->tail + HOST_RING_BYTES;
	}
}

/* All of them are read. */
static void empty(struct stub_host *host)
{
	for (uint32_t i = 0; i < stub_host_ring_count(host); i++) {
		struct ring_header *ring = stub_host_ring(host, i);
		uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);

		__atomic_store_n(&ring->tail, head, __ATOMIC_RELEASE);
	}
	room_tell(room_of(host));
}

/* How many records there are, once each ring was filled and emptied. */
static uint64_t recorded(const struct stub_host *host, size_t bytes)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < stub_host_ring_count(host); i++)
		sum += stub_host_ring(host, i)->head - HOST_RING_BYTES;
	return sum / bytes;
}

static uint64_t hit_ms(struct variant *v, const void *entry)
{
	uint64_t before = clock_monotonic_ns();

	variant_hit(v, entry);
	return (clock_monotonic_ns() - before) / MS;
}

/* Something that happens in another thread when a hit has waited for a while. */
struct later {
	struct variant *v;
	void (*act)(struct variant *v);
	pthread_t thread;
};

static void *acting(void *data)
{
	struct later *later = data;
	uint32_t *arrived = &room_of(&later->v->host)->gate.arrived;

	wait_until(__atomic_load_n(arrived, __ATOMIC_ACQUIRE));
	nanosleep(&(struct timespec){.tv_nsec = 20 * MS}, NULL);
	later->act(later->v);
	return NULL;
}

static void begin(struct later *later)
{
	assert_int_equal(pthread_create(&later->thread, NULL, acting, later), 0);
}

/* ---- One hit --------------------------------------------------------------------------- */

static void make_room(struct variant *v)
{
	empty(&v->host);
}

static void check_room_is_made(struct variant *v)
{
	struct arch_stub stub = waiting_stub(v, long_ms());
	struct later later = {.v = v, .act = make_room};
	const void *entry = stub_host_emit(&v->host, &stub);
	const struct probe_room *room = room_of(&v->host);
	const struct ring_header *ring = NULL;
	uint64_t captured[3], took;

	fill(&v->host);
	begin(&later);
	errno = EXDEV;
	took = hit_ms(v, entry);
	assert_int_equal(errno, EXDEV);
	pthread_join(later.thread, NULL);
	assert_true(took >= 15);
	assert_int_equal(recorded(&v->host, 40), 1);
	assert_int_equal(stub_host_lost(&v->host), 0);
	assert_int_equal(room->waited, 1);
	assert_true(room->ticks > stub.actions[0].record.wait_ticks / long_ms() * 15);
	assert_true(room->ticks < stub.actions[0].record.wait_ticks);
	/* The one who waits says so, once. */
	assert_int_equal(room->gate.arrived, 1);
	for (uint32_t i = 0; i < stub_host_ring_count(&v->host); i++)
		if (stub_host_ring(&v->host, i)->head != HOST_RING_BYTES)
			ring = stub_host_ring(&v->host, i);
	/* Waiting has kept the registers for the captures, too; it began a round later. */
	assert_non_null(ring);
	memcpy(captured, (const char *)(ring + 1) + sizeof(struct ring_record), sizeof(captured));
	assert_int_equal(captured[0], v->state.gpr[RSI]);
	assert_int_equal(captured[1], v->state.gpr[R10]);
	assert_int_equal(captured[2], v->state.gpr[R8]);
}

static void hits_wait_for_room(void **state)
{
	(void)state;
	variant_each(check_room_is_made);
}

/* Who shares it with the thread that waits goes on. */
static void take_away(struct variant *v)
{
	munmap((void *)v->state.gpr[RDI], PAGE);
	empty(&v->host);
}

static void check_string_is_gone(struct variant *v)
{
	struct arch_stub stub = waiting_stub(v, long_ms());
	struct arch_capture string = variant_capture("8@%rdi");
	struct later later = {.v = v, .act = take_away};
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t rdi = v->state.gpr[RDI];
	const struct ring_header *ring = NULL;
	uint32_t word;

	assert_ptr_not_equal(page, MAP_FAILED);
	strcpy(page, "shared with others");
	string.is_string = true;
	stub.captures = &string;
	stub.capture_count = stub.recorded = 1;
	v->state.gpr[RDI] = (uintptr_t)page;
	fill(&v->host);
	begin(&later);
	variant_hit(v, stub_host_emit(&v->host, &stub));
	pthread_join(later.thread, NULL);
	v->state.gpr[RDI] = rdi;
	for (uint32_t i = 0; i < stub_host_ring_count(&v->host); i++)
		if (stub_host_ring(&v->host, i)->head != HOST_RING_BYTES)
			ring = stub_host_ring(&v->host, i);
	assert_non_null(ring);
	memcpy(&word, (const char *)(ring + 1) + sizeof(struct ring_record), sizeof(word));
	assert_int_equal(word, UNREADABLE);
}

static void what_is_gone_after_a_wait_is_not_read(void **state)
{
	(void)state;
	variant_each(check_string_is_gone);
}

/* A program may have set the flags that our own code must not meet. */
static void check_flags(struct variant *v)
{
	static const uint64_t flags[] = {FLAG_AC, FLAG_DIRECTION, FLAG_AC | FLAGS_ARITHMETIC};

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		stub_host_reset(&v->host);
		v->state.flags = FLAGS_ALWAYS | flags[i];
		check_room_is_made(v);
	}
}

static void flags_do_not_matter(void **state)
{
	(void)state;
	variant_each(check_flags);
}

/* Where the time stamp counter cannot be read, the kernel's time is used. */
static void check_kernel_time(struct variant *v)
{
	struct arch_stub stub = waiting_stub(v, BOUND_MS);
	const void *entry;

	stub.thread.no_counter = stub.may_ask_time = true;
	stub.thread.has_rseq = false;
	stub.actions[0].record.wait_ticks = BOUND_MS * MS;
	stub.actions[0].record.wait_scale = UINT64_C(1) << 32;
	entry = stub_host_emit(&v->host, &stub);
	fill(&v->host);
	assert_true(hit_ms(v, entry) >= BOUND_MS - 1);
	assert_int_equal(stub_host_lost(&v->host), 1);
	assert_true(room_of(&v->host)->ticks >= stub.actions[0].record.wait_ticks);
}

static void waits_are_measured_by_the_kernel(void **state)
{
	(void)state;
	variant_each(check_kernel_time);
}

/* Nobody reads: one wait, then none until somebody does. */
static void check_it_runs_out(struct variant *v)
{
	struct arch_stub stub = waiting_stub(v, BOUND_MS);
	const void *entry = stub_host_emit(&v->host, &stub);

	fill(&v->host);
	for (uint32_t round = 1; round < 3; round++) {
		assert_true(hit_ms(v, entry) >= BOUND_MS - 1);
		for (int i = 0; i < 100; i++)
			variant_hit(v, entry);
		assert_int_equal(stub_host_lost(&v->host), 101 * round);
		assert_int_equal(room_of(&v->host)->waited, round);
		room_tell(room_of(&v->host)); /* elsewhere, say */
	}
	assert_int_equal(recorded(&v->host, 40), 0);
}

static void a_wait_runs_out_once(void **state)
{
	(void)state;
	variant_each(check_it_runs_out);
}

/* ---- Room that others take ------------------------------------------------------------------ */

/* Room is made and taken again, a number of times, before a hit that waits can see any. */
struct taking {
	struct variant *v;
	int times;
	atomic_bool over;    /* the hit is */
	useconds_t pause_us; /* between two times */
	uint64_t wait_ticks; /* of the bound */
	uint64_t last_ns;    /* no sooner was room made for the last time, or had the hit begun */
	uint64_t quiet_ns;   /* for so long none was made, at most */
};

static void note_quiet(struct taking *t)
{
	uint64_t quiet = clock_monotonic_ns() - t->last_ns;

	t->quiet_ns = quiet > t->quiet_ns ? quiet : t->quiet_ns;
}

static void take_turn(struct taking *t, void (*act)(struct taking *t))
{
	uint64_t before = clock_monotonic_ns();

	act(t);
	note_quiet(t);
	t->last_ns = before;
}

static void make_and_take(struct taking *t)
{
	room_tell(room_of(&t->v->host));
}

static void leave_room(struct taking *t)
{
	empty(&t->v->host);
}

static void *making_and_taking(void *data)
{
	struct taking *t = data;
	uint32_t *arrived = &room_of(&t->v->host)->gate.arrived;

	wait_until(__atomic_load_n(arrived, __ATOMIC_ACQUIRE));
	for (int i = 0; i < t->times && !atomic_load(&t->over); i++) {
		take_turn(t, make_and_take);
		usleep(t->pause_us);
	}
	if (!atomic_load(&t->over))
		take_turn(t, leave_room);
	return NULL;
}

/* A hit during which room is made and taken ten times in each bound; returns its milliseconds. */
static uint64_t hit_while_taking(struct variant *v, uint64_t bound_ms, struct taking *taking)
{
	struct arch_stub stub;
	const void *entry;
	pthread_t thread;
	uint64_t took;

	stub_host_reset(&v->host);
	stub = waiting_stub(v, bound_ms);
	entry = stub_host_emit(&v->host, &stub);
	fill(&v->host);
	taking->pause_us = (useconds_t)bound_ms * 100;
	taking->wait_ticks = stub.actions[0].record.wait_ticks;
	taking->last_ns = clock_monotonic_ns();
	assert_int_equal(pthread_create(&thread, NULL, making_and_taking, taking), 0);
	took = hit_ms(v, entry);
	atomic_store(&taking->over, true);
	pthread_join(thread, NULL);
	note_quiet(taking);
	return took;
}

/* For longer than a wait may take; false if this machine is too slow to do that in time. */
static bool is_room_taken(struct variant *v, uint64_t bound_ms)
{
	struct taking taking = {.v = v, .times = 25};
	uint64_t took = hit_while_taking(v, bound_ms, &taking);

	if (taking.quiet_ns > bound_ms * MS / 2 || took > (ANEW - 1) * bound_ms)
		return false;
	assert_true(took >= 2 * bound_ms);
	assert_int_equal(stub_host_lost(&v->host), 0);
	assert_int_equal(room_of(&v->host)->waited, 1);
	assert_true(room_of(&v->host)->ticks >= 2 * taking.wait_ticks);
	assert_int_equal(room_of(&v->host)->gave_up, 0);
	assert_int_equal(recorded(&v->host, 40), 1);
	return true;
}

/* On a slow machine, bounds are longer. */
static void with_bounds(struct variant *v, bool (*check)(struct variant *v, uint64_t bound_ms))
{
	uint64_t bound_ms = BOUND_MS;

	for (; !check(v, bound_ms); bound_ms *= 2)
		assert_true(bound_ms < long_ms());
}

static void check_room_is_taken(struct variant *v)
{
	with_bounds(v, is_room_taken);
}

static void a_wait_begins_anew_when_others_take_the_room(void **state)
{
	(void)state;
	variant_each(check_room_is_taken);
}

/* In the end it is lost, and no other hit is for that. */
static bool is_starved(struct variant *v, uint64_t bound_ms)
{
	struct taking taking = {.v = v, .times = INT_MAX};
	uint64_t took = hit_while_taking(v, bound_ms, &taking);

	if (taking.quiet_ns > bound_ms * MS / 2)
		return false;
	assert_true(took >= ANEW * (bound_ms - 1));
	assert_int_equal(stub_host_lost(&v->host), 1);
	assert_int_equal(room_of(&v->host)->waited, 1);
	assert_int_equal(room_of(&v->host)->gave_up, 0);
	assert_int_equal(recorded(&v->host, 40), 0);
	return true;
}

static void check_starved(struct variant *v)
{
	with_bounds(v, is_starved);
}

static void it_does_not_forever(void **state)
{
	(void)state;
	variant_each(check_starved);
}

/* ---- What ends a wait ----------------------------------------------------------------------- */

static void end_turn(struct variant *v, uint32_t owner)
{
	uint32_t *word = &room_of(&v->host)->gate.turns[0].owner;

	__atomic_store_n(word, owner, __ATOMIC_RELEASE);
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void let_go(struct variant *v)
{
	end_turn(v, 0);
}

/* As the kernel does. */
static void die(struct variant *v)
{
	end_turn(v, FUTEX_WAITERS | FUTEX_OWNER_DIED);
}

static void fork_away(struct variant *v)
{
	*v->host.guard = 0;
	room_tell(room_of(&v->host));
}

/* What ends a wait at once, and keeps the next hits from waiting. */
static void check_end(struct variant *v, void (*act)(struct variant *v), bool lost)
{
	struct arch_stub stub = waiting_stub(v, long_ms());
	struct later later = {.v = v, .act = act};
	const void *entry = stub_host_emit(&v->host, &stub);

	fill(&v->host);
	begin(&later);
	assert_true(hit_ms(v, entry) < long_ms());
	pthread_join(later.thread, NULL);
	assert_int_equal(room_of(&v->host)->waited, 1);
	assert_true(hit_ms(v, entry) < long_ms());
	assert_int_equal(room_of(&v->host)->waited, 1);
	assert_int_equal(stub_host_lost(&v->host), lost ? 2 : 0);
	assert_int_equal(recorded(&v->host, 40), 0);
	*v->host.guard = 1;
}

static void check_ends(struct variant *v)
{
	check_end(v, let_go, false);
	stub_host_reset(&v->host);
	check_end(v, die, true);
	stub_host_reset(&v->host);
	check_end(v, fork_away, false);
}

static void it_ends_with_the_controller(void **state)
{
	(void)state;
	variant_each(check_ends);
}

static void forbid_futex(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(77);
}

/* Hits that do not wait make no system call. */
static void check_calls(struct variant *v)
{
	static const uint32_t owners[] = {0, FUTEX_WAITERS | FUTEX_OWNER_DIED, OWNER | GATE_WAITED};

	for (size_t i = 0; i < sizeof(owners) / sizeof(*owners); i++) {
		struct arch_stub stub = waiting_stub(v, BOUND_MS);
		stub_host_site *site = stub_host_emit_site(&v->host, &stub);
		struct probe_room *room = room_of(&v->host);
		pid_t child;
		int status;

		fill(&v->host);
		room->gate.turns[0].owner = owners[i];
		room->gave_up = room->moved;
		child = fork();
		if (child == 0) {
			forbid_futex();
			site(1, 2, 3);
			_exit(room->waited ? 1 : 0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) == 77)
			skip_because("a filter cannot be installed here");
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

static void those_who_do_not_wait_make_no_call(void **state)
{
	(void)state;
	variant_each(check_calls);
}

/* A target may write anything there: the time ends a wait all the same. */
static void check_nonsense(struct variant *v)
{
	static const uint32_t owners[] = {1, GATE_OWNER, OWNER | ROOM_WAITED, GATE_WAITED};

	for (size_t i = 0; i < sizeof(owners) / sizeof(*owners); i++) {
		struct arch_stub stub = waiting_stub(v, 10);
		const void *entry;

		stub_host_reset(&v->host);
		entry = stub_host_emit(&v->host, &stub);
		fill(&v->host);
		room_of(&v->host)->gate.turns[0].owner = owners[i];
		assert_true(hit_ms(v, entry) < long_ms());
		assert_int_equal(stub_host_lost(&v->host), 1);
	}
}

static void nonsense_is_waited_for_no_longer(void **state)
{
	(void)state;
	variant_each(check_nonsense);
}

/* ---- What it costs others ------------------------------------------------------------------ */

static size_t instructions(const struct arch_stub *stub, struct arch_stub_code *code)
{
	uint8_t out[ARCH_STUB_MAX];
	struct arch_insn insn;
	size_t count = 0;

	assert_int_equal(
		arch_make_stub(&arch_x86_64, stub, stub->next & ~31ULL, out, sizeof(out), code),
		ARCH_STUB_OK);
	for (size_t at = 0; at < code->next_jump; at += insn.length, count++)
		assert_true(arch_x86_64.decode(out + at, sizeof(out) - at, at, &insn));
	return count;
}

/* A hit that finds room takes no more instructions. */
static void check_costs(struct variant *v)
{
	struct arch_stub stub = waiting_stub(v, BOUND_MS);
	struct arch_stub_code with, without;
	size_t count = instructions(&stub, &with);

	stub.actions[0].record.room = 0;
	assert_int_equal(count, instructions(&stub, &without));
	assert_true(with.length > without.length);
}

static void the_way_of_hits_with_room_is_the_same(void **state)
{
	(void)state;
	if (arch_x86_64.can_decode && !arch_x86_64.can_decode())
		skip_because("needs the disassembler's library");
	variant_each(check_costs);
}

/* As many strings as a probe of <sys/sdt.h> may have: the code for them is there three times. */
static void check_length(struct variant *v)
{
	struct arch_stub stub = waiting_stub(v, BOUND_MS);
	struct arch_capture strings[12];
	uint8_t out[ARCH_STUB_MAX];
	struct arch_stub_code code;

	for (int i = 0; i < 12; i++) {
		strings[i] = variant_capture("8@(%rdi)");
		strings[i].is_string = true;
		strings[i].bytes_max = 256;
	}
	stub.captures = strings;
	stub.capture_count = stub.recorded = 12;
	assert_int_equal(
		arch_make_stub(&arch_x86_64, &stub, stub.next & ~31ULL, out, sizeof(out), &code),
		ARCH_STUB_OK);
}

static void there_is_room_for_the_code(void **state)
{
	(void)state;
	variant_each(check_length);
}

/* An end of a span holds its begin, and a flight recorder is never full. */
static void check_refused(struct variant *v)
{
	struct arch_stub stub = waiting_stub(v, BOUND_MS);
	uint8_t out[ARCH_STUB_MAX];
	struct arch_stub_code code;

	stub.actions[0].record.overwrite = true;
	assert_int_equal(
		arch_make_stub(&arch_x86_64, &stub, stub.next & ~31ULL, out, sizeof(out), &code),
		ARCH_STUB_UNSUPPORTED);
}

static void flight_recorders_never_wait(void **state)
{
	(void)state;
	variant_each(check_refused);
}

/* ---- Many threads ------------------------------------------------------------------------ */

struct crowd {
	struct stub_host host;
	stub_host_site *site;
	uint64_t records;
	atomic_bool done;
};

static void hit(void *data, uint64_t number)
{
	struct crowd *crowd = data;

	crowd->site(number, 0, 0);
}

static void drain(struct crowd *crowd)
{
	for (uint32_t i = 0; i < stub_host_ring_count(&crowd->host); i++) {
		struct ring_header *ring = stub_host_ring(&crowd->host, i);
		uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);

		if (head == ring->tail)
			continue;
		crowd->records += (head - ring->tail) / 24;
		__atomic_store_n(&ring->tail, head, __ATOMIC_RELEASE);
		room_tell(room_of(&crowd->host));
	}
}

/* It is slower than the crowd is. */
static void *reading(void *data)
{
	struct crowd *crowd = data;

	while (!atomic_load(&crowd->done)) {
		nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
		drain(crowd);
	}
	return NULL;
}

static void check_crowd(bool has_rseq, bool storm)
{
	struct arch_capture capture = variant_capture("8@%rdi");
	struct crowd crowd = {0};
	struct arch_stub stub;
	pthread_t thread;
	uint64_t hits;

	stub_host_init(&crowd.host, true);
	stub = stub_host_stub(&crowd.host, has_rseq && crowd.host.thread.has_rseq);
	stub.actions[0].kind = ARCH_ACTION_RECORD;
	stub.captures = &capture;
	stub.capture_count = stub.recorded = 1;
	let_wait(&crowd.host, &stub, long_ms());
	crowd.site = stub_host_emit_site(&crowd.host, &stub);
	assert_int_equal(pthread_create(&thread, NULL, reading, &crowd), 0);
	hits = crowd_run(hit, &crowd, CROWD_THREADS, CROWD_HITS, storm);
	atomic_store(&crowd.done, true);
	pthread_join(thread, NULL);
	drain(&crowd);
	assert_true(room_of(&crowd.host)->waited > 0);
	assert_int_equal(crowd.records + stub_host_lost(&crowd.host),
		(uint64_t)CROWD_THREADS * CROWD_HITS + hits);
	/* Without rseq, all rings may be locked: nobody waits for that. */
	if (has_rseq)
		assert_int_equal(stub_host_lost(&crowd.host), 0);
	stub_host_deinit(&crowd.host);
}

static void none_of_a_crowd_is_lost(void **state)
{
	(void)state;
	check_crowd(true, false);
	check_crowd(true, true);
}

static void nor_are_those_without_rseq(void **state)
{
	(void)state;
	check_crowd(false, false);
	check_crowd(false, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hits_wait_for_room),
		cmocka_unit_test(what_is_gone_after_a_wait_is_not_read),
		cmocka_unit_test(flags_do_not_matter),
		cmocka_unit_test(a_wait_runs_out_once),
		cmocka_unit_test(a_wait_begins_anew_when_others_take_the_room),
		cmocka_unit_test(it_does_not_forever),
		cmocka_unit_test(it_ends_with_the_controller),
		cmocka_unit_test(waits_are_measured_by_the_kernel),
		cmocka_unit_test(those_who_do_not_wait_make_no_call),
		cmocka_unit_test(nonsense_is_waited_for_no_longer),
		cmocka_unit_test(the_way_of_hits_with_room_is_the_same),
		cmocka_unit_test(there_is_room_for_the_code),
		cmocka_unit_test(flight_recorders_never_wait),
		cmocka_unit_test(none_of_a_crowd_is_lost),
		cmocka_unit_test(nor_are_those_without_rseq),
	};

#ifndef __x86_64__
	return stub_harness_lacks();
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
