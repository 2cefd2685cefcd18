#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Writes down how a build behaves, so that two builds can be compared with diff -r.
# usage: tests/freeze.sh BUILD FOLDER
#
# FOLDER gets help/ and errors/ (texts and status), json/ (of a program that does the same each
# time), record/ (the metadata and the bytes of a record), abi/ (abidw's description of libprobe.so)
# and documents/ (all that the commands in the documents print, sorted and without numbers: their
# rows depend on time).
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "$1") folder=$2
mkdir -p "$folder"/{help,errors,json,record,abi,documents}
folder=$(realpath "$folder")
probectl=$build/probectl targets=$build/tests/targets

# shellcheck disable=SC2016 # patterns of sed
same_each_time=(sed -E "s#$build#BUILD#g; s#$folder#FOLDER#g; s/process [0-9]+/process N/g; s/\"(ts|pid|tid|cpu|first|last)\":[0-9]+/\"\1\":N/g
	s/0x[0-9a-f]{6,}/0xN/g; s/[0-9a-f]{40}/BUILDID/g")

# kept NAME ARGS...: standard output, errors and status
kept()
{
	local name=$1 status=0
	shift
	timeout 60 "$probectl" "$@" >"$folder/$name.out" 2>"$folder/$name.err" </dev/null || status=$?
	echo "status $status" >>"$folder/$name.err"
	"${same_each_time[@]}" -i "$folder/$name.out" "$folder/$name.err"
}

# ---- Help and errors -----------------------------------------------------------------------

commands=$("$probectl" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -v help)
kept help/all --help
kept help/version --version
for command in $commands; do
	kept "help/$command" "$command" --help
	kept "errors/$command.nothing" "$command"
	kept "errors/$command.option" "$command" --no-such-option
	kept "errors/$command.pid" "$command" -p 999999999 a:b
	kept "errors/$command.word" "$command" -p x a:b
	kept "errors/$command.program" "$command" a:b -- /nonexistent/program
	kept "errors/$command.probe" "$command" 'no:such:thing:at:all'
	kept "errors/$command.file" "$command" /nonexistent/file
	for option in -d -i -k -f -t -o -b -s -n --match --pairs --every --rate --listen --otlp --rotate \
		--full --top --keys --format; do
		kept "errors/$command$option" "$command" "$option" '?' a:b
	done
done
kept errors/command nonsense
while read -r line; do
	n=$((${n-0} + 1))
	read -ra words <<<"$line"
	kept "errors/trace.$n" trace -q "${words[@]}" -- "$targets/args"
done <<'END'
args:nothing
args:* -k arg0
-t latency args:*
-t hist args:*
-t hist,arg99 args:*
-f arg0== args:*
-f arg0&&& args:*
-f str(arg0)>1 args:*
-c -k str(arg0 args:*
-t nonsense args:*
-t count -t count,x args:*
args:*(arg0,
args:*(str(arg99))
END

# ---- JSON and records ----------------------------------------------------------------------

kept json/list list --json "$targets/args"
kept json/list.text list "$targets/args"
kept json/list.long list -l "$targets/args"
kept json/hits trace -q --json 'args:*' -- "$targets/args"
kept json/text trace -q 'args:*' -- "$targets/args"
sed -i -E 's/[0-9]{2}:[0-9]{2}:[0-9.]+/TIME/; s/\b[0-9]{2,7}\b/N/g; s/ {2,}/ /g' "$folder/json/text.out"
kept json/count trace -q -c --json 'args:*' -- "$targets/args"
kept json/keys trace -q -t count -k arg0 --json 'args:*' -- "$targets/args"
kept json/hist trace -q -t hist,arg0 --json 'args:*' -- "$targets/args"
taskset -c 0 "$probectl" record -q -o "$folder/record/args.ctf" 'args:*' -- "$targets/args" >/dev/null 2>&1
babeltrace2 "$folder/record/args.ctf" | sed -E 's/^\[[^]]*\] \([^)]*\) [^ ]* //; s/[0-9]{3,}/N/g; s/0x[0-9A-F]+/0xN/g' \
	>"$folder/record/hits" 2>&1
"${same_each_time[@]}" -E "$(find "$folder/record/args.ctf" -name metadata | head -1)" |
	sed -E 's/[0-9a-f]{8}-[0-9a-f-]+/UUID/; s/= [0-9]{4,}/= N/' >"$folder/record/metadata"
find "$folder/record/args.ctf" -type f -printf '%P\n' | sort >"$folder/record/files"
for isa in x86_64 aarch64; do
	mkdir -p "$folder/record/$isa"
	tar -xf "tests/golden/records/$isa.tar" -C "$folder/record/$isa"
	while read -r metadata; do
		name=$(basename "$(dirname "$metadata")")
		kept "record/$isa.$name.report" report "$(dirname "$metadata")"
		kept "record/$isa.$name.json" report --json "$(dirname "$metadata")"
		for format in json csv folded trace-event; do
			kept "record/$isa.$name.$format" export --format $format "$(dirname "$metadata")"
		done
	done < <(find "$folder/record/$isa" -name metadata)
	rm -rf "$folder/record/$isa"
done
rm -rf "$folder/record/args.ctf"

# ---- The library, and the documents -----------------------------------------------------------

for library in libprobe libprobe_events libprobe_pmtrace; do
	abidw --no-corpus-path --no-comp-dir-path --no-show-locs --headers-dir libprobe/include \
		--drop-private-types "$build/$library.so" >"$folder/abi/$library.xml" || true
done
[ -z "${DOCUMENTS-1}" ] || {
	PROBE_TEST_KEEP=$folder/documents/all tests/run.sh -b "$build" examples_documents.sh \
		examples_manual.sh one_liners.sh one_liners_postgres.sh tutorial.sh >"$folder/documents/tests" || true
	sed -E 's#/tmp/[^ "]*#PATH#g; s/0x[0-9a-f]+/X/g; s/-?[0-9]+(\.[0-9]+)?/N/g; s/N[mun]s|Ns\b/T/g; s/[ #*-]+/ /g' \
		"$folder/documents/all" | sort -u >"$folder/documents/lines"
	rm -f "$folder/documents/all" "$folder/documents/tests"
}
