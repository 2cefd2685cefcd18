# SPDX-License-Identifier: MIT
# Calls, allocates and raises, and checks every result; answers lines as victim.c does.
$stdout.sync = true

def fibonacci(n) = n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2)

def caught(count)
  (0...count).sum do |i|
    raise ArgumentError, i.to_s
  rescue ArgumentError => error
    error.message.to_i
  end
end

def work
  fiber = Fiber.new { 10.times { |i| Fiber.yield i * i } }
  squares = Array.new(10) { fiber.resume }
  thread = Thread.new { (1..200).sum }
  [fibonacci(15), caught(100), squares, thread.value, "text".succ * 3, { a: [1, 2] }.to_a.flatten]
end

# Ruby passes the probes of methods only while there is some TracePoint.
TracePoint.new(:class) { nil }.enable
first = work
rounds = wrong = 0
puts "ready"
loop do
  rounds += 1
  wrong += 1 if work != first
  next unless $stdin.wait_readable(0)

  line = $stdin.gets
  exit(wrong.zero? ? 0 : 1) if line.nil? || line == "quit\n"
  puts "rounds #{rounds} wrong #{wrong} interrupted 0 late 0"
end
