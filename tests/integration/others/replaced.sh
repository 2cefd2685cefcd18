#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A library that is replaced or deleted while a process has it mapped, as package upgrades do.
# What was on is shown and switched off, what runs ends, and each command names the file.
. tests/integration/lib.sh
need_attach
need gcc
[ "$(id -u)" != 0 ] || skip "root reads what is mapped through /proc/PID/map_files"

cat >"$SCRATCH/old.c" <<'C'
#include <sys/sdt.h>
void pass(void);
static int used;
#define SITE(name) \
	void name(int n); \
	void name(int n) { DTRACE_PROBE1(upgraded, name, n); __asm__ volatile("nop; nop; nop; nop; nop"); used += n; }
SITE(kept)
SITE(other)
#ifdef OLD
SITE(dropped)
#else
SITE(added)
#define dropped added
#endif
void pass(void) { kept(1); other(2); dropped(3); }
C
cat >"$SCRATCH/main.c" <<'C'
#include <stdlib.h>
#include "target.h"
void pass(void);
int main(void)
{
	char line[64];
	target_allow_tracing();
	puts("ready");
	fflush(stdout);
	while (target_read_line(line, sizeof(line))) {
		for (int i = atoi(line); i > 0; i--)
			pass();
		puts("passed");
		fflush(stdout);
	}
	return 0;
}
C
library() # library FLAG OUTPUT
{
	gcc -O2 -fPIC -shared "$1" -o "$SCRATCH/$2" "$SCRATCH/old.c" 2>"$SCRATCH/gcc" ||
		skip "the library cannot be built: $(head -1 "$SCRATCH/gcc")"
}
library -DOLD libupgraded.so
library -DNEW new.so
cp "$SCRATCH/libupgraded.so" "$SCRATCH/old.so"
gcc -O2 -D_GNU_SOURCE -Itests/targets -o "$SCRATCH/main" "$SCRATCH/main.c" -L"$SCRATCH" -lupgraded \
	-Wl,-rpath,"$SCRATCH" || die "the program cannot be built"

# on: a line for each probe that is on
on()
{
	"$PROBECTL" status --json -p "$target_pid" 2>"$SCRATCH/status.err" | jq -r '"\(.name) \(.refcount) \(.hits)"' | sort
}

# put FILE: it takes the library's place
put()
{
	cp "$SCRATCH/$1" "$SCRATCH/next" && mv "$SCRATCH/next" "$SCRATCH/libupgraded.so"
}

# names FILE WHY ARGS…: the command says of the file why it cannot be read, and what helps
names_file()
{
	local why=$1
	shift
	"$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/said.err" </dev/null
	says said "libupgraded.so: .*$why.*restart the program"
}

# ---- An upgrade ------------------------------------------------------------------

start "$SCRATCH/main"
save_state "$target_pid"
ctl enable -p "$target_pid" 'upgraded:kept' upgraded:dropped
ctl enable -t count -k arg0 -p "$target_pid" upgraded:other
trace_start trace -c --json -p "$target_pid" upgraded:kept
wait_tracing trace
ask 5
put new.so
ask 3
trace_stop trace
same "hits of the trace" "$(hits_of "$SCRATCH/trace.out")" 8
# A probe that the new file lacks: the process's registry knows its name.
same "what is on" "$(on | grep -v other)" "$(printf '%s\n' 'dropped 1 8' 'kept 1 8')"
says status "libupgraded.so: .*replaced on disk by another file"
for command in list status; do
	names_file "replaced on disk" $command -p "$target_pid"
done
for command in enable trace; do
	names_file "replaced on disk" $command -p "$target_pid" upgraded:kept
	! grep -q 'there are no probes in process' "$SCRATCH/said.err" ||
		fail "$command says that there are no probes: $(cat "$SCRATCH/said.err")"
done
# Its hits are not none.
names_file "replaced on disk" read -p "$target_pid"
says said "1 of the 1 probes of session"
ctl disable -p "$target_pid" 'upgraded:k*'
ctl disable -p "$target_pid" upgraded:dropped upgraded:other
same "what is on afterwards" "$(on)" ""
same_state "$target_pid"
ask 2
end_target

# ---- The same version again ---------------------------------------------------------

put old.so
start "$SCRATCH/main"
save_state "$target_pid"
put old.so
ctl enable -p "$target_pid" 'upgraded:*'
ask 4
same "all of them" "$(on | paste -sd,)" "dropped 1 4,kept 1 4,other 1 4"
ctl disable -p "$target_pid" 'upgraded:*'
same_state "$target_pid"
end_target

# ---- No file at all --------------------------------------------------------------------

for on in enable ring killed traced; do
	put old.so
	start "$SCRATCH/main"
	save_state "$target_pid"
	case $on in
	enable) ctl enable -p "$target_pid" upgraded:kept upgraded:dropped ;;
	ring) ctl enable -t ring -p "$target_pid" upgraded:kept upgraded:dropped ;;
	*)
		trace_start trace -c --json -p "$target_pid" upgraded:kept upgraded:dropped
		wait_tracing trace
		;;
	esac
	[ $on != killed ] || end_process "$tracer_pid"
	rm "$SCRATCH/libupgraded.so"
	ask 5
	same "$on: what is on" "$(on | cut -d' ' -f1,2 | paste -sd,)" "dropped 1,kept 1"
	says status "libupgraded.so: .*it was deleted.*restart the program"
	case $on in
	enable)
		names_file "it was deleted" trace -c -d 50ms -p "$target_pid" 'upgraded:*'
		ctl disable -p "$target_pid" 'upgraded:k*'
		same "$on: what is on" "$(on)" "dropped 1 5"
		ctl disable --force -p "$target_pid"
		;;
	ring) ctl disable -p "$target_pid" 'upgraded:*' ;;
	killed) ctl repair -p "$target_pid" ;;
	traced)
		trace_stop trace
		same "$on: hits" "$(hits_of "$SCRATCH/trace.out")" 10
		;;
	esac
	same "$on: what is on afterwards" "$(on)" ""
	same "$on: mappings of ours" "$(ours)" 0
	same_state "$target_pid"
	end_target
done

# ---- No file of the process can be read ------------------------------------------------------

# All code that lets a thread make system calls is in a file that its owner may not read any more.
gcc -O2 -static -D_GNU_SOURCE -DOLD -Itests/targets -o "$SCRATCH/alone" "$SCRATCH/main.c" \
	"$SCRATCH/old.c" 2>"$SCRATCH/gcc" || {
	echo "a static program cannot be built: $(head -1 "$SCRATCH/gcc")"
	finish
}
for on in enable traced; do
	chmod 755 "$SCRATCH/alone"
	start "$SCRATCH/alone"
	save_state "$target_pid"
	if [ "$on" = enable ]; then
		ctl enable -p "$target_pid" 'upgraded:*'
	else
		trace_start alone -c -p "$target_pid" 'upgraded:*'
		wait_tracing alone
	fi
	chmod 0 "$SCRATCH/alone"
	ask 5
	same "static, $on: what is on" "$(on | cut -d' ' -f1,2 | paste -sd,)" "dropped 1,kept 1,other 1"
	if [ "$on" = enable ]; then
		ctl disable --force -p "$target_pid"
	else
		trace_stop alone
	fi
	same "static, $on: what is on afterwards" "$(on)" ""
	same "static, $on: mappings of ours" "$(ours)" 0
	same_state "$target_pid"
	end_target
done
finish
