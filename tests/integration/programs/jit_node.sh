#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Functions of JavaScript in call stacks of Node.js: their names are those of its /tmp/perf-PID.map.
. tests/integration/lib.sh
need node

cat >"$SCRATCH/app.js" <<'JS'
function readParent() { return process.ppid; }
function busyWork(n) { let sum = 0; for (let i = 0; i < n; i++) sum += readParent(); return sum; }
let sum = 0;
for (let i = 0; i < 200; i++) sum += busyWork(500);
for (let i = 0; i < 100; i++) {
	const other = new Function('n', `let s = ${i}; for (let i = 0; i < n; i++) s += i * s % 7; return s;`);
	for (let k = 0; k < 20; k++) sum += other(20000);
}
for (let i = 0; i < 100; i++) sum += busyWork(500);
console.log(process.pid);
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
JS
chmod 755 "$SCRATCH"
cd "$SCRATCH" || die "no $SCRATCH"
stacks()
{
	"$PROBECTL" trace -t stack,folded --every 100 -b 64m -o "$SCRATCH/folded" ppid:call -- \
		env LD_PRELOAD="$TARGETS/libppid.so" node "$@" "$SCRATCH/app.js" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		die "node $*: $(tail -5 "$SCRATCH/err")"
	rm -f "/tmp/perf-$(head -1 "$SCRATCH/out").map"
}
named=';[^;]*busyWork [^;]*app.js:2[^;]*;.*getppid [0-9]*$'
# (If the machine is busy, it may have ended before its file was read.)
for ((i = 0; i < 20; i++)); do
	stacks --perf-basic-prof
	! grep -q "$named" "$SCRATCH/folded" || break
done
grep -q "$named" "$SCRATCH/folded" ||
	fail "no function of JavaScript in $(head -c 3000 "$SCRATCH/folded")"
stacks
if grep -q busyWork "$SCRATCH/folded"; then
	fail "names without a map"
fi
finish
