#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# gdb sets breakpoints on enabled sites, steps over them, and detaches: no hit is missed, the
# program continues, and in the end its text equals the file.
. tests/integration/lib.sh
need gdb jq
need_attach

company=$TARGETS/company
rounds=20

# gdb_on WHERE…: a gdb that stops once at each of them, steps on, and detaches
gdb_on()
{
	local where commands=()
	for where; do
		commands+=(-ex "break *$where")
	done
	commands+=(-ex 'echo there\n' -ex 'shell touch '"$SCRATCH/there")
	for where; do
		commands+=(-ex continue -ex 'stepi' -ex 'stepi' -ex 'stepi')
	done
	commands+=(-ex 'delete' -ex 'detach')
	rm -f "$SCRATCH/there"
	gdb -nx -batch -iex 'set auto-load no' -iex 'set debuginfod enabled off' -p "$target_pid" \
		"${commands[@]}" >"$SCRATCH/gdb.out" 2>&1 </dev/null &
	gdb_pid=$!
	on_exit "end_process $gdb_pid"
	until [ -e "$SCRATCH/there" ]; do
		kill -0 "$gdb_pid" 2>/dev/null || skip "gdb cannot attach: $(tail -1 "$SCRATCH/gdb.out")"
		pause
	done
}

while read -r probe at _; do
	name=$probe address=$at
	start "$company" 1
	save_state "$target_pid"
	bias=0x$(grep -m1 "company" "/proc/$target_pid/maps" | cut -d- -f1)
	"$PROBECTL" enable -q -p "$target_pid" "$name" || fail "$name is refused"
	ask "go $rounds"
	gdb_on $((bias + address))
	tell "go $rounds"
	wait "$gdb_pid"
	hear
	same "$name under gdb" "$answer" "passed $rounds wrong 0"
	grep -q 'Breakpoint 1' "$SCRATCH/gdb.out" || fail "$name: gdb has not stopped: $(cat "$SCRATCH/gdb.out")"
	same "$name: hits" "$("$PROBECTL" status --json -p "$target_pid" | jq 'select(.refcount > 0).hits')" \
		$((2 * rounds))
	"$PROBECTL" disable -q -p "$target_pid" "$name" || fail "$name stays"
	ask "go $rounds"
	same "$name, then" "$answer" "passed $rounds wrong 0"
	same_state "$target_pid"
	end_target
done < <("$python" tests/integration/state.py sites "$company")

# gdb was there first: it holds the process until it detaches.
start "$company" 1
save_state "$target_pid"
gdb_on $((0x$(grep -m1 "company" "/proc/$target_pid/maps" | cut -d- -f1) + address))
"$PROBECTL" enable -q -p "$target_pid" "$name" 2>"$SCRATCH/first.err" && fail "enabled under gdb"
reason="is being traced by process $gdb_pid"
# Its breakpoint is a reason of its own, and seen first, where a patch is as long as that.
has_short_nops || reason="the memory there does not hold what the file holds"
says first "$reason"
tell "go $rounds"
wait "$gdb_pid"
hear
same "gdb alone" "$answer" "passed $rounds wrong 0"
same_state "$target_pid"
ctl enable -p "$target_pid" "$name"
ask "go $rounds"
same "gdb has gone: hits" "$("$PROBECTL" status --json -p "$target_pid" | jq 'select(.refcount > 0).hits')" $rounds
ctl disable -p "$target_pid" "$name"
same_state "$target_pid"
end_target
finish
