#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# Which processes are meant: by program, name, user, control group and container, alone, together,
# and with -p and --children.
. tests/integration/lib.sh
need_attach

# run NAME: a copy of a program under this name; sets `pid`
run()
{
	cp -n "$(command -v sleep)" "$SCRATCH/$1"
	"$SCRATCH/$1" 300 &
	pid=$!
	on_exit "end_process $pid"
	# Until then it has our name.
	while [ "$(<"/proc/$pid/comm")" != "$1" ]; do
		pause
	done
}
run chosen-a && a=$pid
run chosen-a && a2=$pid
run chosen-b && b=$pid
ln -s chosen-b "$SCRATCH/link-b"
cp "$(command -v sleep)" "$SCRATCH/unused"

# chosen WHAT PIDS ARGS…: `repair` names exactly these processes
chosen()
{
	local what=$1 pids=$2
	shift 2
	ctl repair "$@"
	same "$what" "$(sed -n 's/^process \([0-9]*\):.*/\1/p' "$SCRATCH/out" | sort -n | paste -sd' ')" \
		"$(tr ' ' '\n' <<<"$pids" | sort -n | paste -sd' ')"
}

# wrong STATUS MESSAGE ARGS…
wrong()
{
	local status=$1 message=$2 got
	shift 2
	"$PROBECTL" "$@" >/dev/null 2>"$SCRATCH/err"
	got=$?
	same "$*: status" "$got" "$status"
	grep -qF -- "$message" "$SCRATCH/err" || fail "$*: $(cat "$SCRATCH/err")"
}

me=$(id -u)
[ "$me" = 0 ] && other=65534 || other=0
chosen "one program" "$a $a2" --exe "$SCRATCH/chosen-a"
chosen "a link to a program" "$b" --exe "$SCRATCH/link-b"
chosen "two programs" "$a $a2 $b" --exe "$SCRATCH/chosen-a" --exe "$SCRATCH/chosen-b"
chosen "a relative path" "$b" --exe "$(realpath --relative-to=. "$SCRATCH/chosen-b")"
chosen "two names" "$a $a2 $b" --name chosen-a --name chosen-b
chosen "a program and a user" "$a $a2" --exe "$SCRATCH/chosen-a" --user "$me"
chosen "a user by name" "$b" --name chosen-b --user "$(id -un)"
chosen "of -p" "$a" -p "$a" --exe "$SCRATCH/chosen-a"
chosen "of --children" "$b" --children $$ --name chosen-b
chosen "-p and --children" "$a $a2" -p "$a" --children $$ --exe "$SCRATCH/chosen-a"
chosen "the root of the groups" "$b" --name chosen-b --cgroup /
group=$(sed -n 's/^[0-9]*:[^:]*:\(.*\)/\1/p' /proc/self/cgroup | tail -1)
chosen "a group" "$b" --name chosen-b --cgroup "/sys/fs/cgroup${group%/}"

# Threads of the kernel, which are root's, are nobody's processes. A pid namespace has none.
kernel=$(awk '$9 >= 2097152 && $2 == "(kthreadd)" { print $1 }' /proc/[0-9]*/stat 2>/dev/null | head -1)
if [ -n "$kernel" ]; then
	wrong 1 "no process is called 'kthreadd' and belongs to user 0" repair --name kthreadd --user 0
	wrong 1 "process $kernel is a kernel thread, which has no probes" trace -d 1 -p "$kernel" a:b
fi

# What means no process is an error, each value by itself.
wrong 1 "no process runs $SCRATCH/unused" repair --exe "$SCRATCH/unused"
wrong 1 "no process runs $SCRATCH/unused" repair --exe "$SCRATCH/chosen-a" --exe "$SCRATCH/unused"
wrong 1 "no process runs $SCRATCH/chosen-a and is called 'chosen-b'" \
	repair --exe "$SCRATCH/chosen-a" --name chosen-b
wrong 1 "no process is called 'chosen-a' and belongs to user $other" \
	repair --name chosen-a --user "$other"
wrong 1 "no process is called 'chosen-a' and is in control group no/such" \
	repair --name chosen-a --cgroup no/such/
wrong 1 "no process is in container no-such" repair --container no-such
wrong 1 "no process below those of --children runs $SCRATCH/unused" \
	repair --children $$ --exe "$SCRATCH/unused"
wrong 1 "--exe $SCRATCH/nowhere: No such file" repair --exe "$SCRATCH/nowhere"
wrong 1 "--user: there is no user 'no-such-user'" repair --user no-such-user
wrong 2 "--container '': give the id" repair --container ''
wrong 1 "process $a does not run $SCRATCH/chosen-b but $SCRATCH/chosen-a" \
	repair -p "$a" --exe "$SCRATCH/chosen-b"
wrong 1 "process $a is not one that belongs to user $other" repair -p "$a" --user "$other"
wrong 2 "not both" trace x:y --user "$me" -- true

# A file that was replaced is another one; the process keeps the old one.
cp "$SCRATCH/chosen-b" "$SCRATCH/new" && mv "$SCRATCH/new" "$SCRATCH/chosen-b"
wrong 1 "no process runs $SCRATCH/chosen-b" repair --exe "$SCRATCH/chosen-b"
run chosen-b
chosen "the new file" "$pid" --exe "$SCRATCH/chosen-b"
chosen "both, by name" "$b $pid" --name chosen-b

# Groups and containers, where we may make some.
[ "$me" = 0 ] || finish
mounted=$(awk '$9 == "cgroup2" || $10 == "cgroup2" {print $5; exit}' /proc/self/mountinfo)
[ -n "$mounted" ] || finish
id=$(printf '5f3c%060d' "$$")
folder=$mounted/probectl-$$/docker-$id.scope
mkdir -p "$folder" 2>/dev/null || finish
on_exit "rmdir '$mounted/probectl-$$'"
on_exit "rmdir '$folder'"
echo "$a" >"$folder/cgroup.procs" || die "cannot move a process"
on_exit "echo $a >'$mounted/cgroup.procs'; sleep 0.1"
chosen "a group and what is below it" "$a" --cgroup "probectl-$$"
chosen "the group itself" "$a" --cgroup "/probectl-$$/docker-$id.scope/"
wrong 1 "no process is in control group" repair --cgroup "probectl-${$%?}"
chosen "a container" "$a" --container "$id"
chosen "a part of its id" "$a" --container "${id:0:12}"
chosen "a program in it" "$a" --container "${id:0:12}" --exe "$SCRATCH/chosen-a"

# Another mount namespace: the path there counts.
need unshare
chroot_a=$SCRATCH/root/bin
mkdir -p "$chroot_a"
cp "$SCRATCH/chosen-a" "$chroot_a/inside"
# shellcheck disable=SC2016 # the inner shell's
unshare -m sh -c 'mount --bind "$1" /opt && exec /opt/inside 300' sh "$chroot_a" &
inside=$!
on_exit "end_process $inside"
while [ "$(<"/proc/$inside/comm")" != inside ]; do
	pause
done
echo "$inside" >"$folder/cgroup.procs" || die "cannot move a process"
on_exit "echo $inside >'$mounted/cgroup.procs'; sleep 0.1"
chosen "a path in the container" "$inside" --container "${id:0:12}" --exe /opt/inside
chosen "a path that only a container has" "$inside" --exe /opt/inside
wrong 1 "--exe /opt/outside: No such file" repair --exe /opt/outside
finish
