#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What the parts of `make bench` say of figures: how probectl stands beside another tool, and the
# cycles of a hit as `perf stat` counts them (here by a program of that name, since virtual machines
# often have no counters).
. tests/integration/lib.sh
. tests/bench/lib.sh

# ---- Beside another tool --------------------------------------------------------------------

same "less" "$(judge less 10 20)" $'0.50\tahead'
same "as much is not ahead" "$(judge less 20 20)" $'1.00\twithin 15 %'
same "a little more" "$(judge less 23 20)" $'1.15\twithin 15 %'
same "much more" "$(judge less 24 20)" $'1.20\tbehind'
same "more is better" "$(judge more 25 10)" $'2.50\tahead'
same "less is not" "$(judge more 10 25)" $'0.40\tbehind'
same "a little less is near" "$(judge more 10 11)" $'0.91\twithin 15 %'
same "noise" "$(judge less -0.2 1.4)" $'-\tbelow what can be measured'

versus "as aimed" less 1 2 >"$SCRATCH/out"
versus "a limit" limit 1.1 1 >>"$SCRATCH/out"
same "all is well" "$(conclude)" "  ahead in every row, and within 15 % of what is compiled in"
versus "near" less 1.1 1 >>"$SCRATCH/out"
versus "far from a limit" limit 2 1 >>"$SCRATCH/out"
versus "nothing to compare with" less 2 - >>"$SCRATCH/out"
same "rows" "$(awk '{ print $1, $NF }' "$SCRATCH/out" | tr '\n' ';')" \
	"as ahead;a %;near %;far behind;nothing measured;"
same "what falls short" "$(conclude | tail -n +2 | tr -s ' \n' ' ')" \
	" near far from a limit nothing to compare with "

# ---- Cycles ---------------------------------------------------------------------------------

# fake_perf LINE…: `perf stat` writes these lines; with -p it waits for SIGINT, as perf does
fake_perf()
{
	mkdir -p "$SCRATCH/bin"
	{
		echo '#!/usr/bin/env bash'
		echo 'while [ "$1" != -o ]; do [ "$1" != -p ] || wait=1; shift; done; out=$2; shift 2'
		echo 'finish() { printf "%s\n" "# started on" "" '"$(printf '%q ' "$@")"'>"$out"; exit 0; }'
		echo 'if [ "$1" = -p ]; then trap finish INT; while :; do sleep 0.05; done; fi'
		echo '[ "$1" != -- ] || shift; "$@"; finish'
	} >"$SCRATCH/bin/perf"
	chmod +x "$SCRATCH/bin/perf"
	. tests/bench/cycles.sh
}
PATH=$SCRATCH/bin:$PATH

fake_perf '<not supported>,,cycles,0,100.00,,' '<not supported>,,instructions,0,100.00,,'
same "a machine without counters" "$no_cycles" "perf stat says <not supported>"
counting "$SCRATCH/c"
same "nothing is counted there" "${#counting[@]}" 0
cycles_begin $$
cycles_end
[ ! -e "$SCRATCH/cycles" ] || fail "counted without counters"

fake_perf '42000,,cycles,1000,100.00,,' '21000,,instructions,1000,100.00,0.50,insn per cycle'
same "a machine with counters" "$no_cycles" ""
counting "$SCRATCH/c"
same "a command's own output" "$("${counting[@]}" echo 1000 2.5)" "1000 2.5"
same "cycles and instructions of a hit" "$(cycles_of "$SCRATCH/c" 1000)" "42.0 21.0"
cycles_begin $$
cycles_end
same "of a process that runs" "$(cycles_of "$SCRATCH/cycles" 100)" "420.0 210.0"

fake_perf '10,,cpu_core/cycles:u/,9,90.00,,' '5,,cpu_core/instructions:u/,9,90.00,,' \
	'30,,cpu_atom/cycles:u/,9,10.00,,' '7,,cpu_atom/instructions:u/,9,10.00,,'
counting "$SCRATCH/c"
"${counting[@]}" true
same "two kinds of cores" "$(cycles_of "$SCRATCH/c" 1)" "40.0 12.0"

# The rows of hits have these, less those of the bare loop.
if [ -x "$TARGETS/loop" ]; then
	quick=1
	fake_perf '12000000,,cycles,1000,100.00,,' '6000000,,instructions,1000,100.00,,'
	. tests/bench/loop.sh
	loop_heading >"$SCRATCH/out"
	one_ns()
	{
		alone -s nop -n 1000 -r 1 -t "$1"
	}
	pair "a row" one_ns >>"$SCRATCH/out"
	same "columns" "$(awk 'NF { print $(NF - 1), $NF }' "$SCRATCH/out" | head -1)" "cycles instr."
	# 12 and 6 million of 1,000 hits, less those of three rounds of 20 million
	same "a row" "$(awk '/a row/ { print $(NF - 1), $NF }' "$SCRATCH/out")" "11999.8 5999.9"
fi
finish
