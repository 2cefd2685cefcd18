/* SPDX-License-Identifier: MIT */
/*
 * Filters and values as machine code, compared with the interpreter of expressions on the same
 * hit: each operator, and many random expressions.
 */
/* Not under ThreadSanitizer: nothing has threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/query/expr_interpreter.h"
#include "tests/unit/query/expr_random.h"
#include "tests/unit/stub/stub_host.h"

/* A page, or a whole number of smaller ones. */
enum { PAGE = 65536 };
enum { CELL = 1 << 12, RANDOM_TEXTS = 3000, RANDOM_HITS = 12, TEXT_MAX = 400 };

struct fixture {
	struct stub_host host;
	uint64_t random;
	uint64_t memory, end; /* the only addresses that expressions follow and can read */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	stub_host_init(&f->host, true);
	f->random = 88172645463325252U;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	stub_host_deinit(&f->host);
	free(f);
	return 0;
}

static uint64_t next_random(struct fixture *f)
{
	return expr_random(&f->random);
}

static uint64_t edge(struct fixture *f)
{
	return expr_random_edge(&f->random);
}

/* ---- One expression ------------------------------------------------------------- */

struct subject {
	struct fixture *fixture;
	struct expr_case expr;
	stub_host_site *filter, *value; /* sites: the expression as a filter and as a value */
};

/* The place of an argument among those of a function; the notes name registers as x86-64's do. */
static int place_of(uint8_t reg)
{
	enum { RDI = 7, RSI = 6 };

	return reg == RDI ? 0 : reg == RSI ? 1 : 2;
}

/* An argument where functions of this machine have it. */
static void bring(struct arch_arg *arg)
{
	if (arg->base != ARCH_REG_NONE)
		arg->base = stub_host_argument(place_of(arg->base)).arg.base;
}

static void subject_init(
	struct subject *s, struct fixture *f, const char *args, const char *text, bool has_rseq)
{
	struct arch_stub stub = stub_host_stub(&f->host, has_rseq);
	struct probe_error *error = expr_case_init(&s->expr, args, text);
	struct arch_capture captures[ARCH_ARGS_MAX];

	s->fixture = f;
	if (error)
		fail_msg("%s: %s", text, error->message);
	memcpy(captures, s->expr.layout.captures, sizeof(captures));
	for (uint8_t i = 0; i < s->expr.layout.capture_count; i++) {
		bring(&captures[i].arg);
		bring(&captures[i].index);
		bring(&captures[i].length);
	}
	f->host.code_used = 0;
	stub.pid = getpid();
	stub.captures = captures;
	stub.capture_count = s->expr.layout.capture_count;
	stub.filter = &s->expr.bound;
	s->filter = stub_host_emit_site(&f->host, &stub);
	stub.actions[0].kind = ARCH_ACTION_GATHER;
	stub.filter = NULL;
	stub.actions[0].gather = (struct arch_gather){
		.parts = ARCH_GATHER_LAST, .value = &s->expr.bound, .cell = CELL};
	s->value = stub_host_emit_site(&f->host, &stub);
}

static void clear(struct stub_host *host)
{
	for (uint32_t set = 0; set <= host->cpus; set++)
		memset(host->slots + ((size_t)set << HOST_SLOTS_SHIFT), 0,
			CELL + sizeof(struct probe_cell));
}

/* The last value; false if none was gathered. */
static bool last_value(const struct stub_host *host, uint64_t *ret)
{
	bool any = false;

	for (uint32_t set = 0; set <= host->cpus; set++) {
		const struct probe_cell *cell =
			(const struct probe_cell *)(host->slots +
						    ((size_t)set << HOST_SLOTS_SHIFT) + CELL);

		/* A hit whose sequence is aborted may separate its value from its count. */
		any = any || cell->count;
		if (cell->last_time)
			*ret = cell->last;
	}
	return any;
}

/* The low bytes of a word, as a stub would record them. */
static uint64_t extended(uint64_t word, uint32_t size, bool is_signed)
{
	unsigned int shift = 64 - 8 * size;

	if (size >= 8)
		return word;
	return is_signed ? (uint64_t)((int64_t)(word << shift) >> shift) : word << shift >> shift;
}

/* A note's argument: "SIZE@%REG". */
static uint64_t word_of(const struct arch_arg *arg, const uint64_t args[3])
{
	return extended(args[place_of(arg->base)], arg->size, arg->is_signed);
}

/* Reads at any address, as long as something is there (a sanitizer's shadow, for example). */
static bool peek(uint64_t address, void *to, size_t size)
{
	const struct iovec here = {.iov_base = to, .iov_len = size};
	const struct iovec there = {.iov_base = (void *)address, .iov_len = size};

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

/* What is found from an argument; false if it cannot be read. */
static bool found_word(const struct arch_capture *c, const uint64_t args[3], uint64_t *ret)
{
	uint64_t word = word_of(&c->arg, args);

	for (size_t i = 0; i < c->step_count; i++) {
		const struct arch_step *step = &c->steps[i];
		uint64_t address = word + (uint64_t)(int64_t)step->offset;

		if (step->scale)
			address += word_of(&c->index, args) * (uint64_t)(int64_t)step->scale;
		word = address;
		if (!step->size)
			continue;
		word = 0;
		if (!peek(address, &word, step->size))
			return false;
		word = extended(word, step->size, step->is_signed);
	}
	*ret = word;
	return true;
}

/* How many bytes an argument says that there are. */
static int64_t length_of(const struct arch_arg *arg, const uint64_t args[3])
{
	int64_t length = (int64_t)word_of(arg, args);

	return length < 0 ? 0 : length;
}

/* Over a record of the hit, the expression has the value that stubs compute. */
static void try_record(const struct subject *s, const char *text, const struct expr_input *input,
	bool possible, uint64_t expected)
{
	struct record_layout layout = s->expr.layout;
	uint8_t record[sizeof(struct ring_record) + (8 + ARCH_EXPR_TEXT_MAX + 1) * ARCH_ARGS_MAX] =
		{0};
	uint8_t *at = record + sizeof(struct ring_record);
	uint32_t mask = ~(uint32_t)input->unreadable;
	uint64_t words[ARCH_ARGS_MAX];
	struct probe_value value;

	record_layout_record_all(&layout, s->expr.site.arch);
	for (uint8_t i = 0; i < layout.recorded; i++) {
		const struct arch_capture *c = &layout.captures[i];
		size_t length = input->strings[i].length;

		words[i] = length <= c->bytes_max ? length
						  : c->bytes_max | 1u << RING_STRING_TRUNCATED_BIT;
		if (input->unreadable >> i & 1)
			words[i] = UINT64_C(1) << RING_STRING_NULL_BIT;
		if (!c->is_string)
			words[i] = input->words[i];
		at = mempcpy(at, &words[i], arch_capture_fixed(c));
	}
	if (layout.checked)
		at = mempcpy(at, &mask, ring_mask_bytes(layout.recorded));
	for (uint8_t i = 0; i < layout.recorded; i++)
		if (layout.captures[i].is_string && ring_string_length(words[i]))
			at = mempcpy(at, input->strings[i].bytes, ring_string_length(words[i]));
	value = expr_record_value(
		&s->expr.bound, &layout, record, input->tid, input->pid, input->cpu);
	if ((value.kind != PROBE_VALUE_NULL) != possible || (possible && value.u != expected))
		fail_msg("%s of a record: %#lx, expected %#lx (possible: %d)", text, value.u,
			expected, possible);
}

/* Hits both sites, and compares. */
static void try_hit(const struct subject *s, const char *text, const uint64_t args[3])
{
	struct stub_host *host = &s->fixture->host;
	uint64_t words[ARCH_ARGS_MAX] = {0}, expected = 0, value = 0;
	struct expr_string strings[ARCH_ARGS_MAX] = {0};
	struct expr_input input = {
		.words = words, .strings = strings, .tid = gettid(), .pid = getpid()};
	bool possible;

	for (uint8_t i = 0; i < s->expr.layout.capture_count; i++) {
		const struct arch_capture *c = &s->expr.layout.captures[i];
		size_t room = c->has_length ? (size_t)length_of(&c->length, args) : SIZE_MAX;

		if (!found_word(c, args, &words[i]))
			input.unreadable |= UINT64_C(1) << i;
		else if (!c->is_string)
			continue;
		else if (words[i] && room)
			strings[i] = (struct expr_string){
				(const char *)words[i], strnlen((const char *)words[i], room)};
		else if (room)
			input.unreadable |= UINT64_C(1) << i;
	}
	possible = expr_evaluate(&s->expr.bound, &input, &expected);
	try_record(s, text, &input, possible, expected);
	clear(host);
	s->filter(args[0], args[1], args[2]);
	if (stub_host_hits(host) != (possible && expected))
		fail_msg("%s of %#lx, %#lx, %#lx: taken %lu, expected %lu (possible: %d)", text,
			args[0], args[1], args[2], stub_host_hits(host), expected, possible);
	s->value(args[0], args[1], args[2]);
	if (last_value(host, &value) != possible || (possible && value != expected))
		fail_msg("%s of %#lx, %#lx, %#lx: %#lx, expected %#lx (possible: %d)", text,
			args[0], args[1], args[2], value, expected, possible);
	assert_int_equal(stub_host_lost(host), !possible);
}

/* ---- Integers ---------------------------------------------------------------------- */

static void try_many(struct fixture *f, const char *args, const char *text, bool has_rseq, int hits)
{
	struct subject s;

	subject_init(&s, f, args, text, has_rseq);
	for (int i = 0; i < hits; i++) {
		uint64_t values[3] = {edge(f), edge(f), edge(f)};

		try_hit(&s, text, values);
	}
	expr_case_deinit(&s.expr);
}

static const char *const notes[] = {"8@%rdi -4@%esi 4@%edx", "-8@%rdi 8@%rsi -4@%edx",
	"-1@%dil 1@%sil -2@%dx", "4@%edi 4@%esi -8@%rdx", "2@%di -8@%rsi 8@%rdx"};

static void operators(void **state)
{
	static const char *const texts[] = {"arg0 > 100", "arg0", "!arg1", "~arg2", "-arg0",
		"arg0 + arg1", "arg0 - arg1", "arg0 * arg1", "arg0 / arg1", "arg0 % arg1",
		"arg1 / arg2", "arg1 % arg2", "arg0 << arg2", "arg0 >> arg2", "arg1 >> arg2",
		"arg1 << 3", "arg0 & arg1", "arg0 | 0x80", "arg0 ^ arg2", "arg0 < arg1",
		"arg0 <= arg1", "arg1 > arg2", "arg1 >= arg2", "arg0 == arg1", "arg1 != arg2",
		"arg0 && arg1", "arg0 || arg1", "!(arg0 && arg1) || arg2 < 3",
		"arg0 > 100 && (arg2 == 3 || !(arg1 & 0x80))", "(arg0 < 3) + (arg1 > 2) * 4",
		"(arg0 + arg1) * (arg1 - arg2)", "((arg0 ^ 5) + (arg1 | 3)) % ((arg2 & 7) - 3)",
		"arg0 == 0x8000000000000000", "arg0 + 0x123456789abcdef",
		"arg0 in (0, 1, 0x7f, 0x80)", "arg1 not in (-1, 2, 2147483648, 0x7fffffffffffffff)",
		"arg2 in (-1, 0xffffffff)", "tid > 0 && pid > 0 && arg0", "(pid ^ tid) + arg0",
		"-(arg0 > 5) - -arg1"};

	for (size_t n = 0; n < sizeof(notes) / sizeof(*notes); n++)
		for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
			try_many(*state, notes[n], texts[i], true, 60);
			try_many(*state, notes[n], texts[i], false, 20);
		}
}

static void random_expressions(void **state)
{
	struct fixture *f = *state;
	int tried = 0;

	for (int i = 0; i < RANDOM_TEXTS; i++) {
		const char *note = notes[next_random(f) % (sizeof(notes) / sizeof(*notes))];
		char text[TEXT_MAX + 100] = "";
		struct expr_case probe;
		struct probe_error *error;

		expr_random_text(&f->random, text, TEXT_MAX, 4);
		/* A division by a constant zero is rejected, as are too many operators. */
		error = expr_case_init(&probe, note, text);
		if (error) {
			probe_error_free(error);
			continue;
		}
		expr_case_deinit(&probe);
		try_many(f, note, text, i % 4 != 0, RANDOM_HITS);
		tried++;
	}
	assert_true(tried > RANDOM_TEXTS / 2);
}

/* ---- Doubles ------------------------------------------------------------------------ */

/* The bits of a double, and for arg1 of a float. */
static uint64_t double_edge(struct fixture *f, bool is_float)
{
	static const double edges[] = {0.0, -0.0, 1.5, -1.5, 0.1, 2, -3, 1e300, -1e300, 1e-310,
		-1e-310, 4503599627370497.5, INFINITY, -INFINITY, NAN};
	double value = edges[next_random(f) % (sizeof(edges) / sizeof(*edges))];
	float single = (float)value;
	uint64_t bits = next_random(f);

	if (next_random(f) % 4 == 0) /* any */
		return bits;
	if (is_float)
		memcpy(&bits, &single, sizeof(single));
	else
		memcpy(&bits, &value, sizeof(value));
	return bits ^ (next_random(f) % 4 == 0); /* also a neighbour */
}

static void random_comparison(struct fixture *f, char *text)
{
	static const char *const operators[] = {"<", "<=", ">", ">=", "==", "!="};
	static const char *const operands[] = {"arg0", "arg1", "arg2", "1.5", "-1.5", "0.1", "2",
		"-3", "0", "-0.0", "1e300", "1e-310", "4503599627370497.5", "0x10u",
		"9007199254740993"};
	const char *left = operands[next_random(f) % 3];
	const char *right = operands[next_random(f) % (sizeof(operands) / sizeof(*operands))];
	bool swapped = next_random(f) % 2;

	sprintf(text + strlen(text), "%s %s %s", swapped ? right : left,
		operators[next_random(f) % 6], swapped ? left : right);
}

/* NaN is less than, equal to and greater than nothing; and 0 is -0. */
static void doubles(void **state)
{
	static const char *const between[] = {" && ", " || ", ") == !("};
	struct fixture *f = *state;

	for (int i = 0; i < 1500; i++) {
		char text[TEXT_MAX] = "!(";
		struct subject s;

		random_comparison(f, text);
		if (i % 2) {
			strcat(text, between[next_random(f) % 3]);
			random_comparison(f, text);
		}
		strcat(text, ")");
		subject_init(&s, f, "8f@%rdi 4f@%esi -8f@%rdx", text + (i % 3 == 0), i % 5 != 0);
		for (int k = 0; k < 20; k++)
			try_hit(&s, text,
				(uint64_t[]){double_edge(f, false), double_edge(f, true),
					double_edge(f, false)});
		expr_case_deinit(&s.expr);
	}
}

/* ---- Strings ------------------------------------------------------------------------ */

static void strings(void **state)
{
	static const char *const texts[] = {"str(arg0) == \"\"", "str(arg0) == \"SELECT\"",
		"str(arg0) != \"SELECT\"", "starts_with(str(arg0), \"SELECT\")",
		"str(arg0) == \"SELECT abalance FROM pgbench_accounts\"",
		"starts_with(str(arg0), \"SELECT aba\") && arg1 > 3",
		"!starts_with(str(arg0), \"\")",
		"str(arg0) in (\"INSERT\", \"SELECT\", \"\", \"SELECT abalance\", \"U\")",
		"str(arg0) not in (\"INSERT\", \"SELECT \") && arg1 < 3",
		"str(arg0) == \"INSERT\" || str(arg0) == \"UPDATE\" || str(arg2) == \"a\""};
	static const char *const values[] = {"", "S", "SELECT", "SELECT ", "SELECT abalance",
		"SELECT abalance FROM pgbench_accounts", "SELECT abalance FROM pgbench_accountx",
		"UPDATE", "INSERT", "a", NULL};
	struct subject s;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		for (int rseq = 0; rseq < 2; rseq++) {
			subject_init(&s, *state, "8@%rdi -4@%esi 8@%rdx", texts[i], rseq);
			for (size_t k = 0; k < sizeof(values) / sizeof(*values); k++) {
				char *copy = values[k] ? strdup(values[k]) : NULL;

				for (uint64_t n = 0; n < 6; n += 5) {
					uint64_t args[3] = {(uintptr_t)copy, n, (uintptr_t) "a"};

					try_hit(&s, texts[i], args);
				}
				free(copy);
			}
			expr_case_deinit(&s.expr);
		}
}

/* Names of a JVM have no NUL: another argument is their length. */
static void bounded_strings(void **state)
{
	static const char *const texts[] = {"str(arg0, arg1) == \"SELECT\"",
		"str(arg0,arg1) != \"\"", "starts_with(str(arg0,arg1), \"SELE\")",
		"str(arg0,arg1) == \"SEL\" || str(arg0) == \"SELECT * FROM\" || arg1 == 9"};
	static const char from[] = "SELECT * FROM";
	struct subject s;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		for (int rseq = 0; rseq < 2; rseq++) {
			subject_init(&s, *state, "8@%rdi -4@%esi 8@%rdx", texts[i], rseq);
			for (int n = -1; n < (int)sizeof(from) + 9; n++) {
				try_hit(&s, texts[i], (uint64_t[]){(uintptr_t)from, n, 0});
				try_hit(&s, texts[i], (uint64_t[]){0, n, 0});
			}
			expr_case_deinit(&s.expr);
		}
}

/* If the rest is unreadable, a string does not match by its readable part. */
static void cut_string(void **state)
{
	struct fixture *f = *state;
	char *pages =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct subject s;

	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
	memcpy(pages + PAGE - 6, "SELECT", 6);
	subject_init(&s, f, "8@%rdi", "str(arg0) == \"SELECT\"", true);
	s.filter((uintptr_t)pages + PAGE - 6, 0, 0);
	assert_int_equal(stub_host_hits(&f->host), 0);
	s.filter((uintptr_t) "SELECT", 0, 0);
	assert_int_equal(stub_host_hits(&f->host), 1);
	expr_case_deinit(&s.expr);
	subject_init(&s, f, "8@%rdi", "starts_with(str(arg0), \"SELECT\")", true);
	s.filter((uintptr_t)pages + PAGE - 6, 0, 0);
	assert_int_equal(stub_host_hits(&f->host), 2);
	expr_case_deinit(&s.expr);
	munmap(pages, 2 * PAGE);
}

/* ---- Memory behind pointers ----------------------------------------------------------- */

/* The longest lists. */
static void long_lists(void **state)
{
	char text[4096] = "arg0 in (7";
	struct subject s;

	for (int i = 1; i < 64; i++)
		snprintf(text + strlen(text), 32, ", %lu", UINT64_C(0x100000001) * (uint64_t)i);
	strcat(text, ")");
	subject_init(&s, *state, "8@%rdi", text, true);
	for (uint64_t i = 0; i < 66; i++)
		try_hit(&s, text, (uint64_t[]){UINT64_C(0x100000001) * i, 0, 0});
	try_hit(&s, text, (uint64_t[]){7, 0, 0});
	expr_case_deinit(&s.expr);
	strcpy(text, "str(arg0) in (\"w0\"");
	for (int i = 1; i < 32; i++)
		snprintf(text + strlen(text), 32, ", \"w%d\"", i);
	strcat(text, ")");
	subject_init(&s, *state, "8@%rdi", text, true);
	for (int i = 0; i < 34; i++) {
		char word[16];

		snprintf(word, sizeof(word), "w%d", i);
		try_hit(&s, text, (uint64_t[]){(uintptr_t)word, 0, 0});
	}
	expr_case_deinit(&s.expr);
}

enum { MEMORY_BYTES = 2 * PAGE };
#define NOTHING_BYTES (UINT64_C(4) << 30)

/*
 * Two pages that point into themselves, with nothing readable before and behind them, where indices
 * lead: other memory may change, or, as that of the vDSO, be readable to a stub alone.
 */
static void fill_memory(struct fixture *f)
{
	uint8_t *pages = mmap(NULL, MEMORY_BYTES + 2 * NOTHING_BYTES, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(mprotect(pages + NOTHING_BYTES, MEMORY_BYTES, PROT_READ | PROT_WRITE), 0);
	f->memory = (uintptr_t)pages + NOTHING_BYTES;
	f->end = f->memory + MEMORY_BYTES;
	for (uint64_t at = f->memory; at < f->end; at += 8)
		*(uint64_t *)at =
			next_random(f) % 8 ? f->memory + next_random(f) % MEMORY_BYTES : edge(f);
}

/* Appends a pointer, or a number behind one; with the index, if there is one. */
static void generate_found(
	struct fixture *f, char *text, const char *type, const char *index, int depth)
{
	static const char *const scales[] = {
		"", " * 8", " * 4", " * 1", " * 24", " * 0", " * 2147483647"};
	char inner[TEXT_MAX] = "arg0", item[64] = "";

	if (depth > 0)
		generate_found(f, inner, "u64", index, depth - 1);
	if (index && next_random(f) % 2)
		snprintf(item, sizeof(item), " %c %s%s", next_random(f) % 3 ? '+' : '-', index,
			scales[next_random(f) % (sizeof(scales) / sizeof(*scales))]);
	snprintf(text, TEXT_MAX, "*(%s *)(%.300s%s %c %lu)", type, inner, item,
		next_random(f) % 3 ? '+' : '-',
		next_random(f) % 4 * 8 + (next_random(f) % 4 == 0 ? next_random(f) % 9 : 0));
}

static void try_found(struct fixture *f, const char *text, bool has_rseq)
{
	static const int64_t near[] = {-9, -8, -1, 0, 1, 8};
	struct subject s;

	subject_init(&s, f, "8@%rdi -4@%esi 8@%rdx", text, has_rseq);
	for (int i = 0; i < 24; i++) {
		uint64_t args[3] = {f->memory + next_random(f) % MEMORY_BYTES / 8 * 8, edge(f),
			next_random(f) % 64 - 32};

		if (i % 6 == 1)
			args[0] = edge(f);
		else if (i % 6 == 2)
			args[0] = f->memory + (uint64_t)near[next_random(f) % 6];
		else if (i % 6 == 3)
			args[0] = f->end + (uint64_t)near[next_random(f) % 6];
		else if (i % 6 == 4) /* across the pages */
			args[0] = f->memory + PAGE + (uint64_t)near[next_random(f) % 6];
		try_hit(&s, text, args);
	}
	expr_case_deinit(&s.expr);
}

/* Steps of every size, up to three, in expressions; and a bad pointer at each of them. */
static void random_steps(void **state)
{
	static const char *const types[] = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"};
	static const char *const indices[] = {NULL, "arg1", "arg2"};
	static const char *const rest[] = {
		"", " + arg1", " == arg1", " & 0xff", " / arg1", " > 100 || arg1", " < 0 && arg0"};
	struct fixture *f = *state;

	fill_memory(f);
	for (int i = 0; i < 2400; i++) {
		char found[TEXT_MAX], text[2 * TEXT_MAX];

		generate_found(f, found, types[next_random(f) % 8], indices[i % 3],
			(int)(next_random(f) % 3));
		snprintf(text, sizeof(text), "%s%s", found,
			rest[next_random(f) % (sizeof(rest) / sizeof(*rest))]);
		try_found(f, text, i % 3 != 0);
	}
	try_found(f, "*(u64 *)arg0 == *(u64 *)(arg0 + 8) || *(s32 *)(arg0) < *(u8 *)*(u64 *)arg0",
		true);
}

/* A string behind a pointer. */
static void found_strings(void **state)
{
	struct fixture *f = *state;
	struct {
		const char *text;
		uint64_t length;
	} name = {"SELECT", 3}, none = {NULL, 3};
	struct subject s;

	subject_init(&s, f, "8@%rdi 8@%rsi", "str(*(u64 *)arg0) == \"SELECT\"", true);
	s.filter((uintptr_t)&name, 0, 0);
	assert_int_equal(stub_host_hits(&f->host), 1);
	s.filter((uintptr_t)&none, 0, 0);
	s.filter(0, 0, 0);
	s.filter(~UINT64_C(0), 0, 0);
	assert_int_equal(stub_host_hits(&f->host), 1);
	expr_case_deinit(&s.expr);
	subject_init(&s, f, "8@%rdi 8@%rsi", "str(*(u64 *)arg0, arg1) == \"SEL\"", true);
	s.filter((uintptr_t)&name, 3, 0);
	s.filter((uintptr_t)&name, 4, 0);
	assert_int_equal(stub_host_hits(&f->host), 2);
	expr_case_deinit(&s.expr);
}

/* Elements of arrays, and texts behind the start of another: what the index says, everywhere. */
static void found_items(void **state)
{
	static const char *const texts[] = {"str(arg0 + 1) == \"ELECT\"",
		"str((arg0) + 3 - 2) != \"ELECT\"", "str(arg0 + arg1) == \"LECT\"",
		"str(arg0 - arg1 * 2 + 6, arg1) == \"CT\"",
		"starts_with(str(arg0 + arg1, arg1), \"LE\")",
		"str(arg0 + arg1 * 1) in (\"T\", \"ECT\") || str(arg0) == \"\""};
	static const char text[] = "SELECT\0\0\0\0\0\0";
	static const char *const names[] = {"zero", "one", "two", "three"};
	struct fixture *f = *state;
	struct subject s;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		for (int rseq = 0; rseq < 2; rseq++) {
			subject_init(&s, f, "8@%rdi -4@%esi 8@%rdx", texts[i], rseq);
			for (uint64_t n = 0; n <= 3; n++)
				try_hit(&s, texts[i], (uint64_t[]){(uintptr_t)text, n, 0});
			/* The upper half of a register is not the argument's. */
			try_hit(&s, texts[i],
				(uint64_t[]){(uintptr_t)text, UINT64_C(0x7700000002), 0});
			expr_case_deinit(&s.expr);
		}
	subject_init(&s, f, "8@%rdi -2@%si", "str(*(u64 *)(arg0 + arg1 * 8)) == \"two\"", true);
	for (uint64_t n = 0; n < 4; n++)
		s.filter((uintptr_t)names, n, 0);
	s.filter((uintptr_t)&names[3], (uint64_t)-1, 0);
	assert_int_equal(stub_host_hits(&f->host), 2);
	s.filter(0, 2, 0);
	s.filter((uintptr_t)names, INT16_MAX, 0);
	s.filter((uintptr_t)names, INT16_MIN, 0);
	assert_int_equal(stub_host_hits(&f->host), 2);
	expr_case_deinit(&s.expr);
}

/* The index is behind a pointer of its own, which may be bad, too. */
static void found_index(void **state)
{
	static const uint32_t items[] = {10, 11, 12, 13};
	struct fixture *f = *state;
	int32_t indices[] = {2, -1, 70000000};
	struct subject s;

	for (int rseq = 0; rseq < 2; rseq++) {
		subject_init(&s, f, "8@%rdi -4@(%rsi)", "*(u32 *)(arg0 + arg1 * 4) == 12", rseq);
		s.filter((uintptr_t)items, (uintptr_t)&indices[0], 0);
		assert_int_equal(stub_host_hits(&f->host), 1);
		s.filter((uintptr_t)&items[3], (uintptr_t)&indices[1], 0);
		assert_int_equal(stub_host_hits(&f->host), 2);
		s.filter((uintptr_t)items, (uintptr_t)&indices[1] - 1, 0);
		s.filter((uintptr_t)items, (uintptr_t)&indices[2], 0);
		s.filter((uintptr_t)items, 0, 0);
		s.filter((uintptr_t)items, ~UINT64_C(0) - 1, 0);
		s.filter(0, (uintptr_t)&indices[0], 0);
		assert_int_equal(stub_host_hits(&f->host), 2);
		s.value((uintptr_t)items, 8, 0);
		assert_int_equal(stub_host_lost(&f->host), 1);
		clear(&f->host);
		expr_case_deinit(&s.expr);
	}
}

static void pointers(void **state)
{
	struct fixture *f = *state;
	static const char text[] = "arg0 == 42 && arg1 != 7";
	uint64_t there = 42;
	struct subject s;

	subject_init(&s, f, "8@(%rdi) 8@%rsi", text, true);
	s.filter((uintptr_t)&there, 1, 0);
	assert_int_equal(stub_host_hits(&f->host), 1);
	s.filter((uintptr_t)&there, 7, 0);
	s.filter(16, 1, 0);
	s.filter(~UINT64_C(0), 1, 0);
	assert_int_equal(stub_host_hits(&f->host), 1);
	there = 41;
	s.filter((uintptr_t)&there, 1, 0);
	assert_int_equal(stub_host_hits(&f->host), 1);
	s.value(16, 1, 0);
	assert_int_equal(stub_host_lost(&f->host), 1);
	expr_case_deinit(&s.expr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(operators, setup, teardown),
		cmocka_unit_test_setup_teardown(random_expressions, setup, teardown),
		cmocka_unit_test_setup_teardown(doubles, setup, teardown),
		cmocka_unit_test_setup_teardown(strings, setup, teardown),
		cmocka_unit_test_setup_teardown(bounded_strings, setup, teardown),
		cmocka_unit_test_setup_teardown(cut_string, setup, teardown),
		cmocka_unit_test_setup_teardown(pointers, setup, teardown),
		cmocka_unit_test_setup_teardown(long_lists, setup, teardown),
		cmocka_unit_test_setup_teardown(random_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(found_strings, setup, teardown),
		cmocka_unit_test_setup_teardown(found_items, setup, teardown),
		cmocka_unit_test_setup_teardown(found_index, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
