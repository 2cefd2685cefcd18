# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# A private Performance Co-Pilot, as an ordinary user runs one: pmcd with its agents for itself
# and for memory-mapped values, in a folder of its own. Sourced after lib.sh.

pcp_lib=/usr/lib/pcp
pcp_dir=$SCRATCH/pcp
pmcd_pid=

need_pcp()
{
	[ -x $pcp_lib/bin/pmcd ] || skip "Performance Co-Pilot (pcp) is not installed"
}

# pcp_setup: creates the folder, and sets the environment that makes all PCP programs use it
pcp_setup()
{
	mkdir -p "$pcp_dir/tmp/mmv" "$pcp_dir/run" "$pcp_dir/log"
	sed -e "s,^PCP_TMP_DIR=.*,PCP_TMP_DIR=$pcp_dir/tmp," \
		-e "s,^PCP_RUN_DIR=.*,PCP_RUN_DIR=$pcp_dir/run," \
		-e "s,^PCP_LOG_DIR=.*,PCP_LOG_DIR=$pcp_dir/log," \
		-e "s,^PCP_PYTHON_PROG=.*,PCP_PYTHON_PROG=${python:?}," /etc/pcp.conf >"$pcp_dir/pcp.conf"
	export PCP_CONF=$pcp_dir/pcp.conf
	cat >"$pcp_dir/pmcd.conf" <<CONF
pmcd 2 dso pmcd_init $pcp_lib/pmdas/pmcd/pmda_pmcd.so
mmv 70 dso mmv_init $pcp_lib/pmdas/mmv/pmda_mmv.so
CONF
	$pcp_lib/bin/pmnsmerge -f -a $pcp_lib/pmns/root_pmcd $pcp_lib/pmns/root_mmv \
		"$pcp_dir/root" >"$pcp_dir/log/pmns" 2>&1 ||
		die "the name space of metrics: $(cat "$pcp_dir/log/pmns")"
	pmcd_port=$(free_port)
}

# pmcd_start: starts pmcd and waits until it answers
pmcd_start()
{
	$pcp_lib/bin/pmcd -f -A -i 127.0.0.1 -p "$pmcd_port" -s "$pcp_dir/run/pmcd.socket" \
		-U "$(id -un)" -n "$pcp_dir/root" -c "$pcp_dir/pmcd.conf" \
		-l "$pcp_dir/log/pmcd.log" -x "$pcp_dir/log/pmcd.fatal" >"$pcp_dir/log/pmcd.out" 2>&1 &
	pmcd_pid=$!
	on_exit pmcd_stop
	until pminfo -h local:// -f mmv.control.files >/dev/null 2>&1; do
		pause
	done
}

pmcd_stop()
{
	[ -z "$pmcd_pid" ] || end_process "$pmcd_pid"
	pmcd_pid=
	rm -f "$pcp_dir/run/pmcd.socket"
}

# metric NAME [INSTANCE]: the values of mmv.probectl.NAME, of one instance or of all
metric()
{
	pminfo -h local:// -f "mmv.probectl.$1" 2>&1 |
		sed -n 's/^ *inst \[[0-9]* or "\(.*\)"\] value \(.*\)/\1\t\2/p' |
		awk -F '\t' -v name="${2-}" 'name == "" || $1 == name {print $2}'
}

# until_metric NAME INSTANCE VALUE: waits until the metric has this value
until_metric()
{
	local got

	while :; do
		got=$(metric "$1" "$2")
		[ "$got" != "$3" ] || return 0
		pause
	done
	fail "mmv.probectl.$1 of '$2' is '$got', not '$3': $(pminfo -h local:// -f "mmv.probectl.$1" |
		head -20) $(cat "$SCRATCH"/*.err)"
	return 1
}
