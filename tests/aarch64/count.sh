#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Live processes on aarch64, with root's rights and with an ordinary user's: what probectl counts is
# what the program itself counts, and afterwards its code is as before. Debian's Python and Ruby, too.
. tests/integration/lib.sh
. tests/aarch64/lib.sh

# count_loop: a loop counts its own hits
count_loop()
{
	start "${as[@]}" "$TARGETS/loop" -s nop -n 5000 -t 4 -b -a
	save_state "$target_pid"
	toggle enable loop:nop
	ask go
	same "the program's own count, $*" "${answer%% *}" 20000
	same "hits, $*" "$(hits loop:nop)" 20000
	toggle disable loop:nop
	hear
	same_state "$target_pid"
	tell bye
	end_target
}

count_loop as root
# The sources may be in a folder of root's own.
cp "$PROBECTL" "$TARGETS/loop" "$SCRATCH"
(
	PROBECTL=$SCRATCH/probectl TARGETS=$SCRATCH
	# shellcheck disable=SC2206 # a command prefix of several words
	as=($RUN_AS_USER)
	count_loop as an ordinary user
	finish
) || fail "as an ordinary user"

# ---- Python ---------------------------------------------------------------------

cat >"$SCRATCH/calls.py" <<'PYTHON'
import sys

def work(): return 1

print("ready", flush=True)
for line in sys.stdin:
    for i in range(int(line)): work()
    print("did", line, end="", flush=True)
PYTHON
start /usr/bin/python3.11 -S "$SCRATCH/calls.py"
ask 1
save_state "$target_pid"
toggle enable python:function__entry
before=$(hits python:function__entry)
ask 100
once=$(($(hits python:function__entry) - before))
ask 600
same "Python's calls" "$(($(hits python:function__entry) - before - 2 * once))" 500
toggle disable python:function__entry
same_state "$target_pid"
end_target

# ---- Ruby -----------------------------------------------------------------------

cat >"$SCRATCH/collect.rb" <<'RUBY'
$stdout.sync = true
puts "ready"
while (line = $stdin.gets)
  line.to_i.times { Array.new(1000) { "x" * 100 }; GC.start }
  puts GC.count
end
RUBY
start "$(command -v ruby)" --disable-all "$SCRATCH/collect.rb"
ask 1
save_state "$target_pid"
toggle enable ruby:gc__mark__begin ruby:gc__sweep__begin
ask 0
before=$answer
first=$(hits ruby:gc__mark__begin)
ask 20
[ "$((answer - before))" -ge 20 ] || fail "Ruby has collected only $((answer - before)) times"
same "Ruby's collections" "$(($(hits ruby:gc__mark__begin) - first))" "$((answer - before))"
toggle disable ruby:gc__mark__begin ruby:gc__sweep__begin
same_state "$target_pid"
end_target
finish
