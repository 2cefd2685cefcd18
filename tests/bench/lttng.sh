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
# lttng_destroy: ends the session, once its buffers are on disk. If a program of it was killed, LTTng
# may wait for that forever.
lttng_destroy()
{
	as_user timeout 30 lttng destroy bench >/dev/null 2>&1
}
lttng_stop()
{
	[ -n "${lttng_home-}" ] || return
	lttng_destroy
	local daemon helpers
	daemon=$(cat "$lttng_home/pid")
	helpers=$(pgrep -P "$daemon")
	kill "$daemon"
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		[ -e "$lttng_home/pid" ] || break
		sleep 0.2
	done
	# A session that could not be destroyed holds them.
	# shellcheck disable=SC2086 # words
	[ ! -e "$lttng_home/pid" ] || kill -KILL "$daemon" $helpers
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

# lttng_ns SITE THREADS HITS ROUNDS: the loop with its tracepoint in this session; prints the
# nanoseconds of an iteration. Its own start is long, so the same without hits is taken off its cycles.
lttng_ns()
{
	local line bare
	local -a counting
	counting "$lttng_home/cycles"
	line=$(as_user "${counting[@]}" "$lttng_loop" "$1" "$3" "$4" "$2" 2>"$SCRATCH/why") || return
	echo "${line#* }"
	[ -z "$no_cycles" ] || return 0
	cycles_of "$lttng_home/cycles" "${line% *}" >"$SCRATCH/with"
	bare=$(as_user "${counting[@]}" "$lttng_loop" bare "$3" "$4" "$2" 2>"$SCRATCH/why") || return
	cycles_of "$lttng_home/cycles" "${bare% *}" >"$SCRATCH/without"
	paste -d' ' "$SCRATCH/with" "$SCRATCH/without" - <<<"$bare_cycles" |
		awk '{ print $1 - $3 + $5, $2 - $4 + $6 }' >"$SCRATCH/per_hit"
}
