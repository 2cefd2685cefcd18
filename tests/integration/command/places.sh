#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
# Where output goes: in a folder like /tmp, files and links that another user has put there are
# neither followed nor written; one's own are.
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
	export) timeout $((20 * slower)) "$PROBECTL" export -F csv -o "$2" - <"$SCRATCH/hits" ;;
	report) timeout $((20 * slower)) "$PROBECTL" report --html "$2" - <"$SCRATCH/hits" ;;
	trace) timeout $((20 * slower)) "$PROBECTL" trace -q -n 5 -o "$2" -p "$target_pid" 'loop:pair*' ;;
	record) timeout $((20 * slower)) "$PROBECTL" record -q -n 5 -o "$2" -p "$target_pid" 'loop:pair*' ;;
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

# ---- Another user's --------------------------------------------------------------------

if [ "$(id -u)" = 0 ]; then
	as_other=(setpriv --reuid=nobody --regid=nogroup --clear-groups --inh-caps=-all)
	echo secret >"$SCRATCH/own/secret"
	mkdir "$SCRATCH/own/empty"
	# shellcheck disable=SC2016 # expanded by that shell
	"${as_other[@]}" sh -c 'umask 0; cd "$1" && ln -s ../own/secret link && ln -s ../own far &&
		ln -s ../own/empty dirlink && echo theirs >file && mkfifo pipe && mkdir folder.theirs' \
		sh "$open" || die "nobody cannot prepare the folder"
	ln "$SCRATCH/own/secret" "$open/hard"
	for command in $commands; do
		for path in link far/secret file pipe hard; do
			to "$command" "$open/$path" && fail "$command to $path: it is written to"
			grep -q 'where everybody may put one\|Permission denied' "$SCRATCH/err" ||
				fail "$command to $path: $(cat "$SCRATCH/err")"
			same "lines of $command to $path" "$(wc -l <"$SCRATCH/err")" 1
		done
		same "$command: the secret" "$(cat "$SCRATCH/own/secret")" secret
		same "$command: the other's file" "$(cat "$open/file")" theirs
	done
	for path in dirlink folder.theirs far/new; do
		to record "$open/$path" && fail "record to $path: it is written to"
		grep -q 'where everybody may put one\|Permission denied' "$SCRATCH/err" ||
			fail "record to $path: $(cat "$SCRATCH/err")"
		same "record to $path: files" "$(find "$open/$path/" -type f 2>/dev/null | wc -l)" 0
	done
	to record "$open/mine" || fail "record: $(cat "$SCRATCH/err")"
fi
finish
