/* SPDX-License-Identifier: MIT */
/* The files of the catalogue: what they say, which probe a line is about, and their mistakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/query/query.h"

/* Writes a file, adds it, and returns the error. */
static struct probe_error *add(struct probe_catalogue *catalogue, const char *text, size_t length)
{
	char path[] = "/tmp/test_catalogueXXXXXX";
	struct probe_error *error;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, length), length);
	close(fd);
	error = probe_catalogue_add(catalogue, path);
	unlink(path);
	return error;
}

static struct probe_catalogue *create(void)
{
	struct probe_catalogue *catalogue;

	assert_null(probe_catalogue_create(&catalogue));
	return catalogue;
}

static struct probe_catalogue *create_with(const char *text)
{
	struct probe_catalogue *catalogue = create();
	struct probe_error *error = add(catalogue, text, strlen(text));

	if (error)
		fail_msg("%s", error->message);
	return catalogue;
}

static void test_builtin(void **state)
{
	struct probe_catalogue *catalogue = create();
	const struct probe_meaning *m;

	(void)state;
	m = probe_catalogue_find(catalogue, "postgresql", "lock__wait__start", 6);
	assert_non_null(m);
	assert_string_equal(m->args[5].name, "lockmode");
	assert_string_equal(probe_meaning_word(&m->args[5], 8), "AccessExclusiveLock");
	assert_null(probe_meaning_word(&m->args[5], 9));
	assert_ptr_equal(m, probe_catalogue_find(catalogue, "postgresql", "lock-wait-start", 6));
	assert_null(probe_catalogue_find(catalogue, "postgresql", "lock__wait__start", 5));
	assert_null(probe_catalogue_find(catalogue, "postgres", "lock__wait__start", 6));
	/* The versions of a program differ. */
	m = probe_catalogue_find(catalogue, "postgresql", "buffer__read__done", 8);
	assert_string_equal(m->args[7].name, "hit");
	m = probe_catalogue_find(catalogue, "postgresql", "buffer__read__done", 7);
	assert_string_equal(m->args[6].name, "hit");
	m = probe_catalogue_find(catalogue, "hotspot", "method__entry", 7);
	assert_int_equal(m->args[1].kind, PROBE_ARG_SIZED_STRING);
	assert_int_equal(m->args[1].length, 2);
	m = probe_catalogue_find(catalogue, "python", "function__entry", 3);
	assert_string_equal(m->with, "line");
	m = probe_catalogue_find(catalogue, "php", "function__entry", SIZE_MAX);
	assert_non_null(strstr(m->needs, "USE_ZEND_DTRACE=1"));
	probe_catalogue_free(catalogue);
	assert_null(probe_catalogue_find(NULL, "php", "function__entry", SIZE_MAX));
}

/* Each provider is parsed by itself; together they say what the whole text does. */
static void test_parts(void **state)
{
	struct probe_catalogue *catalogue = create();
	struct catalogue_file whole;
	size_t probes = 0;

	(void)state;
	assert_null(catalogue_parse(
		"the catalogue", catalogue_builtin, catalogue_builtin_length, &whole));
	for (size_t i = 0; i < catalogue->source_count; i++)
		assert_null(atomic_load(&catalogue->sources[i].file));
	assert_null(probe_catalogue_find(catalogue, "nobody", "hit", SIZE_MAX));
	for (size_t i = 0; i < whole.probe_count; i++) {
		const struct probe_meaning *m = &whole.probes[i];
		const struct probe_meaning *found =
			probe_catalogue_find(catalogue, m->provider, m->name, m->arg_count);

		assert_non_null(found);
		assert_string_equal(found->provider, m->provider);
	}
	for (size_t i = 0; i < catalogue->source_count; i++) {
		const struct catalogue_file *file = catalogue_file_of(catalogue, i, NULL);

		for (size_t k = 0; k < file->probe_count; k++)
			assert_string_equal(file->probes[k].provider, file->probes[0].provider);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(file->probes[0].provider,
				catalogue_file_of(catalogue, k, NULL)->probes[0].provider);
		probes += file->probe_count;
	}
	assert_int_equal(probes, whole.probe_count);
	catalogue_file_deinit(&whole);
	probe_catalogue_free(catalogue);
}

static void test_wildcards(void **state)
{
	struct probe_catalogue *catalogue = create_with("provider p\n"
							"probe *__entry env ...\n"
							"probe Call*X*__entry env object\n");
	const struct probe_meaning *m;

	(void)state;
	m = probe_catalogue_find(catalogue, "p", "CallAXB-entry", 2);
	assert_int_equal(m->arg_count, 2);
	m = probe_catalogue_find(catalogue, "p", "CallAXB__entry", 3);
	assert_int_equal(m->arg_count, 1);
	assert_non_null(probe_catalogue_find(catalogue, "p", "a__entry", 1));
	assert_null(probe_catalogue_find(catalogue, "p", "a__entry", 0));
	assert_null(probe_catalogue_find(catalogue, "p", "a__entry_", 1));
	assert_null(probe_catalogue_find(catalogue, "p", "a_entry", 1));
	probe_catalogue_free(catalogue);
}

static void test_override(void **state)
{
	struct probe_catalogue *catalogue = create_with(
		"# mine\n\n  provider\tpython \nneeds General.\n"
		"words Kind -1=none 0x10=sixteen\n"
		"probe line a:string  b:Kind c:bytes(d) d:bytes\n"
		"probe gc__start kind:Kind\nmeans  Some  text. \nneeds Particular.\nwith line\n"
		"same kind arg0\n"
		"pair gc__start x y-z\n");
	const struct probe_meaning *m = probe_catalogue_find(catalogue, "python", "gc__start", 1);

	(void)state;
	assert_string_equal(m->args[0].name, "kind");
	assert_string_equal(m->means, "Some  text.");
	assert_string_equal(m->needs, "Particular.");
	assert_int_equal(m->same_count, 2);
	assert_string_equal(m->same[0], "kind");
	assert_string_equal(m->same[1], "arg0");
	assert_int_equal(m->end_count, 2);
	assert_string_equal(m->ends[1], "y-z");
	assert_string_equal(probe_meaning_word(&m->args[0], -1), "none");
	assert_string_equal(probe_meaning_word(&m->args[0], 16), "sixteen");
	m = probe_catalogue_find(catalogue, "python", "line", 4);
	assert_string_equal(m->needs, "General.");
	assert_int_equal(m->args[2].kind, PROBE_ARG_SIZED_BYTES);
	assert_int_equal(m->args[3].kind, PROBE_ARG_NUMBER);
	/* What the file does not say is still there. */
	m = probe_catalogue_find(catalogue, "python", "line", 3);
	assert_string_equal(m->args[0].name, "filename");
	probe_catalogue_free(catalogue);
}

/* Functions: what they return, the numbers of arguments by the registers they are in, and sizes. */
static void test_functions(void **state)
{
	static const char registers[] = "-8@%rdi -8@%rsi 8@? -8@%rcx -8@%r8 -8@%r9 -8@8(%rsp) "
					"-8@16(%rsp) -8@24(%rsp) -8@32(%rsp) 8f@%xmm0 8f@%xmm1";
	struct probe_catalogue *catalogue =
		create_with("provider fn:app\n"
			    "words Kind 0=none 1=some\n"
			    "words Small:u8 1=one\n"
			    "probe ns::f<int,*long> o:pointer o->id:Small@*(u8*)(arg0+8) "
			    "o->name:string@*(u64*)(arg0+16)\n"
			    "probe mixed x:double n:s32 y:float to:u8 z:s16\n"
			    "means Mixed.\n"
			    "probe kind a:bool b ... -> Kind\n"
			    "probe half -> float\n"
			    "probe none a:string -> void\n");
	const struct probe_meaning *m = probe_catalogue_find(catalogue, "fn:app", "mixed", 18);
	struct capture captures[CAPTURES_MAX];
	char text[ARCH_FUNCTION_TEXT], *replaced;
	struct probe_error *error;

	(void)state;
	assert_string_equal(m->means, "Mixed.");
	assert_string_equal(m->args[0].name, "n");
	assert_string_equal(m->args[2].name, "z");
	assert_string_equal(m->args[3].name, "arg3");
	assert_string_equal(m->args[10].name, "x");
	assert_string_equal(m->args[11].name, "y");
	assert_string_equal(catalogue_sized(m, registers, text),
		"-4@%rdi 1@%rsi 8@? -8@%rcx -8@%r8 -8@%r9 -8@8(%rsp) -8@16(%rsp) -8@24(%rsp) "
		"-8@32(%rsp) 8f@%xmm0 4f@%xmm1");
	assert_int_equal(meaning_captures(m, m->arg_count, captures), 5);
	assert_int_equal(captures[2].arg, 2);
	assert_int_equal(captures[3].arg, 10);
	/* Others than those that are described may be named, and are not printed. */
	m = probe_catalogue_find(catalogue, "fn:app", "kind", 18);
	assert_int_equal(meaning_captures(m, m->arg_count, captures), 2);
	assert_null(meaning_replace("", "farg1 == arg2 && b", m, NULL, NULL, &replaced));
	assert_string_equal(replaced, "arg11 == arg2 && arg1");
	free(replaced);
	m = probe_catalogue_find(catalogue, "fn:app", "none", 18);
	error = meaning_replace("", "farg1", m, NULL, NULL, &replaced);
	assert_non_null(strstr(error->message, "there is no argument 'farg1', the probe has a"));
	probe_error_free(error);
	m = probe_catalogue_find(catalogue, "fn:app", "kind:return", 2);
	assert_string_equal(m->args[0].name, "retval");
	assert_string_equal(probe_meaning_word(&m->args[0], 1), "some");
	assert_string_equal(catalogue_sized(m, "-8@%rax 8f@%xmm0", text), "-4@%rax 8f@%xmm0");
	assert_int_equal(meaning_captures(m, m->arg_count, captures), 1);
	m = probe_catalogue_find(catalogue, "fn:app", "half:return", 2);
	assert_string_equal(catalogue_sized(m, "-8@%rax 8f@%xmm0", text), "-8@%rax 4f@%xmm0");
	assert_int_equal(meaning_captures(m, m->arg_count, captures), 1);
	assert_int_equal(captures[0].arg, 1);
	m = probe_catalogue_find(catalogue, "fn:app", "none:return", 2);
	assert_int_equal(meaning_captures(m, m->arg_count, captures), 0);
	/* Members of structures are behind the registers. */
	m = probe_catalogue_find(catalogue, "fn:app", "ns::f<int, long>", 18);
	assert_int_equal(meaning_captures(m, m->arg_count, captures), 1);
	assert_null(meaning_replace(
		"", "o->id == one && str(o->name) == \"x\" && o", m, NULL, NULL, &replaced));
	assert_string_equal(
		replaced, "*(u8*)(arg0+8) == 1 && str(*(u64*)(arg0+16)) == \"x\" && arg0");
	free(replaced);
	captures[0] = (struct capture){.steps = {{.offset = 8, .size = 1}}, .step_count = 1};
	assert_int_equal(meaning_shown(m, &captures[0]), ARCH_FUNCTION_ARGS);
	captures[0].steps[0].offset = 9;
	assert_int_equal(meaning_shown(m, &captures[0]), UINT8_MAX);
	/* A function that no file describes has registers, whose sizes are unknown. */
	m = probe_catalogue_find(catalogue, "fn:app", "unknown", 18);
	assert_ptr_equal(m, catalogue_any_function(false));
	assert_string_equal(catalogue_sized(m, registers, text), registers);
	assert_string_equal(catalogue_sized(m, "", text), "");
	m = probe_catalogue_find(catalogue, "fn:libc", "open:return", 2);
	assert_int_equal(m->args[0].size, -4);
	probe_catalogue_free(catalogue);
}

static void test_mistakes(void **state)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"probe x\n", ":1: expected a line 'provider NAME' before this one"},
		{"provider p\nprob x\n",
			":2: 'prob' begins no line: expected provider, probe, words, "
			"means, needs, inlined, with, takes, same or pair"},
		{"provider\n", ":1: expected the provider's name"},
		{"provider p q\n", ":1: expected nothing after that, not 'q'"},
		{"provider p\nprobe\n", ":2: expected the probe's name"},
		{"provider p\nprobe x a:string+b\n",
			":2: expected a number of bytes, at most 4095, in 'string+b'"},
		{"provider p\nprobe x a:string+4096\n",
			":2: expected a number of bytes, at most 4095, in 'string+4096'"},
		{"provider p\ntakes x\n", ":2: there is no probe above"},
		{"provider p\nprobe x\ntakes\n", ":3: expected the probe's name"},
		{"provider p\nsame x\n", ":2: there is no probe above"},
		{"provider p\nprobe x a\nsame\n", ":3: expected names of arguments"},
		{"provider p\nprobe x a\nsame b\n", ":3: the probe above has no argument 'b'"},
		{"provider p\nprobe x a\nsame arg1\n",
			":3: the probe above has no argument 'arg1'"},
		{"provider p\nprobe x a b c d e\nsame a b c d e\n",
			":3: at most 4 arguments are compared"},
		{"provider p\nprobe p:x\n",
			":2: 'p:x' has a colon: the provider has a line of its own"},
		{"provider p\nprobe x a-b\n", ":2: 'a-b' is no name of an argument: expected "
					      "letters, digits and _"},
		{"provider p\nprobe x 1a\n",
			":2: '1a' is no name of an argument: expected letters, "
			"digits and _"},
		{"provider p\nprobe x tid\n", ":2: no argument can be called 'tid': in an "
					      "expression, this is something else"},
		{"provider p\nprobe x arg7\n", ":2: no argument can be called 'arg7': in an "
					       "expression, this is something else"},
		{"provider p\nprobe x a a\n", ":2: two arguments are called 'a'"},
		{"provider p\nprobe x a:char\n", ":2: there is no type 'char'"},
		{"provider p\nprobe x a:\n", ":2: there is no type ''"},
		{"provider p\nprobe x a:string(b)\n",
			":2: there is no argument 'b' that could be a length"},
		{"provider p\nprobe x a:string(b) b:string\n",
			":2: 'b' is no number, and so no length"},
		{"provider p\nprobe x a:string(a\n",
			":2: expected the argument that is the length in 'string(a'"},
		{"provider p\nprobe x ... a\n", ":2: '...' comes last"},
		{"provider fn:p\nprobe x @rdi\n",
			":2: '' is no name of an argument: expected ARG->MEMBER@PLACE"},
		{"provider fn:p\nprobe x a->:u8@arg0\n",
			":2: 'a->' is no name of an argument: expected ARG->MEMBER@PLACE"},
		{"provider fn:p\nprobe x a->b:u8@\n",
			":2: 'a->b' is no name of an argument: expected ARG->MEMBER@PLACE"},
		{"provider p\nprobe x -> s32\n", ":2: '->' is no name of an argument: expected "
						 "letters, digits and _"},
		{"provider fn:p\nprobe x a ->\n",
			":2: expected the type of what the function returns"},
		{"provider fn:p\nprobe x -> what\n", ":2: there is no type 'what'"},
		{"provider fn:p\nprobe x -> s32 a\n", ":2: expected nothing after that, not 'a'"},
		{"provider fn:p\nprobe x a b c d e f g h i j x:double k\n",
			":2: a function has at most 10 arguments, and 8 floating ones"},
		{"provider p\nwords K 1\n", ":2: expected NUMBER=WORD instead of '1'"},
		{"provider p\nwords K x=y\n", ":2: 'x' is no number"},
		{"provider p\nwords K 99999999999999999999=y\n",
			":2: '99999999999999999999' is no number"},
		{"provider p\nwords K\n", ":2: expected NUMBER=WORD"},
		{"provider p\nwords 1=x\n", ":2: expected the name of the type"},
		{"provider p\nmeans x\n", ":2: there is no probe above"},
		{"provider p\nprobe x\nmeans \n", ":3: expected a text"},
		{"provider p\nneeds\n", ":2: expected a text"},
		{"provider p\nwith y\n", ":2: there is no probe above"},
		{"provider p\nprobe x\nwith\n", ":3: expected the probe's name"},
		{"provider p\nprobe x\nwith y z\n", ":3: expected nothing after that, not 'z'"},
		{"provider p\npair x\n", ":2: expected two probes or more, BEGIN END..."},
		{"provider p\npair x y\n", ":2: there is no line 'probe x' above"},
		{"provider p\r\n", ":1: the line has a control character (0x0d)"},
		{"provider p\nprobe x\nmeans \033[1m\n",
			":3: the line has a control character (0x1b)"},
		/* A type is the provider's. */
		{"provider p\nwords K 1=x\nprovider q\nprobe x a:K\n", ":4: there is no type 'K'"},
	};
	struct probe_catalogue *catalogue = create();
	size_t count = catalogue->source_count;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct probe_error *error = add(catalogue, cases[i].text, strlen(cases[i].text));

		if (!error)
			fail_msg("%s", cases[i].text);
		assert_int_equal(error->code, PROBE_ERROR_FORMAT);
		assert_string_equal(strchr(error->message, ':'), cases[i].error);
		probe_error_free(error);
	}
	/* Nothing was added. */
	assert_int_equal(catalogue->source_count, count);
	probe_catalogue_free(catalogue);
}

static void expect(struct probe_error *error, enum probe_error_code code, const char *message)
{
	assert_non_null(error);
	assert_int_equal(error->code, code);
	assert_non_null(strstr(error->message, message));
	probe_error_free(error);
}

static void test_files(void **state)
{
	static char large[CATALOGUE_FILE_MAX + 2];
	struct probe_catalogue *catalogue = create();
	char pipe[] = "/tmp/test_catalogueXXXXXX", many[512] = "provider p\nprobe x";

	(void)state;
	expect(probe_catalogue_add(catalogue, "/nowhere/x.probes"), PROBE_ERROR_SYSTEM,
		"/nowhere/x.probes: No such file");
	expect(probe_catalogue_add(catalogue, "/"), PROBE_ERROR_FORMAT, "no regular file");
	assert_non_null(mkdtemp(pipe));
	strcpy(large, pipe);
	strcat(large, "/fifo");
	assert_int_equal(mkfifo(large, 0600), 0);
	expect(probe_catalogue_add(catalogue, large), PROBE_ERROR_FORMAT, "no regular file");
	unlink(large);
	rmdir(pipe);
	memset(large, '\n', sizeof(large));
	expect(add(catalogue, large, CATALOGUE_FILE_MAX + 1), PROBE_ERROR_FORMAT,
		"the file has more than 1048576 bytes");
	assert_null(add(catalogue, large, CATALOGUE_FILE_MAX));
	expect(add(catalogue, "provider p\0q\n", 13), PROBE_ERROR_FORMAT, ":1: the line has a NUL");
	assert_null(add(catalogue, "", 0));
	/* Without a newline at the end. */
	assert_null(add(catalogue, "provider p\nprobe y b", 20));
	assert_non_null(probe_catalogue_find(catalogue, "p", "y", 1));
	for (int i = 0; i < 33; i++)
		sprintf(many + strlen(many), " a%d", i);
	expect(add(catalogue, many, strlen(many)), PROBE_ERROR_FORMAT,
		":2: a probe has at most 32 arguments");
	probe_catalogue_free(catalogue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_builtin),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_wildcards),
		cmocka_unit_test(test_override),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
