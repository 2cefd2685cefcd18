#!/bin/bash
# SPDX-License-Identifier: MIT
# Shows which share of the functions of some well-known files can be probed: at the entry, and at
# all exits, each function alone and all functions of a file together, with the reasons of all
# refusals. Counted apart are names that stand for another function in each process (IFUNC: the
# functions themselves are counted), functions that never return, and those with a jump that may
# lead to any function, or to one whose end is unknown, and those that run on into the next function:
# they have no exits that could be patched; and parts (NAME.cold) that compilers split off functions.
# "lost" is the share of probes that are possible alone, and not together.
# Usage: functions.sh BUILD [FILE...]
set -eu
build=$1
shift
lib=/usr/lib/$(uname -m)-linux-gnu
[ $# -gt 0 ] || set -- "$lib"/{libc.so.6,ld-linux-*.so.2,libm.so.6,libssl.so.3,libcrypto.so.3} \
	"$lib"/{libstdc++.so.6,libglib-2.0.so.0,libruby-*.so.?.?} /bin/bash /usr/bin/python3.11 \
	/usr/lib/postgresql/*/bin/postgres /usr/bin/php?.? /usr/sbin/nginx /usr/bin/redis-server \
	/usr/bin/qemu-system-aarch64 /usr/lib/jvm/java-*/lib/server/libjvm.so /usr/bin/node
printf '%-20s %9s | %7s %7s | %7s %7s %6s | %7s %7s %7s %7s\n' "" "" alone "" together "" "" apart "" "" ""
printf '%-20s %9s | %7s %7s | %7s %7s %6s | %7s %7s %7s %7s\n' file functions entry% exits% entry% \
	exits% lost% chosen endless unknown parts
for file; do
	[ -f "$file" ] || {
		echo "$file: not installed"
		continue
	}
	# Exits that are unknown are listed at the entry, so each kind is asked for alone, too.
	for names in '*' '*:return' '* *:return'; do
		(set -f && exec "$build/probectl" list -vv --json --functions "$file" $names)
		echo
	done | python3 -c '
import collections, json, os, sys

APART = {"each process chooses": 0, "does not return": 1, "may lead to any function": 2,
    "tail call": 2, "runs on into": 2}
# By probe: whether all of its sites are possible alone, and together; the reason of the first one.
probes = {False: {}, True: {}}
parts = set()
run = 0
about_exits = lambda site: any(text in site.get("together_reason", "")
    for text in ("does not return", "to any function", "to another function"))
for line in sys.stdin:
    run += not line.strip()
    site = json.loads(line) if line.strip() else {}
    if ".cold" in site.get("name", ""):
        parts.add(site["name"].split(":")[0])
    if "name" not in site or ".cold" in site["name"]:
        continue
    is_exit = site["name"].endswith(":return")
    alone = site["plan"] != "refused"
    together = site.get("together", site["plan"]) != "refused"
    key = site["name"] if is_exit else site["pc"]
    its = probes[is_exit].setdefault(key, [True, True, None, None])
    if run < 2 and not alone:
        its[2] = its[2] or site.get("reason", "?")
        its[0] = its[1] = False
    elif run == 2 and its[0] and not together and (is_exit or not about_exits(site)):
        its[3] = its[3] or site.get("together_reason", "?")
        its[1] = False
apart = [0, 0, 0]
counted = {False: [], True: []}
for is_exit, its in probes.items():
    for probe in its.values():
        kind = [k for text, k in APART.items() if probe[2] and text in probe[2]]
        if kind and (is_exit or kind[0] == 0):
            apart[kind[0]] += is_exit
        else:
            counted[is_exit].append(probe)
share = lambda n, of: "%.1f" % (100 * n / of) if of else "-"
good = lambda is_exit, at: share(sum(p[at] for p in counted[is_exit]), len(counted[is_exit]))
lost = [p for its in counted.values() for p in its if p[0] and not p[1]]
alone = sum(p[0] for its in counted.values() for p in its)
print("%-20.20s %9d | %7s %7s | %7s %7s %6s | %7d %7d %7d %7d" % (os.path.basename(sys.argv[1]),
    len(probes[False]), good(False, 0), good(True, 0), good(False, 1), good(True, 1),
    share(len(lost), alone), *apart, len(parts)), flush=True)
for what, at in ("entry", 2), ("exits", 2), ("lost entry", 3), ("lost exits", 3):
    its = counted["exits" in what]
    for reason, n in collections.Counter(p[at] for p in its if p[at]).most_common():
        print("    %6d %s: %s" % (n, what, reason))
' "$file"
done
