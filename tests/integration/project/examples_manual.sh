#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The commands of the manual pages, as they stand there; and each page of a command has some.
. tests/integration/project/lib_examples.sh
examples_start

# Not run here: of metrics (tests/integration/pcp/fleet.sh), and on core files
# (tests/integration/record/remains.sh).
except='-t pcp|--from core'
pages=()
for page in "$sources"/docs/man/*.1; do
	page=${page#"$sources"/}
	(cd "$sources" && "$python" tests/integration/project/examples.py "$page") |
		grep -q $'\tEXAMPLES\t' || fail "$page has no examples"
	[ "$page" = docs/man/probectl-disable.1 ] || pages+=("$page")
done
examples_run "$except" "${pages[@]}"
# What is to be disabled has been enabled.
example "probectl enable -p 8121 'postgresql:buffer__*'"
last_document=docs/man/probectl-disable.1
examples_run "$except" docs/man/probectl-disable.1
[ "${examples-0}" -ge 30 ] || fail "only ${examples-0} commands were run"
finish
