#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Arguments of known programs by their names: in lines of `trace`, in lists, in expressions.
. tests/integration/lib.sh
interpreter=/usr/bin/python3.11
[ -x "$interpreter" ] || skip "$interpreter is not installed"
need jq

export XDG_CONFIG_HOME=$SCRATCH/config
cat >"$SCRATCH/calls.py" <<'P'
def work(x):
    return x
for i in range(5):
    work(i)
P
run_python=("$interpreter" -I -S "$SCRATCH/calls.py")

# shown FILE PROBE: the arguments in lines of text
shown()
{
	awk -v "probe=$2" '$5 == probe' "$SCRATCH/$1" | sed 's/.*:function__[a-z]* *//'
}

# ---- Lines ------------------------------------------------------------------------

ctl trace -o "$SCRATCH/lines" python:function__entry python:line -- "${run_python[@]}"
same "lines of calls" "$(shown lines python:function__entry | grep -c "^filename=\"$SCRATCH/calls.py\" function=\"work\" lineno=1\$")" 5
ctl trace -o "$SCRATCH/list" 'python:function__return(lineno, function, str(arg0))' -- "${run_python[@]}"
same "lines of a list" "$(shown list python:function__return | grep -c "^lineno=2 function=\"work\" filename=\"$SCRATCH/calls.py\"\$")" 5
# For programs, arguments stay as they were.
ctl trace --json -o "$SCRATCH/json" python:function__return -- "${run_python[@]}"
same "JSON has numbers" "$(jq -r 'select(.args).args | map(type) | join(" ")' "$SCRATCH/json" | sort -u)" \
	"number number number"
same "and texts beside them" "$(jq -c 'select(.args).named' "$SCRATCH/json" | grep -c "^{\"filename\":\"$SCRATCH/calls.py\",\"function\":\"work\"}\$")" 5
ctl trace --json -o "$SCRATCH/json" 'python:function__return(function,lineno)' -- "${run_python[@]}"
same "JSON of a list" "$(jq -c 'select(.args).args' "$SCRATCH/json" | grep -c '^\["work",2\]$')" 5

"$PROBECTL" trace 'python:function__return(fuction)' -- "${run_python[@]}" 2>"$SCRATCH/err" >/dev/null
same "status of a mistake" $? 2
same "a mistake" "$(cat "$SCRATCH/err")" "probectl: python:function__return: the list '(fuction)': there is no argument 'fuction', the probe has filename, function, lineno; the nearest is 'function'"

# ---- Expressions ------------------------------------------------------------------

# counted ARGS…: "HITS KEY" of the rows of a count
counted()
{
	"$PROBECTL" trace -c --json -o "$SCRATCH/counts" "$@" -- "${run_python[@]}" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "trace -c $*: $(cat "$SCRATCH/err")"
	jq -r 'select(.hits) | [.hits, (.keys // empty)] | flatten | join(" ")' "$SCRATCH/counts"
}
same "a filter" "$(counted -f 'function == "work" && lineno == 2' python:function__return)" 5
same "a key" "$(counted -k function -f "filename == \"$SCRATCH/calls.py\"" python:function__return | sort)" \
	"1 <module>
5 work"
same "a text in the middle" "$(counted -k 'str(function + 2)' -f 'str(function + 1) == "ork"' python:function__return)" "5 rk"
same "values" "$("$PROBECTL" trace -t sum,lineno --json -f 'starts_with(function, "work")' python:function__return \
	-- "${run_python[@]}" 2>"$SCRATCH/err" | jq .sum)" 10
"$PROBECTL" trace -c -k colour python:function__return -- "${run_python[@]}" 2>"$SCRATCH/err" >"$SCRATCH/out"
same "status of a mistake" $? 2
same "a mistake" "$(cat "$SCRATCH/err")" "probectl: python:function__return: the key 'colour': there is no argument 'colour', the probe has filename, function, lineno"
# PHP has a probe of this name, too: its arguments are not what was meant.
"$PROBECTL" trace -c -k colour function__return -- "${run_python[@]}" 2>"$SCRATCH/err" >"$SCRATCH/out"
same "status of a mistake without a provider" $? 2
same "a mistake without a provider" "$(cat "$SCRATCH/err")" "probectl: the key 'colour': no known probe of this name has all arguments that it names (\`probectl list -v\` shows them)"

# ---- What a program needs ---------------------------------------------------------

# hints ARGS…: what is said of probes without hits, or of begins
hints()
{
	"$PROBECTL" trace -o /dev/null "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "trace $*: $(cat "$SCRATCH/err")"
	grep -E 'no hits of|most (begins|ends) of' "$SCRATCH/err"
}
same "Python's functions" "$(hints -t latency --pairs auto 'python:function*' -- "${run_python[@]}")" ""
if command -v ruby3.1 >/dev/null; then
	echo 'def f; 1; end; 3.times { f }' >"$SCRATCH/calls.rb"
	same "begins that are missing" "$(hints -t latency --keep-going --pairs auto ruby:method__entry ruby:method__return -- ruby3.1 "$SCRATCH/calls.rb" |
		sed 's/: Since.*//')" "probectl: most begins of ruby:method__entry are missing"
	echo 'TracePoint.new(:call) {}.enable; def f; 1; end; 1000.times { f }' >"$SCRATCH/begins.rb"
	same "ends that are missing" "$(hints -t latency --pairs auto ruby:method__entry ruby:method__return -- ruby3.1 "$SCRATCH/begins.rb" |
		sed 's/: Since.*//')" "probectl: most ends of ruby:method__return are missing"
	"$PROBECTL" trace -c -k 'str(lineno)' ruby:method__entry -- ruby3.1 "$SCRATCH/begins.rb" >"$SCRATCH/out" 2>"$SCRATCH/err"
	grep -q "arg3 is not a string: it is declared as" "$SCRATCH/err" || fail "a number as a string: $(cat "$SCRATCH/out" "$SCRATCH/err")"
	"$PROBECTL" trace -t latency ruby:method__return ruby:method__entry -- ruby3.1 "$SCRATCH/begins.rb" >"$SCRATCH/out" 2>"$SCRATCH/err"
	grep -q "ruby:method__return ends what ruby:method__entry begins" "$SCRATCH/err" || fail "a pair the wrong way round: $(cat "$SCRATCH/err")"
fi
if has_probes "$(command -v php8.2)"; then
	echo '<?php function f() { return 1; } f();' >"$SCRATCH/calls.php"
	need='PHP passes it only with USE_ZEND_DTRACE=1 in its environment.'
	same "PHP" "$(hints -c 'php:request*' 'php:function*' -- php8.2 -n "$SCRATCH/calls.php")" \
		"probectl: no hits of php:function__entry and 1 other: $need"
	same "PHP, lines" "$(hints php:function__entry -- php8.2 -n "$SCRATCH/calls.php")" \
		"probectl: no hits of php:function__entry: $need"
	same "PHP, quiet" "$(hints -q php:function__entry -- php8.2 -n "$SCRATCH/calls.php")" ""
	same "PHP, with a filter" "$(hints -c -f 'lineno > 5' php:function__entry -- php8.2 -n "$SCRATCH/calls.php")" ""
	export USE_ZEND_DTRACE=1
	same "PHP as it should be" "$(hints --keep-going -c 'php:*' -- php8.2 -n "$SCRATCH/calls.php")" \
		"probectl: no hits of php:error: PHP passes it only with USE_ZEND_DTRACE=1 in its environment, and PHP 8.2 never: it forgets this at its start."
fi
if command -v ruby3.1 >/dev/null; then
	echo 'def f; 1; end; f' >"$SCRATCH/calls.rb"
	same "Ruby" "$(hints -c ruby:method__entry -- ruby3.1 "$SCRATCH/calls.rb")" \
		"probectl: no hits of ruby:method__entry: Since 2.5 Ruby passes it only while a TracePoint of calls is enabled: TracePoint.new(:call, :return) {}.enable"
	echo 'TracePoint.new(:call, :return) {}.enable; def f; 1; end; f' >"$SCRATCH/calls.rb"
	same "Ruby with a TracePoint" "$(hints -c ruby:method__entry -- ruby3.1 "$SCRATCH/calls.rb")" ""
fi

# ---- Pairs ------------------------------------------------------------------------

"$PROBECTL" trace -t latency --json --pairs auto --keep-going libstdcxx:throw libstdcxx:catch -- \
	"$BUILD/tests/targets/throw" </dev/null >"$SCRATCH/pairs" 2>"$SCRATCH/err"
[ "$(jq -R 'fromjson? | .count // 0' "$SCRATCH/pairs" | sort -n | tail -1)" -gt 0 ] ||
	fail "throw and catch: $(head -3 "$SCRATCH/pairs" "$SCRATCH/err")"

# ---- Strings with a length ---------------------------------------------------------

if command -v javac >/dev/null; then
	java_class
	java=(java -XX:+ExtendedDTraceProbes -Xshare:auto -cp "$SCRATCH" Busy work 1)
	ctl trace -o "$SCRATCH/java" -b 32M --keep-going hotspot:thread__start 'hotspot:method__entry(class,method)' -- "${java[@]}"
	grep -q 'hotspot:thread__start .*name="[^"]*" java_thread=[0-9]* os_thread=[0-9]* daemon=\(true\|false\)$' "$SCRATCH/java" ||
		fail "threads: $(grep thread__start "$SCRATCH/java" | head -3)"
	grep -q 'hotspot:method__entry .*class="Busy" method="main"$' "$SCRATCH/java" ||
		fail "methods: $(grep Busy "$SCRATCH/java" | head -3)"
	# A library that is opened later: its begins have no room for four strings.
	ctl trace -t span --pairs auto --keep-going -o "$SCRATCH/spans" 'hotspot:method__compile__*' -- "${java[@]}"
	grep -q 'compiler=0x[0-9a-f]* compiler_length=[0-9]* .* -> compiler="C[12]" class="' "$SCRATCH/spans" ||
		fail "spans: $(head -3 "$SCRATCH/spans" "$SCRATCH/err")"
	same "a JVM without the option" "$(hints -c 'hotspot:method__*' -- java -Xshare:auto -cp "$SCRATCH" Busy work 1)" \
		"probectl: no hits of hotspot:method__entry and 1 other: The JVM passes it only with -XX:+DTraceMethodProbes or, in older versions, -XX:+ExtendedDTraceProbes."
fi
finish
