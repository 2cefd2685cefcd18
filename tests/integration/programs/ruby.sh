#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Ruby: class, method, file and line of exactly the methods that were entered, compared with the
# log of Ruby's own TracePoint.
#
# Since 2.5 Ruby passes method__entry only while some TracePoint is enabled
# (doc/dtrace_probes.rdoc, https://bugs.ruby-lang.org/issues/14582), so every run has one. The
# probe has the line of the method's first expression, TracePoint that of its `def`: here they
# are the same.
. tests/integration/lib.sh
need ruby jq
# Not in the path of an ordinary user.
library=$(/sbin/ldconfig -p | sed -n 's/.*libruby-3\.1\.so\.3\.1 .*=> //p' | head -1)
[ -n "$library" ] || skip "libruby 3.1 is not installed"

cat >"$SCRATCH/calls.rb" <<'RUBY'
class Shop
  def initialize(size); @size = size; end
  def total; (1..@size).sum { |i| price(i) }; end
  def price(item) = item * 3
  def self.open(size) = new(size)
end

module Deep
  def self.recurse(depth) = depth > 0 ? recurse(depth - 1) + 1 : 0
end

def failing; raise ArgumentError, "expected"; end

def survive; failing; rescue ArgumentError; 1; end
def work; Shop.open(20).total + Deep.recurse(25) + survive; end

log = File.open(ARGV[0] || File::NULL, "w")
trace = TracePoint.new(:call) do |point|
  next if point.path != __FILE__
  owner = point.defined_class
  owner = owner.inspect[/#<Class:(.*)>/, 1] if owner.singleton_class?
  log.puts "#{owner} #{point.method_id} #{point.path} #{point.lineno}"
end
trace.enable
result = work
trace.disable
puts result
RUBY

plain=$(ruby --disable-all "$SCRATCH/calls.rb" "$SCRATCH/log")
traced=$("$PROBECTL" trace --json -o "$SCRATCH/ruby.out" \
	'ruby:method__entry(str(arg0),str(arg1),str(arg2),arg3)' -- ruby --disable-all "$SCRATCH/calls.rb" 2>"$SCRATCH/err") ||
	fail "trace -- ruby: status $?: $(head -3 "$SCRATCH/err")"
same "the program's output" "$traced" "$plain"
same "losses" "$(jq -s 'map(.lost // 0) | add // 0' "$SCRATCH/ruby.out")" 0
jq -r --arg file "$SCRATCH/calls.rb" 'select(.args and .args[2] == $file) |
	"\(.args[0]) \(.args[1]) \(.args[2]) \(.args[3])"' "$SCRATCH/ruby.out" >"$SCRATCH/hits"
diff "$SCRATCH/log" "$SCRATCH/hits" >"$SCRATCH/diff" ||
	fail "calls differ (< TracePoint, > probe): $(head -20 "$SCRATCH/diff")"
[ "$(wc -l <"$SCRATCH/hits")" -ge 52 ] || fail "only $(wc -l <"$SCRATCH/hits") calls"

# All probes; the output is the same.
same "with all probes counted" "$("$PROBECTL" trace --count -o "$SCRATCH/all.out" 'ruby:*' -- \
	ruby --disable-all "$SCRATCH/calls.rb" 2>"$SCRATCH/err")" "$plain"
same "with all probes recorded" "$("$PROBECTL" trace -o "$SCRATCH/all.out" 'ruby:*' -- \
	ruby --disable-all "$SCRATCH/calls.rb" 2>"$SCRATCH/err")" "$plain"

need_attach
cat >"$SCRATCH/serve.rb" <<'RUBY'
def answer(line) = line.chomp.reverse
$stdout.sync = true
TracePoint.new(:call) {}.enable
puts "ready"
while (line = $stdin.gets)
  puts answer(line)
end
RUBY
start "$(command -v ruby)" --disable-all "$SCRATCH/serve.rb"
save_state "$target_pid"
trace_start serve --json -p "$target_pid" 'ruby:method__entry(str(arg1),arg3)' 'ruby:gc__*'
wait_on "$target_pid" ruby:method__entry
serve_words
same "calls of answer()" "$(jq -c 'select(.args and .args[0] == "answer") | .args[1]' "$SCRATCH/serve.out" | paste -sd,)" "1,1,1"
same_state "$target_pid"
ask again
same "the server answers" "$answer" "niaga"
end_target
finish
