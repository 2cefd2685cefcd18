#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Text in memory with tags is taken, by a pointer with its tag; one with another tag harms nobody;
# and the program's own accesses are checked as before (FEAT_MTE).
. tests/integration/lib.sh
need_attach
need jq

start "$TARGETS/tagged"
[ "$answer" != none ] || skip "this processor has no memory tags, or this kernel does not use them"
save_state "$target_pid"
"$PROBECTL" trace --json -n 4 -o "$SCRATCH/out" -p "$target_pid" 'tagged:text(arg0,str(arg1))' \
	2>"$SCRATCH/trace.err" &
tracer=$!
until [ "$(enabled_of tagged | wc -l)" = 1 ]; do
	kill -0 $tracer 2>/dev/null || die "$(cat "$SCRATCH/trace.err")"
	sleep 0.1
done
ask go
same "the program" "$answer" "passed 4 checked"
wait $tracer || fail "trace: $(cat "$SCRATCH/trace.err")"
# Of a tag that is not the memory's, the kernel may say that nothing can be read.
same "texts" "$(jq -c .args "$SCRATCH/out" | sed '3s/null/"short"/')" \
	"[0,\"short\"]
[1,\"$(printf 'x%.0s' {1..40})\"]
[2,\"short\"]
[3,\"without a tag\"]"
hear
same_state "$target_pid"
tell bye
end_target
finish
