#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Somebody writes to a library's file while a process has it mapped: its notes or section headers
# change, or it loses its ELF header. The text stays, so the program runs on. Probes that are on are
# shown, and whatever switched them on can switch them off. Other libraries of the process, and
# other processes, are not affected.
. tests/integration/lib.sh
need_attach
need gcc

cat >"$SCRATCH/lib.c" <<'C'
#include <sys/sdt.h>
static int used;
#define SITE(name) \
	void name(int n); \
	void name(int n) { DTRACE_PROBE1(PROVIDER, name, n); __asm__ volatile("nop; nop; nop; nop; nop"); used += n; }
SITE(ONE)
SITE(TWO)
C
cat >"$SCRATCH/main.c" <<'C'
#include <stdlib.h>
#include "target.h"
void one(int n);
void two(int n);
void three(int n);
void four(int n);
int main(void)
{
	char line[64];
	target_allow_tracing();
	puts("ready");
	fflush(stdout);
	while (target_read_line(line, sizeof(line))) {
		for (int i = atoi(line); i > 0; i--) {
			one(1);
			two(2);
			three(3);
			four(4);
		}
		puts("passed");
		fflush(stdout);
	}
	return 0;
}
C
mkdir "$SCRATCH/good" "$SCRATCH/bad"
gcc -O2 -fPIC -shared -DPROVIDER=rewritten -DONE=one -DTWO=two -o "$SCRATCH/librewritten.so" \
	"$SCRATCH/lib.c" 2>"$SCRATCH/gcc" || skip "no library can be built: $(head -1 "$SCRATCH/gcc")"
gcc -O2 -fPIC -shared -DPROVIDER=steady -DONE=three -DTWO=four -o "$SCRATCH/libsteady.so" "$SCRATCH/lib.c" ||
	die "the second library cannot be built"
# shellcheck disable=SC2016
gcc -O2 -D_GNU_SOURCE -Itests/targets -o "$SCRATCH/rewriter" "$SCRATCH/main.c" -L"$SCRATCH" -lrewritten \
	-lsteady '-Wl,-rpath,$ORIGIN' || die "the program cannot be built"
for folder in good bad; do
	cp "$SCRATCH/rewriter" "$SCRATCH"/lib*.so "$SCRATCH/$folder"
done
library=$SCRATCH/bad/librewritten.so

# rewrite HOW: changes the file in place, as no package manager would
rewrite()
{
	"$python" - "$library" "$1" <<'PYTHON'
import struct, sys
path, how = sys.argv[1:]
with open(path, "r+b") as file:
    data = bytearray(file.read())
    note = data.index(b"stapsdt\0") - 12
    (sections,) = struct.unpack_from("<Q", data, 40)
    if how == "zeroed":
        while data[note + 12:note + 20] == b"stapsdt\0":
            (size,) = struct.unpack_from("<I", data, note + 4)
            end = note + 20 + (size + 3 & ~3)
            data[note:end] = bytes(end - note)
            note = end
    elif how == "renamed":
        data[:] = data.replace(b"rewritten\0two\0", b"rewritten\0too\0")
    elif how == "moved":
        struct.pack_into("<Q", data, note + 20, struct.unpack_from("<Q", data, note + 20)[0] + 1)
    elif how == "headless":
        data[0:4] = b"gone"
    file.seek(0)
    file.write(data)
    if how == "cut":
        file.truncate(sections)
PYTHON
}

# fresh: puts an unchanged library in the place of the file
fresh()
{
	cp "$SCRATCH/librewritten.so" "$SCRATCH/next" && mv "$SCRATCH/next" "$library"
}

# on: prints NAME COUNT PATCHED/SITES of each probe that is on
on()
{
	"$PROBECTL" status --json -p "$target_pid" 2>"$SCRATCH/status.err" |
		jq -r '"\(.name) \(.refcount) \(.patched)/\(.sites)"' | sort | paste -sd,
}

# fails NAME ARGS…: the command must fail; its messages go to $SCRATCH/NAME.err
fails()
{
	local name=$1
	shift
	! "$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/$name.err" </dev/null || fail "probectl $* succeeds"
}

# as_at_start: nothing of probectl's is left, and the program runs
as_at_start()
{
	same "mappings of ours" "$(ours)" 0
	same "the text" "$(text_hash "$target_pid")" "$text"
	ask 2
	same "the program" "$answer" passed
}

# begin HOW: starts a program with an unchanged library
begin()
{
	how=$1
	case $how in
	cut) why='the file ends before its section headers' ;;
	*) why='the file has changed since the process mapped it' ;;
	esac
	fresh
	start "$SCRATCH/bad/rewriter"
	text=$(text_hash "$target_pid")
}

# ---- Probes are shown and switched off ---------------------------------------------

for how in zeroed renamed moved headless cut; do
	begin $how
	ctl enable -p "$target_pid" 'rewritten:*' steady:four
	ask 5
	rewrite $how
	ask 3
	same "$how: what is on" "$(on)" "four 1 1/1,one 1 1/1,two 1 1/1"
	same "$how: warnings" "$(grep -c "librewritten.so: $why" "$SCRATCH/status.err")" 1
	ctl disable -p "$target_pid" 'rewritten:o*'
	same "$how: what is on" "$(on)" "four 1 1/1,two 1 1/1"
	ctl disable --force -p "$target_pid"
	grep -q '2 probes, 2 sites disabled' "$SCRATCH/out" || fail "$how: disable --force: $(cat "$SCRATCH/out")"
	same "$how: what is on afterwards" "$(on)" ""
	as_at_start
	end_target
done

for how in zeroed cut; do
	begin $how
	# A tracer's session switched them on; then a trace that ends.
	ctl enable -t ring -p "$target_pid" 'rewritten:*'
	trace_start ends -c --json -p "$target_pid" 'rewritten:*'
	wait_tracing ends
	ask 5
	rewrite $how
	ask 3
	trace_stop ends
	same "$how: hits of the trace" "$(hits_of "$SCRATCH/ends.out")" 16
	same "$how: what is on" "$(on)" "one 1 1/1,two 1 1/1"
	fails read read -p "$target_pid"
	says read "2 of the 2 probes of session"
	# Requests for other libraries succeed; requests for this one are refused with the reason.
	"$PROBECTL" list -p "$target_pid" >"$SCRATCH/out" 2>"$SCRATCH/list.err" || fail "list: status $?"
	says list "librewritten.so: $why"
	same "$how: what is listed" "$(grep -c steady: "$SCRATCH/out")" 2
	ctl trace -v -c -d 50ms -p "$target_pid" '*:*'
	same "$how: refused" "$(grep -c "refused rewritten:.*librewritten.so: .*$why" "$SCRATCH/err")" 2
	fails trace trace -c -d 50ms -p "$target_pid" rewritten:one
	says trace "librewritten.so: .*$why"
	fails enable enable -p "$target_pid" 'rewritten:*'
	says enable "librewritten.so: .*$why"
	same "$how: what is on" "$(on)" "one 1 1/1,two 1 1/1"
	ctl disable -p "$target_pid" 'rewritten:*'
	as_at_start
	end_target

	begin $how
	trace_start killed -c -p "$target_pid" 'rewritten:*'
	wait_tracing killed
	end_process "$tracer_pid"
	rewrite $how
	same "$how: what is on" "$(on)" "one 1 1/1,two 1 1/1"
	says status "has leftovers (1 session)"
	ctl repair -p "$target_pid"
	grep -q 'removed: 1 session, 2 sites' "$SCRATCH/out" || fail "$how: repair: $(cat "$SCRATCH/out")"
	as_at_start
	end_target
done

# ---- A breakpoint over our jump, and other code in the file ---------------------------

begin retexted
ctl enable -p "$target_pid" 'rewritten:*'
read -r address _ patched < <("$python" tests/integration/poke.py "$target_pid" changed "$library")
# The process has its own copy of the page, so only the file holds the other code.
"$python" - "$target_pid" "$library" "$address" <<'PYTHON'
import sys
pid, path, address = sys.argv[1], sys.argv[2], int(sys.argv[3], 16)
for line in open(f"/proc/{pid}/maps"):
    fields = line.split()
    start, end = (int(x, 16) for x in fields[0].split("-"))
    if start <= address < end:
        with open(path, "r+b") as file:
            file.seek(address - start + int(fields[2], 16))
            file.write(b"\xff" * 8)
PYTHON
"$python" tests/integration/poke.py "$target_pid" poke "$address" $breakpoint
"$PROBECTL" repair -p "$target_pid" >"$SCRATCH/out" 2>"$SCRATCH/err"
same "the breakpoint is removed: mappings of ours" "$(ours)" 2
"$python" tests/integration/poke.py "$target_pid" poke "$address" "${patched:0:${#breakpoint}}"
ask 3
same "the program" "$answer" passed
ctl disable -p "$target_pid" 'rewritten:*'
as_at_start
end_target

# ---- One process of several --------------------------------------------------------

mkfifo "$SCRATCH/lines"
exec {lines}<>"$SCRATCH/lines"
"$SCRATCH/good/rewriter" <"$SCRATCH/lines" >"$SCRATCH/good.out" &
good=$!
on_exit "end_process $good"
while [ ! -s "$SCRATCH/good.out" ]; do
	pause
done
good_text=$(text_hash "$good")
for order in good_first bad_first; do
	begin cut
	both=$good,$target_pid
	[ $order = good_first ] || both=$target_pid,$good
	ctl enable -p "$both" 'rewritten:*' 'steady:*'
	rewrite $how
	ctl status --json -p "$both"
	same "$order: rows" "$(jq -r '"\(.pid) \(.refcount) \(.patched)"' "$SCRATCH/out" | sort | uniq -c | paste -sd, | tr -s ' ')" \
		"$(printf '%s 1 1\n' "$good" "$target_pid" | sort | sed 's/^/ 4 /' | paste -sd,)"
	same "$order: warnings" "$(grep -c . "$SCRATCH/err")" 1
	says_of_bad="process $target_pid.*librewritten.so: $why"
	grep -q "$says_of_bad" "$SCRATCH/err" || fail "$order: status says $(cat "$SCRATCH/err")"
	ctl list -p "$both"
	same "$order: probes of both" "$(grep -c -e rewritten: -e steady: "$SCRATCH/out")" 6
	ctl disable -p "$both" 'rewritten:*'
	ctl disable --force -p "$both"
	ctl repair -p "$both"
	same "$order: the good one's text" "$(text_hash "$good")" "$good_text"
	as_at_start
	# No probe is on there, and its probes are unknown; other processes are not affected.
	"$PROBECTL" enable -p "$both" 'rewritten:*' >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "$order: the status of enable" $? 1
	grep -q "2 probes, 2 sites enabled in $good" "$SCRATCH/out" || fail "$order: enable: $(cat "$SCRATCH/out")"
	same "$order: errors" "$(grep -c "$says_of_bad" "$SCRATCH/err")/$(grep -c . "$SCRATCH/err")" 1/1
	ctl trace -c -d 50ms --exe "$SCRATCH/good/rewriter" --exe "$SCRATCH/bad/rewriter" 'rewritten:*'
	same "$order: warnings of a trace" "$(grep -c "$says_of_bad" "$SCRATCH/err")" 1
	"$PROBECTL" disable -p "$both" 'rewritten:*' >"$SCRATCH/out" 2>"$SCRATCH/err"
	same "$order: the status of disable" $? 1
	grep -q "2 probes, 2 sites disabled in $good" "$SCRATCH/out" || fail "$order: disable: $(cat "$SCRATCH/out")"
	same "$order: the good one's text" "$(text_hash "$good")" "$good_text"
	as_at_start
	end_target
done
check_alive "$good"
finish
