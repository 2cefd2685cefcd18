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
ctl trace --json -o "$SCRATCH/json" 'python:function__return(function,lineno)' -- "${run_python[@]}"
same "JSON of a list" "$(jq -c 'select(.args).args' "$SCRATCH/json" | grep -c '^\["work",2\]$')" 5

"$PROBECTL" trace 'python:function__return(fuction)' -- "${run_python[@]}" 2>"$SCRATCH/err" >/dev/null
same "status of a mistake" $? 2
same "a mistake" "$(cat "$SCRATCH/err")" "probectl: python:function__return: the list '(fuction)': there is no argument 'fuction', the probe has filename, function, lineno"

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
same "values" "$("$PROBECTL" trace -t sum,lineno --json -f 'starts_with(function, "work")' python:function__return \
	-- "${run_python[@]}" 2>"$SCRATCH/err" | jq .sum)" 10
"$PROBECTL" trace -c -k colour python:function__return -- "${run_python[@]}" 2>"$SCRATCH/err" >"$SCRATCH/out"
same "status of a mistake" $? 2
same "a mistake" "$(cat "$SCRATCH/err")" "probectl: python:function__return: the key 'colour': there is no argument 'colour', the probe has filename, function, lineno"

# ---- Strings with a length ---------------------------------------------------------

if command -v javac >/dev/null; then
	java_class
	java=(java -XX:+ExtendedDTraceProbes -Xshare:auto -cp "$SCRATCH" Busy work 1)
	ctl trace -o "$SCRATCH/java" -b 32M --keep-going hotspot:thread__start 'hotspot:method__entry(class,method)' -- "${java[@]}"
	grep -q 'hotspot:thread__start .*name="[^"]*" java_thread=[0-9]* os_thread=[0-9]* daemon=\(true\|false\)$' "$SCRATCH/java" ||
		fail "threads: $(grep thread__start "$SCRATCH/java" | head -3)"
	grep -q 'hotspot:method__entry .*class="Busy" method="main"$' "$SCRATCH/java" ||
		fail "methods: $(grep Busy "$SCRATCH/java" | head -3)"
fi
finish
