#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# `probectl list`: the same probes as readelf(1) in real files, invalid input, exit statuses,
# running processes, the system.
. tests/integration/lib.sh
need jq readelf

python_file=/usr/bin/python3.11
jvm_17=$(realpath /usr/lib/jvm/java-17-openjdk-*/lib/server/libjvm.so 2>/dev/null | head -1)

# ---- Real files: NAME SITES FILE -------------------------------------------------

# From readelf's notes: provider name pc base semaphore|arguments
readelf_notes()
{
	readelf -n "$1" 2>/dev/null | awk '
		function hex(text) {
			sub(/^0x0*/, "", text)
			sub(/,$/, "", text)
			return "0x" (text == "" ? "0" : text)
		}
		$1 == "Provider:" { provider = $2 }
		$1 == "Name:" { name = $2 }
		$1 == "Location:" { pc = hex($2); base = hex($4); semaphore = hex($6) }
		$1 == "Arguments:" {
			sub(/^ *Arguments: */, "")
			print provider, name, pc, base, semaphore "|" $0
		}'
}

# The same from probectl, with pc and semaphore as in the notes: undoes the correction for
# prelink. The base is the section's current address.
probectl_notes()
{
	local base
	base=0x$(readelf -WS "$1" 2>/dev/null | sed -n 's/.* \.stapsdt\.base *[A-Z]* *\([0-9a-f]*\).*/\1/p')
	"$PROBECTL" list --json "$1" |
		jq -r '[.provider, .name, .pc, .base, .semaphore] + [.args_spec] |
			"\(.[0]) \(.[1]) \(.[2]) \(.[3]) \(.[4])|\(.[5])"' |
		while IFS='|' read -r start args; do
			# shellcheck disable=SC2086 # five words
			set -- $start
			if [ "$base" = 0x ] || [ $((base)) = 0 ] || [ $(($4)) = 0 ]; then
				echo "$start|$args"
				continue
			fi
			printf '%s %s 0x%x %s 0x%x|%s\n' "$1" "$2" $(($3 - base + $4)) "$4" \
				$(($5 ? $5 - base + $4 : 0)) "$args"
		done
}

# check_file SITES FILE; SITES is 0 if the number depends on the build
check_file()
{
	local count

	[ -r "$2" ] || {
		echo "not installed: $2"
		return
	}
	readelf_notes "$2" >"$SCRATCH/wanted"
	probectl_notes "$2" >"$SCRATCH/got"
	diff "$SCRATCH/wanted" "$SCRATCH/got" >"$SCRATCH/diff" ||
		fail "$2 differs from readelf: $(head -4 "$SCRATCH/diff")"
	count=$(wc -l <"$SCRATCH/got")
	[ "$1" = 0 ] || same "sites of $2" "$count" "$1"
	# The table counts as many sites, and -v shows each one.
	same "sites in the table of $2" \
		"$("$PROBECTL" list "$2" | awk 'NR > 1 { sum += $2 } END { print sum + 0 }')" "$count"
	same "sites with -v of $2" "$("$PROBECTL" list -v "$2" | grep -c '^    0x')" "$count"
	# Every argument is parsed as one, whatever its operand looks like.
	"$PROBECTL" list --json "$2" | jq -e -s '
		all(.[]; (.args | length) == (.args_spec | gsub("\\[[^]]*\\]"; "") |
			[scan("[^ ]+")] | length)
			and all(.args[]; .size > 0 and (.spec | length) > 0))' >/dev/null ||
		fail "arguments of $2"
	echo "$count sites: $2"
}

check_file 531 "${jvm_17:-/usr/lib/jvm/java-17/libjvm.so}"
check_file 71 /usr/lib/postgresql/15/bin/postgres
# The build for aarch64 has one ruby:cmethod__return less, and PHP without probes.
ruby_sites=40 php_sites=14
[ "$(uname -m)" = x86_64 ] || ruby_sites=39 php_sites=0
check_file "$ruby_sites" "$(realpath /usr/lib/*/libruby-3.1.so.3.1 2>/dev/null | head -1)"
check_file 8 "$python_file"
check_file "$php_sites" /usr/bin/php8.2
check_file 3 "$(realpath /usr/lib/*-linux-gnu/libstdc++.so.6 2>/dev/null | head -1)"
check_file 32 /usr/bin/stap
# Installations have several names.
realpath -q /usr/lib/jvm/*/lib/server/libjvm.so /usr/lib/*-linux-gnu/libc.so.6 | sort -u >"$SCRATCH/files"
while read -r file; do
	check_file 0 "$file"
done <"$SCRATCH/files"

# ---- The command line -------------------------------------------------------------

# run STATUS ARGS…: output goes to $out, messages to $err
run()
{
	local status wanted=$1
	shift
	"$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	status=$?
	same "status of probectl $*" "$status" "$wanted"
	out=$(cat "$SCRATCH/out")
	err=$(cat "$SCRATCH/err")
	[ -z "$err" ] || [ -z "$(grep -v '^probectl: ' "$SCRATCH/err")" ] ||
		fail "probectl $*: a message that does not begin with 'probectl: ': $err"
}

# says TEXT: the only line on standard error
says()
{
	same "message" "$err" "probectl: $1"
}

run 2
says "a command is missing ('probectl --help' lists the commands)"
run 2 lsit
says "there is no command 'lsit'; the nearest is 'list' ('probectl --help' lists the commands)"
run 2 frobnicate
says "there is no command 'frobnicate' ('probectl --help' lists the commands)"
run 2 -p 1 list
says "there is no option '-p' before the command: probectl COMMAND [OPTIONS] ('probectl --help' lists the commands)"
run 2 help lsit
run 2 list --nosuch
says "unknown option '--nosuch' (see 'probectl list --help')"
run 2 list -p
run 2 list -p 12x
run 2 list -e 'a:b('
run 2 list -- /bin/true
run 0 --help
same "synopsis" "${out%%$'\n'*}" \
	"usage: probectl COMMAND [OPTIONS] [-p PID | -- PROGRAM ARGS...] [PROBE...]"
run 0 list --help
help=$out
run 0 help help
same "synopsis" "${out%%$'\n'*}" \
	"usage: probectl COMMAND [OPTIONS] [-p PID | -- PROGRAM ARGS...] [PROBE...]"
run 0 help list
same "help list" "$out" "$help"
run 0 --version
[[ $out =~ ^probectl\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "version: $out"

# ---- Files that are not ELF ----------------------------------------------------------

run 1 list "$SCRATCH/nosuch"
says "$SCRATCH/nosuch: there is no such file"
same "output" "$out" ""
run 1 list "$SCRATCH"
says "$SCRATCH: is a directory, not an ELF file"
run 1 list /etc/passwd
says "/etc/passwd: not an ELF file"
head -c 40 "$PROBECTL" >"$SCRATCH/short"
run 1 list "$SCRATCH/short"
printf '%s\n' "$err" | grep -q "^probectl: $SCRATCH/short: " || fail "truncated header: $err"
if [ "$(id -u)" != 0 ]; then
	cp /bin/true "$SCRATCH/secret"
	chmod 0 "$SCRATCH/secret"
	run 1 list "$SCRATCH/secret"
	says "$SCRATCH/secret: not allowed to read this file"
fi
run 0 list "$PROBECTL"
says "there are no probes in $PROBECTL"
run 0 list --json "$PROBECTL"
same "output" "$out$err" ""

# A program without probes, and a library that it needs, with some.
if echo 'int main() { throw 1; }' | c++ -x c++ -o "$SCRATCH/thrower" - 2>/dev/null; then
	library=$(ldd "$SCRATCH/thrower" | sed -n 's/.*libstdc++.so.6 => \([^ ]*\).*/\1/p')
	if "$PROBECTL" list "$library" 2>/dev/null | grep -q libstdcxx:throw; then
		run 0 list "$SCRATCH/thrower"
		[[ $err == "probectl: there are no probes in $SCRATCH/thrower; libraries that it needs have some ("*libstdc++.so.6*"): \`probectl list -p PID\` shows those of a process" ]] ||
			fail "needed libraries: $err"
	fi
	# Names in the file may be any text.
	sed 's/libstdc++.so.6/..\/..\/..\/*.so6/' "$SCRATCH/thrower" >"$SCRATCH/odd"
	run 0 list "$SCRATCH/odd"
	[[ $err == "probectl: there are no probes in $SCRATCH/odd"* && $err != *stdc++* ]] || fail "odd names: $err"
fi

# Functions of C++, as they were written.
run 0 list -v "$TARGETS/throw" cxx:enter
[[ $out == *' thrower(int)+0x'* ]] || fail "C++: $out"
run 0 list --json -v "$TARGETS/throw" cxx:enter
[[ $out == *'"function":"thrower(int)"'* ]] || fail "C++ as JSON: $out"

if [ -r "$python_file" ]; then
	# One bad file does not hide a good one.
	run 1 list "$SCRATCH/nosuch" "$python_file" line
	printf '%s\n' "$out" | grep -q '^python:line ' || fail "the good file is missing: $out"
	# Cut in the middle: the section headers are missing.
	head -c 3000000 "$python_file" >"$SCRATCH/cut"
	run 1 list "$SCRATCH/cut"
	printf '%s\n' "$err" | grep -q 'the file ends before its section headers' ||
		fail "a file cut short: $err"
	# One note claims to be shorter than its addresses; the others are good.
	"$python" - "$python_file" "$SCRATCH/damaged" <<-'END'
		import sys
		data = bytearray(open(sys.argv[1], "rb").read())
		at = data.index(b"\3\0\0\0stapsdt\0")
		data[at - 4:at] = b"\20\0\0\0"
		open(sys.argv[2], "wb").write(data)
	END
	run 0 list --json "$SCRATCH/damaged"
	same "sites of a damaged file" "$(printf '%s\n' "$out" | wc -l)" 7
	same "messages that are no warnings" "$(printf '%s\n' "$err" |
		grep -cv "^probectl: warning: $SCRATCH/damaged: offset 0x[0-9a-f]*: the note")" 0

	# ---- PROBEs -------------------------------------------------------------------

	run 0 list "$python_file" 'python:function-*' -e 'gc__start'
	same "probes" "$(printf '%s\n' "$out" | awk 'NR > 1 { print $1 }' | paste -sd' ')" \
		"python:function__entry python:function__return python:gc__start"
	run 0 list "$python_file" '/^python:(line|audit)$/'
	same "probes" "$(printf '%s\n' "$out" | awk 'NR > 1 { print $1 }' | paste -sd' ')" \
		"python:audit python:line"
	run 1 list "$python_file" python:line python:functoin__entry
	says "no probe matches 'python:functoin__entry' in $python_file; the nearest:\
 python:function__entry, python:function__return"
	printf '%s\n' "$out" | grep -q '^python:line ' || fail "what matches is missing: $out"
	run 0 list "$python_file:line"
	same "probes" "$(printf '%s\n' "$out" | awk 'NR > 1 { print $1 }')" python:line

	# ---- Readers that leave -----------------------------------------------------------

	same "the first line" "$("$PROBECTL" list --json "${jvm_17:-$python_file}" 2>"$SCRATCH/err" |
		head -1 | jq -r .provider | sed 's/hotspot/python/')" python
	same "messages after head -1" "$(cat "$SCRATCH/err")" ""
	same "messages with SIGPIPE ignored" \
		"$({ (trap '' PIPE; sleep 0.1; "$PROBECTL" list --json "${jvm_17:-$python_file}") |
			true; } 2>&1)" ""
	if [ -w /dev/full ]; then
		"$PROBECTL" list "$python_file" >/dev/full 2>"$SCRATCH/err"
		same "status with a full disk" $? 1
		same "message" "$(cat "$SCRATCH/err")" \
			"probectl: cannot write the output: No space left on device"
	fi
	# Names with any bytes, in valid JSON and without control characters in text.
	cp "$python_file" "$SCRATCH/$(printf 'odd\377\033[31m')"
	run 0 list --json "$SCRATCH"/odd*
	printf '%s\n' "$out" | jq -e -s 'length == 8 and all(.[]; .path | contains("\ufffd"))' \
		>/dev/null || fail "JSON of an odd name"
	run 0 list "$SCRATCH"/odd*
	same "an odd name" "$(printf '%s\n' "$out" | grep -c 'odd\\377\\033\[31m$')" 8
fi

# ---- Processes ----------------------------------------------------------------------------

run 1 list -p 2147483647
says "there is no process 2147483647"
if [ "$(id -u)" != 0 ]; then
	run 1 list -p 1
	[[ $err == *"process 1: it "*"root"* ]] || fail "not our process: $err"
fi
sleep 0 &
zombie=$!
sleep 0.2
run 1 list -p $zombie
[[ $err == *"it has exited"* || $err == *"there is no process"* ]] || fail "a zombie: $err"

if [ -x "$python_file" ]; then
	start "$python_file" -c 'print("ready", flush=True); input()'
	run 0 list --json -p "$target_pid"
	printf '%s\n' "$out" | jq -c 'select(.provider == "python") |
		del(.pid, .address, .enabled, .refcount)' >"$SCRATCH/got"
	"$PROBECTL" list --json "$python_file" >"$SCRATCH/wanted"
	diff "$SCRATCH/wanted" "$SCRATCH/got" >"$SCRATCH/diff" ||
		fail "the process differs from its file: $(head -4 "$SCRATCH/diff")"
	printf '%s\n' "$out" | jq -e -s --argjson pid "$target_pid" 'all(.[]; .pid == $pid and
		(.enabled | type) == "boolean" and .refcount >= 0)' >/dev/null || fail "state: $out"
	# Not position-independent: addresses are the file's.
	printf '%s\n' "$out" | jq -e -s 'all(.[] | select(.provider == "python"); .address == .pc)' \
		>/dev/null || fail "addresses: $out"
	run 0 list -p "$target_pid" line
	same "the table" "$(printf '%s\n' "$out" | tr -s ' ' | sed 1d)" \
		"python:line 1 off u64 u64 s32 yes $python_file"
	run 0 list -p "$target_pid,$$" -p "$target_pid" python:line
	same "several" "$(printf '%s\n' "$out" | awk '{ print $1 }' | paste -sd' ')" "PID $target_pid"
	run 2 list -p "$target_pid" "$python_file"
	run 1 list -p "$target_pid" python:lime
	[[ $err == *"in process $target_pid; the nearest: python:line"* ]] || fail "$err"
	check_alive "$target_pid"
	tell ''
	end_target
fi

# ---- The system ----------------------------------------------------------------------------

run 0 list
if [ -r "$python_file" ]; then
	same "probes of Python" "$(printf '%s\n' "$out" | grep -c " $python_file\$")" 8
fi
same "modules listed twice" \
	"$(printf '%s\n' "$out" | awk 'NR > 1 { print $1, $NF }' | sort | uniq -d | head -3)" ""

# ---- Memory ---------------------------------------------------------------------------------

# A sanitizer or a profiler takes memory of its own. `make bench` measures the time.
if [ -n "$jvm_17" ] && ! grep -qE '__(asan|tsan|ubsan|gcov)_' "$PROBECTL"; then
	# Peak memory, measured while it waits for a reader with all lists in memory.
	mkfifo "$SCRATCH/fifo"
	"$PROBECTL" list --json "$jvm_17" >"$SCRATCH/fifo" &
	pid=$!
	exec {reader}<"$SCRATCH/fifo"
	sleep 0.5
	peak=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")
	exec {reader}<&-
	wait "$pid"
	echo "memory: $peak KiB"
	[ "${peak:-0}" -gt 0 ] && [ "$peak" -lt 10240 ] || fail "list needs $peak KiB"
fi
# ---- On a terminal ----------------------------------------------------------------------------

# A line says how far reading is, where there are many files; it is erased. Into a file, it is not
# written.
if command -v script >/dev/null; then
	# As many as a command may have: a quick machine reads thousands before it says anything.
	many="\$(yes ./loop | head -n 100000)"
	script -qec "cd '$TARGETS' && '$PROBECTL' list $many" /dev/null >"$SCRATCH/tty.out" </dev/null ||
		fail "list on a terminal"
	grep -qaE $'probectl: [0-9]+ of 100000 files read\e\\[K\r' "$SCRATCH/tty.out" ||
		fail "no progress"
	grep -qaF $'files read\e[K\r\e[KPROBE ' "$SCRATCH/tty.out" || fail "the progress stays"
	(cd "$TARGETS" && eval "\"\$PROBECTL\" list $many") 2>"$SCRATCH/err" >"$SCRATCH/out" || fail "list of many files"
	same "errors" "$(cat "$SCRATCH/err")" ""
fi
# Plans of a file for another machine (e_machine: AArch64, or x86-64) are not for this one.
cp "$TARGETS/ctor" "$SCRATCH/other"
other=aarch64 number='\267'
if [ "$(uname -m)" = aarch64 ]; then
	other=x86-64 number='\76'
fi
printf "$number" | dd of="$SCRATCH/other" bs=1 seek=18 conv=notrunc status=none
for file in "$SCRATCH/other" "$TARGETS/ctor"; do
	"$PROBECTL" list -vv "$file" ctor:main >/dev/null 2>"$SCRATCH/${file##*/}.err" ||
		fail "list -vv $file: status $?"
done
same "another machine's sites" "$(cat "$SCRATCH/other.err")" \
	"probectl: 1 site is for another machine ($other): the plans are those there, and none can be switched on here"
same "sites of this machine" "$(cat "$SCRATCH/ctor.err")" ""
finish
