#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
# What a program of one thread stands still for is little: counted, because times depend on the
# machine. While it makes a file in memory, it is stopped for one system call, not for each, and
# everything else that the file needs is done before or afterwards.
. tests/integration/lib.sh

command -v strace >/dev/null || skip "strace is not installed"
start "$TARGETS/gap"

# The requests from PTRACE_INTERRUPT to PTRACE_DETACH, a line for each stop
stops()
{
	awk '/PTRACE_INTERRUPT/ { line = ""; on = 1 }
		on { sub(/\(/, " "); line = line " " $1 ($2 ~ /^PTRACE_SYSCALL/ ? ":call" : "") }
		on && /PTRACE_DETACH/ { print line; on = 0 }' "$SCRATCH/strace"
}

for command in enable disable enable disable; do
	strace -o "$SCRATCH/strace" "$PROBECTL" "$command" -p "$target_pid" gap:hit >"$SCRATCH/out" 2>&1 ||
		die "$command: $(cat "$SCRATCH/out")"
	[ "$command" = enable ] || continue
	stops >"$SCRATCH/stops"
	files=$(grep -c pidfd_getfd "$SCRATCH/stops")
	[ "$files" = 2 ] || fail "files are made in $files stops, not 2: $(cat "$SCRATCH/stops")"
	most=$(grep pidfd_getfd "$SCRATCH/stops" | awk '{ n = gsub(/:call/, ""); print n }' | sort -n | tail -1)
	[ "$most" = 2 ] || fail "$most stops in the calls that make a file: $(cat "$SCRATCH/stops")"
	most=$(grep pidfd_getfd "$SCRATCH/stops" | awk '{ print NF }' | sort -n | tail -1)
	[ "$most" -le 32 ] || fail "$most requests while a file is made: $(cat "$SCRATCH/stops")"
	! grep -q 'ftruncate' "$SCRATCH/stops" || fail "a size is set in a stop: $(cat "$SCRATCH/stops")"
done
check_alive "$target_pid"
end_process "$target_pid"
finish
