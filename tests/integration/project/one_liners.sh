#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The commands of docs/one-liners.md about programs of several languages, on real ones, beside what
# these say themselves.
. tests/integration/project/lib_one_liners.sh
. tests/integration/metrics/lib_metrics.sh
need jq

# No answer goes untested.
while read -r question; do
	grep -qF "\"$question\"" tests/integration/project/one_liners*.sh ||
		fail "no test runs the answer to '$question'"
done < <(sed -n 's/^### \(.*?\)$/\1/p' "$document")

# ---- Java ------------------------------------------------------------------------

java_main()
{
	cat >"$SCRATCH/Main.java" <<'JAVA'
class Thing { long a, b, c; }

public class Main {
	static Object[] kept = new Object[1000];

	public static void main(String[] arguments) {
		for (int i = 0; i < 3000; i++)
			kept[i % 1000] = new Thing();
		for (int i = 0; i < 5; i++)
			System.gc();
		for (int i = 0; i < 3000; i++)
			kept[i % 100] = new byte[100000];
	}
}
JAVA
	javac -d "$SCRATCH" "$SCRATCH/Main.java" || die "javac failed"
}

if [ -n "$(command -v java)" ] && [ -n "$(command -v javac)" ]; then
	java_main
	answer "How long does the garbage collector stop a JVM?"
	pauses=$(grep -c 'Pause' "$SCRATCH/gc.log")
	[ "$pauses" -ge 5 ] || fail "only $pauses pauses"
	same "pauses" "$(sed -n 's/^count \([0-9]*\) .*/\1/p' "$SCRATCH/answer")" "$pauses"
	# The probes are around what the log measures.
	total=$(sed -n 's/.* Pause .* \([0-9.]*\)ms$/\1/p' "$SCRATCH/gc.log" | paste -sd+)
	between "milliseconds of pauses" "0.98 * ($total) - 1" \
		"$(milliseconds "$(sed -n 's/^count .* sum \([^ ]*\) .*/\1/p' "$SCRATCH/answer")")" \
		"2 * ($total) + 100"

	answer "Which classes does a JVM allocate most?"
	same "allocations of Thing" "$(column 2 '"Thing"')" 3000
	bytes=$(column 2 '"[B"')
	[ "$bytes" -ge 3000 ] || fail "only $bytes arrays of bytes"
else
	echo "note: no java"
fi

# ---- Python ----------------------------------------------------------------------

cat >"$SCRATCH/serve.py" <<'PYTHON'
import gc, sys, time

def price(item):
    time.sleep(0.003)
    return item * 3

def total(count):
    result = 0
    for item in range(count):
        result += price(item)
    return result

print("ready", flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    total(int(line))
    print((time.perf_counter() - start) * 1000, flush=True)
PYTHON
cat >"$SCRATCH/app.py" <<'PYTHON'
import gc, os

kept = []
for i in range(5000):
    kept.append([i])
for i in range(3):
    gc.collect()
with open("collections", "w") as file:
    for generation, counts in enumerate(gc.get_stats()):
        print(generation, counts["collections"], file=file)
os._exit(0)  # without the collections of a usual end
PYTHON
if [ -x /usr/bin/python3.11 ]; then
	answer "How long does the garbage collector stop a Python program?"
	while read -r generation count; do
		same "collections of generation $generation" "$(column 4 "  $generation")" \
			"$(sed 's/^0$//' <<<"$count")"
	done <"$SCRATCH/collections"

	need_attach
	start /usr/bin/python3.11 -I -S "$SCRATCH/serve.py"
	save_state "$target_pid"
	question="How long do Python's functions take?"
	answer_start "$question" "$target_pid"
	ask 20
	answer_stop
	same "calls of price()" "$(column 4 '"price"')" 20
	same "calls of total()" "$(column 4 '"total"')" 1
	# Three digits are shown.
	between "milliseconds of total()" "0.99 * $answer - 1" \
		"$(milliseconds "$(column 5 '"total"')")" "1.005 * $answer + 0.1"
	same_state "$target_pid"
	end_target
else
	echo "note: no /usr/bin/python3.11"
fi

# ---- PHP -------------------------------------------------------------------------

php_serve()
{
	mkdir -p "$SCRATCH/web"
	echo '<?php usleep(3000); echo "home";' >"$SCRATCH/web/index.php"
	echo '<?php echo "cart";' >"$SCRATCH/web/cart.php"
	# Port 0 is a free one; the log says which.
	php8.2 -n -S 127.0.0.1:0 -t "$SCRATCH/web" >"$SCRATCH/php.log" 2>&1 &
	php_pid=$!
	on_exit "end_process $php_pid"
	while :; do
		url=$(sed -n 's/.*(\(http:[^)]*\)) started.*/\1/p' "$SCRATCH/php.log")
		[ -z "$url" ] || return 0
		pause
	done
}

if has_probes "$(command -v php8.2)"; then
	need_attach
	php_serve
	save_state "$php_pid"
	answer_start "Which URLs does PHP serve, and how long do they take?" "$php_pid"
	for path in / / / /cart.php?id=7 /cart.php?id=7 /cart.php?id=8; do
		get "$url$path" >/dev/null
	done
	answer_stop
	for path in / /cart.php?id=7 /cart.php?id=8; do
		same "requests of $path" "$(column 4 "\"$path\"")" \
			"$(sed -n 's/.*: GET //p' "$SCRATCH/php.log" | grep -cxF "$path")"
	done
	between "milliseconds of /" 3 "$(milliseconds "$(column 6 '"/"')")" 1000
	same_state "$php_pid"
else
	echo "note: no php8.2 with probes"
fi

# ---- C++ -------------------------------------------------------------------------

cat >"$SCRATCH/throws.cc" <<'CC'
#include <cstdio>
#include <stdexcept>

namespace shop {
struct missing : std::runtime_error {
	using std::runtime_error::runtime_error;
};

__attribute__((noinline)) void find(int item)
{
	if (item % 3 == 0)
		throw missing("missing");
	throw std::out_of_range("out of range");
}
}

int main()
{
	int missing = 0, out = 0;

	for (int i = 0; i < 30; i++) {
		try {
			shop::find(i);
		} catch (const shop::missing &) {
			missing++;
		} catch (const std::out_of_range &) {
			out++;
		}
	}
	std::printf("%d %d\n", missing, out);
}
CC
if [ -n "$(command -v g++)" ] && g++ -O1 -o "$SCRATCH/throws" "$SCRATCH/throws.cc"; then
	answer "Who throws C++ exceptions, and of which types?"
	read -r missing out < <(head -1 "$SCRATCH/answer")
	same "throws of shop::missing" "$(column 2 '"typeinfo for shop::missing"')" "$missing"
	same "throws of std::out_of_range" "$(column 2 '"typeinfo for std::out_of_range"')" "$out"
	same "throws in shop::find(int)" \
		"$(awk '/shop::find\(int\)/ { sum += $1 } END { print sum }' "$SCRATCH/answer")" \
		$((missing + out))
else
	echo "note: no g++"
fi
finish
