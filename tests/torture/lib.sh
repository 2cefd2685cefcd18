# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Shared by tests/torture/run.sh and the short test; sourced after tests/integration/lib.sh.
# shellcheck disable=SC2154 # which sets answer, pg_dir, pg_bin

torture=tests/torture
bin=$BUILD/tests/torture
[ -x "$bin/killer" ] || skip "$bin/killer is not built"
# Targets never rest: they must leave the machine to others.
read -r -a nicely <<<"${TORTURE_NICE-nice -n 5}"

# leftovers PID: what is left of ours: mappings by name, executable memory
# without a file, the guard, and descriptors
leftovers()
{
	local named anonymous guards descriptors
	named=$(grep -c 'memfd:probectl' "/proc/$1/maps")
	anonymous=$(grep -cE ' r-xp 00000000 00:00 0 *$' "/proc/$1/maps")
	guards=$(grep -c '^VmFlags:.* wf' "/proc/$1/smaps")
	descriptors=$(find "/proc/$1/fd" -lname '*memfd:probectl*' 2>/dev/null | wc -l)
	echo "named $named anonymous $anonymous guards $guards descriptors $descriptors"
}

# ---- Programs --------------------------------------------------------------------
#
# program_start NAME sets target_pid, probes (the PROBEs), functions (PROBEs of functions) and
# extra (options of enable and trace); program_check sets rounds, and says what was wrong.

program_start()
{
	extra=()
	checks=ping
	repaired=
	forks=
	answer=
	client_pid=
	functions=('fn:libc:*')
	case $1 in
	compute | signals | altstack | churn | fork | spawn | exec | coroutine)
		[[ $1 != fork && $1 != spawn ]] || forks=yes
		probes=('victim:*')
		start "${nicely[@]}" "$bin/victim" "$1"
		;;
	four) # threads
		probes=('victim:*')
		start "${nicely[@]}" "$bin/victim" compute 4
		;;
	threads) # 64 of them, computing
		probes=('victim:*')
		start "${nicely[@]}" "$bin/victim" compute 64
		;;
	sleep)
		forks=yes
		probes=('victim:*')
		start "${nicely[@]}" "$bin/victim" sleep 8
		;;
	python)
		probes=('python:*')
		functions=('fn:python3*:*')
		start "${nicely[@]}" /usr/bin/python3 "$torture/busy.py"
		;;
	ruby)
		probes=('ruby:*')
		functions=('fn:libruby*:*')
		start "${nicely[@]}" ruby --disable-all -rio/wait "$torture/busy.rb"
		;;
	java)
		probes=('hotspot*:*')
		functions=('fn:libjvm:/^[A-D]/') # 5,600 of 42,000
		extra=(--keep-going)
		[ -e "$SCRATCH/Busy.class" ] || java_class
		start "${nicely[@]}" java -XX:+ExtendedDTraceProbes -XX:ActiveProcessorCount=2 -Xmx256m \
			-cp "$SCRATCH" Busy stay
		sleep 2
		;;
	postgres)
		probes=('postgresql:*')
		functions=('fn:postgres:*')
		extra=(--keep-going)
		checks=pgbench
		torture_postgres
		;;
	php)
		functions=('fn:php*:*')
		start "${nicely[@]}" php "$torture/busy.php"
		;;
	node)
		functions=('fn:node:/^(uv|napi|SSL|EVP|deflate|inflate)_/')
		start "${nicely[@]}" node "$torture/busy.js"
		;;
	bash)
		functions=('fn:bash:*' 'fn:libc:*')
		start "${nicely[@]}" bash "$torture/busy.sh"
		;;
	nginx | redis)
		need "${1/redis/redis-server}"
		functions=('fn:libc:*' "fn:$1*:*")
		[ "$1" != nginx ] || functions+=('fn:libcrypto:*')
		port=$(free_port)
		start "${nicely[@]}" "$python" "$torture/client.py" "$1" "$SCRATCH" "$port"
		client_pid=$target_pid
		target_pid=${answer#ready }
		;;
	qemu) # boots its firmware, and boots again
		need qemu-system-x86_64
		functions=('fn:qemu-system*:*')
		start "${nicely[@]}" "$python" "$torture/client.py" qemu "$SCRATCH" "$(free_port)"
		client_pid=$target_pid
		target_pid=${answer#ready }
		;;
	*) die "there is no program '$1'" ;;
	esac
}

# A backend that answers queries without end; a wrong answer divides by zero.
torture_postgres()
{
	[ -n "${pg_pid-}" ] || {
		pg_start
		pg_bench_init 1
	}
	cat >"$pg_dir/check.sql" <<'SQL'
select 1 / (sum(aid) = 5050)::int from pgbench_accounts where aid <= 100;
begin;
update pgbench_accounts set abalance = abalance + 1 where aid = 1;
rollback;
SQL
	chmod a+r "$pg_dir/check.sql"
	pg_as_user env PGHOST="$PGHOST" PGUSER="$PGUSER" PGDATABASE="$PGDATABASE" "${nicely[@]}" \
		"$pg_bin/pgbench" -n -c 2 -T 100000 -f "$pg_dir/check.sql" >"$SCRATCH/pgbench.out" 2>&1 &
	pgbench_pid=$!
	on_exit "kill $pgbench_pid 2>/dev/null"
	sleep 2
	target_pid=$(pg_backends | head -1)
	[ -n "$target_pid" ] || die "pgbench has no backend: $(tail -3 "$SCRATCH/pgbench.out")"
}

program_check()
{
	case $checks in
	ping)
		ask ping
		case $answer in
		pong*) rounds=${answer#pong } ;;
		*' wrong 0 '*) rounds=$(cut -d' ' -f2 <<<"$answer") ;;
		*) fail "the target computes: $answer $(head -3 "$SCRATCH/target.err")" ;;
		esac
		;;
	pgbench)
		kill -0 "$pgbench_pid" 2>/dev/null || fail "pgbench ended: $(tail -3 "$SCRATCH/pgbench.out")"
		rounds=$("$pg_bin/psql" -XAtc "select xact_commit + xact_rollback from pg_stat_database
			where datname = 'postgres'")
		;;
	esac
}

program_end()
{
	case $checks in
	ping)
		tell quit
		target_pid=${client_pid:-$target_pid}
		end_target 0
		;;
	pgbench)
		kill "$pgbench_pid"
		wait "$pgbench_pid" 2>/dev/null
		! grep -i -E 'error|aborted' "$SCRATCH/pgbench.out" ||
			fail "pgbench: $(grep -i -E 'error|aborted' "$SCRATCH/pgbench.out" | head -3)"
		;;
	esac
}

# as_before: off, and nothing of ours is left. For `exec`, text moves.
as_before()
{
	local try tries=1
	# A command that is interrupted by an execve says so, and must be repeated.
	[ "$program" != exec ] || tries=100
	for ((try = 1; try <= tries; try++)); do
		"$PROBECTL" disable --force --keep-going -p "$target_pid" "${probes[@]}" \
			>"$SCRATCH/out" 2>"$SCRATCH/err" && repair_all && break
		[ "$try" -lt "$tries" ] || fail "off: $(head -3 "$SCRATCH/err") $repaired"
	done
	same "probes that are on" "$("$PROBECTL" status --json -p "$target_pid" 2>/dev/null | wc -l)" 0
	check_alive "$target_pid"
	same "what is left" "$(leftovers "$target_pid")" "$before"
	[ "$program" = exec ] || same_state "$target_pid"
}

# torture_kill PROGRAM KILLS SEED: prints the row of the log
torture_kill()
{
	local program=$1 result first_rounds heal_every=10
	[ "$program" != exec ] || heal_every=0
	program_start "$program"
	before=$(leftovers "$target_pid")
	[ "$program" = exec ] || save_state "$target_pid"
	program_check
	first_rounds=$rounds
	local p=(-p "$target_pid")
	result=$("$bin/killer" "${p[@]}" -n "$2" -s "$3" -h "$heal_every" -- \
		"$PROBECTL" enable "${extra[@]}" "${p[@]}" "${probes[@]}" -- \
		"$PROBECTL" disable --force --keep-going "${p[@]}" "${probes[@]}" -- \
		"$PROBECTL" trace -c -d 0.003 "${extra[@]}" "${p[@]}" "${probes[@]}" -- \
		"$PROBECTL" trace -o /dev/null -d 0.003 "${extra[@]}" "${p[@]}" "${probes[@]}" -- \
		"$PROBECTL" trace -t hist,tid -k cpu -d 0.003 "${extra[@]}" "${p[@]}" "${probes[@]}" -- \
		"$PROBECTL" trace -t ring -f 'cpu < 64' -d 0.003 "${extra[@]}" "${p[@]}" "${probes[@]}" -- \
		"$PROBECTL" trace -t stack,frames -d 0.003 "${extra[@]}" "${p[@]}" "${probes[@]}" -- \
		"$PROBECTL" enable -t count -k tid "${extra[@]}" "${p[@]}" "${probes[@]}" -- \
		"$PROBECTL" disable --force --keep-going "${p[@]}" "${probes[@]}" -- \
		"$PROBECTL" repair "${p[@]}" 2>&1) || fail "$program: $result"
	as_before
	program_check
	[ "$rounds" -gt "$first_rounds" ] || fail "$program stands still: $first_rounds, $rounds"
	echo "kill $program: $result; $answer"
	program_end
}

# torture_library PROGRAM CYCLES: on and off through the library, which is faster
torture_library()
{
	local program=$1 result
	program_start "$program"
	before=$(leftovers "$target_pid")
	[ "$program" = exec ] || save_state "$target_pid"
	program_check
	result=$("$bin/cycler" "$target_pid" "$2" "${probes[@]}" 2>&1) ||
		fail "$program: $result"
	as_before
	program_check
	echo "library $program: $(tail -1 <<<"$result"); $answer"
	program_end
}

# others_on KIND: begins another tool at 60 functions of the file of the first of `functions`: a kernel
# uprobe at each, or gdb with a breakpoint at each. Fails if the machine has no such tool.
others_on()
{
	local path name
	name=${functions[0]#fn:}
	path=$("$PROBECTL" list --functions --json -p "$target_pid" "${functions[0]}" 2>/dev/null |
		sed -n 's/.*"path":"\([^"]*\)".*/\1/p;q')
	[ -e "$path" ] || die "no file of ${name%%:*}"
	"$python" "$integration/state.py" functions "$path" 60 >"$SCRATCH/others"
	rm -f "$SCRATCH/there" "$SCRATCH/in"
	mkfifo "$SCRATCH/in"
	case $1 in
	uprobes)
		# shellcheck disable=SC2046 # a word for each offset
		"$TARGETS/uprobe" "$target_pid" "$path" $(cut -d' ' -f2 "$SCRATCH/others") \
			<"$SCRATCH/in" >"$SCRATCH/there" 2>&1 &
		;;
	gdb)
		{
			sed 's/\([^ ]*\) .*/break \1\nignore $bpnum 1000000000/' "$SCRATCH/others"
			printf 'shell echo on >%s\ncontinue\ndelete\ndetach\n' "$SCRATCH/there"
		} >"$SCRATCH/script"
		gdb -nx -batch -iex 'set auto-load no' -iex 'set debuginfod enabled off' \
			-iex 'handle SIGSTOP stop nopass' -p "$target_pid" \
			-x "$SCRATCH/script" <"$SCRATCH/in" >"$SCRATCH/gdb.out" 2>&1 &
		;;
	esac
	others_pid=$!
	on_exit "kill $others_pid 2>/dev/null"
	exec {others_in}>"$SCRATCH/in"
	SECONDS=0 # pause() counts from here
	until grep -qs on "$SCRATCH/there"; do
		kill -0 "$others_pid" 2>/dev/null || {
			exec {others_in}>&-
			wait "$others_pid"
			return 1
		}
		pause
	done
}
# others_off: ends it, and counts it in `beside`
others_off()
{
	[ ! -e "$SCRATCH/script" ] || kill -STOP "$target_pid"
	rm -f "$SCRATCH/script"
	exec {others_in}>&-
	wait "$others_pid"
	kill -CONT "$target_pid" # if the signal came when gdb was about to leave
	beside=$((beside + 1))
}

# torture_functions PROGRAM ROUNDS: all its functions on and off, also beside uprobes and a debugger,
# whoever is first; each eighth time, the controller is killed, at a random moment
torture_functions()
{
	local program=$1 times=$2 first_rounds i killed=0 failed=$failures tracer kind beside=0 sites=
	program_start "$program"
	probes=("${functions[@]}")
	local p=(--many --keep-going -p "$target_pid" "${probes[@]}")
	before=$(leftovers "$target_pid")
	save_state "$target_pid"
	program_check
	first_rounds=$rounds
	for ((i = 0; i < times && failures == failed; i++)); do
		case $((i % 8)) in
		0)
			ctl enable "${p[@]}"
			sites=$(grep -o '[0-9]* sites' "$SCRATCH/out")
			ctl disable --force "${p[@]}"
			;;
		1) ctl trace -c -d 0.2 "${p[@]}" ;;
		2 | 3)
			kind=uprobes
			[ $((i % 8)) = 2 ] || kind=gdb
			ctl enable "${p[@]}"
			others_on "$kind" && {
				# At a breakpoint, a hot function takes milliseconds.
				if [ "$kind" = gdb ]; then sleep 0.5; else program_check; fi
				others_off
			}
			program_check
			ctl disable --force "${p[@]}"
			;;
		4) ctl trace -t latency -d 0.2 "${p[@]}" ;;
		5)
			others_on uprobes && {
				ctl trace -c -d 0.2 "${p[@]}"
				program_check
				others_off
			}
			;;
		6)
			others_on gdb && {
				! "$PROBECTL" trace -c -d 0.2 "${p[@]}" >"$SCRATCH/out" 2>&1 ||
					fail "a process of gdb was traced"
				others_off
			}
			;;
		7)
			"$PROBECTL" trace -t latency "${p[@]}" >/dev/null 2>&1 </dev/null &
			tracer=$!
			sleep "$((RANDOM % 2)).$((RANDOM % 1000))"
			kill -KILL "$tracer"
			wait "$tracer" 2>/dev/null
			killed=$((killed + 1))
			repair_all || fail "$repaired"
			;;
		esac
		program_check
	done
	as_before
	program_check
	[ "$rounds" -gt "$first_rounds" ] || fail "$program stands still: $first_rounds, $rounds"
	echo "functions $program: $sites, $i times on and off, killed $killed," \
		"beside other tools $beside; $answer"
	program_end
}

# torture_cycle PROGRAM CYCLES: two controllers at once, each enabling, disabling, tracing
torture_cycle()
{
	local program=$1 each=$(($2 / 2)) result1 result2 second
	program_start "$program"
	before=$(leftovers "$target_pid")
	[ "$program" = exec ] || save_state "$target_pid"
	program_check
	local p=(-p "$target_pid")
	# shellcheck disable=SC2054 # "hist,tid" is one word
	local round=("$PROBECTL" enable "${extra[@]}" "${p[@]}" "${probes[@]}" --
		"$PROBECTL" disable "${extra[@]}" "${p[@]}" "${probes[@]}" --
		"$PROBECTL" trace -c -d 0.001 "${extra[@]}" "${p[@]}" "${probes[@]}" --
		"$PROBECTL" enable "${extra[@]}" "${p[@]}" "${probes[@]}" --
		"$PROBECTL" disable "${extra[@]}" "${p[@]}" "${probes[@]}" --
		"$PROBECTL" trace -o /dev/null -d 0.001 "${extra[@]}" "${p[@]}" "${probes[@]}" --
		"$PROBECTL" trace -t hist,tid -k cpu -d 0.001 "${extra[@]}" "${p[@]}" "${probes[@]}" --
		"$PROBECTL" trace -t ring -d 0.001 "${extra[@]}" "${p[@]}" "${probes[@]}")
	# Of every eight commands, each pair of on and off is a cycle: there are six.
	"$bin/killer" "${p[@]}" -k -n $((each * 8 / 6)) -- "${round[@]}" \
		>"$SCRATCH/second" 2>&1 &
	second=$!
	result1=$("$bin/killer" "${p[@]}" -k -n $((each * 8 / 6)) -- "${round[@]}" 2>&1) ||
		fail "$program: $result1"
	wait "$second" || fail "$program, second controller: $(cat "$SCRATCH/second")"
	result2=$(tail -1 "$SCRATCH/second")
	as_before
	program_check
	echo "cycle $program: $(tail -1 <<<"$result1"); $result2; $answer"
	program_end
}

# ---- Step by step --------------------------------------------------------------------

# dying N ARGS...: probectl, killed right before its Nth step; its status
dying()
{
	local at=$1 rc
	shift
	# The sanitizers' runtime need not come first.
	ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=$bin/steps.so PROBECTL_DIE_AT=$at \
		PROBECTL_DIED=$SCRATCH/died "$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
	rc=$?
	return "$rc"
} 2>/dev/null

# alive_and_well WHEN: the target runs, and computes right
alive_and_well()
{
	local try
	# It may be leaving its last stop.
	for try in 1 2 3 4 5 6 7 8 9 10; do
		grep -q -E '^State:[[:space:]]*[RSD]' "/proc/$target_pid/status" && break
		sleep 0.0"$try"
	done
	check_alive "$target_pid"
	program_check
	[ "$failures" = 0 ] || die "$1"
}

# repair_all: until no thread is in code to be removed; $repaired is the first output
repair_all()
{
	local try said
	repaired=$("$PROBECTL" repair -p "$target_pid" 2>&1) || return
	said=$repaired
	for ((try = 0; try < 100; try++)); do
		case $said in
		*'still in'*) ;;
		*) return 0 ;;
		esac
		sleep 0.05
		said=$("$PROBECTL" repair -p "$target_pid" 2>&1) || return
	done
	return 1
}

# heals WHEN: status says whether anything was left, repair mends it and says what
heals()
{
	local warned repaired
	"$PROBECTL" status --json -p "$target_pid" >"$SCRATCH/status" 2>"$SCRATCH/err" ||
		die "$1: status: $(cat "$SCRATCH/err")"
	warned=$(grep -o 'has leftovers ([^)]*)' "$SCRATCH/err")
	repair_all || die "$1: $repaired"
	[ -z "$warned" ] || healed=$((healed + 1))
	# A child that was forked meanwhile is repaired, too, but `status` does not show it.
	[ -z "$forks" ] || return
	case $repaired in
	*'nothing to repair') [ -z "$warned" ] || die "$1: status: $warned; repair: $repaired" ;;
	*removed:* | *'still in'*) [ -n "$warned" ] || die "$1: status: nothing; repair: $repaired" ;;
	*) die "$1: repair: $repaired" ;;
	esac
	same "$1: repaired twice" "$("$PROBECTL" repair -p "$target_pid" 2>&1)" \
		"process $target_pid: nothing to repair"
	"$PROBECTL" status --json -p "$target_pid" >"$SCRATCH/status" 2>"$SCRATCH/err"
	same "$1: what status says then" "$(grep -v 'no probes' "$SCRATCH/err")" ""
}

# leave_stale: leaves what a trace leaves if it is killed while it runs
leave_stale()
{
	local tracer
	"$PROBECTL" trace -o /dev/null "${extra[@]}" -p "$target_pid" "${probes[@]}" \
		>/dev/null 2>&1 </dev/null &
	tracer=$!
	until [ "$("$PROBECTL" status --json -p "$target_pid" 2>/dev/null | wc -l)" -gt 0 ]; do
		kill -0 "$tracer" || die "trace ended"
	done
	end_process "$tracer"
}

# whole WHEN: all probes are on, or none
whole()
{
	local on
	on=$(wc -l <"$SCRATCH/status")
	[ "$on" = 0 ] || [ "$on" = "$all_on" ] || die "$1: $on of $all_on probes are on"
}

# goes_on WHEN: without a repair, the next controllers enable all probes, and count
goes_on()
{
	"$PROBECTL" trace -c --json -d 0.05 "${extra[@]}" "${p[@]}" "${probes[@]}" \
		>"$SCRATCH/counts" 2>"$SCRATCH/err" || die "$1: trace: $(cat "$SCRATCH/err")"
	same "$1: what is refused to the next controller" "$(grep refused "$SCRATCH/err")" "$refused"
	[ "$(hits_of "$SCRATCH/counts")" -gt 0 ] || die "$1: the next controller counts nothing"
	"$PROBECTL" enable --force "${extra[@]}" "${p[@]}" "${probes[@]}" >/dev/null 2>"$SCRATCH/err" ||
		die "$1: enable: $(cat "$SCRATCH/err")"
	same "$1: probes that are on" "$("$PROBECTL" status --json "${p[@]}" | wc -l)" "$all_on"
}

# torture_steps PROGRAM STRIDE [FIRST]: enable, disable, trace and repair, each killed before
# its step FIRST, FIRST + STRIDE ... until it ends by itself; prints the row of the log
torture_steps()
{
	local program=$1 stride=$2 n rc command first=${3-1} kills=0 healed=0 when refused
	local -a line
	program_start "$program"
	before=$(leftovers "$target_pid")
	save_state "$target_pid"
	local p=(-p "$target_pid")
	"$PROBECTL" trace -c -d 0.05 "${extra[@]}" "${p[@]}" "${probes[@]}" >/dev/null 2>"$SCRATCH/err" ||
		die "trace: $(cat "$SCRATCH/err")"
	refused=$(grep refused "$SCRATCH/err")
	"$PROBECTL" enable "${extra[@]}" "${p[@]}" "${probes[@]}" >/dev/null || die "enable"
	all_on=$("$PROBECTL" status --json "${p[@]}" | wc -l)
	for command in enable disable repair 'trace -o /dev/null -d 0.001' 'trace -c -d 0.001'; do
		read -r -a line <<<"$command"
		case $command in
		disable) line+=(--force --keep-going "${p[@]}" "${probes[@]}") ;;
		repair) line+=("${p[@]}") ;;
		*) line+=("${extra[@]}" "${p[@]}" "${probes[@]}") ;;
		esac
		for ((n = first; ; n += stride)); do
			when="$program: $command, step $n"
			"$PROBECTL" disable --force --keep-going "${p[@]}" "${probes[@]}" \
				>/dev/null 2>"$SCRATCH/err" || die "$when: disable: $(cat "$SCRATCH/err")"
			case $command in
			disable) "$PROBECTL" enable "${extra[@]}" "${p[@]}" "${probes[@]}" >/dev/null ;;
			repair) leave_stale ;;
			esac
			dying "$n" "${line[@]}"
			rc=$?
			[ "$rc" = 137 ] || break
			when="$when ($(cat "$SCRATCH/died"))"
			kills=$((kills + 1))
			alive_and_well "$when"
			# Leftovers must not disturb the next command, repaired or not.
			if ((kills % 3)); then
				heals "$when"
				whole "$when"
			else
				goes_on "$when"
			fi
			as_before
			[ "$failures" = 0 ] || die "$when"
		done
		same "$when: status" "$rc" 0
		[ "$n" -gt 10 ] || die "$when: it was to be killed"
	done
	program_check
	echo "steps $program: killed $kills, left something $healed; $answer"
	program_end
}
