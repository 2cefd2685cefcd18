#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
# Output in a folder like /tmp, or in another user's folder: files and links that another user has
# put there are neither followed nor written; the user's own are. New files and folders are for
# their user alone.
. tests/integration/lib.sh

open=$SCRATCH/open
mkdir "$open" "$SCRATCH/own" || die "mkdir"
chmod 755 "$SCRATCH" "$SCRATCH/own"
chmod 1777 "$open"
echo '{"ts":1,"pid":2,"tid":2,"cpu":0,"comm":"c","provider":"p","name":"n","pc":"0x1","args":[]}' \
	>"$SCRATCH/hits"
"$TARGETS/loop" -s pair -p 3000 -n 1000000000 -r 1 >/dev/null 2>&1 &
target_pid=$!
on_exit "end_process $target_pid"

# to COMMAND PATH: writes there
to()
{
	case $1 in
	export) timeout "$TEST_SECONDS" "$PROBECTL" export -F csv -o "$2" - <"$SCRATCH/hits" ;;
	report) timeout "$TEST_SECONDS" "$PROBECTL" report --html "$2" - <"$SCRATCH/hits" ;;
	trace) timeout "$TEST_SECONDS" "$PROBECTL" trace -q -n 5 -o "$2" -p "$target_pid" 'loop:pair*' ;;
	record) timeout "$TEST_SECONDS" "$PROBECTL" record -q -n 5 -o "$2" -p "$target_pid" 'loop:pair*' ;;
	esac >"$SCRATCH/out" 2>"$SCRATCH/err"
}

commands="export report"
[ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" != 0 ] && [ "$(id -u)" != 0 ] ||
	commands="export report trace"

# ---- One's own ------------------------------------------------------------------------

for command in $commands; do
	ln -sf "$SCRATCH/own/$command" "$open/$command.link"
	ln -sf ../own "$open/folder"
	for path in "$open/$command" "$open/$command.link" "$open/folder/$command.2" \
		"$open/../own/./$command.3" "$open//$command"; do
		to "$command" "$path" || fail "$command to $path: $(cat "$SCRATCH/err")"
		[ -s "$path" ] || fail "$command to $path: nothing is there"
	done
	[ ! -L "$SCRATCH/own/$command" ] && [ -s "$SCRATCH/own/$command" ] ||
		fail "$command: the link was not followed"
	to "$command" /dev/null || fail "$command to /dev/null: $(cat "$SCRATCH/err")"
	to "$command" /dev/stdout || fail "$command to /dev/stdout: $(cat "$SCRATCH/err")"
	[ -s "$SCRATCH/out" ] || fail "$command to /dev/stdout: nothing came"
	to "$command" "$SCRATCH/none/file" && fail "$command: a folder that is not there"
	grep -q 'cannot create.*No such file' "$SCRATCH/err" || fail "$command: $(cat "$SCRATCH/err")"
	mkdir -p "$SCRATCH/locked.$command" && chmod 555 "$SCRATCH/locked.$command"
	if [ "$(id -u)" != 0 ]; then
		to "$command" "$SCRATCH/locked.$command/file" && fail "$command: a locked folder"
		grep -q 'cannot create.*Permission denied' "$SCRATCH/err" ||
			fail "$command: $(cat "$SCRATCH/err")"
	fi
	to "$command" "$open" && fail "$command to a folder"
	grep -q 'Is a directory' "$SCRATCH/err" || fail "$command: $(cat "$SCRATCH/err")"
done

# ---- Modes: surroundings.sh has those of new files -------------------------------------------

for command in $commands; do
	path=$SCRATCH/own/shared.$command
	touch "$path" && chmod 640 "$path"
	to "$command" "$path" || fail "$command: $(cat "$SCRATCH/err")"
	same "$command: mode of an existing file" "$(stat -c %a "$path")" 640
done
if [[ $commands == *trace ]]; then
	timeout "$TEST_SECONDS" "$PROBECTL" record -q -n 5 --rotate 1h -o "$SCRATCH/own/parts" \
		-p "$target_pid" 'loop:pair*' 2>"$SCRATCH/err" || fail "record: $(cat "$SCRATCH/err")"
	same "record in parts: modes" "$(find "$SCRATCH/own/parts" -printf '%y%m\n' | sort -u | paste -sd' ')" \
		"d700 f600"
fi
[ "$(id -u)" = 0 ] || finish

# ---- Another user's --------------------------------------------------------------------

# The owner of a target, and a user who owns nothing of it.
as_owner=(setpriv --reuid=65533 --regid=65533 --clear-groups --inh-caps=-all)
as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all)

# shut FOLDER WHO…: a command of this user follows and writes nothing there that is another user's
shut()
{
	local folder=$1 path command
	shift
	for command in $1; do
		for path in link far/secret pipe hard hardlink ${3-}; do
			"$2" "$command" "$folder/$path" && fail "$2 $command to $folder/$path: it is written to"
			grep -q 'where others may put one\|Permission denied' "$SCRATCH/err" ||
				fail "$2 $command to $folder/$path: $(cat "$SCRATCH/err")"
			same "lines of $2 $command to $folder/$path" "$(wc -l <"$SCRATCH/err")" 1
		done
	done
	for path in root.secret owner.secret; do
		same "$path after $2 in $folder" "$(cat "$SCRATCH/own/$path")" secret
	done
	same "the other's file after $2 in $folder" "$(cat "$folder/file")" theirs
}
owner_to()
{
	case $1 in
	export) "${as_owner[@]}" timeout "$TEST_SECONDS" "$PROBECTL" export -F csv -o "$2" - ;;
	report) "${as_owner[@]}" timeout "$TEST_SECONDS" "$PROBECTL" report --html "$2" - ;;
	esac <"$SCRATCH/hits" >"$SCRATCH/out" 2>"$SCRATCH/err"
}

chmod 644 "$SCRATCH/hits"
echo secret >"$SCRATCH/own/root.secret"
cp "$SCRATCH/own/root.secret" "$SCRATCH/own/owner.secret"
chown 65533 "$SCRATCH/own/owner.secret"
mkdir "$SCRATCH/own/empty"
ln -s root.secret "$SCRATCH/own/root.link" && ln -s owner.secret "$SCRATCH/own/owner.link"
chown -h 65533 "$SCRATCH/own/owner.link"
for kind in sticky loose group theirs; do
	for who in root owner; do
		folder=$SCRATCH/$kind.$who
		mkdir "$folder" || die "mkdir"
		case $kind in
		sticky) chmod 1777 "$folder" ;;
		loose) chmod 777 "$folder" ;;
		group) chgrp 65534 "$folder" && chmod 775 "$folder" ;;
		theirs) chown 65534 "$folder" ;;
		esac
		# shellcheck disable=SC2016 # the inner shell expands it
		"${as_other[@]}" sh -c 'umask 0; cd "$1" && ln -s "../own/$2.secret" link && mkdir far.d &&
			ln -s ../own far && ln -s "../own/$2.secret" far.d/secret && ln -s ../own/empty dirlink &&
			echo theirs >file && mkfifo pipe && mkdir folder.theirs' \
			sh "$folder" "$who" || die "the other cannot prepare $folder"
		ln "$SCRATCH/own/$who.secret" "$folder/hard" && ln -P "$SCRATCH/own/$who.link" "$folder/hardlink" ||
			die "ln"
		file='file'
		# The folder's owner may provide a file: the user has chosen that folder.
		[ "$kind" != theirs ] || file=far.d/secret
		if [ "$who" = root ]; then
			shut "$folder" "$commands" to "$file"
		else
			shut "$folder" "export report" owner_to "$file"
		fi
		rm "$folder/hard"
	done
	folder=$SCRATCH/$kind.root
	paths=(dirlink far/new)
	[ "$kind" = theirs ] || paths+=(folder.theirs)
	for path in "${paths[@]}"; do
		to record "$folder/$path" && fail "record to $folder/$path: it is written to"
		grep -q 'where others may put one\|Permission denied' "$SCRATCH/err" ||
			fail "record to $folder/$path: $(cat "$SCRATCH/err")"
		same "record to $folder/$path: files" "$(find "$folder/$path/" -type f 2>/dev/null | grep -vc secret)" 0
	done
	to record "$folder/mine" || fail "record to $folder/mine: $(cat "$SCRATCH/err")"
done

# ---- Another user's pipe takes the place of a record's file, while it is written --------------

rec=$SCRATCH/theirs.root/folder.theirs
timeout -k 1 "$TEST_SECONDS" "$PROBECTL" record -q -o "$rec" -p "$target_pid" 'loop:pair*' \
	>"$SCRATCH/out" 2>"$SCRATCH/rec.err" &
recorder=$!
until [ -n "$(find "$rec" -name 'stream_*' -size +0)" ]; do
	pause
done
# shellcheck disable=SC2016 # expanded by that shell
"${as_other[@]}" sh -c 'cd "$1" && for file in stream_*; do mv "$file" "was.$file" && mkfifo "$file"; done' \
	sh "$rec" || die "the other cannot change $rec"
wait "$recorder"
same "status of a record whose file is a pipe now" "$?" 1
says rec 'cannot open stream_.*\(No such device\|Stale\)'

# ---- A flight recorder's file, which the target creates --------------------------------------

shm=$(mktemp -d /dev/shm/probectl-test.XXXXXX) || finish
on_exit "rm -rf '$shm'"
mkdir "$shm/own" "$shm/loose"
chmod 777 "$shm/loose"
chmod 755 "$shm"
chown 65533 "$shm/own"
"${as_other[@]}" ln -s ../own "$shm/loose/far"
"${as_owner[@]}" ln -s ../own "$shm/loose/mine"
"${as_owner[@]}" "$TARGETS/loop" -s pair -p 3000 -n 1000000000 -r 1 >/dev/null 2>&1 &
owned=$!
on_exit "end_process $owned"
for _ in {1..200}; do
	[ "$(readlink "/proc/$owned/exe")" != "$TARGETS/loop" ] || break
	sleep 0.05
done
save_state "$owned"
flight()
{
	"$PROBECTL" enable -q -t ring -b 128k --file "$1/%p.probectl" -p "$owned" 'loop:pair*' 2>"$SCRATCH/err"
}
if flight "$shm/loose/mine"; then
	same "mode of the flight recorder's file" "$(stat -c '%a %u' "$shm/own/$owned.probectl")" "400 65533"
	"$PROBECTL" disable -q -p "$owned" 'loop:pair*' || fail "disable: status $?"
	flight "$shm/loose/far" && fail "a flight recorder by another user's link"
	grep -q "another user's link" "$SCRATCH/err" || fail "the message: $(cat "$SCRATCH/err")"
	same "files" "$(find "$shm" -type f)" ""
	same_state "$owned"
else
	grep -q 'file system\|tmpfs' "$SCRATCH/err" || fail "a flight recorder: $(cat "$SCRATCH/err")"
fi
check_alive "$target_pid"
finish
