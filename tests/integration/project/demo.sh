#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# `make demo` shows the calls that its program makes.
. tests/integration/lib.sh
need_attach
[ -x /usr/bin/python3.11 ] || skip "no python3.11"

tests/demo.sh >"$SCRATCH/out" 2>&1 || fail "the demonstration: $(tail -3 "$SCRATCH/out")"
same "calls of price()" "$(grep -c 'function="price" lineno=2' "$SCRATCH/out")" 3
finish
