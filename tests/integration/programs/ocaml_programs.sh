#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Programs of OCaml's compiler with probes, of which PROBE_OCAML_PROGRAMS names the folder:
# NAME.exe, NAME.expected (what it prints with handlers on), NAME_no_probes.expected. With
# handlers on, off, traced, and both, each prints what it should.
. tests/integration/lib.sh
need_attach

[ -n "${PROBE_OCAML_PROGRAMS-}" ] || skip "PROBE_OCAML_PROGRAMS names no folder of OCaml programs with probes"
cp -r "$PROBE_OCAML_PROGRAMS/." "$SCRATCH/programs" || die "cannot read $PROBE_OCAML_PROGRAMS"
cd "$SCRATCH/programs" || exit 1

# prints NAME WANTED COMMAND…
prints()
{
	timeout "$TEST_SECONDS" "${@:3}" >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "$1: status $?: $(head -3 "$SCRATCH/err")"
	cmp -s "$SCRATCH/out" "$2" || fail "$1: $(diff "$SCRATCH/out" "$2" | head -5)"
}

# hits FILE: the sum of a counting trace
hits()
{
	awk 'NR > 1 { sum += $2 } END { print sum + 0 }' "$1"
}

count=0
for program in *.exe; do
	name=${program%.exe}
	count=$((count + 1))
	prints "$name, alone" "${name}_no_probes.expected" "./$program"
	prints "$name, handlers on" "$name.expected" "$PROBECTL" run -e 'ocaml*:*' -- "./$program"
	prints "$name, traced" "${name}_no_probes.expected" \
		"$PROBECTL" trace -o "$SCRATCH/hits" -t count 'ocaml*:*' -- "./$program"
	[ "$(hits "$SCRATCH/hits")" -gt 0 ] || fail "$name: no hits"
	prints "$name, both" "$name.expected" \
		"$PROBECTL" trace --follow -o "$SCRATCH/both" -t count 'ocaml*:*' -- "$PROBECTL" run -e 'ocaml*:*' -- "./$program"
done
[ "$count" -gt 0 ] || die "no program in $PROBE_OCAML_PROGRAMS"
echo "$count programs"
finish
