#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Programs without padding: code near an exit makes room for its jump. Counts are exact in several
# threads, with signals; a controller that is killed at any step leaves what repair removes; code
# that another tool has changed makes no room.
. tests/integration/lib.sh
need cc jq
need_attach
need_short_nops
torture=$BUILD/tests/torture
[ -e "$torture/steps.so" ] || skip "$torture/steps.so is not built"
integration=$(realpath "$integration")
cd "$SCRATCH" || die "no folder"

"$python" - program.c <<'PY'
import random, sys

rng = random.Random(33)
COUNT = 24
bodies = [
    "\tif (x & %(a)d)\n\t\treturn x * %(b)d;\n\treturn x + %(a)d;\n",
    "\tlong sum = %(a)d;\n\n\tfor (int i = 0; i < %(c)d; i++) {\n\t\tif (sum > 1000000)\n\t\t\treturn sum ^ x;\n"
    "\t\tsum += i * x;\n\t}\n\treturn sum;\n",
    "\tswitch (x %% 9) {\n\tcase 0: return x + 1;\n\tcase 1: return x * 3;\n\tcase 2: return x ^ %(b)d;\n"
    "\tcase 3: return -x;\n\tcase 5: return x << 2;\n\tcase 7: return x | %(a)d;\n\t}\n\treturn x - %(a)d;\n",
    "\tif (x < 0)\n\t\treturn 0;\n\treturn CALL(%(n)d, made_%(n)d(x / 2)) + %(a)d;\n",
    "\tdouble half = (double)x / 2;\n\n\tif (half > %(a)d)\n\t\treturn (long)half;\n\treturn (long)(half * %(b)d);\n",
    "\tif (!x)\n\t\treturn %(a)d;\n\tchar text[32];\n\tsnprintf(text, sizeof(text), \"%%ld\", x);\n\treturn text[0] + %(b)d;\n",
]
with open(sys.argv[1], "w") as out:
    print("""#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

enum { COUNT = %d, THREADS = 4, ARGS = 64 };
static unsigned long calls[COUNT];
static volatile int off;
#define CALL(i, value) (__atomic_add_fetch(&calls[i], 1, __ATOMIC_RELAXED), (value))
#define NOINLINE __attribute__((noinline, noclone))
""" % COUNT, file=out)
    for i in range(COUNT):
        print("NOINLINE long made_%d(long x);" % i, file=out)
    for i in range(COUNT):
        # A function that calls calls one before it.
        kind = rng.choice([k for k in range(6) if k != 3 or i])
        print("NOINLINE long made_%d(long x)\n{\n%s}\n" % (i, bodies[kind] % {
            "a": rng.randrange(1, 120), "b": rng.randrange(200, 70000), "c": rng.randrange(3, 9),
            "n": rng.randrange(i) if i else 0}), file=out)
    print("static long (*const all[])(long) = {%s};" % ", ".join("made_%d" % i for i in range(COUNT)),
          file=out)
    print("""
static long right[COUNT][ARGS], rounds;
static unsigned long wrong;

static void on_alarm(int signal)
{
	for (int i = 0; i < COUNT; i += 5)
		if (CALL(i, all[i](i)) != right[i][i])
			wrong++;
	(void)signal;
}

static void *work(void *unused)
{
	for (long r = 0; r < rounds || rounds < 0; r++)
		for (int i = 0; i < COUNT; i++) {
			int x = (int)((r * 7 + i) %% ARGS);

			if (CALL(i, all[i](x)) != right[i][x])
				wrong++;
		}
	return unused;
}

/* Unmaps the first code of a controller, which has the list of what it has patched. */
static void lose(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char line[512];

	while (fgets(line, sizeof(line), maps))
		if (strstr(line, " r-xp ") && strstr(line, "memfd:probectl") &&
			sscanf(line, "%%lx-%%lx", &start, &end) == 2) {
			munmap((void *)start, end - start);
			break;
		}
	fclose(maps);
}

int main(void)
{
	struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
	pthread_t threads[THREADS];
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < COUNT; i++)
		for (int x = 0; x < ARGS; x++)
			right[i][x] = all[i](x);
	signal(SIGALRM, on_alarm);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "lose", 4))
			lose();
		if (strncmp(line, "go", 2)) {
			printf("wrong %%lu\\n", wrong);
			continue;
		}
		memset(calls, 0, sizeof(calls));
		rounds = atol(line + 3);
		setitimer(ITIMER_REAL, &often, NULL);
		for (int i = 0; i < THREADS; i++)
			pthread_create(&threads[i], NULL, work, NULL);
		for (int i = 0; i < THREADS && rounds >= 0; i++)
			pthread_join(threads[i], NULL);
		if (rounds >= 0)
			setitimer(ITIMER_REAL, &never, NULL);
		for (int i = 0; i < COUNT; i++)
			printf("%%lu ", calls[i]);
		printf("wrong %%lu\\n", wrong);
	}
	return 0;
}
""".replace("%%", "%"), file=out)
PY

# made PROGRAM: the addresses where code has made room: two jumps, one behind the other
made()
{
	"$python" "$integration/poke.py" "$target_pid" changed "$PWD/$1" |
		sed -n 's/^\([^ ]*\) [^ ]* e9.\{8\}e9.\{4,8\}$/\1/p'
}

# counts_of FILE: the hits that a trace has printed, as NAME HITS
counts_of()
{
	jq -r 'select(.hits) | "\(.name) \(.hits)"' "$1" | sort
}

dying()
{
	ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=$torture/steps.so PROBECTL_DIE_AT=$1 \
		"$PROBECTL" "${@:2}" >/dev/null 2>&1
} 2>/dev/null

# check STRIDE OPTIONS: with a program that is compiled so
check()
{
	local stride=$1 options=$2 program p refused n command kills=0 places place bytes=()
	program=program${options//[ =]/}
	# shellcheck disable=SC2086
	cc $options -fno-jump-tables -Wno-format -pthread -o "$program" program.c || die "cannot build the program"
	refused=$("$PROBECTL" list -vv --json --functions "$program" 'made_*' 'made_*:return' |
		jq -r 'select(.plan == "refused") | "\(.name): \(.reason)"')
	same "$options: what is refused" "$refused" ""
	start "./$program"
	p=(-p "$target_pid" "fn:$program:made_*" "fn:$program:made_*:return")
	save_state "$target_pid"
	refused=$("$PROBECTL" list -vv --json --functions "${p[@]:0:2}" "${p[@]:2}" |
		jq -r 'select(.plan == "refused") | "\(.name): \(.reason)"')
	same "$options: what is refused in the process" "$refused" ""

	# ---- Exact counts, with signals and threads
	ctl enable "${p[@]}"
	places=$(made "$program")
	[ -n "$places" ] || fail "$options: no code has made room"
	ctl disable "${p[@]}"
	same_state "$target_pid"
	trace_start counts -c --json "${p[@]}"
	wait_tracing counts
	ask "go 300"
	trace_stop counts
	same "$options: what the program noticed" "${answer##* wrong}" " 0"
	n=0
	for command in ${answer% wrong*}; do
		printf 'made_%d %d\nmade_%d:return %d\n' "$n" "$command" "$n" "$command"
		n=$((n + 1))
	done | sort >wanted
	counts_of "$SCRATCH/counts.out" >found
	# Optimised, two of them may need the same code.
	[[ $options = *-O0* ]] || {
		awk 'NR == FNR { on[$1]; next } $1 in on' found wanted >both && mv both wanted
	}
	same "$options: hits" "$(cat found)" "$(cat wanted)"
	[ "$(grep -c return found)" -gt 8 ] || fail "$options: few exits are traced"
	same_state "$target_pid"

	# ---- Breakpoints of another tool, in code that does not run meanwhile
	for place in $places; do
		bytes+=("$("$python" "$integration/poke.py" "$target_pid" peek "$(printf %#x $((place + 5)))" 1)")
		"$python" "$integration/poke.py" "$target_pid" poke "$(printf %#x $((place + 5)))" cc
	done
	ctl enable --keep-going "${p[@]}"
	for place in $places; do
		same "$options: the breakpoint at $place + 5" "$("$python" "$integration/poke.py" \
			"$target_pid" peek "$(printf %#x $((place + 5)))" 1)" cc
	done
	ctl disable --force "${p[@]}"
	for place in $places; do
		"$python" "$integration/poke.py" "$target_pid" poke "$(printf %#x $((place + 5)))" "${bytes[0]}"
		bytes=("${bytes[@]:1}")
	done
	same_state "$target_pid"

	# ---- The program unmaps the list of what is patched
	ctl enable "${p[@]}"
	ask lose
	ctl repair -p "$target_pid"
	same_state "$target_pid"
	ask "go 100"
	same "$options: what the program noticed" "${answer##* wrong}" " 0"

	# ---- On and off while all threads run
	ask "go -1"
	for ((n = 0; n < 12; n++)); do
		ctl enable "${p[@]}"
		ctl disable "${p[@]}"
	done
	until "$PROBECTL" repair -p "$target_pid" 2>&1 | grep -q 'nothing to repair'; do
		pause
	done
	same_state "$target_pid"

	# ---- Killed at any step
	for command in enable disable; do
		for ((n = 1; ; n += stride)); do
			[ "$command" = enable ] || ctl enable "${p[@]}"
			dying "$n" "$command" "${p[@]}"
			[ $? = 137 ] || break
			kills=$((kills + 1))
			"$PROBECTL" repair -p "$target_pid" >"$SCRATCH/out" 2>&1 ||
				fail "$options: $command, step $n: $(cat "$SCRATCH/out")"
			"$PROBECTL" disable --force --keep-going "${p[@]}" >/dev/null 2>&1
			check_alive "$target_pid"
		done
		"$PROBECTL" disable --force --keep-going "${p[@]}" >/dev/null 2>&1
	done
	echo "$options: killed $kills times"
	[ "$kills" -gt 10 ] || fail "$options: killed $kills times"
	until "$PROBECTL" repair -p "$target_pid" 2>&1 | grep -q 'nothing to repair'; do
		pause
	done
	same_state "$target_pid"
	ask "wrong"
	same "$options: what the program noticed" "$answer" "wrong 0"
	end_target
}

# ---- Code whose flow goes back 100,000 times: a look at each time anew takes hours
{
	printf '.text\n.globl main\n.type main,@function\nmain: push %%rbp\nmov %%rsp,%%rbp\ncmp $1,%%edi\n'
	printf 'je 9f\njmp b100000\n9: ret\nb0: jmp 8f\n'
	for ((i = 1; i <= 100000; i++)); do echo "b$i: jmp b$((i - 1))"; done
	printf '8: pop %%rbp\nje 9f\nret\n9: ret\n.size main,.-main\n.section .note.GNU-stack,"",@progbits\n'
} >chain.s
cc -o chain chain.s || die "cannot build chain"
"$PROBECTL" list --functions ./chain main >out 2>err || fail "a chain of branches back: $(cat err)"
grep -q '^fn:chain:main ' out || fail "a chain of branches back: $(cat out)"

check 19 "-O0 -falign-functions=1"
in_all || finish
check 19 "-Og -g -falign-functions=1"
check 19 "-O0 -g -falign-functions=1"
finish
