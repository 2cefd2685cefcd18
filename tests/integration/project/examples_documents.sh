#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The commands of README.md and docs/*.md, as they stand there. Those of the tutorial, and those under
# "Thirteen questions", have tests of their own, which also look at what they print.
. tests/integration/project/lib_examples.sh
examples_start

# Not run here: of instrumenting.md, on programs of docs/examples (tests/integration/runtime); with
# tracers of one's own (tests/integration/trace/tracers_loaded.sh); of metrics
# (tests/integration/pcp/fleet.sh); on core files (tests/integration/record/remains.sh); on all servers
# of the machine; of MariaDB and glibc, which Debian builds without probes; of Go's pprof; and on
# functions of programs that stand for the reader's (tests/integration/functions).
except='^docs/instrumenting|\.so[, ]|-t pcp|--from core|--name postgres|mysql:|libc:memory_heap|go tool'
except+='|fn:(shop|app|libsqlite3):'
except+='|^docs/one-liners.md: [^:]*\?: '
documents=(README.md)
for document in "$sources"/docs/*.md; do
	[[ $document = */tutorial.md ]] || documents+=("${document#"$sources"/}")
done
examples_run "$except" "${documents[@]}"
[ "${examples-0}" -ge 60 ] || fail "only ${examples-0} commands were run"
finish
