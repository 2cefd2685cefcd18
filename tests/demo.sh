#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `make demo`: the functions that a small Python program calls, each with its
# file and line, from the probe python:function__entry in Debian's python3.11.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
python=/usr/bin/python3.11

[ -x "$python" ] || {
	echo "demo: $python is not installed; \`make deps demo\` does it" >&2
	exit 1
}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/probectl-demo.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

cat >"$scratch/shop.py" <<'PYTHON'
def price(item):
    return len(item) * 10


def total(basket):
    return sum(price(item) for item in basket)


print("total:", total(["apple", "fig", "pear"]))
PYTHON

# Nothing is imported (-I -S), so that the calls are the program's own.
echo "\$ probectl trace -e 'python:function__entry(str(arg0),str(arg1),arg2)' -- python3.11 shop.py"
"$build/probectl" trace -e 'python:function__entry(str(arg0),str(arg1),arg2)' \
	-- "$python" -I -S "$scratch/shop.py" | tee "$scratch/hits"

# A demonstration that shows nothing has failed.
for function in total price; do
	grep -q "$function" "$scratch/hits" || {
		echo "demo: the hits do not show the call of $function()" >&2
		exit 1
	}
done
