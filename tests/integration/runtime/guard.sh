#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Guards of <probe/tracepoint.h>: on while probectl listens, off and text as before afterwards, for
# each compiler, in inlined copies, libraries, forked children and a program that traces itself;
# after a controller was killed; beside other sites and other tools; and notes that lie.
. tests/integration/lib.sh
need cc jq readelf objcopy
need_attach
include=-Ilibprobe/include

# ---- The program -------------------------------------------------------------------------------

cat >"$SCRATCH/guard.h" <<'END'
#define PROBE_TRACEPOINT_GUARD
#include <probe/tracepoint.h>
PROBE_DECLARE_TRACE(guarded, hit, int, n);
PROBE_DECLARE_TRACE(guarded, beside, int, n);
extern volatile int work;
/* The site is right before the guard, and the label right behind a site. */
static inline __attribute__((always_inline)) int step(int n)
{
	int on = 0;
	trace_guarded_beside(n);
	if (trace_guarded_hit_enabled()) {
		trace_guarded_hit(n);
		on = 1;
	}
	work += n;
	return on;
}
#ifdef __cplusplus
extern "C"
#endif
	int in_library(int n);
END
cat >"$SCRATCH/library.c" <<'END'
#include "guard.h"
PROBE_DEFINE_TRACE(guarded, hit);
PROBE_DEFINE_TRACE(guarded, beside);
volatile int work;
int in_library(int n)
{
	return step(n) + step(n + 1);
}
END
cat >"$SCRATCH/program.c" <<'END'
#include "guard.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
PROBE_DEFINE_TRACE(guarded, hit);
PROBE_DEFINE_TRACE(guarded, beside);
volatile int work;
static int (*library)(int n);
static __attribute__((noinline)) int loop(int n)
{
	int on = 0;
	for (int i = 0; i < 2; i++)
		on += step(n + i);
	return on;
}
static __attribute__((noinline)) int pass(void)
{
	int on = step(1);
	work *= 3;
	on += step(2) + loop(3);
	return on + (library ? library(5) : 0);
}
int main(void)
{
	char line[200];
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (line[0] == '/') {
			void *handle = dlopen(line, RTLD_NOW);
			*(void **)&library = handle ? dlsym(handle, "in_library") : NULL;
		} else if (strcmp(line, "fork") == 0) {
			if (fork() == 0) {
				printf("%d\n", pass());
				fflush(stdout);
				_exit(0);
			}
			wait(NULL);
			continue;
		}
		printf("%d\n", pass());
	}
	return 0;
}
END

# guards PID FILE: the run-time address of each guard
guards()
{
	local base
	objcopy --dump-section .note.probectl="$SCRATCH/notes" "$2" /dev/null
	base=$(grep -m1 " $2\$" "/proc/$1/maps" | cut -d- -f1)
	"$python" - "$SCRATCH/notes" "$base" <<'END'
import struct, sys
notes = open(sys.argv[1], "rb").read()
for at in range(0, len(notes), 56):
    assert notes[at + 12:at + 21] == b"probectl\0"
    print(hex(struct.unpack_from("<Q", notes, at + 24)[0] + int(sys.argv[2], 16)))
END
}

# is_on WHAT COUNT: so many guards say that somebody listens
is_on()
{
	ask pass
	same "$1" "$answer" "$2"
}

poke()
{
	"$python" tests/integration/poke.py "$target_pid" poke "$@"
}
peek()
{
	"$python" tests/integration/poke.py "$target_pid" peek "$@"
}

# ---- On and off, by each compiler ---------------------------------------------------------------

# Linkers that drop what only notes name.
gc='-ffunction-sections -fdata-sections -Wl,--gc-sections -fuse-ld'
for compiler in 'gcc -O2' 'gcc -O0 -no-pie' 'gcc -Os -fcf-protection=none' 'gcc -O3 -flto' 'g++ -x c++ -O2' \
	'clang -O2' 'clang -O0' 'clang++ -x c++ -O3' "gcc -O2 $gc=gold" "gcc -O2 $gc=mold" "clang -O2 $gc=lld"; do
	read -ra cc <<<"$compiler"
	[ -n "$(command -v "${cc[0]}")" ] || continue
	[[ $compiler != *-fuse-ld=* ]] || command -v "ld.${compiler##*=}" >/dev/null || continue
	[[ $compiler != *-fcf-protection* || $(uname -m) == x86_64 ]] || continue
	"${cc[@]}" -Wall -Wextra -Werror $include -o "$SCRATCH/program" "$SCRATCH/program.c" -x none -ldl &&
		"${cc[@]}" -Wall -Wextra -Werror $include -fPIC -shared -o "$SCRATCH/library.so" \
			"$SCRATCH/library.c" || die "$compiler: it does not build"
	start "$SCRATCH/program"
	is_on "$compiler: off" 0
	save_state "$target_pid"
	ctl enable -p "$target_pid" guarded:beside
	is_on "$compiler: another probe is on" 0
	ctl enable -p "$target_pid" guarded:hit
	is_on "$compiler: on" 4
	ctl disable -p "$target_pid" guarded:beside
	is_on "$compiler: another probe is off" 4
	same "$compiler: its hits" "$(enabled_of guarded | cut -d' ' -f1,2)" "hit 8"
	ctl disable -p "$target_pid" guarded:hit
	is_on "$compiler: off again" 0
	same_state "$target_pid"
	# A library that is opened while a trace runs.
	trace_start late --json --follow -p "$target_pid" guarded:hit
	wait_tracing late
	ask "$SCRATCH/library.so"
	until [ "$answer" = 6 ]; do
		pause
		ask pass
	done
	trace_stop late
	is_on "$compiler: a library" 0
	same_state "$target_pid"
	end_target
done

# ---- Controllers that share it, and die ---------------------------------------------------------

cc -O2 $include -o "$SCRATCH/program" "$SCRATCH/program.c" -ldl || die "it does not build"
start "$SCRATCH/program"
save_state "$target_pid"
ctl enable -p "$target_pid" guarded:hit
ctl enable -p "$target_pid" guarded:hit
trace_start shared --json -p "$target_pid" guarded:hit
wait_tracing shared
ctl disable -p "$target_pid" guarded:hit
ctl disable -p "$target_pid" guarded:hit
is_on "a trace remains" 4
ctl enable -p "$target_pid" guarded:hit
end_process "$tracer_pid"
is_on "the trace was killed" 4
ctl repair -p "$target_pid"
is_on "repaired, with another controller" 4
ctl disable -p "$target_pid" guarded:hit
is_on "the last one is off" 0
same_state "$target_pid"

trace_start killed --json -p "$target_pid" guarded:hit
wait_tracing killed
end_process "$tracer_pid"
is_on "the only trace was killed" 4
ask fork
same "a forked child" "$answer" 4
ctl repair -p "$target_pid"
is_on "repaired" 0
same_state "$target_pid"

# ---- Other tools --------------------------------------------------------------------------------

mapfile -t guard < <(guards "$target_pid" "$SCRATCH/program")
[ ${#guard[@]} -ge 3 ] || die "no guards"
off=$(peek "${guard[0]}" 5)
ctl enable -p "$target_pid" guarded:hit
on=$(peek "${guard[0]}" 5)
[ "$on" != "$off" ] || fail "a guard is off"
# Something writes the file's bytes back.
poke "${guard[0]}" "$off"
ask pass
one=$((4 - answer)) # as often is it passed
((one > 0)) || fail "one is off: $answer say that somebody listens"
"$PROBECTL" status -p "$target_pid" >"$SCRATCH/out" 2>&1
grep -q 'repair' "$SCRATCH/out" || fail "status does not tell of it: $(cat "$SCRATCH/out")"
ctl repair -p "$target_pid"
is_on "it is repaired" 4
# One more user of a probe that is on changes counts alone, unless a guard has to be switched.
poke "${guard[0]}" "$off"
ctl enable -p "$target_pid" guarded:hit
is_on "enabled once more" 4
ctl disable -p "$target_pid" guarded:hit
# A breakpoint hides it: it is switched off when the breakpoint has gone.
poke "${guard[0]}" $breakpoint
ctl disable -p "$target_pid" guarded:hit
poke "${guard[0]}" "$on"
is_on "the breakpoint has gone" "$one"
ctl repair -p "$target_pid"
is_on "repaired after the breakpoint" 0
same_state "$target_pid"
poke "${guard[0]}" $breakpoint
! "$PROBECTL" enable -p "$target_pid" guarded:hit 2>"$SCRATCH/covered.err" || fail "a covered guard is taken"
says covered 'one of its guards does not hold a guard'
poke "${guard[0]}" "$off"
same_state "$target_pid"
# Another tracer raises the semaphore, and switches no guard.
read -r _ _ semaphore _ < <("$python" tests/integration/state.py semaphores "$target_pid" | grep guarded:hit)
poke "$semaphore" 0100
is_on "another tracer" 0
poke "$semaphore" 0000
same_state "$target_pid"
end_target

# Readers of notes see the probes, and nothing else.
same "sites by another reader" "$(readelf -n "$SCRATCH/program" 2>"$SCRATCH/readelf.err" | grep -c 'Name: hit')" \
	"$("$PROBECTL" list --json "$SCRATCH/program" guarded:hit | wc -l)"
[ ! -s "$SCRATCH/readelf.err" ] || fail "readelf: $(cat "$SCRATCH/readelf.err")"
if command -v gdb >/dev/null; then
	same "probes for gdb" "$(gdb -batch -nx -ex 'info probes stap guarded' "$SCRATCH/program" 2>&1 |
		awk '$1 == "stap" { print $3 }' | sort -u | paste -sd' ')" "beside hit"
fi

# ---- Notes that lie -----------------------------------------------------------------------------

# lies WHAT REASON PC,LABEL...: notes with these addresses are refused, and nothing is written
lies()
{
	cat >"$SCRATCH/lie.s" <<END
	.macro note pc, label
	.pushsection .note.probectl, "", "note"
	.balign 4
	.4byte 9, 32, 0x6764
	.asciz "probectl"
	.balign 4
	.8byte \\pc, \\label, 0, guarded_hit_semaphore
	.popsection
	.endm
	.text
	.balign 4
code:	.byte $code
	.data
data:	.byte $code
	.text
$(printf '\tnote %s\n' "${@:3}")
	.section .note.GNU-stack, "", "progbits"
END
	cc -O2 $include -o "$SCRATCH/liar" "$SCRATCH/program.c" "$SCRATCH/lie.s" -ldl || die "$1: it does not build"
	start "$SCRATCH/liar"
	save_state "$target_pid"
	! "$PROBECTL" enable -p "$target_pid" guarded:hit 2>"$SCRATCH/lie.err" || fail "$1 is taken"
	says lie "$2"
	is_on "$1" 0
	same_state "$target_pid"
	end_target
}
# A guard to the next instruction, and in its middle a guard of another form.
code='0xa9, 0, 0, 0, 0, 0, 0, 0'
[ "$(uname -m)" = x86_64 ] || code='0x1f, 0x20, 0x03, 0xd5, 0, 0, 0, 0'
lies "a guard in data" 'names no code' data,data+5
lies "a label in data" 'names no code' code,data
lies "an address outside" 'names no code' 0x123456789000,code
lies "other code" 'does not hold a guard' main,main+16
lies "another label" 'does not hold a guard' code+4,main
lies "two guards in one place" 'overlaps' code,code+5 code+1,code+5
lies "a guard with two labels" 'overlaps' code,code+8 code,main
finish
