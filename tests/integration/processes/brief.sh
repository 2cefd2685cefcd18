#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
# What a program of one thread stands still for is little: counted, because times depend on the
# machine. While it makes a file in memory, it is stopped for one system call, not for each, and
# everything else that the file needs is done before or afterwards. When it is let go, probectl leaves
# it the processor, and it is never stopped twice without having run between. All threads are stopped
# for the home page, for the stubs and for the patch, and again for the intention, for the restored
# code and for the end; one thread is stopped for the calls that make two files.
. tests/integration/lib.sh

# At most, while a file is made. On aarch64 some registers, and what SME has, are sets of their own.
requests=32
[ "$(uname -m)" != aarch64 ] || requests=40

command -v strace >/dev/null || skip "strace is not installed"
start "$TARGETS/gap"

# The requests from PTRACE_INTERRUPT to PTRACE_DETACH, a line for each stop
stops()
{
	awk '/PTRACE_INTERRUPT/ { line = ""; on = 1 }
		on { sub(/\(/, " "); line = line " " $1 ($2 ~ /^PTRACE_SYSCALL/ ? ":call" : "") }
		on && /PTRACE_DETACH/ { print line; on = 0 }' "$SCRATCH/strace"
}

# The calls of the whole command, one word for each: those that matter here
order()
{
	sed -nE 's/^ptrace\((PTRACE_(SEIZE|INTERRUPT|DETACH)).*/\1/p; s/^pwrite64\(.*, 1, [0-9]+\) *= 1$/touch/p
		s/^clock_nanosleep.*/sleep/p; s/^sched_setaffinity.*/move/p
		s/^openat\(AT_FDCWD, "\/proc\/[0-9]+\/stat".*/look/p' "$SCRATCH/strace"
}

# A change begins again if it cannot stop the target at once, as on a busy machine: so what counts
# is the least of some tries.
least_enable=99 least_disable=99
for command in enable disable enable disable enable disable enable disable; do
	strace -o "$SCRATCH/strace" "$PROBECTL" "$command" -p "$target_pid" gap:hit >"$SCRATCH/out" 2>&1 ||
		die "$command: $(cat "$SCRATCH/out")"
	order >"$SCRATCH/order"
	awk '/PTRACE_DETACH/ { due = 1 } /sleep/ { due = 0 } /PTRACE_INTERRUPT/ && due { bad = 1 } END { exit bad || due }' \
		"$SCRATCH/order" || fail "$command: the target is let go, and probectl goes on: $(cat "$SCRATCH/order")"
	count=$(grep -c INTERRUPT "$SCRATCH/order")
	least=least_$command
	[ "$count" -ge "${!least}" ] || printf -v "$least" %s "$count"
	[ "$command" = enable ] || continue
	awk '/touch/ { touched = 1 } /PTRACE_INTERRUPT/ { exit !touched }' "$SCRATCH/order" ||
		fail "the page of the frame is copied in the stop: $(cat "$SCRATCH/order")"
	stops >"$SCRATCH/stops"
	files=$(grep -c pidfd_getfd "$SCRATCH/stops")
	[ "$files" = 2 ] || fail "files are made in $files stops, not 2: $(cat "$SCRATCH/stops")"
	most=$(grep pidfd_getfd "$SCRATCH/stops" | awk '{ n = gsub(/:call/, ""); print n }' | sort -n | tail -1)
	[ "$most" = 2 ] || fail "$most stops in the calls that make a file: $(cat "$SCRATCH/stops")"
	# Without those that wait, for a thread that gets no processor, a millisecond each
	most=$(grep pidfd_getfd "$SCRATCH/stops" | awk '{ gsub(/( openat read close)? rt_sigtimedwait( openat read close)? waitid/, ""); print NF }' | sort -n | tail -1)
	[ "$most" -le "$requests" ] || fail "$most requests while a file is made: $(cat "$SCRATCH/stops")"
	! grep -q 'ftruncate' "$SCRATCH/stops" || fail "a size is set in a stop: $(cat "$SCRATCH/stops")"
done
[ "$least_enable" -le 7 ] || fail "enable stops the target $least_enable times"
[ "$least_disable" -le 3 ] || fail "disable stops the target $least_disable times"

# A program that is held when it starts has priority, too, as long as it is changed; the threads that
# wait at its gates are started before that, and have none.
strace -o "$SCRATCH/strace" "$PROBECTL" trace -q -c -o /dev/null nothing:here -- /bin/sh -c 'exit 0' \
	>"$SCRATCH/out" 2>&1
sed -nE 's/^sched_setattr\(0, \{.*SCHED_FIFO.*/urgent/p; s/^sched_setattr\(0, \{.*SCHED_OTHER.*/calm/p
	s/^(pidfd_getfd|clone3?)\(.*/\1/p; s/^ptrace\(PTRACE_DETACH.*/free/p' "$SCRATCH/strace" >"$SCRATCH/order"
if grep -q urgent "$SCRATCH/order"; then
	awk '/urgent/ { on = 1 } /calm/ { on = 0 } /pidfd_getfd/ && !on || /clone/ && on || /free/ && on { bad = 1 }
		END { exit bad || on }' "$SCRATCH/order" || fail "priority: $(cat "$SCRATCH/order")"
fi

# It is stopped by a probectl on its own processor, also where it makes no call: one switch of tasks
# takes less than waking a processor. Where that one is there already, it need not move.
if [ "$(nproc)" -gt 1 ]; then
	taskset -cp "$(taskset -cp $$ | sed 's/.*[:,-] *//')" "$target_pid" >"$SCRATCH/out"
	moved=0
	for ((i = 0; i < 30 && !moved; i++)); do
		"$PROBECTL" enable -p "$target_pid" gap:hit >"$SCRATCH/out" 2>&1
		strace -o "$SCRATCH/strace" "$PROBECTL" disable -p "$target_pid" gap:hit >"$SCRATCH/out" 2>&1
		order | awk '/move/ { moved = 1 } /PTRACE_INTERRUPT/ { exit !moved }' && moved=1
	done
	[ "$moved" = 1 ] || fail "probectl never moves to the processor of a thread that it stops"
fi

# Processes that start meanwhile might share its memory. Those that are there by then are looked at
# before the stop.
while :; do /bin/true; done &
storm=$!
on_exit "end_process $storm"
before=0
for ((i = 0; i < 30 && !before; i++)); do
	strace -o "$SCRATCH/strace" "$PROBECTL" "$([ $((i % 2)) = 0 ] && echo enable || echo disable)" -p "$target_pid" \
		gap:hit >"$SCRATCH/out" 2>&1
	order | awk '/SEIZE/ { on = 1 } /INTERRUPT/ { on = 0 } /look/ && on { seen = 1 } END { exit !seen }' && before=1
done
end_process "$storm"
[ "$before" = 1 ] || fail "new processes are never looked at before the target stands still"
check_alive "$target_pid"
end_process "$target_pid"
finish
