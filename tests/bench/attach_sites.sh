#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# How the sites of real programs are patched, by plan, in processes that are attached to, and in
# programs that are started with their probes on: each is a process of its own, with a memory map
# of its own. A table in Markdown, which docs/patching.md holds. sites.sh asks the files.
# usage: tests/bench/attach_sites.sh [RUNS [PROGRAM…]]   default: 60 of each program
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
need jq
need_attach

runs=${1:-60}
[ $# = 0 ] || shift
asked=" $* "
plans=(behind hop pun nop before twin part)
as_user=  # what a program is started by
settle=.2 # seconds without a new library before it is taken to have all
export USE_ZEND_DTRACE=1

# Programs that wait for a line wait for it here.
mkfifo "$SCRATCH/line" || die "mkfifo failed"
exec 7<>"$SCRATCH/line"

# plans_of PID PROVIDERS: the plan of each site of these providers, one a line
plans_of()
{
	"$PROBECTL" status -a --json -p "$1" 2>/dev/null | jq -r --arg providers "$2" '
		select(.provider | test("^(" + $providers + ")$")) |
		(.plan // {} | to_entries[] | .key as $plan | range(.value) | $plan),
		(range(.sites - .patched) | "refused")'
}

# until_it COMMAND…: false where it does not succeed within 20 seconds
until_it()
{
	local i
	for ((i = 0; i < 200; i++)); do
		"$@" && return
		sleep 0.1
	done
	return 1
}
# Does the process have all of its libraries, and wait?
is_ready()
{
	local found
	found=$("$PROBECTL" list --json -p "$1" 2>/dev/null | jq -r .provider)
	grep -qxE "$2" <<<"$found" && grep -q '^State:.S' "/proc/$1/status" && sleep "$settle" &&
		[ "$found" = "$("$PROBECTL" list --json -p "$1" 2>/dev/null | jq -r .provider)" ]
}
is_enabled() { grep -q 'sites\? enabled in' "$SCRATCH/run.err"; }

# plans_when_on PID PROVIDERS: the same of a program that is followed; its last library may be late
plans_when_on()
{
	until_it are_on "$@"
	cat "$SCRATCH/plans"
}
are_on()
{
	plans_of "$@" >"$SCRATCH/plans"
	! grep -q refused "$SCRATCH/plans"
}

# enable_in PID PROVIDERS: the plans of its sites once it is ready
enable_in()
{
	until_it is_ready "$1" "$2" || echo failed
	"$PROBECTL" enable -q -p "$1" "/^($2):/" >/dev/null 2>>"$SCRATCH/messages" || echo failed
	plans_of "$1" "$2"
}
# attach PROVIDERS PROGRAM…: the same of one that it starts
attach()
{
	local providers=$1 pid
	shift
	$as_user "$@" <"$SCRATCH/line" >/dev/null 2>&1 &
	pid=$!
	enable_in "$pid" "$providers"
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
}
# attach_backend: the same of a backend of PostgreSQL, a process for each, while pgbench uses it
attach_backend()
{
	local client pid
	"$pg_bin/pgbench" -n -S -c 1 -T 60 >/dev/null 2>&1 &
	client=$!
	until_it has_backend || echo failed
	pid=$(pg_backends | head -n 1)
	"$PROBECTL" enable -q -p "$pid" 'postgresql:*' >/dev/null 2>>"$SCRATCH/messages" ||
		echo failed
	plans_of "$pid" postgresql
	kill -KILL "$client"
	wait "$client" 2>/dev/null
	until_it has_no_backend || echo failed
}
has_backend() { [ -n "$(pg_backends)" ]; }
has_no_backend() { ! has_backend; }
# launch PROVIDERS PROGRAM…: the same of one that `probectl run` starts
launch()
{
	local providers=$1 runner pid
	shift
	: >"$SCRATCH/run.err"
	$as_user "$PROBECTL" run -v "/^($providers):/" -- "$@" <"$SCRATCH/line" >/dev/null \
		2>"$SCRATCH/run.err" &
	runner=$!
	until_it is_enabled || echo failed
	pid=$(sed -n 's/.*enabled in //p' "$SCRATCH/run.err" | tail -n 1)
	# Libraries that it opens after that are probed as well.
	[ -z "$pid" ] || until_it is_ready "$pid" "$providers" || echo failed
	[ -z "$pid" ] || plans_when_on "$pid" "$providers"
	kill -KILL "${pid:-$runner}"
	wait "$runner" 2>/dev/null
}

# row NAME HOW: the plans on standard input, one a line, as a row of the table
row()
{
	awk -v name="$1" -v how="$2" -v runs="$runs" -v plans="${plans[*]}" '
		{ count[$1]++ }
		END {
			printf "| %s | %d %s | %d |", name, runs, how, NR - count["failed"]
			for (i = 1; i <= split(plans, plan, " "); i++)
				printf " %d |", count[plan[i]]
			printf " %d |", count["refused"]
			print count["failed"] ? sprintf(" %d failed |", count["failed"]) : ""
		}'
}

is_asked() { [ "$asked" = "  " ] || [[ $asked == *" $1 "* ]]; }

# measure NAME PROVIDERS PROGRAM…
measure()
{
	local name=$1 i
	shift
	is_asked "$name" || return
	have "$2" || {
		echo "note: $name is not measured: there is no $2" >&2
		return
	}
	for ((i = 0; i < runs; i++)); do attach "$@"; done >"$SCRATCH/attached"
	row "$name" attaches <"$SCRATCH/attached"
	for ((i = 0; i < runs; i++)); do launch "$@"; done >"$SCRATCH/launched"
	row "$name" launches <"$SCRATCH/launched"
}

# A server's backends, and a server for one user, which waits for a line.
measure_postgres()
{
	local i
	is_asked postgres || return
	[ -x "$pg_bin/postgres" ] || {
		echo "note: postgres is not measured: there is no $pg_bin/postgres" >&2
		return
	}
	pg_start
	pg_bench_init
	for ((i = 0; i < runs; i++)); do attach_backend; done >"$SCRATCH/attached"
	row postgres attaches <"$SCRATCH/attached"
	pg_stop
	as_user=pg_as_user
	for ((i = 0; i < runs; i++)); do
		launch postgresql "$pg_bin/postgres" --single -D "$pg_dir/data" postgres
	done >"$SCRATCH/launched"
	as_user=
	row postgres launches <"$SCRATCH/launched"
}

# sssd_start COMMAND: the daemon, whose backend is started by that. It keeps its state in /var/lib/sss.
sssd_start()
{
	cat >"$SCRATCH/sssd.conf" <<-CONF
		[sssd]
		services = nss
		domains = nowhere
		[domain/nowhere]
		id_provider = ldap
		ldap_uri = ldap://127.0.0.1:9
		command = $1 /usr/libexec/sssd/sssd_be --domain nowhere --uid 0 --gid 0 --logger=files
	CONF
	chmod 600 "$SCRATCH/sssd.conf"
	: >"$SCRATCH/run.err" # not what the one before has said
	sssd -i -c "$SCRATCH/sssd.conf" --logger=files </dev/null >/dev/null 2>"$SCRATCH/run.err" &
	sssd=$!
}
sssd_stop()
{
	kill "$sssd"
	wait "$sssd" 2>/dev/null
}
has_backend_of_sssd() { backend=$(pgrep -P "$sssd" -x sssd_be); }
# The backend of sssd, which it restarts; it runs as root only.
measure_sssd()
{
	local i sssd backend
	is_asked sssd || return
	if [ "$(id -u)" != 0 ] || ! have sssd || [ ! -x /usr/libexec/sssd/sssd_be ]; then
		echo "note: sssd is not measured: it is not installed, or this is not root" >&2
		return
	fi
	for ((i = 0; i < runs; i++)); do
		sssd_start ""
		until_it has_backend_of_sssd || echo failed
		enable_in "$backend" sssd
		sssd_stop
	done >"$SCRATCH/attached"
	row sssd attaches <"$SCRATCH/attached"
	for ((i = 0; i < runs; i++)); do
		# It ends the group of what it started, which has to have one.
		sssd_start "$(command -v setsid) $PROBECTL run -v sssd:* --"
		until_it is_enabled || echo failed
		backend=$(sed -n 's/.*enabled in //p' "$SCRATCH/run.err" | tail -n 1)
		until_it is_ready "$backend" sssd || echo failed
		plans_when_on "$backend" sssd
		sssd_stop
	done >"$SCRATCH/launched"
	row sssd launches <"$SCRATCH/launched"
}

# libvirtd, as it runs for a user.
measure_libvirtd()
{
	mkdir "$SCRATCH/libvirt"
	as_user="env HOME=$SCRATCH/libvirt XDG_RUNTIME_DIR=$SCRATCH/libvirt"
	if [ "$(id -u)" = 0 ]; then
		chown nobody:nogroup "$SCRATCH/libvirt"
		chmod a+x "$SCRATCH"
		as_user+=" setpriv --reuid=nobody --regid=nogroup --clear-groups --inh-caps=-all"
	fi
	settle=1.5 # it opens its drivers one after the other
	measure libvirtd libvirt /usr/sbin/libvirtd
	settle=.2 as_user=
}

# A shell of Mir, in a window of an X server without a screen.
measure_mir()
{
	local display server
	is_asked miral-shell || return
	have Xvfb || {
		echo "note: miral-shell is not measured: there is no Xvfb" >&2
		return
	}
	Xvfb -displayfd 3 3>"$SCRATCH/display" >/dev/null 2>&1 &
	server=$!
	until_it test -s "$SCRATCH/display" || die "Xvfb does not start"
	read -r display <"$SCRATCH/display"
	mkdir "$SCRATCH/mir"
	as_user="env DISPLAY=:$display HOME=$SCRATCH/mir XDG_RUNTIME_DIR=$SCRATCH/mir"
	measure miral-shell 'mir_server_.*' miral-shell
	as_user=
	kill "$server"
	wait "$server" 2>/dev/null
}

have() { command -v "$1" >/dev/null; }

header="| program | runs | sites |" line="|---|---|---|"
for plan in "${plans[@]}" refused; do
	header+=" \`$plan\` |" line+="---|"
done
printf '%s\n%s\n' "$header" "$line"

measure_postgres
measure python3.11 python /usr/bin/python3.11 -c 'input()'
measure php8.2 php php8.2 -n -r 'fgets(STDIN);'
measure ruby3.1 ruby ruby --disable-all -e 'STDIN.gets'
measure libstdc++ libstdcxx gdb -q -nx
measure node 'node|libstdcxx' node -e 'process.stdin.resume()'
measure_libvirtd
measure_sssd
measure_mir
measure guestfish 'guestfs|libvirt' guestfish
if ! have javac; then
	echo "note: no JVM is measured: there is no javac" >&2
else
	cat >"$SCRATCH/Stay.java" <<-'JAVA'
		class Stay { public static void main(String[] a) throws Exception { System.in.read(); } }
	JAVA
	javac -d "$SCRATCH" "$SCRATCH/Stay.java" || die "javac failed"
	for jvm in /usr/lib/jvm/java-17-openjdk-amd64 /usr/lib/jvm/temurin-25-jdk-amd64; do
		measure "${jvm##*/}" 'hotspot|hotspot_jni|libstdcxx' \
			"$jvm/bin/java" -Xshare:auto -cp "$SCRATCH" Stay
	done
fi
finish
