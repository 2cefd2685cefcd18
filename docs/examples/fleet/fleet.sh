#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A fleet on one machine: three "hosts", 127.0.0.1 to 127.0.0.3, each with a pmcd of its own, a
# program, and a probectl that exports its counts and latencies; and a collector, which keeps
# an archive of each. Shows them, stops the collector for a while, and compares in the end
# what the archives have with what the programs did. Needs no root; leaves nothing.
#
#	docs/examples/fleet/fleet.sh [SECONDS]
#
# PROBECTL, CC, and PORT of the pmcds may be set in the environment.
set -eu
here=$(dirname "$0")
probectl=${PROBECTL:-probectl}
port=${PORT:-44421}
seconds=${1:-5}
pcp=/usr/lib/pcp
dir=$(mktemp -d "${TMPDIR:-/tmp}/fleet.XXXXXX")
started=()
finish()
{
	kill "${started[@]}" 2>/dev/null || true
	wait
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

# run NAME COMMAND…: in the background, its output in $dir/NAME.log
run()
{
	local log=$dir/$1.log
	shift
	"$@" >>"$log" 2>&1 </dev/null &
	started+=("$!")
}

# until COMMAND…: waits for it to succeed
until_true()
{
	local try
	for ((try = 0; try < 600; try++)); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	echo "fleet.sh: in vain: $*" >&2
	tail -n 5 "$dir"/*.log >&2
	exit 1
}

# ---- A host: pmcd, a program, its tracer -------------------------------------------------

# On a real one pmcd runs anyway, and only the probectl at the end is yours.
host()
{
	local name=web$1 address=127.0.0.$1 rate=$2
	local its=$dir/$name

	mkdir -p "$its/tmp/mmv" "$its/run"
	sed "s,^PCP_TMP_DIR=.*,PCP_TMP_DIR=$its/tmp,; s,^PCP_RUN_DIR=.*,PCP_RUN_DIR=$its/run," \
		/etc/pcp.conf >"$its/pcp.conf"
	printf '%s\n' "pmcd 2 dso pmcd_init $pcp/pmdas/pmcd/pmda_pmcd.so" \
		"mmv 70 dso mmv_init $pcp/pmdas/mmv/pmda_mmv.so" >"$its/pmcd.conf"
	$pcp/bin/pmnsmerge -f -a $pcp/pmns/root_pmcd $pcp/pmns/root_mmv "$its/pmns" >/dev/null
	PCP_CONF=$its/pcp.conf run "$name.pmcd" $pcp/bin/pmcd -f -A -i "$address" -p "$port" \
		-H "$name" -s "$its/run/socket" -U "$(id -un)" -n "$its/pmns" \
		-c "$its/pmcd.conf" -l "$its/log" -x "$its/fatal"
	until_true pminfo -h "$address:$port" mmv.control.files

	mkfifo "$its/input"
	"$dir/shop" "$rate" <"$its/input" >"$its/orders" &
	shops[$1]=$!
	started+=("$!")
	exec {input}>"$its/input"
	inputs[$1]=$input
	# Until then it is this shell's copy.
	until_true test "/proc/${shops[$1]}/exe" -ef "$dir/shop"
	PCP_CONF=$its/pcp.conf run "$name.probectl" "$probectl" trace -q -i 1 -t pcp -t pcp,latency \
		--pairs auto -p "${shops[$1]}" 'shop:order__*'
	tracers[$1]=$!
	until_true pminfo -h "$address:$port" mmv.probectl.latency.hits
	echo open >&"$input"
}

# ---- The collector -------------------------------------------------------------------------

# Archives are of one host each; one configuration is for all. Below `mmv`, which is always
# there, a pmlogger notices what is new; a name that is not there yet it would give up. It
# hands the file's name to a shell: none with blanks.
collect()
{
	local i

	echo 'log mandatory on 1 sec { mmv }' >"$dir/config"
	for i in 1 2 3; do
		run "pmlogger$i" env -C "$dir" pmlogger -h "127.0.0.$i:$port" -c config -l "web$i.pmlogger" \
			-U "$(id -un)" -y "$dir/archive.web$i.$1"
		loggers[i]=$!
	done
}

# total ADDRESS: the orders that pmcd has there
total()
{
	pminfo -h "$1:$port" -f mmv.probectl.count.hits |
		sed -n 's/.*order__done"\] value //p'
}

# archived ARCHIVE: the orders that it ends with
archived()
{
	pmdumplog "$1" mmv.probectl.count.hits | sed -n 's/.*order__done"\] value //p' | tail -n 1
}
ends_with()
{
	[ "$(archived "$1")" = "$2" ]
}

shops=() inputs=() tracers=() loggers=()
${CC:-cc} -O2 -o "$dir/shop" "$here/shop.c"
host 1 100
host 2 200
host 3 400
collect first
sleep "$seconds"

echo "== What one host has: pminfo -h 127.0.0.2 -f mmv.probectl.latency"
pminfo -h "127.0.0.2:$port" -f mmv.probectl.latency
echo
echo "== The same for every host, as it comes: pmrep -h 127.0.0.N"
for i in 1 2 3; do
	pmrep -h "127.0.0.$i:$port" -t 1 -s 2 -y millisec mmv.probectl.latency.hits \
		mmv.probectl.latency.p50 mmv.probectl.latency.p99
done

echo
echo "== The collector is down"
kill "${loggers[@]}"
wait "${loggers[@]}" || true
for i in 1 2 3; do
	before[i]=$(total "127.0.0.$i")
done
sleep 2
for i in 1 2 3; do
	echo "web$i: orders went from ${before[i]} to $(total "127.0.0.$i")"
	kill -0 "${tracers[$i]}" "${shops[$i]}"
done
collect second
sleep 2

echo
echo "== The shops close"
for i in 1 2 3; do
	echo close >&"${inputs[$i]}"
	until_true test -s "$dir/web$i/orders"
	orders=$(cat "$dir/web$i/orders")
	until_true ends_with "$dir/archive.web$i.second" "$orders"
	echo "web$i: $orders orders; the archive ends with $(archived "$dir/archive.web$i.second")"
done
kill "${loggers[@]}"
wait "${loggers[@]}" || true

echo
echo "== An archive, replayed: pmrep -a archive.web3"
pmrep -a "$dir/archive.web3.first" -t 1 -s 6 -y millisec mmv.probectl.latency.hits mmv.probectl.latency.p99
