#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# libpcp_trace.so.2 in a folder of its own: programs that are linked with Performance Co-Pilot's run
# with it as they are, <pcp/trace.h> is there, and Java's class.
. tests/integration/lib.sh
need_attach
need jq
folder=$(realpath "$BUILD/pcp")
library=$folder/libpcp_trace.so.2

# traced COMMAND…: its hits, "NAME TAG"
traced()
{
	"$PROBECTL" trace --json -o "$SCRATCH/hits" 'pmtrace:*(str(arg0))' -- "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" ||
		fail "$*: $(cat "$SCRATCH/out" "$SCRATCH/err")"
	jq -r 'select(.args) | if .name == "state" then .name else "\(.name) \(.args[0])" end' "$SCRATCH/hits" |
		paste -sd';'
}

# ---- Its header ------------------------------------------------------------------------------

cat >"$SCRATCH/new.c" <<'C'
#include <pcp/trace.h>

int main(void)
{
	return pmtracestate(PMTRACE_STATE_NONE) || pmtracebegin("new") || pmtraceend("new") ||
	       pmtracebegin("new") || pmtraceabort("new") || pmtracepoint("p") || pmtraceobs("o", 1) ||
	       pmtracecounter("c", 1) || pmtraceend("new") != PMTRACE_ERR_NOPROGRESS || !pmtraceerrstr(0);
}
C
cc -Wall -Werror -I"$folder" -MD -MF "$SCRATCH/new.d" -o "$SCRATCH/new" "$SCRATCH/new.c" -L"$folder" \
	-lpcp_trace || die "<pcp/trace.h>: not compiled"
grep -qF "$folder/pcp/trace.h" "$SCRATCH/new.d" || fail "compiled with $(cat "$SCRATCH/new.d")"
same "soname" "$(readelf -d "$SCRATCH/new" | grep -o 'libpcp_trace.so[.0-9]*')" libpcp_trace.so.2
same "hits" "$(LD_LIBRARY_PATH=$folder traced "$SCRATCH/new")" \
	"state;begin new;end new;begin new;abort new;point p;obs o;counter c"

# ---- Java ------------------------------------------------------------------------------------

if command -v javac >/dev/null && command -v java >/dev/null; then
	cat >"$SCRATCH/shop.java" <<'JAVA'
import sgi.pcp.trace;

public class shop {
	public static void main(String[] args) {
		trace pcp = new trace();
		StringBuilder over = new StringBuilder();

		for (int i = 0; i < 255; i++)
			over.append('l');
		System.out.println(pcp.pmtracestate(pcp.PMTRACE_STATE_NOAGENT) + " "
			+ pcp.pmtracestate(pcp.PMTRACE_STATE_NOAGENT));
		System.out.println(trace.pmtracebegin("größe") + " " + trace.pmtracebegin("größe"));
		System.out.println(trace.pmtraceend("größe") + " " + trace.pmtraceabort("größe"));
		System.out.println(trace.pmtracepoint(null) + " " + trace.pmtracepoint(over.toString()));
		System.out.println(trace.pmtracepoint("p") + " " + trace.pmtraceobs("o", 148.5) + " "
			+ trace.pmtracecounter("c", -0.25));
		System.out.println(trace.pmtraceerrstr(trace.PMTRACE_ERR_INPROGRESS));
	}
}
JAVA
	javac -encoding UTF-8 -sourcepath "$folder" -d "$SCRATCH" "$SCRATCH/shop.java" 2>"$SCRATCH/err" ||
		die "javac: $(cat "$SCRATCH/err")"
	same "hits of Java" "$(traced java -Xcheck:jni "-Djava.library.path=$folder" -cp "$SCRATCH" shop)" \
		"state;state;begin größe;end größe;point p;obs o;counter c"
	same "results in Java" "$(paste -sd';' "$SCRATCH/out")" \
		"0 16;0 -12001;0 -12002;-12000 -12005;0 0 0;Transaction is already in progress - cannot begin"
	"$PROBECTL" trace --json -o "$SCRATCH/hits" 'pmtrace:obs(arg1)' 'pmtrace:counter(arg1)' -- \
		java "-Djava.library.path=$folder" -cp "$SCRATCH" shop >/dev/null 2>"$SCRATCH/err" ||
		fail "values: $(cat "$SCRATCH/err")"
	same "values of Java" "$(jq -c 'select(.args) | .args[0]' "$SCRATCH/hits" | paste -sd' ')" "148.5 -0.25"
	# The model's own program names the class without its package.
	demo=/usr/share/pcp/demos/trace/japp1.java
	if [ -e "$demo" ]; then
		sed '1i import sgi.pcp.trace;' "$demo" >"$SCRATCH/japp1.java"
		javac -sourcepath "$folder" -d "$SCRATCH" "$SCRATCH/japp1.java" || die "$demo does not compile"
		same "hits of $demo" "$(traced java "-Djava.library.path=$folder" -cp "$SCRATCH" japp1)" \
			"state;begin transacting in java;end transacting in java;point java point;obs observing from java;counter counter from java"
	fi
else
	echo "note: no JDK; Java's class is not tried"
fi

# ---- Programs that are linked already ----------------------------------------------------------

model=$(cc -print-file-name=libpcp_trace.so)
if [ ! -e "$model" ]; then
	echo "note: libpcp-trace2-dev is not installed; no program is linked with it"
	finish
fi
# entries LIBRARY: functions of pmtrace(3), with their versions
entries()
{
	nm -D --defined-only --with-symbol-versions "$1" | sed -n 's/.* T \(pmtrace.*\)/\1/p' | sort
}
same "entry points" "$(entries "$library")" "$(entries "$model")"
same "soname" "$(readelf -d "$library" | grep -o 'soname: .*')" "$(readelf -d "$model" | grep -o 'soname: .*')"
cc -D_GNU_SOURCE -DPCP_TRACE -o "$SCRATCH/calls" tests/targets/runtime/pmtrace.c -lpcp_trace -lpthread ||
	die "not linked with libpcp_trace"
"$SCRATCH/calls" >"$SCRATCH/wanted" 2>/dev/null || fail "libpcp_trace: status $?"
for way in LD_LIBRARY_PATH="$folder" LD_PRELOAD="$library"; do
	env "$way" "$SCRATCH/calls" 2>/dev/null | diff "$SCRATCH/wanted" - || fail "$way: calls return something else"
done
if command -v gfortran >/dev/null; then
	gfortran -std=legacy -ffixed-line-length-none -o "$SCRATCH/fortran" tests/targets/runtime/pmtrace.f \
		-lpcp_trace 2>/dev/null || die "Fortran: not linked with libpcp_trace"
	LD_LIBRARY_PATH=$folder "$SCRATCH/fortran" 2>/dev/null | grep -v '^ obs' |
		diff <("$SCRATCH/fortran" without-obs 2>/dev/null) - || fail "Fortran: calls return something else"
fi
# pmtraceobs_() as libpcp_trace has it, for those who call it so.
cat >"$SCRATCH/order.c" <<'C'
#include <stdio.h>

int pmtraceobs_(const char *tag, int length, const double *value);

int main(void)
{
	double value = 2.5;

	return printf("%d\n", pmtraceobs_("orders", 3, &value)) < 0;
}
C
cc -o "$SCRATCH/order" "$SCRATCH/order.c" -lpcp_trace || die "not linked with libpcp_trace"
same "hits" "$(LD_LIBRARY_PATH=$folder traced "$SCRATCH/order")" "obs ord"
same "result" "$(cat "$SCRATCH/out")" 0

# pmtrace(1), which its package has linked.
if command -v pmtrace >/dev/null; then
	export LD_PRELOAD=$library
	same "hits of pmtrace" "$(traced pmtrace -e true sleeping)" "state;begin sleeping;end sleeping"
	same "hits of pmtrace -v" "$(traced pmtrace -q -v 148.5 observed)" "state;obs observed"
	same "hits of pmtrace -c" "$(traced pmtrace -q -c 7 counted)" "state;counter counted"
	same "hits of pmtrace -h" "$(traced pmtrace -q -h elsewhere passed)" "state;point passed"
	grep -q 'no effect of PCP_TRACE_HOST: ' "$SCRATCH/err" || fail "pmtrace -h: $(cat "$SCRATCH/err")"
	unset LD_PRELOAD
fi
finish
