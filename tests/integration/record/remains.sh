#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Flight recorders that were left in a process, read after its death from its core file: the last
# hits as text, as JSON and as a record; and files that are cut, damaged or something else.
. tests/integration/lib.sh
need_attach
need jq

ulimit -c unlimited 2>/dev/null || skip "core files are not allowed"
[[ $(cat /proc/sys/kernel/core_pattern) =~ ^[^/|]*$ ]] || skip "core files go elsewhere (core_pattern)"
requests=20
# Two starts have no end, two ends no start, and one request in ten fails.
hits=$(((2 * requests + 2) + (2 * requests + 2 - 2 * requests / 10) + 1))

# crashed NAME: a program with two recorders, which then dies of SIGSEGV; its core is $core
crashed()
{
	mkdir "$SCRATCH/$1"
	start env -C "$SCRATCH/$1" "$TARGETS/pairs" 2 "$requests"
	"$PROBECTL" enable -q -t ring -b 128k -p "$target_pid" pairs:request__done \
		'pairs:request__start(arg0,str(arg3))' || fail "enable -t ring"
	"$PROBECTL" enable -q -t ring -f 'arg0 == 3' -p "$target_pid" 'pairs:request__start(arg0,arg1,arg2,str(arg3))' || fail "enable -t ring -f"
	"$PROBECTL" enable -q -t count -p "$target_pid" pairs:request__start || fail "enable -t count"
	ask go
	"$PROBECTL" read --json -t ring -p "$target_pid" >"$SCRATCH/$1.alive" || fail "read -p"
	kill -SEGV "$target_pid"
	wait "$target_pid" 2>/dev/null
	core=$(find "$SCRATCH/$1" -name 'core*')
	[ -n "$core" ] || skip "no core file was written"
}

# from STATUS ARGS…: `read --from` with that exit status
from()
{
	local wanted=$1 status
	shift
	"$PROBECTL" read --from "$@" >"$SCRATCH/from.out" 2>"$SCRATCH/from.err"
	status=$?
	same "status of read --from $*: $(cat "$SCRATCH/from.err")" "$status" "$wanted"
}
crashed first

# What could be read before is there, but for the times, which are computed from other clocks.
from 0 "$core" --json
same "hits and arguments" "$(jq -c 'del(.ts)' "$SCRATCH/from.out" | md5sum)" \
	"$(jq -c 'del(.ts)' "$SCRATCH/first.alive" | md5sum)"
same "number of hits" "$(grep -c request__ "$SCRATCH/from.out")" "$hits"
"$python" - "$SCRATCH/from.out" "$SCRATCH/first.alive" <<'PYTHON' || fail "times differ by more than a millisecond"
import json, sys
times = [[json.loads(line)["ts"] for line in open(name)] for name in sys.argv[1:]]
sys.exit(any(abs(a - b) > 1000000 for a, b in zip(*times)))
PYTHON
same "the filter's hit" "$(jq -c 'select(.args | length == 4) | .args' "$SCRATCH/from.out")" '[3,3,23757,"delete"]'
from 0 "$core"
grep -q 'pairs:request__start .*"orphan"' "$SCRATCH/from.out" || fail "text: $(tail -1 "$SCRATCH/from.out")"
same "lines" "$(grep -c request__ "$SCRATCH/from.out")" "$hits"

# The last of them: up to a time before the last hit.
from 0 "$core" --json
# jq's numbers are less exact than nanoseconds.
wanted=$(sed 's/.*"ts":\([0-9]*\).*/\1/' "$SCRATCH/from.out" | sort -n |
	awk '{ at[NR] = substr($0, length($0) - 11) } END { for (i = NR; i && at[NR] - at[i] <= 20000; i--) n++; print n }')
from 0 "$core" --json --last 0.00002
same "the last 20 microseconds" "$(grep -c request__ "$SCRATCH/from.out")" "$wanted"

# A record, which `report` and `export` read.
from 0 "$core" -o "$SCRATCH/record"
same "hits of the record" "$("$PROBECTL" report --json "$SCRATCH/record" | jq -s 'map(.hits // empty | numbers) | max')" \
	"$hits"
same "as JSON" "$("$PROBECTL" export --format json "$SCRATCH/record" | jq -c '[.provider, .name, .pid, .tid]' | sort | md5sum)" \
	"$(jq -c '[.provider, .name, .pid, .tid]' "$SCRATCH/first.alive" | sort | md5sum)"
from 1 "$core" -o "$SCRATCH/record"

# Cut anywhere: what is whole is read, or it is said what is wrong.
size=$(stat -c %s "$core")
for part in 1 2 3 4 5 6 7; do
	head -c $((size * part / 8)) "$core" >"$SCRATCH/cut"
	"$PROBECTL" read --from "$SCRATCH/cut" >/dev/null 2>"$SCRATCH/from.err"
	status=$?
	[ "$status" = 0 ] || [ -s "$SCRATCH/from.err" ] || fail "cut to $part eighths: nothing is said"
	[ "$status" -le 1 ] || fail "cut to $part eighths: status $status"
done

# Other files.
from 1 /dev/null
says from "is no regular file"
from 1 "$SCRATCH/none"
says from "cannot open"
from 1 "$0"
says from "is neither the file of a flight recorder nor a core file"
from 1 "$PROBECTL"
says from "is neither the file of a flight recorder nor a core file"
from 2 "$core" -p $$
says from "--from reads a file"
finish
