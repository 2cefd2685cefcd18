#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# More than a thousand functions: they need --many, and are switched in several stops. A controller
# that is killed between two of them leaves what repair removes; the program is as it was.
. tests/integration/lib.sh
need_attach
torture=$BUILD/tests/torture
[ -e "$torture/steps.so" ] || skip "$torture/steps.so is not built"

python3 - "$SCRATCH/program.c" <<'PY'
import sys

with open(sys.argv[1], "w") as out:
    print("#include <stdio.h>\n#include <unistd.h>\nvolatile int wide;", file=out)
    for i in range(1600):
        print("__attribute__((noinline)) int many_%d(int x) { wide += x; return wide ^ %d; }" % (i, i),
              file=out)
    print("int main(void)\n{\n\tputs(\"ready\");\n\tfflush(stdout);\n\tfor (;;) {", file=out)
    print("\t\twide = 0;\n\t\tint sum = 0;", file=out)
    for i in range(1600):
        print("\t\tsum = sum * 3 + many_%d(%d);" % (i, i), file=out)
    print("\t\tstatic int first;\n\t\tfirst = first ? first : sum;\n\t\tif (sum != first)\n"
          "\t\t\treturn 1;\n\t\tusleep(1000);\n\t}\n}", file=out)
PY
cc -O1 -o "$SCRATCH/program" "$SCRATCH/program.c" || die "cannot build the program"
start "$SCRATCH/program"
save_state "$target_pid"
p=(-p "$target_pid" 'fn:program:many_*')

# ---- The limit
for command in 'trace -c -d 1' enable; do
	# shellcheck disable=SC2086 # a command of several words
	"$PROBECTL" $command "${p[@]}" >"$SCRATCH/out" 2>"$SCRATCH/err" && fail "$command: allowed"
	grep -q 'these are 1600 functions, more than 1000: .*(--many), which takes up to [0-9]* MiB' \
		"$SCRATCH/err" || fail "$command: $(cat "$SCRATCH/err")"
done
same "what is on" "$("$PROBECTL" status --json -p "$target_pid" 2>/dev/null | wc -l)" 0

# ---- Counts, of entries and exits
"$PROBECTL" trace -c --json -d 1 --many "${p[@]}" 'fn:program:many_*:return' >"$SCRATCH/counts" \
	2>"$SCRATCH/err" || fail "trace: $(cat "$SCRATCH/err")"
hit=$(grep -c '"hits":[1-9]' "$SCRATCH/counts")
[ "$hit" -ge 3000 ] || fail "$hit entries and exits were hit"
same_state "$target_pid"

# ---- Killed between two stops
dying()
{
	ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=$torture/steps.so PROBECTL_DIE_AT=$1 \
		"$PROBECTL" "${@:2}" >/dev/null 2>&1
} 2>/dev/null

"$PROBECTL" enable --many "${p[@]}" >/dev/null 2>&1 || fail "enable"
all_on=$("$PROBECTL" status --json -p "$target_pid" | wc -l)
"$PROBECTL" disable "${p[@]}" >/dev/null || fail "disable"
partial=0
for ((n = 50; n < 1800; n += 250)); do
	for command in enable disable; do
		[ "$command" = enable ] || "$PROBECTL" enable --many "${p[@]}" >/dev/null 2>&1 ||
			fail "enable"
		dying "$n" "$command" --many "${p[@]}"
		rc=$?
		"$PROBECTL" status --json -p "$target_pid" >"$SCRATCH/on" 2>"$SCRATCH/err"
		on=$(wc -l <"$SCRATCH/on")
		[ "$on" = 0 ] || [ "$on" = "$all_on" ] || fail "$command, step $n: $on are on"
		[ "$rc" != 137 ] || ! grep -q 'has leftovers' "$SCRATCH/err" || partial=$((partial + 1))
		"$PROBECTL" repair -p "$target_pid" >"$SCRATCH/out" 2>&1 ||
			fail "$command, step $n: $(cat "$SCRATCH/out")"
		"$PROBECTL" disable --force --keep-going "${p[@]}" >/dev/null 2>&1
		echo "$command, step $n: $rc, $(tail -1 "$SCRATCH/out")"
		check_alive "$target_pid"
	done
done
[ "$partial" -gt 0 ] || fail "no kill left anything"
until "$PROBECTL" repair -p "$target_pid" 2>&1 | grep -q 'nothing to repair'; do
	pause
done
same_state "$target_pid"
finish
