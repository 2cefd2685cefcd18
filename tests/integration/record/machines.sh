#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Records are read on any machine: `export` and `report` print the same of each as they printed on the
# machine that made it. tests/golden/records/MACHINE.tar has records, NAME, and what was printed of
# them there, NAME.json and so on. PROBE_GOLDEN=write makes those of the machine that this runs on.
. tests/integration/lib.sh

golden=$PWD/tests/golden/records
names=(naps values)

# made NAME ARGS…: a record, without the names of the machine and its kernel
made()
{
	"$PROBECTL" record -q -o "$@" <<<$'\n\n' >/dev/null || die "record $1: status $?"
	sed -E -i 's/((hostname|release) = )"[^"]*"/\1"machine"/' "$1/metadata"
}

# printed TO: what is printed of the records in this folder
printed()
{
	local name
	for name in "${names[@]}"; do
		"$PROBECTL" export -F json "$name" >"$1/$name.json" &&
			"$PROBECTL" export -F csv "$name" >"$1/$name.csv" &&
			"$PROBECTL" export -F folded --count "$name" >"$1/$name.folded" &&
			"$PROBECTL" report --json --pairs "$name" >"$1/$name.report" ||
			fail "$PWD/$name: status $?"
	done
}

if [ "${PROBE_GOLDEN-}" = write ]; then
	mkdir "$SCRATCH/new"
	cd "$SCRATCH/new" || die "no folder"
	made naps --stack 'naps:*' -- "$TARGETS/naps" 10
	made values --stack=frames -s 32 'values:*' -- "$TARGETS/values" 5
	printed .
	[ "$failures" != 0 ] || tar -cf "$golden/$(uname -m).tar" --owner=0 --group=0 -- * ||
		die "tar: status $?"
	finish
fi

for archive in "$golden"/*.tar; do
	machine=$(basename "$archive" .tar)
	mkdir "$SCRATCH/$machine" "$SCRATCH/here"
	cd "$SCRATCH/$machine" && tar -xf "$archive" || die "$archive: status $?"
	printed ../here
	for name in "${names[@]}"; do
		[ -s "$name.json" ] || fail "$machine: there is no $name"
	done
	for file in ../here/*; do
		cmp -s "$file" "${file##*/}" ||
			fail "$machine: ${file##*/}: $(diff "${file##*/}" "$file" | head -4)"
	done
	rm -r ../here
done
finish
