#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Filters, keys and values about arguments of real programs.
. tests/integration/lib.sh
java_class
need jq

# ---- The JVM: names without a NUL ---------------------------------------------------------------

flags=(-XX:+ExtendedDTraceProbes -cp "$SCRATCH")
names=(hotspot:method__entry hotspot:method__return)
calls=8361 # of fibonacci(18), in one round

# traced OPTIONS…: the rows or hits of a JVM that works for one round, into $SCRATCH/out
traced()
{
	"$PROBECTL" trace --json -o "$SCRATCH/out" "$@" -- java "${flags[@]}" Busy work 1 \
		>"$SCRATCH/stdout" 2>"$SCRATCH/err" || fail "trace $*: status $?: $(head -3 "$SCRATCH/err")"
	grep -q '^round 0 ' "$SCRATCH/stdout" || fail "the program printed: $(head -3 "$SCRATCH/stdout")"
}

is_call='select(.keys == ["Busy", "fibonacci"])'
traced -c -k 'str(arg1,arg2)' -k 'str(arg3,arg4)' "${names[0]}"
same "calls by class and method" "$(jq "$is_call.hits" "$SCRATCH/out")" "$calls"
same "methods with a NUL or a cut" "$(jq -s 'map(select(.keys[1] | test("\u0000|\\.\\.\\.$"))) | length' "$SCRATCH/out")" 0

traced -t latency -k 'str(arg1, arg2)' -k 'str(arg3, arg4)' "${names[@]}"
same "timed calls" "$(jq "$is_call.count" "$SCRATCH/out")" "$calls"

traced -c -f 'str(arg1,arg2) == "Busy" && starts_with(str(arg3,arg4), "fibo")' "${names[0]}"
same "filtered calls" "$(jq .hits "$SCRATCH/out")" "$calls"

traced -f 'str(arg1,arg2) == "Busy" && str(arg3,arg4) != "fibonacci"' \
	"${names[0]}(str(arg1,arg2),str(arg3,arg4))"
jq -r 'select(.args) | "\(.args[0]).\(.args[1])"' "$SCRATCH/out" | sort -u | paste -sd' ' >"$SCRATCH/methods"
for method in Busy.main Busy.work Busy.thrown Busy.garbage Busy.contend; do
	grep -qw "$method" "$SCRATCH/methods" || fail "$method is not among: $(cat "$SCRATCH/methods")"
done
! grep -q fibonacci "$SCRATCH/methods" || fail "the filter took fibonacci"

# ---- Ruby: a byte behind a pointer ---------------------------------------------------------------

ruby_names()
{
	command -v ruby >/dev/null || {
		echo "note: ruby is not installed"
		return
	}
	cat >"$SCRATCH/calls.rb" <<'RUBY'
def deep(n) = n > 0 ? deep(n - 1) + 1 : 0
def other(n) = n
trace = TracePoint.new(:call) {}
trace.enable
(0..20).sum { |n| deep(n) + other(n) }
trace.disable
RUBY
	"$PROBECTL" trace -c --json -k 'str(arg1)' -f "*(u8 *)arg1 in ('d', 'x') && str(arg2) == \"$SCRATCH/calls.rb\"" \
		-o "$SCRATCH/out" ruby:method__entry -- ruby --disable-all "$SCRATCH/calls.rb" 2>"$SCRATCH/err" ||
		fail "ruby: status $?: $(head -3 "$SCRATCH/err")"
	same "calls" "$(jq -r '"\(.keys[0]) \(.hits)"' "$SCRATCH/out")" "deep 231"
}
ruby_names

finish
