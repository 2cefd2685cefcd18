#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Functions of a program at its own probes: what is tested of them everywhere, from files of this
# machine. Those of the sources are another's here, and a change copies what it reads of them.
. tests/integration/lib.sh

# Its Debian has no link of that name.
mkdir -p "$SCRATCH"/{bin,tests/targets,scratch}
ln -s "$(command -v gcc)" "$SCRATCH/bin/cc"
cp "$BUILD"/{libprobe.so,libprobe.so.[0-9],libprobe.a,probectl} "$SCRATCH"
cp "$TARGETS"/{libself_plugin,libctor_plugin,liblacking}.so "$SCRATCH/tests/targets"

# run NAME COMMAND…: one test, which may not be skipped
run()
{
	local name=$1 status=0
	shift
	"$@" >"$SCRATCH/log" 2>&1 || status=$?
	[ "$status" = 0 ] || fail "$name: status $status: $(cat "$SCRATCH/log")"
}

for name in calls order; do
	cp "$BUILD/tests/unit/self/test_self_$name" "$SCRATCH"
	run "$name" "$SCRATCH/test_self_$name"
done
run self.sh env "PATH=$SCRATCH/bin:$PATH" "BUILD=$SCRATCH" "PROBECTL=$SCRATCH/probectl" \
	"TARGETS=$SCRATCH/tests/targets" "SCRATCH=$SCRATCH/scratch" bash tests/integration/library/self.sh
finish
