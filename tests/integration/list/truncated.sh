#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: user, and root in check-all
# A file that is truncated, or changes, while probectl reads it: the result is an error or a
# list, and no signal kills probectl.
. tests/integration/lib.sh

# Maps the file as a library would be, and then repeatedly truncates it, or overwrites single
# bytes, and restores everything.
spoil()
{
	cp "$TARGETS/many" "$SCRATCH/many" || die "cannot copy a program with probes"
	"$python" - "$1" "$SCRATCH/many" <<'PYTHON' &
import mmap, os, random, sys, time
what, path = sys.argv[1:]
fd = os.open(path, os.O_RDWR)
content = os.pread(fd, os.fstat(fd).st_size, 0)
mapped = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
chance = random.Random(1)
print("ready", file=open(path + ".ready", "w"))
while True:
    if what == "cut":
        os.ftruncate(fd, chance.choice((0, 64, 4096, len(content) // 2, len(content) - 1)))
    else:
        for _ in range(50):
            os.pwrite(fd, bytes([chance.randrange(256)]), chance.randrange(len(content)))
    time.sleep(chance.random() / 1000)
    os.pwrite(fd, content, 0)
    time.sleep(chance.random() / 500)
PYTHON
	spoiler=$!
	on_exit "end_process $spoiler"
	until [ -s "$SCRATCH/many.ready" ]; do
		kill -0 "$spoiler" 2>/dev/null || die "the file cannot be spoilt"
		sleep 0.05
	done
	rm "$SCRATCH/many.ready"
}

# survives COMMAND...: ends by itself, and says why if it fails
survives()
{
	local status
	timeout "$TEST_SECONDS" "$PROBECTL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	status=$?
	[ "$status" -le 1 ] || fail "$what: $*: status $status: $(tail -1 "$SCRATCH/err")"
	[ "$status" = 0 ] || [ -s "$SCRATCH/err" ] || fail "$what: $*: fails without a word"
}

rounds=4
! in_all || rounds=15
for what in cut change; do
	spoil "$what"
	for ((round = 0; round < rounds; round++)); do
		for details in "" -v -vv; do
			# shellcheck disable=SC2086 # nothing, or one word
			survives list $details "$SCRATCH/many"
			# shellcheck disable=SC2086
			survives list $details -p "$spoiler"
		done
		survives status -p "$spoiler"
		survives enable -p "$spoiler" 'many:*'
		survives disable --force -p "$spoiler" 'many:*'
	done
	kill -0 "$spoiler" 2>/dev/null || fail "$what: the process that has it mapped has ended"
	end_process "$spoiler"
done
finish
