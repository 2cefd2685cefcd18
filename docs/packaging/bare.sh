#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tries Debian packages in a bare system: installs them beside those that have functions and pages
# of the same names, runs the packages' own tests, removes them, and looks for files that stay.
# Needs debootstrap, root or sudo, and a network.
# usage: bare.sh FOLDER (with the packages)
set -euo pipefail
[ "$(id -u)" = 0 ] || exec sudo bash "$0" "$@"
packages=$(cd "$1" && pwd)
tests=$(cd "$(dirname "$0")/debian/tests" && pwd)
# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "$VERSION_CODENAME")

root=$(mktemp -d /var/tmp/probectl-bare.XXXXXX)
cleanup()
{
	umount -l "$root/proc" "$root/dev" 2>/dev/null || true
	rm -rf --one-file-system "$root"
}
trap cleanup EXIT
chmod 755 "$root"

within()
{
	chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root \
		DEBIAN_FRONTEND=noninteractive AUTOPKGTEST_TMP=/tmp "$@"
}

# quiet COMMAND...: shows what it printed only if it fails
quiet()
{
	local log
	log=$("$@" 2>&1) || {
		printf '%s\n' "$log"
		return 1
	}
}

apt()
{
	quiet within apt-get -qq -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 "$@"
}

quiet debootstrap --variant=minbase "$release" "$root"
# The network is reached as it is from here.
cp -rL /etc/apt/apt.conf.d "$root/etc/apt"
cp -L /etc/resolv.conf /etc/hosts "$root/etc"
[ ! -d /usr/local/share/ca-certificates ] || cp -r /usr/local/share/ca-certificates "$root/usr/local/share"
mount --bind /proc "$root/proc"
mount --bind /dev "$root/dev"
mkdir "$root/packages"
cp "$packages"/*.deb "$root/packages"
cp -r "$tests" "$root/tests"

apt update
apt install --no-install-recommends libpcp-trace2-dev libpcp3-dev
apt install --no-install-recommends gcc libc6-dev pkg-config python3.11-minimal
# shellcheck disable=SC2046 # a list of words
apt install --no-install-recommends $(cd "$root" && printf '/%s\n' packages/*.deb)
names=$(for file in "$packages"/*.deb; do dpkg-deb -f "$file" Package; done)
# shellcheck disable=SC2086 # a list of words
within dpkg -L $names | sort -u >"$root/tmp/files"
sed -n 's/^Tests: //p' "$tests/control" | while read -r name; do
	echo "== $name"
	within sh "/tests/$name" </dev/null
done

# shellcheck disable=SC2086
apt purge $names
stay=
while read -r file; do
	# Folders, and /lib, may be those of other packages, too.
	{ [ -f "$root$file" ] || [ -L "$root$file" ]; } && [ "$file" != /lib ] && stay+=" $file"
done <"$root/tmp/files"
[ -z "$stay" ] || {
	echo "bare: these files stay when the packages are removed:$stay"
	exit 1
}
echo "bare: packages installed, tested and removed"
