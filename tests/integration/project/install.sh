#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `make install` into a staging folder: programs build against it with pkg-config, shared and
# static; `make uninstall` leaves nothing.
set -eu
command -v pkg-config >/dev/null || {
	echo "pkg-config is not installed"
	exit 77
}

# What is built already is not built again.
stage=$SCRATCH/stage
mkdir "$SCRATCH/build"
find "$BUILD" -mindepth 1 -maxdepth 1 \( ! -type d -o -name obj \) -exec cp -a -t "$SCRATCH/build" {} +
make_staged()
{
	make -j2 BUILD="$SCRATCH/build" DESTDIR="$stage" PREFIX=/opt/probe "$@"
}
make_staged install
root=$stage/opt/probe

for file in lib/libprobe.a lib/libprobe.so lib/libprobe.so.0 lib/pkgconfig/probe.pc \
	lib/libprobe_events.a lib/libprobe_events.so.0 lib/libprobe_pmtrace.so.0 \
	lib/probe/pcp/libpcp_trace.so lib/probe/pcp/pcp/trace.h lib/probe/pcp/sgi/pcp/trace.java include/probe/error.h; do
	[ -e "$root/$file" ] || {
		echo "$file was not installed"
		exit 1
	}
done
for header in libprobe/include/probe/*.h; do
	cmp "$header" "$root/include/probe/${header##*/}"
done
for page in docs/man/*.[1-8]; do
	[ ! -e "$page" ] || cmp "$page" "$root/share/man/man${page##*.}/${page##*/}"
done
# One page for each function, including those that share one.
for page in probe_target_enable.3 probe_tracer_free.3 probe_target.h.3 libprobe.3 \
	pmtracebegin.3probe; do
	[ -s "$root/share/man/man3/$page" ] || {
		echo "there is no manual page $page"
		exit 1
	}
done
"$root/bin/probectl" --version
cmp docs/completion/probectl.bash "$root/share/bash-completion/completions/probectl"
for file in zsh/site-functions/_probectl fish/vendor_completions.d/probectl.fish; do
	grep -q " *probectl_bash[= ].*/share/bash-completion/completions/probectl" "$root/share/$file"
	if grep '/usr/local' "$root/share/$file"; then
		echo "$file names another folder than it was installed for"
		exit 1
	fi
done

cmp <(sed "s|@BINDIR@|/opt/probe/bin|" docs/packaging/systemd/probectl@.service) \
	"$root/lib/systemd/system/probectl@.service"

cat >"$SCRATCH/user.c" <<'C'
#include <probe/pattern.h>
#include <stdio.h>

int main(void)
{
	struct probe_pattern *pattern;
	struct probe_error *error = probe_pattern_parse("*:hello", &pattern);

	if (error)
		puts(error->message);
	else
		puts(probe_pattern_text(pattern));
	probe_error_free(error);
	return 0;
}
C
export PKG_CONFIG_PATH=$root/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=
read -ra flags <<<"$(pkg-config --define-variable=prefix="$root" \
	--define-variable=libdir="$root/lib" --define-variable=includedir="$root/include" \
	--cflags --libs probe)"
cc "$SCRATCH/user.c" -o "$SCRATCH/shared" "${flags[@]}"
[ "$(LD_LIBRARY_PATH=$root/lib "$SCRATCH/shared")" = '*:hello' ]
readelf -d "$SCRATCH/shared" | grep -q 'NEEDED.*libprobe\.so\.0'

read -ra flags <<<"$(pkg-config --static --define-variable=prefix="$root" \
	--define-variable=libdir="$root/lib" --define-variable=includedir="$root/include" \
	--cflags --libs probe)"
cc "$SCRATCH/user.c" -o "$SCRATCH/static" -Wl,-Bstatic -L"$root/lib" -lprobe -Wl,-Bdynamic \
	"${flags[@]}"
[ "$("$SCRATCH/static")" = '*:hello' ]

# The libraries for traced programs need only the C library.
cat >"$SCRATCH/event.c" <<'C'
#include <probe/posix_trace.h>
#include <stdio.h>
#include <trace.h>

int main(void)
{
	trace_event_id_t id;

	if (posix_trace_eventid_open("installed", &id) == 0)
		posix_trace_event(id, "hello", 5);
	return puts("hello") < 0;
}
C
read -ra flags <<<"$(pkg-config --define-variable=prefix="$root" \
	--define-variable=libdir="$root/lib" --define-variable=includedir="$root/include" \
	--cflags --libs probe_events)"
cc "$SCRATCH/event.c" -o "$SCRATCH/event" "${flags[@]}"
[ "$(LD_LIBRARY_PATH=$root/lib "$SCRATCH/event")" = hello ]
readelf -d "$SCRATCH/event" | grep -q 'NEEDED.*libprobe_events\.so\.0'
read -ra flags <<<"$(pkg-config --define-variable=prefix="$root" \
	--define-variable=libdir="$root/lib" --define-variable=includedir="$root/include" \
	--cflags --libs probe_trace)"
cc -std=c99 tests/integration/library/standard.c -o "$SCRATCH/standard" "${flags[@]}"
readelf -d "$SCRATCH/standard" | grep -q 'NEEDED.*libprobe_trace\.so\.0'

# Debian's packages share out all of it, and nothing twice; they are of this version.
debian=docs/packaging/debian
for list in "$debian"/*.install; do
	left_out=$(sed -n "s/^\tdh_install -p$(basename "$list" .install) -X//p" "$debian/rules")
	while read -r pattern _; do
		# shellcheck disable=SC2086 # a pattern
		find "$root"/$pattern ! -type d
	done < <(sed 's,^usr/lib/\*/,lib/,; s,^usr/,,' "$list") | grep -vE "${left_out:+${left_out// -X/|}|}^$"
done | sort >"$SCRATCH/packed"
find "$root" ! -type d | sort | diff - "$SCRATCH/packed"
version=$(sed -n 's/^VERSION = //p' Makefile)
grep -q "^probectl ($version) " "$debian/changelog"
# Without the headers, what needs a library would be left out in silence.
for package in $(sed -n '/^DEPS_BUILD := /,/[^\\]$/p' Makefile | grep -oE '[a-z0-9-]+-dev' | grep -vx libc6-dev); do
	grep -qE "^(Build-Depends:)? +.*\<$package(,|$)" "$debian/control" || {
		echo "$debian/control: no $package"
		exit 1
	}
done

# RPM's, too.
spec=docs/packaging/probectl.spec
grep -q "^Version: *$version$" "$spec"
while read -r pattern; do
	# shellcheck disable=SC2086 # a pattern
	find "$root"/$pattern ! -type d
done < <(sed -n 's,^%{_prefix}/,,; s,^%{_bindir},bin,; s,^%{_libdir},lib,; s,^%{_mandir},share/man,
	s,^%{_datadir},share,; s,^%{_includedir},include,; /^[a-z]*\/[^ ]*$/p' "$spec") | sort >"$SCRATCH/packed"
find "$root" ! -type d | sort | diff - "$SCRATCH/packed"

make_staged uninstall
left=$(find "$stage" ! -type d)
[ -z "$left" ] || {
	echo "left behind: $left"
	exit 1
}
