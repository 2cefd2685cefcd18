#!/bin/bash
# SPDX-License-Identifier: MIT
# Shows which share of the functions of some well-known files can be probed: at the entry, and at
# all exits. Functions that never return, and those with a jump that may lead to any function, are
# counted apart: "exits" is the share of all others, "of all" the share of all functions.
# Usage: functions.sh BUILD [FILE...]
set -eu
build=$1
shift
lib=/usr/lib/$(uname -m)-linux-gnu
[ $# -gt 0 ] || set -- "$lib"/{libc.so.6,ld-linux-*.so.2,libm.so.6,libssl.so.3,libcrypto.so.3} \
	"$lib"/{libstdc++.so.6,libglib-2.0.so.0,libruby-*.so.?.?} /bin/bash /usr/bin/python3.11 \
	/usr/lib/postgresql/*/bin/postgres /usr/bin/php?.? /usr/bin/node \
	/usr/lib/jvm/java-*/lib/server/libjvm.so
printf '%-16s %9s %8s %8s %8s %8s %8s\n' file functions entry% exits% of-all% endless unknown
for file; do
	[ -f "$file" ] || continue
	for name in '*' '*:return'; do
		"$build/probectl" list -vv --json --functions "$file" "$name"
	done | python3 -c '
import collections, json, os, sys

entries, exits = {}, {}
for line in sys.stdin:
    note = json.loads(line)
    if "name" not in note:
        continue
    its = exits if note["name"].endswith(":return") else entries
    reason = note.get("reason", "?") if note["plan"] == "refused" else None
    key = note["name"] if its is exits else note["pc"]
    its[key] = its.get(key) or reason
reasons = collections.Counter(exits.values())
del reasons[None]
endless = sum(n for r, n in reasons.items() if "does not return" in r)
unknown = sum(n for r, n in reasons.items() if "may lead to any function" in r)
good = sum(1 for r in exits.values() if not r)
share = lambda n, of: 100 * n / of if of else 0
print("%-16.16s %9d %8.1f %8.1f %8.1f %8d %8d" % (os.path.basename(sys.argv[1]), len(entries),
    share(sum(1 for r in entries.values() if not r), len(entries)),
    share(good, len(exits) - endless - unknown), share(good, len(exits)), endless, unknown))
for what, its in ("entry", entries), ("exits", exits):
    for reason, n in collections.Counter(r for r in its.values() if r).most_common(6):
        print("    %6d %s: %s" % (n, what, reason))
' "$file"
done
