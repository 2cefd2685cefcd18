#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: both
#
# Programs built in every way, in mount namespaces and roots of their own: mapped files are read
# as the target sees them, and what cannot be patched is refused with the reason.
. tests/integration/lib.sh
need_attach

# build NAME COMPILER FLAGS…: world.c becomes $SCRATCH/NAME; false if that is impossible
build()
{
	local name=$1 compiler=$2
	shift 2
	"$compiler" -O2 -g -D_GNU_SOURCE -o "$SCRATCH/$name" tests/targets/processes/world.c "$@" \
		2>"$SCRATCH/build.err" && return
	echo "note: not built: $name: $(grep -m 1 -i -E 'error|cannot|not found' "$SCRATCH/build.err")"
	return 1
}


# traced WHAT PID WHO: 5 of its hits are seen, and it is as before
traced()
{
	save_state "$2"
	trace_start world --json -p "$2" world:hit
	wait_tracing world
	ask "hit 5"
	trace_stop world
	same "$1: the target" "$answer" "hits 5"
	same "$1: hits" "$(grep -c "\"args\":\\[.,$3\\]" "$SCRATCH/world.out")" 5
	same_state "$2"
	ask "hit 2"
	same "$1: the target afterwards" "$answer" "hits 2"
}

# refused WHAT PID REASON: nothing changes, and the reason is given
refused()
{
	local command maps
	maps=$(cat "/proc/$2/maps")
	for command in enable trace; do
		"$PROBECTL" $command -p "$2" world:hit >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
		same "$1: $command" "$?" 1
		grep -q "^probectl: .*$3" "$SCRATCH/err" || fail "$1: $command: no reason: $(cat "$SCRATCH/err")"
	done
	same "$1: mappings" "$(cat "/proc/$2/maps")" "$maps"
	ask "hit 5"
	same "$1: the target" "$answer" "hits 5"
}

quit()
{
	tell quit
	end_target 0
}

# ---- Linkers and libraries -----------------------------------------------------------

# made NAME COMPILER FLAGS…: traced both attached and started
made()
{
	build "$@" || return
	start "$SCRATCH/$1"
	traced "$1" "$target_pid" 1
	quit
	printf 'hit 3\nresolved\n' | "$PROBECTL" trace -q --json -o "$SCRATCH/started.out" \
		'world:*' -- "$SCRATCH/$1" \
		>"$SCRATCH/stdout" 2>"$SCRATCH/err" || fail "$1: started: status $?: $(head -3 "$SCRATCH/err")"
	same "$1: hits of the one that was started" "$(grep -c '"args":\[.,1\]' "$SCRATCH/started.out")" 3
	same "$1: hits before its main()" "$(grep -c '"name":"resolve"' "$SCRATCH/started.out")" \
		"$(sed -n 's/^resolved //p' "$SCRATCH/stdout")"
}

for linker in bfd gold lld mold; do
	made $linker-pie gcc -fuse-ld=$linker -fPIE -pie
	made $linker-nopie gcc -fuse-ld=$linker -no-pie
done
made bfd-static gcc -static
made lld-static gcc -fuse-ld=lld -static
made mold-static-clang clang -fuse-ld=mold -static
made static-pie gcc -static-pie
made one-segment gcc -Wl,-z,noseparate-code
headers="-idirafter /usr/include/$(gcc -dumpmachine)"
# shellcheck disable=SC2086 # two words
made musl musl-gcc $headers
# shellcheck disable=SC2086
made musl-static-pie musl-gcc $headers -static-pie
# It has no handler, and so no code to return from one.
# shellcheck disable=SC2086
if build musl-static musl-gcc $headers -static; then
	start "$SCRATCH/musl-static"
	reason='no rt_sigreturn'
	# There that is the kernel's, but nothing sets the stack pointer as it has to be.
	[ "$(uname -m)" != aarch64 ] || reason='no end of a function'
	refused musl-static "$target_pid" "$reason"
	quit
fi

# What was started is found when its loader is older than glibc 2.34.
same "an old loader: hits" "$("$PROBECTL" trace -q -c old_loader:turn -- "$TARGETS/old_loader" |
	sed -n 's/^old_loader:turn *//p')" 3

# ---- Another processor, or none at all -------------------------------------------------

# shellcheck disable=SC2086
if build 32bit gcc -m32 $headers -idirafter "/usr/include/$(gcc -print-multiarch)"; then
	same "32 bits: list" "$("$PROBECTL" list "$SCRATCH/32bit" world:hit | grep -c world:hit)" 1
	"$SCRATCH/32bit" </dev/null >/dev/null 2>&1
	runs=$?
fi
# A kernel may have no way to run it (CONFIG_IA32_EMULATION): status 126.
if [ "${runs=none}" = 126 ]; then
	echo "note: this kernel runs no programs of 32 bits"
elif [ "$runs" != none ]; then
	start "$SCRATCH/32bit"
	same "32 bits: list -p" "$("$PROBECTL" list -p "$target_pid" world:hit | grep -c world:hit)" 1
	refused "32 bits" "$target_pid" 32-bit
	quit
	for command in trace run; do
		"$PROBECTL" $command -e world:hit -- "$SCRATCH/32bit" </dev/null >"$SCRATCH/stdout" 2>"$SCRATCH/err"
		same "32 bits: $command" "$?" 1
		grep -q '32-bit' "$SCRATCH/err" || fail "32 bits: $command: no reason: $(cat "$SCRATCH/err")"
	done
	# Nobody has started it for us.
	trace_start come --follow --exe "$SCRATCH/32bit" world:hit
	wait_tracing come
	start "$SCRATCH/32bit"
	until grep -q 'is not traced: .*32-bit' "$SCRATCH/come.err"; do
		pause
	done
	says come 'is not traced: .*32-bit'
	quit
	trace_stop come
fi
# A guest of an emulator that nobody knows: a file of another machine, mapped as its loader would do
# it. At the site there are two instructions of that machine, a nop and one that cannot be moved.
map_code='import mmap, sys
file = open(sys.argv[1], "rb")
code = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
print("ready", flush=True)
for line in sys.stdin:
    print(code[int(sys.argv[2]):][:16].hex(), flush=True)'
site=$(readelf -n "$SCRATCH/bfd-pie" 2>/dev/null | sed -n 's/.*Location: \(0x[0-9a-f]*\).*/\1/p' | head -1)
if command -v python3 >/dev/null && [ -n "$site" ]; then
	site=$((site))
	aligned=$(((site + 3) & ~3))
	cp "$SCRATCH/bfd-pie" "$SCRATCH/guest"
	python3 - "$SCRATCH/guest" "$site" "$aligned" <<-'END'
		import struct, sys
		path, site, aligned = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
		data = bytearray(open(path, "rb").read())
		machine, code = 183, struct.pack("<II", 0xd503201f, 0xd503245f)  # aarch64: nop; bti c
		if struct.unpack_from("<H", data, 18)[0] == machine:
		    machine, code = 62, bytes.fromhex("900f0590909090c3")  # x86-64: nop; syscall
		data[18:20] = struct.pack("<H", machine)
		note = data.rindex(b"stapsdt\0" + struct.pack("<Q", site)) + 8
		data[note:note + 8] = struct.pack("<Q", aligned)
		data[aligned:aligned + 8] = code
		open(path, "wb").write(data)
	END
	start python3 -c "$map_code" "$SCRATCH/guest" "$aligned"
	ask look
	before=$answer
	for command in enable trace; do
		timeout "$TEST_SECONDS" "$PROBECTL" $command -p "$target_pid" world:hit >"$SCRATCH/out" \
			2>"$SCRATCH/err" </dev/null
		same "a guest: $command" "$?" 1
		grep -q 'guest: it is code of another machine type' "$SCRATCH/err" ||
			fail "a guest: $command: no reason: $(cat "$SCRATCH/err")"
	done
	ask look
	same "a guest's code" "$answer" "$before"
	end_target 0
fi
for emulator in "valgrind -q --log-file=/dev/null" "qemu-$(uname -m)"; do
	read -ra words <<<"$emulator"
	if ! command -v "${words[0]}" >/dev/null; then
		echo "note: ${words[0]} is not installed"
		continue
	fi
	start "${words[@]}" "$SCRATCH/bfd-pie"
	refused "${words[0]}" "$target_pid" "executed by ${words[0]}"
	quit
done
if command -v valgrind >/dev/null; then
	start valgrind -q --log-file=/dev/null "$SCRATCH/bfd-static"
	refused "valgrind, static" "$target_pid" "executed by valgrind"
	quit
fi

# ---- Files that are not where they were ---------------------------------------------------

cp "$SCRATCH/bfd-pie" "$SCRATCH/deleted"
start "$SCRATCH/deleted"
rm "$SCRATCH/deleted"
traced deleted "$target_pid" 1
quit

# Another file has its name; its sites are elsewhere.
cp "$SCRATCH/bfd-pie" "$SCRATCH/replaced"
start "$SCRATCH/replaced"
build other gcc -O0 -DWHO=2 && mv "$SCRATCH/other" "$SCRATCH/replaced"
traced replaced "$target_pid" 1
quit

# ---- Namespaces and roots ------------------------------------------------------------------

# The same path, but another file inside.
mkdir "$SCRATCH/place" "$SCRATCH/inside"
cp "$SCRATCH/bfd-pie" "$SCRATCH/place/world"
build inside/world gcc -O0 -DWHO=2
ways=(unshare -rm)
[ "$(id -u)" != 0 ] || ways=(unshare -m)
inside()
{
	local what=$1 outer
	shift
	if ! "$@" true 2>"$SCRATCH/err"; then
		echo "note: $what is not allowed here: $(tail -1 "$SCRATCH/err")"
		return
	fi
	# shellcheck disable=SC2016 # expanded by that shell
	start "$@" sh -c 'mount --bind "$1/inside" "$1/place" && exec "$1/place/world"' sh "$SCRATCH"
	outer=$target_pid
	# The process that unshare has forked, if any.
	target_pid=$(cat "/proc/$outer/task/$outer/children")
	target_pid=${target_pid:-$outer}
	target_pid=${target_pid// /}
	same "$what: the program" "$(readlink "/proc/$target_pid/exe")" "$SCRATCH/place/world"
	traced "$what" "$target_pid" 2
	grep -q "\"pid\":$target_pid,\"tid\":$target_pid," "$SCRATCH/world.out" ||
		fail "$what: whose hits: $(head -1 "$SCRATCH/world.out")"
	grep -q '"comm":"world"' "$SCRATCH/world.out" || fail "$what: what is its name?"
	target_pid=$outer
	quit
}
inside "a mount namespace" "${ways[@]}"
inside "mount and pid namespaces" "${ways[@]}" -pf --kill-child
inside "mount, pid and user namespaces" unshare -rmpf --kill-child

# A controller in a container, with a /proc of its own, and one outside take turns.
if [ "$(id -u)" = 0 ] && unshare -mpf --mount-proc true 2>"$SCRATCH/err"; then
	start unshare -mpf --mount-proc --kill-child "$SCRATCH/bfd-pie"
	outer=$target_pid
	target_pid=$(cat "/proc/$outer/task/$outer/children")
	target_pid=${target_pid// /}
	save_state "$target_pid"
	hold_lock 1 nsenter -t "$target_pid" -m
	"$PROBECTL" enable -q -p "$target_pid" world:hit 2>"$SCRATCH/err" &
	waiting=$!
	on_exit "end_process $waiting"
	until grep -q . "$SCRATCH/err"; do
		kill -0 "$waiting" 2>/dev/null || break
		pause
	done
	same "a container's controller" "$(cat "$SCRATCH/err")" "probectl: warning: process $target_pid: \
process $holder_pid ($(<"/proc/$holder_pid/comm")) has locked its probes: waiting for it"
	same_state "$target_pid"
	end_process "$holder_pid"
	wait "$waiting" || fail "after the container's controller: $(cat "$SCRATCH/err")"
	"$PROBECTL" disable -q -p "$target_pid" world:hit || fail "disable"
	same_state "$target_pid"
	target_pid=$outer
	quit
fi

if [ "$(id -u)" = 0 ]; then
	mkdir -p "$SCRATCH/root/bin"
	cp "$SCRATCH/bfd-static" "$SCRATCH/root/bin/world"
	start chroot "$SCRATCH/root" /bin/world
	traced "a root of its own" "$target_pid" 1
	quit
	# Even if the file is not accessible through /proc/PID/map_files.
	start chroot "$SCRATCH/root" /bin/world
	save_state "$target_pid"
	setpriv --bounding-set=-sys_admin,-checkpoint_restore --inh-caps=-all "$PROBECTL" trace -n 2 \
		-p "$target_pid" world:hit >"$SCRATCH/less.out" 2>"$SCRATCH/less.err" &
	tracer_pid=$!
	wait_tracing less
	ask "hit 2"
	wait "$tracer_pid"
	same "without map_files" "$(grep -c 'world:hit' "$SCRATCH/less.out")" 2
	same_state "$target_pid"
	quit
fi

# ---- Memory that may not be executed ------------------------------------------------------------

# sealed WHAT COMMAND...: the command executes the program
sealed()
{
	local what=$1
	shift
	start "$@" "$SCRATCH/bfd-pie"
	outer=$target_pid
	target_pid=$(cat "/proc/$outer/task/$outer/children")
	target_pid=${target_pid:-$outer}
	target_pid=${target_pid// /}
	traced "$what" "$target_pid" 1
	target_pid=$outer
	quit
}
# No writable memory becomes executable (PR_SET_MDWE), also after execve(2).
sealed "PR_SET_MDWE" "$python" -c 'import ctypes, os, sys
ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])'
if [ "$(id -u)" = 0 ] && [ -e /proc/sys/vm/memfd_noexec ]; then
	for level in 1 2; do
		# shellcheck disable=SC2016 # expanded by that shell
		sealed "vm.memfd_noexec = $level" unshare -pf --kill-child sh -c \
			'echo "$1" >/proc/sys/vm/memfd_noexec && exec "$2"' sh $level
	done
fi

# ---- No /proc ----------------------------------------------------------------------------------

if [ "$(id -u)" = 0 ]; then
	for command in "status -p 1" "list -p 1" "trace -c -p 1 world:hit" \
		"trace -c world:hit -- $TARGETS/world"; do
		# shellcheck disable=SC2016 # expanded by that shell
		unshare -m sh -c 'umount -l /proc; probectl=$1; shift; exec "$probectl" $*' sh \
			"$PROBECTL" "$command" >"$SCRATCH/stdout" 2>"$SCRATCH/err" </dev/null
		same "$command without /proc: status" "$?" 1
		grep -q 'which must be mounted' "$SCRATCH/err" ||
			fail "$command without /proc: $(cat "$SCRATCH/err")"
	done
fi

# ---- Huge pages --------------------------------------------------------------------------------

if [ "$(id -u)" = 0 ]; then
	mkdir "$SCRATCH/huge"
	printf '.text\n.globl padding\npadding: .skip 6 << 20, 0x90\n.section .note.GNU-stack,"",@progbits\n' >"$SCRATCH/padding.s"
	if mount -t tmpfs -o huge=always none "$SCRATCH/huge" 2>"$SCRATCH/err"; then
		on_exit "umount '$SCRATCH/huge'"
		build huge/world gcc "$SCRATCH/padding.s" -Wl,-z,max-page-size=0x200000,-z,common-page-size=0x200000
		start "$SCRATCH/huge/world"
		"$python" -c '
import re, sys
text = open(f"/proc/{sys.argv[1]}/smaps").read()
sizes = [int(n) for n in re.findall(r"(?:ShmemPmdMapped|FilePmdMapped): +(\d+)", text)]
print("note: text on huge pages:", sum(sizes), "KiB")' "$target_pid"
		traced "huge pages" "$target_pid" 1
		quit
	else
		echo "note: no huge pages: $(cat "$SCRATCH/err")"
	fi
fi
finish
