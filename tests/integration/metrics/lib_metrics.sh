# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Those who ask for metrics: a private Prometheus, and clients of HTTP. Sourced after lib.sh.

metrics_client=tests/integration/metrics/client.py

# truth EXPR: evaluated on the program's report, $said
truth()
{
	jq -r "$1" <<<"${said:?}"
}

# begin: a program of $threads threads, with $requests requests each
begin()
{
	start "$TARGETS/pairs" "${threads:?}" "${requests:?}"
	save_state "${target_pid:?}"
}

# end NAME: what has become of the trace does not matter to the program
end()
{
	trace_stop "$1"
	same_state "${target_pid:?}"
	tell bye
	end_target
}

# url_of NAME: where trace NAME serves its metrics
url_of()
{
	sed -n 's/^probectl: exporting \(http.*\)/\1/p' "$SCRATCH/$1.err"
}

# get URL [ACCEPT]: the body
get()
{
	"${python:?}" "$metrics_client" get "$@" || fail "get $*: status $?"
}

# prometheus_start URL: one that asks there twice a second
prometheus_start()
{
	local address=${1#http://}

	need prometheus promtool
	mkdir -p "$SCRATCH/prometheus"
	cat >"$SCRATCH/prometheus/prometheus.yml" <<CONF
scrape_configs:
  - job_name: probectl
    scrape_interval: 500ms
    scrape_timeout: 500ms
    static_configs:
      - targets: ['${address%/metrics}']
CONF
	promtool check config "$SCRATCH/prometheus/prometheus.yml" >"$SCRATCH/promtool" 2>&1 ||
		fail "the configuration of Prometheus: $(cat "$SCRATCH/promtool")"
	prometheus=127.0.0.1:$(free_port)
	prometheus --config.file="$SCRATCH/prometheus/prometheus.yml" --web.listen-address="$prometheus" \
		--storage.tsdb.path="$SCRATCH/prometheus/data" >"$SCRATCH/prometheus/log" 2>&1 &
	prometheus_pid=$!
	on_exit "end_process $prometheus_pid"
}

# query EXPR: the value of the only series that it has; several or none are shown as they are
query()
{
	"${python:?}" "$metrics_client" query "http://$prometheus" "$1"
}

# until_query EXPR VALUE: waits until Prometheus has this value
until_query()
{
	local got

	while :; do
		got=$(query "$1" 2>&1)
		[ "$got" != "$2" ] || return 0
		pause
	done
}

# collector_start NAME [FAILURES [STATUS]]: see collector.py; sets collector (its URL) and
# collected (what it got)
collector_start()
{
	collected=$SCRATCH/$1.collected
	mkdir "$collected"
	"${python:?}" tests/integration/metrics/collector.py "$collected" "${@:2}" >"$collected/port" 2>&1 &
	on_exit "end_process $!"
	until [ -s "$collected/port" ]; do
		pause
	done
	collector=http://127.0.0.1:$(cat "$collected/port")
}
