#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# pmtrace(3) from Fortran: the same object, linked with libpcp_trace and with libprobe_pmtrace,
# returns the same values; libprobe_pmtrace has every entry point that libpcp_trace has.
. tests/integration/lib.sh
need_attach
need jq
need gfortran
echo 'int main(void) { return 0; }' >"$SCRATCH/empty.c"
cc -o "$SCRATCH/empty" "$SCRATCH/empty.c" -lpcp_trace 2>/dev/null ||
	skip "libpcp-trace2-dev is not installed"
export LD_LIBRARY_PATH=$BUILD

# both NAME SOURCE: $SCRATCH/NAME.pcp and $SCRATCH/NAME.ours, from one object
both()
{
	gfortran -std=legacy -ffixed-line-length-none -O2 -c -o "$SCRATCH/$1.o" "$2" 2>"$SCRATCH/err" ||
		die "$2 does not compile: $(cat "$SCRATCH/err")"
	gfortran -o "$SCRATCH/$1.pcp" "$SCRATCH/$1.o" -lpcp_trace || die "$1: libpcp_trace"
	gfortran -o "$SCRATCH/$1.ours" "$SCRATCH/$1.o" -L"$BUILD" -lprobe_pmtrace ||
		die "$1: not linked with libprobe_pmtrace"
}

# entries LIBRARY: the functions of pmtrace(3), in C and in Fortran
entries()
{
	nm -D --defined-only "$1" | sed -n 's/.* T \(pmtrace[a-z]*_\?\)\(@.*\|$\)/\1/p' | sort
}
model=$(cc -print-file-name=libpcp_trace.so)
same "entry points of libpcp_trace" "$(entries "$model" | wc -l)" 16
same "entry points" "$(entries "$BUILD/libprobe_pmtrace.so")" "$(entries "$model")"

# libpcp_trace has pmtraceobs's length before its value, which no compiler has: it takes the address
# of the value for the length, and crashes with some addresses.
both calls tests/targets/runtime/pmtrace.f
"$SCRATCH/calls.pcp" without-obs >"$SCRATCH/pcp.out" 2>/dev/null || fail "libpcp_trace: status $?"
"$PROBECTL" trace --json -o "$SCRATCH/hits" 'pmtrace:obs(str(arg0),arg1)' \
	'pmtrace:counter(str(arg0),arg1)' 'pmtrace:begin(str(arg0))' -- "$SCRATCH/calls.ours" \
	>"$SCRATCH/ours.out" 2>"$SCRATCH/err" || fail "ours: $(cat "$SCRATCH/err")"
[ "$(wc -l <"$SCRATCH/pcp.out")" -gt 30 ] || fail "few calls: $(wc -l <"$SCRATCH/pcp.out")"
diff "$SCRATCH/pcp.out" <(grep -v '^ obs' "$SCRATCH/ours.out") ||
	fail "calls return something else"
same "pmtraceobs" "$(grep '^ obs' "$SCRATCH/ours.out" | tr -s ' ')" " obs 0"
same "arguments" "$(jq -c 'select(.args) | [.name] + .args | map(tostring | .[:9])' "$SCRATCH/hits" |
	sort -u | tr '\n' ' ')" \
	'["begin","a"] ["begin","l        "] ["begin","padded  "] ["counter","c","148.5"] ["obs","o","148.5"] '

# The model's own program.
demo=/usr/share/pcp/demos/trace/fapp1.f
if [ ! -e "$demo" ]; then
	echo "note: pcp is not installed; its example in Fortran is not run"
	finish
fi
both demo "$demo"
"$PROBECTL" trace --json -o "$SCRATCH/hits" 'pmtrace:*(str(arg0))' -- "$SCRATCH/demo.ours" \
	>"$SCRATCH/out" 2>"$SCRATCH/err" || fail "$demo: $(cat "$SCRATCH/out" "$SCRATCH/err")"
same "hits of $demo" "$(jq -r 'select(.args and .name != "state") | "\(.name) \(.args[0])"' \
	"$SCRATCH/hits" | tr '\n' ';')" \
	"begin simple;end simple;begin ascanbe;end ascanbe;point imouttahere;obs end point;counter new end point;"
same "flags without effect" "$(grep -c 'has no effect in libprobe_pmtrace' "$SCRATCH/err")" 3
finish
