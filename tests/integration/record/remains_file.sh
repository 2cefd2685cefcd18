#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Flight recorders with a file of their own: it is there when the process was killed, and gone
# when the recorder was disabled; nobody's link is followed, and no file is overwritten; it takes
# no more room than there is.
. tests/integration/lib.sh
need_attach
need jq

place=$(mktemp -d /dev/shm/probectl-test.XXXXXX) || skip "no folder in /dev/shm"
on_exit "rm -rf '$place'"
case $(stat -f -c %T "$place") in
tmpfs | ext2/ext3 | xfs) ;;
*) skip "/dev/shm is neither tmpfs nor ext4 nor XFS" ;;
esac
file=$place/it.probectl
probes=('pairs:request__start(arg0,str(arg3))' pairs:request__done)

# refused MESSAGE OPTIONS…: `enable -t ring`, which fails; the process is as it was
refused()
{
	local message=$1
	shift
	! "$PROBECTL" enable "$@" -p "$target_pid" pairs:request__start >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "enable $* did not fail"
	grep -q -e "$message" "$SCRATCH/err" || fail "enable $*: no '$message': $(head -3 "$SCRATCH/err")"
	same_state "$target_pid"
	same "mappings after enable $*" "$(grep -c 'memfd:probectl\|\.probectl' "/proc/$target_pid/maps")" 0
}
# left OPTIONS…: leaves a recorder
left()
{
	"$PROBECTL" enable -q -t ring -b 128k "$@" -p "$target_pid" "${probes[@]}" 2>"$SCRATCH/err" ||
		fail "enable -t ring $*: $(cat "$SCRATCH/err")"
}

# ---- Its life -------------------------------------------------------------------------

start "$TARGETS/pairs" 2 20
save_state "$target_pid"
left --file "$file"
same "who may write it" "$(stat -c %a "$file")" 400
ask go
hear
"$PROBECTL" read --json -p "$target_pid" >"$SCRATCH/alive"
same "hits" "$(wc -l <"$SCRATCH/alive")" 80
same "the same from the file" "$("$PROBECTL" read --json --from "$file" | jq -c 'del(.ts)' | md5sum)" \
	"$(jq -c 'del(.ts)' "$SCRATCH/alive" | md5sum)"

# Both say which program it was.
for command in "-p $target_pid" "--from $file"; do
	# shellcheck disable=SC2086
	"$PROBECTL" read $command >"$SCRATCH/named"
	same "names of the program with $command" "$(grep -c ' pairs  *pairs:request' "$SCRATCH/named")" 80
done

# Started anew, it is a new file.
before=$(stat -c %i "$file")
"$PROBECTL" read --reset -p "$target_pid" >"$SCRATCH/out" || fail "read --reset"
[ "$(stat -c %i "$file")" != "$before" ] || fail "read --reset: the file is the old one"
same "hits of a new one" "$("$PROBECTL" read --json --from "$file" | wc -l)" 0

# Given back: the room, the mapping, and the sites.
"$PROBECTL" disable -q -p "$target_pid" pairs:request__start pairs:request__done || fail "disable"
same "files that are left" "$(find "$place" -type f | wc -l)" 0
same_state "$target_pid"
same "mappings that are left" "$(grep -c 'memfd:probectl\|\.probectl' "/proc/$target_pid/maps")" 0

# A file of the same name that is somebody else's meanwhile stays.
left --file "$file"
rm -f "$file"
echo mine >"$file"
"$PROBECTL" disable -q -p "$target_pid" pairs:request__start pairs:request__done || fail "disable"
same "another file" "$(cat "$file")" mine

# A forked child has the mapping, too; what ends there takes nothing from its parent.
tell bye
end_target
start "$TARGETS/parted"
save_state "$target_pid"
rm -f "$file"
"$PROBECTL" enable -q -t ring -b 128k --file "$file" -p "$target_pid" parted:hit || fail "enable parted"
ask hit
ask fork
child=$answer
"$PROBECTL" disable -q -p "$child" parted:hit || fail "disable in the child"
ask hit
same "hits beside a child" "$("$PROBECTL" read --json --from "$file" | jq -r '.args[0]' | paste -sd,)" 0,1
"$PROBECTL" disable -q -p "$target_pid" parted:hit || fail "disable in the parent"
[ ! -e "$file" ] || fail "the parent's file is left"
same_state "$target_pid"
tell end
end_target
start "$TARGETS/pairs" 2 20
save_state "$target_pid"
echo mine >"$file"

# ---- What is refused -------------------------------------------------------------------

refused "which must not be there yet: File exists" -t ring --file "$file"
same "the file that was there" "$(cat "$file")" mine
rm -f "$file"
echo precious >"$place/precious"
ln -s precious "$file"
refused "which must not be there yet: File exists" -t ring --file "$file"
same "where the link leads" "$(cat "$place/precious")" precious
rm -f "$file"
ln -s "$place/none" "$file"
refused "File exists" -t ring --file "$file"
[ ! -e "$place/none" ] || fail "a dangling link was followed"
rm -f "$file"
refused "$place/none" -t ring --file "$place/none/it.probectl"
refused "has to end in .probectl" -t ring --file "$place/it"
refused "has to end in .probectl" -t ring --file "$place/.probectl"
refused "give an absolute path" -t ring --file it.probectl
refused "is on a file system on which a hit could wait" -t ring --file /proc/it.probectl
refused "tracer 'count' keeps no hits" -t count --file "$file"
refused "need a tracer" --file "$file"
(
	ulimit -f 100
	refused "there is no room for\|cannot make\|File too large" -t ring --file "$file"
	exit "$failures"
) || fail "with ulimit -f"
same "files of what was refused" "$(find "$place" -name '*.probectl*' | wc -l)" 0

# ---- A controller that is killed ---------------------------------------------------------

# killed CALL N: at the N-th such call of `enable`; what is left, `repair` finds
killed()
{
	# The shell says who was killed.
	{
		strace -qq -o /dev/null -e "trace=$1" -e "inject=$1:signal=KILL:when=$2" \
			"$PROBECTL" enable -q -t ring -b 128k --file "$file" -p "$target_pid" "${probes[@]}"
	} 2>/dev/null
	status=$?
	"$PROBECTL" repair -p "$target_pid" >"$SCRATCH/out" 2>&1
	if [ "$status" = 0 ]; then
		"$PROBECTL" disable -q -p "$target_pid" pairs:request__start pairs:request__done
	fi
	same_state "$target_pid"
	same "mappings after $1 $2" "$(grep -c 'memfd:probectl\|\.probectl' "/proc/$target_pid/maps")" 0
	same "descriptors after $1 $2" "$(find "/proc/$target_pid/fd" -lname '*.probectl*' -o -lname '/memfd:probectl*' | wc -l)" 0
	same "files after $1 $2" "$(find "$place" -name '*.probectl' | wc -l)" 0
	rm -f "$file"
}
if strace -qq -o /dev/null -e inject=fchmod:signal=KILL true 2>/dev/null; then
	killed fchmod 1
	same "fchmod: status" "$status" 137
	killed fallocate 1
	killed fallocate 3
	killed pwrite64 1
	for ((call = 2; call < 40; call += 3)); do
		killed pwrite64 "$call"
		[ "$status" != 0 ] || break
	done
else
	echo "a controller that is killed: not tested, strace cannot do it"
fi

# ---- After its death -------------------------------------------------------------------

ask go
hear
tell bye
end_target
start "$TARGETS/pairs" 2 20
left --file "$place/%p.probectl"
ask go
"$PROBECTL" read --json -p "$target_pid" >"$SCRATCH/alive"
same "hits before its death" "$(wc -l <"$SCRATCH/alive")" 80
end_process "$target_pid"
same "killed: the last hits" "$("$PROBECTL" read --json --from "$place/$target_pid.probectl" | jq -c 'del(.ts)' | md5sum)" \
	"$(jq -c 'del(.ts)' "$SCRATCH/alive" | md5sum)"
"$PROBECTL" read --from "$place/$target_pid.probectl" -o "$SCRATCH/record" || fail "read --from -o"
same "as a record" "$("$PROBECTL" report --json "$SCRATCH/record" | jq -s 'map(.hits // empty | numbers) | max')" 80
# It is a file like any other: damaged anywhere, it is read or refused.
size=$(stat -c %s "$place/$target_pid.probectl")
for ((at = 0; at < 4096; at += 97)); do
	cp "$place/$target_pid.probectl" "$SCRATCH/damaged"
	chmod u+w "$SCRATCH/damaged"
	printf '\377\377\377\377' | dd of="$SCRATCH/damaged" bs=1 seek=$((size - 4096 + at)) conv=notrunc status=none
	"$PROBECTL" read --from "$SCRATCH/damaged" >/dev/null 2>&1
	[ $? -le 1 ] || fail "damaged at $at: status $?"
done

# ---- Room ------------------------------------------------------------------------------

# roomy SIZE: a program that sees a file system of that size at $place
roomy()
{
	start "${ways[@]}" sh -c 'mount -t tmpfs -o size="$1" none "$2" && exec "$3" 1 20' - \
		"$1" "$place" "$TARGETS/pairs"
	save_state "$target_pid"
}
ways=(unshare -rm)
[ "$(id -u)" != 0 ] || ways=(unshare -m)
if [ "$(getconf _NPROCESSORS_CONF)" -le 8 ] && "${ways[@]}" true 2>/dev/null; then
	roomy 64k
	refused "would take .* the file system of --file has 64 KiB left, of which it may take 32 KiB" -t ring -b 128k --file "$file"
	roomy 16M
	probes=(pairs:request__start)
	"$PROBECTL" enable -t ring --file "$file" -p "$target_pid" "${probes[@]}" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "a small file system: $(cat "$SCRATCH/err")"
	grep -q "the buffers have .* for each CPU instead of 4 MiB" "$SCRATCH/err" || fail "nothing is said: $(cat "$SCRATCH/err")"
	# The file is where the process sees it.
	[ ! -e "$file" ] || fail "the file is on our own file system"
	ask go
	same "hits there" "$("$PROBECTL" read --json --from "/proc/$target_pid/root$file" | wc -l)" 21
	"$PROBECTL" disable -q -p "$target_pid" pairs:request__start || fail "disable"
	same "removed there" "$(find "/proc/$target_pid/root$place" -type f | wc -l)" 0
	same_state "$target_pid"
else
	echo "a file system of its own: not tested, unshare -m is not allowed"
fi
finish
