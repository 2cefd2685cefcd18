#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `make demo`: the functions that a small Python program calls, each with its
# file and line, from a probe of Debian's python3.11.
#
# The probe is function__return: Python 3.11 passes function__entry only while the semaphore of
# python:line is raised, and then each line of Python takes longer.
#
# PROBECTL: another probectl than the one that is installed.
set -eu
probectl=${PROBECTL:-probectl}
python=/usr/bin/python3.11

[ -x "$python" ] || {
	echo "demo: $python is not installed; \`apt-get install python3.11-minimal\` does it" >&2
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

# The interpreter's own start is Python, too: -I -S keep it short, grep leaves it out.
cd "$scratch"
cat <<'TEXT'
$ probectl trace -o hits python:function__return -- python3.11 -I -S shop.py
TEXT
"$probectl" trace -o hits python:function__return -- "$python" -I -S shop.py
echo '$ grep shop.py hits'
grep shop.py hits || true

# A demonstration that shows nothing has failed.
for hit in 'function="total" lineno=6' 'function="price" lineno=2'; do
	grep -q "shop.py\" $hit" hits || {
		echo "demo: no hit of $hit" >&2
		exit 1
	}
done
