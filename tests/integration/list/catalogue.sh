#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What `list -v` tells of known probes; a user's files, and their mistakes.
. tests/integration/lib.sh
need jq

export XDG_CONFIG_HOME=$SCRATCH/config
folder=$XDG_CONFIG_HOME/probectl/probes.d
mkdir -p "$folder"
target=$BUILD/tests/targets/args

# said PROBE FILE: the lines below the row of a probe, but for its sites
said()
{
	"$PROBECTL" list -v "$2" "$1" 2>"$SCRATCH/err" | sed -n '2,$s/^    //p' | grep -v '^0x'
}

if [ -e /usr/lib/postgresql/15/bin/postgres ]; then
	same "a probe with words" "$(said postgresql:lock__wait__start /usr/lib/postgresql/15/bin/postgres)" \
		"A heavyweight lock is not free: the process waits. The fields name the object.
arguments: field1, field2, field3, field4, locktype: LockTag, lockmode: LockMode"
	"$PROBECTL" list -vv /usr/lib/postgresql/15/bin/postgres postgresql:lock__wait__start |
		grep -q 'LockMode: 1 AccessShareLock, 2 RowShareLock' || fail "no words"
fi

# Each probe of the programs that are installed is known, with as many arguments as it has.
for file in /usr/lib/postgresql/15/bin/postgres /usr/bin/python3.11 /usr/bin/php8.2 \
	/usr/lib/*-linux-gnu/libruby-3.1.so.3.1 /usr/lib/*-linux-gnu/libstdc++.so.6 \
	/usr/sbin/libvirtd /usr/lib/*-linux-gnu/libvirt.so.0 \
	/usr/lib/*-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so \
	/usr/lib/*-linux-gnu/libguestfs.so.0 \
	/usr/lib/jvm/java-17-openjdk-*/lib/server/libjvm.so; do
	[ -e "$file" ] || continue
	same "unknown in $file" "$("$PROBECTL" list -v --json "$file" 2>>"$SCRATCH/err" |
		jq -r 'select(.arg_names == null) | "\(.provider):\(.name)"' | sort -u)" ""
	same "arguments in $file" "$("$PROBECTL" list -v --json "$file" |
		jq -r 'select((.arg_names | length) > (.args | length)) | .name' | sort -u)" ""
done

# ---- A user's files ---------------------------------------------------------------

provider=$("$PROBECTL" list --json "$target" | jq -r 'select((.args | length) == 2) | .provider' | head -1)
name=$("$PROBECTL" list --json "$target" | jq -r 'select((.args | length) == 2) | .name' | head -1)
same "a probe that nobody knows" "$(said "$provider:$name" "$target")" ""
cat >"$folder/mine.probes" <<P
provider $provider
words Side 0=left 1=right
probe $name first:Side second:ms
means Mine.
needs A coin.
pair $name other
P
same "a probe of the user's" "$(said "$provider:$name" "$target")" "Mine.
arguments: first: Side, second: ms
needs: A coin.
ends with: other"

# A bad file is warned of once, and the good one is used.
printf 'provider p\n\nprobe x a:char\n' >"$folder/bad.probes"
echo nonsense >"$folder/.hidden.probes"
echo nonsense >"$folder/readme"
mkfifo "$folder/fifo.probes"
same "beside a bad file" "$(said "$provider:$name" "$target" | head -1)" Mine.
same "the warnings" "$(cat "$SCRATCH/err")" \
	"probectl: warning: $folder/bad.probes:3: there is no type 'char'
probectl: warning: $folder/fifo.probes: this is no regular file"
rm "$folder/fifo.probes" "$folder/bad.probes"

# Without $XDG_CONFIG_HOME, or with one that is not absolute, in ~/.config.
mkdir -p "$SCRATCH/home/.config/probectl"
mv "$folder" "$SCRATCH/home/.config/probectl/probes.d"
for config in '' relative; do
	same "in ~/.config" "$(XDG_CONFIG_HOME=$config HOME=$SCRATCH/home said "$provider:$name" "$target" | head -1)" Mine.
done
same "without a home" "$(HOME='' XDG_CONFIG_HOME='' said "$provider:$name" "$target"; cat "$SCRATCH/err")" ""
finish
