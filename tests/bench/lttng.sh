# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# LTTng-UST for comparison: a private session daemon with its own folder, and the loop with a
# tracepoint compiled in (lttng_loop.c). Sourced after tests/bench/lib.sh.

# As root the daemon would use the machine's own folders: give up root for it.
# shellcheck disable=SC2154 # set by tests/integration/lib.sh and tests/bench/lib.sh
[ -z "$RUN_AS_USER" ] && is_root &&
	RUN_AS_USER="setpriv --reuid=nobody --regid=nogroup --clear-groups --inh-caps=-all"
as_user()
{
	# shellcheck disable=SC2086 # a command prefix of several words
	env HOME="$lttng_home" LTTNG_HOME="$lttng_home" $RUN_AS_USER "$@"
}

# lttng_start: starts the daemon; returns 1 if that fails, and $SCRATCH/why says why
lttng_start()
{
	if ! command -v lttng-sessiond >/dev/null || [ ! -x "$tools/lttng_loop" ]; then
		echo "lttng-tools or liblttng-ust-dev is not installed"
		return 1
	fi
	lttng_home=$(mktemp -d /tmp/probectl-lttng.XXXXXX)
	lttng_loop=$lttng_home/lttng_loop
	on_exit lttng_stop
	cp "$tools/lttng_loop" "$lttng_loop"
	[ -z "$RUN_AS_USER" ] || chown -R nobody:nogroup "$lttng_home"
	as_user lttng-sessiond --daemonize --no-kernel --pidfile="$lttng_home/pid"
} >"$SCRATCH/why" 2>&1
lttng_stop()
{
	[ -n "${lttng_home-}" ] || return
	as_user lttng destroy bench
	kill "$(cat "$lttng_home/pid")"
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		[ -e "$lttng_home/pid" ] || break
		sleep 0.2
	done
	rm -rf "$lttng_home"
	lttng_home=
} >/dev/null 2>&1

# lttng_session SIZE [CONTEXT…]: begins to trace, with four buffers of SIZE on each CPU
lttng_session()
{
	local size=$1 context
	shift
	as_user lttng create bench --output="$lttng_home/trace" &&
		as_user lttng enable-channel -u bench --subbuf-size="$size" --num-subbuf=4 &&
		as_user lttng enable-event -u 'bench_lttng:*' -c bench || return
	for context; do
		as_user lttng add-context -u -c bench -t "$context" || return
	done
	as_user lttng start
} >"$SCRATCH/why" 2>&1
