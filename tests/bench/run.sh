#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# `make bench`: one table, in one run, of the costs of probectl and other tools on this machine.
# usage: tests/bench/run.sh [--quick] [--minute] [PART…]
#
# The parts are hits, instructions, tracers, self, events, record, pcp, pause, first, follow,
# newcomers, list, postgres and peers, each a script in this folder. The last one is the table that
# tells most: probectl beside the best other tool for each kind of work, measured in turns. --minute
# is for record. A part that cannot run on this machine, or without root, says why.
# BUILD is the build folder. Everything temporary (events, daemons, servers and files) is
# removed, even after Ctrl-C.
set -u
export LC_ALL=C.UTF-8
cd "$(dirname "$0")/../.." || exit 1
BUILD=$(realpath -m "${BUILD:-build}")
export BUILD

all=(hits instructions tracers self events record pcp pause first follow newcomers list postgres peers)
parts=()
for argument; do
	case $argument in
	--quick) export BENCH_QUICK=1 ;;
	--minute) export BENCH_MINUTE=1 ;;
	*)
		[[ " ${all[*]} " == *" $argument "* ]] || {
			(IFS='|' && echo "usage: tests/bench/run.sh [--quick] [--minute] [${all[*]} …]") >&2
			exit 2
		}
		parts+=("$argument")
		;;
	esac
done
[ ${#parts[@]} -gt 0 ] || parts=("${all[@]}")

[ -x "$BUILD/tests/targets/loop" ] || {
	echo "run.sh: the programs that are traced are not built: make targets" >&2
	exit 1
}

# The measuring programs; the compiler may be there without LTTng.
tools=$BUILD/bench
mkdir -p "$tools"
flags=(-O2 -std=gnu11 -D_GNU_SOURCE -Itests/bench)
read -ra cc <<<"${CC:-gcc}"
"${cc[@]}" "${flags[@]}" -o "$tools/stopwatch" tests/bench/stopwatch.c || exit 1
"${cc[@]}" "${flags[@]}" -o "$tools/attach" tests/bench/attach.c || exit 1
"${cc[@]}" "${flags[@]}" -o "$tools/called" tests/bench/called.c || exit 1
"${cc[@]}" "${flags[@]}" -pg -o "$tools/called_pg" tests/bench/called.c || exit 1
"${cc[@]}" "${flags[@]}" -Ilibprobe/include -o "$tools/events" tests/bench/events.c \
	-L"$BUILD" -lprobe_events -lprobe_pmtrace || exit 1
"${cc[@]}" "${flags[@]}" -Ilibprobe/include -o "$tools/self" tests/bench/self.c "$BUILD/libprobe.so" \
	-Wl,-rpath,"$BUILD" -lpthread || exit 1
"${cc[@]}" "${flags[@]}" -Ilibprobe/include -o "$tools/self_copied" tests/bench/self.c \
	"$BUILD/libprobe.a" -lelf -liberty -ldl -lpthread || exit 1
"${cc[@]}" "${flags[@]}" -pthread -o "$tools/lttng_loop" tests/bench/lttng_loop.c -llttng-ust -ldl \
	2>/dev/null || rm -f "$tools/lttng_loop"

printf '%s, Linux %s, %s CPUs of %s, load %s\n' "$(date +%F)" "$(uname -r)" "$(nproc)" \
	"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$(cut -d' ' -f1 /proc/loadavg)"
[ "$(id -u)" = 0 ] || echo "not root: kernel uprobes (bpftrace, perf, tracefs) are left out"

trap 'exit 130' INT TERM
status=0
for part in "${parts[@]}"; do
	bash "tests/bench/$part.sh" || status=1
done
exit "$status"
