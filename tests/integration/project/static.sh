#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# `make static`: one file that works where nothing is installed, on a program with another C
# library. What needs a library that is not linked in is refused with a reason.
. tests/integration/lib.sh
need_attach
static=$BUILD/static/probectl
[ -x "$static" ] || skip "no static probectl: it is not built with a sanitizer"
need readelf unshare musl-gcc

! readelf -lW "$static" | grep -qE 'INTERP|DYNAMIC' || fail "it has to be loaded"

# With this one, all that is looked up in libraries that are linked in is there.
for table in arch/x86/decode/insn.c elf/lines.c elf/unwind.c; do
	for name in $(grep -oE '"(cs|dwfl|dwarf)_[a-z_]+"' "$table" | tr -d '"'); do
		grep -qw "X($name)" libprobe/base/linked.c || fail "$table: $name is not linked in"
	done
done

# ---- A system that has only a C library -----------------------------------------------

root=$SCRATCH/root
mkdir -p "$root/lib" "$root/proc" "$root/tmp"
cp "$static" "$root/probectl"
cat >"$SCRATCH/bare.c" <<'C'
#include <stdio.h>
#include <sys/sdt.h>

int main(void)
{
	for (int i = 0; i < 5; i++)
		DTRACE_PROBE2(bare, turn, i, "text");
	return puts("ran") < 0;
}
C
musl-gcc -O2 -g -idirafter "/usr/include/$(gcc -dumpmachine)" "$SCRATCH/bare.c" -o "$root/bare" ||
	die "musl-gcc failed"
loader=$(readelf -lW "$root/bare" | sed -n 's/.*interpreter: \(.*\)]/\1/p')
cp "$loader" "$root$loader"

way=(unshare -pfm --kill-child "--root=$root" --mount-proc)
[ "$(id -u)" = 0 ] || way+=(-r)
"${way[@]}" /bare >/dev/null || skip "no namespaces here"

# bare ARGUMENT…: probectl, in there
bare()
{
	timeout "$TEST_SECONDS" "${way[@]}" /probectl "$@" </dev/null
}
# says PATTERN ARGUMENT…: what it prints has a line like that
says()
{
	local pattern=$1 out

	shift
	out=$(bare "$@" 2>&1)
	grep -qE -- "$pattern" <<<"$out" || fail "$*: no '$pattern' in: $out"
}

says '^bare:turn +1 +s32 u64 ' list /bare
says "main\+0x.* $SCRATCH/bare.c:7 .* behind " list -vv /bare
says 'bare:turn +4 "text"$' trace 'bare:turn(arg0,str(arg1))' -- /bare
says '^bare:turn +5$' trace -c bare:turn -- /bare
says '100.0 % +main$' trace -t stack bare:turn -- /bare
says '^probectl: 5 hits recorded in /tmp/hits$' record -o /tmp/hits bare:turn -- /bare
says '^bare:turn +5 ' report /tmp/hits

no='this probectl is static, and loads no libraries$'
says "libpcp_mmv .*: $no" trace -t pcp bare:turn -- /bare
says "serving metrics needs .*: $no" trace -t metrics --listen :0 bare:turn -- /bare
says "OTLP needs .*: $no" trace -t metrics --otlp http://127.0.0.1:1 bare:turn -- /bare
says "tracer ./own.so: cannot load it: $no" trace -t ./own.so bare:turn -- /bare
finish
