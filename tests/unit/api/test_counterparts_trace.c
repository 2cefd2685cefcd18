/* SPDX-License-Identifier: MIT */
/*
 * Three models, function by function, option by option, error by error: pmtrace(3) with its agent,
 * of Performance Co-Pilot 6, POSIX trace (IEEE Std 1003.1-2017, <trace.h>), and the Linux kernel's
 * tracepoints (<linux/tracepoint.h>, Documentation/trace/tracepoints.rst). Each has the test that
 * shows it, a file and a text in it, or the reason why there is none. (ocaml-probes:
 * test_counterparts.c.)
 *
 * The tables are complete: what the installed <pcp/trace.h> and the agent's names declare, and
 * what our <trace.h> defines, is looked up in them.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/skip.h"

/* `text` is in `file`; without a file, it is the reason. */
struct counterpart {
	const char *what, *file, *text;
};

/* clang-format off */
static const struct counterpart pmtrace[] = {
	/* Functions; pmtrace.sh runs each call with both libraries. */
	{"pmtracebegin", "tests/targets/runtime/pmtrace.c", "CALL(pmtracebegin(\"a\"))"},
	{"pmtraceend", "tests/targets/runtime/pmtrace.c", "CALL(pmtraceend(\"a\"))"},
	{"pmtraceabort", "tests/targets/runtime/pmtrace.c", "CALL(pmtraceabort(\"a\"))"},
	{"pmtracepoint", "tests/targets/runtime/pmtrace.c", "CALL(pmtracepoint(\"a\"))"},
	{"pmtraceobs", "tests/targets/runtime/pmtrace.c", "CALL(pmtraceobs(\"o\", -1.5))"},
	{"pmtracecounter", "tests/targets/runtime/pmtrace.c", "CALL(pmtracecounter(\"c\", 10))"},
	{"pmtraceerrstr", "tests/targets/runtime/pmtrace.c", "static void errors(void)"},
	{"pmtracestate", "tests/targets/runtime/pmtrace.c", "static void states(void)"},

	/* The same in Fortran; pmtrace_fortran.sh compares them. */
	{"pmtracebegin_", "tests/targets/runtime/pmtrace.f", "'begin', pmtracebegin("},
	{"pmtraceend_", "tests/targets/runtime/pmtrace.f", "'end', pmtraceend("},
	{"pmtraceabort_", "tests/targets/runtime/pmtrace.f", "'abort', pmtraceabort("},
	{"pmtracepoint_", "tests/targets/runtime/pmtrace.f", "'point', pmtracepoint("},
	{"pmtraceobs_", "tests/targets/runtime/pmtrace.f", "'obs', pmtraceobs("},
	{"pmtracecounter_", "tests/targets/runtime/pmtrace.f", "'counter', pmtracecounter("},
	{"pmtracestate_", "tests/targets/runtime/pmtrace.f", "'state', pmtracestate(16)"},
	{"pmtraceerrstr_", "tests/targets/runtime/pmtrace.f", "call pmtraceerrstr(code, short)"},
	{"every entry point that libpcp_trace.so exports", "tests/integration/runtime/pmtrace_fortran.sh", "same \"entry points\""},
	{"sgi.pcp.trace (Java)", "tests/integration/runtime/pmtrace_installed.sh", "import sgi.pcp.trace;"},
	{"libpcp_trace.so.2, by soname and symbol versions", "tests/integration/runtime/pmtrace_installed.sh", "same \"entry points\""},
	{"#include <pcp/trace.h>, -lpcp_trace", "tests/integration/runtime/pmtrace_installed.sh", "#include <pcp/trace.h>"},

	/* Errors. */
	{"PMTRACE_ERR_BASE", "tests/targets/runtime/pmtrace.c", "for (int code = -12000; code >= -12011; code--)"},
	{"PMTRACE_ERR_TAGNAME", "tests/targets/runtime/pmtrace.c", "CALL(pmtracecounter(\"\", 1))"},
	{"PMTRACE_ERR_INPROGRESS", "tests/unit/runtime/test_pmtrace.c", "PMTRACE_ERR_INPROGRESS"},
	{"PMTRACE_ERR_NOPROGRESS", "tests/targets/runtime/pmtrace.c", "CALL(pmtraceend(\"parent\"));\n\tCALL(pmtraceend(\"parent\"));"},
	{"PMTRACE_ERR_NOSUCHTAG", "tests/targets/runtime/pmtrace.c", "CALL(pmtraceend(\"nobody\"))"},
	{"PMTRACE_ERR_TAGLENGTH", "tests/targets/runtime/pmtrace.c", "CALL(pmtracebegin(over))"},
	{"PMTRACE_ERR_TAGTYPE", NULL,
		"no call returns it, there either: kinds() uses one tag in all ways"},
	{"PMTRACE_ERR_IPC", NULL,
		"of the way to an agent: the real library's; errors() has its text"},
	{"PMTRACE_ERR_TIMEOUT", NULL,
		"of the way to an agent: the real library's; errors() has its text"},
	{"PMTRACE_ERR_VERSION", NULL,
		"of the way to an agent: the real library's; errors() has its text"},
	{"PMTRACE_ERR_PERMISSION", NULL,
		"of the way to an agent: the real library's; errors() has its text"},
	{"PMTRACE_ERR_CONNLIMIT", NULL,
		"of the way to an agent: the real library's; errors() has its text"},
	{"PMTRACE_ERR_ENVFORMAT", NULL,
		"of the way to an agent: the real library's; errors() has its text"},
	{"-ENOMEM", NULL,
		"malloc(3) does not fail on request in a linked program"},
	{"-ECONNREFUSED, where there is no agent", NULL,
		"calls succeed, but for those through the real library"},

	/* Flags of pmtracestate(). */
	{"PMTRACE_STATE_NONE", "tests/targets/runtime/pmtrace.f", "pmtracestate(0)"},
	{"PMTRACE_STATE_API", "tests/integration/runtime/pmtrace.sh", "what is said with PMTRACE_STATE_API"},
	{"PMTRACE_STATE_COMMS", "tests/integration/runtime/pmtrace.sh", "pmtracestate: PMTRACE_STATE_COMMS has no effect"},
	{"PMTRACE_STATE_PDU", "tests/integration/runtime/pmtrace.sh", "pmtracestate: PMTRACE_STATE_PDU has no effect"},
	{"PMTRACE_STATE_PDUBUF", "tests/integration/runtime/pmtrace.sh", "pmtracestate: PMTRACE_STATE_PDUBUF has no effect"},
	{"PMTRACE_STATE_NOAGENT", "tests/targets/runtime/pmtrace.c", "CALL(pmtracestate(argc > 1 ? atoi(argv[1]) : 16))"},
	{"PMTRACE_STATE_ASYNC", "tests/integration/runtime/pmtrace.sh", "PMTRACE_STATE_ASYNC has no effect"},
	{"PMTRACE_STATE_ASYNC, too late: -EINVAL", "tests/targets/runtime/pmtrace.c", "CALL(pmtracestate(32))"},
	{"unknown flags", "tests/integration/runtime/pmtrace.sh", "0x80 has no effect: there are no such flags"},
	{"diagnostics on the standard output", NULL,
		"as the page says; that library and ours print to standard error"},

	/* What its pages promise. */
	{"transactions of several threads", "tests/targets/runtime/pmtrace.c", "static void threads(void)"},
	{"a forked child", "tests/targets/runtime/pmtrace.c", "static void children(void)"},
	{"the longest tag", "tests/targets/runtime/pmtrace.c", "CALL(pmtracebegin(longest))"},
	{"pcp's example in Fortran", "tests/integration/runtime/pmtrace_fortran.sh", "/usr/share/pcp/demos/trace/fapp1.f"},
	{"values with fractions", "tests/integration/runtime/pmtrace.sh", "same \"observe\""},
	{"the counts of pmdatrace itself", "tests/integration/runtime/pmtrace.sh", "the agent has other counts"},
	{"PCP_TRACE_HOST, _PORT, _TIMEOUT, _REQTIMEOUT, _RECONNECT", "tests/integration/runtime/pmtrace.sh", "same \"what is said of $names\""},
	{"PCP_TRACE_HOST, _PORT, through the real library", "tests/integration/runtime/pmtrace.sh", "agent calls ours 0"},
	{"PCP_TRACE_NOAGENT", "tests/integration/runtime/pmtrace.sh", "same \"PCP_TRACE_NOAGENT\""},
	{"COMMS, PDU, PDUBUF, ASYNC, through the real library", "tests/integration/runtime/pmtrace.sh", "for state in 32 47 1 2 4 8; do"},

	/* Metrics of pmdatrace(1). */
	{"trace.transact.count", "tests/integration/pcp/pmtrace_pcp.sh", "trace.transact.count"},
	{"trace.transact.rate", "tests/integration/pcp/pmtrace_pcp.sh", "trace.transact.rate"},
	{"trace.transact.total_time", "tests/integration/pcp/pmtrace_pcp.sh", "trace.transact.total_time"},
	{"trace.point.count", "tests/integration/pcp/pmtrace_pcp.sh", "trace.point.count"},
	{"trace.point.rate", "tests/integration/pcp/pmtrace_pcp.sh", "trace.point.rate"},
	{"trace.observe.count", "tests/integration/pcp/pmtrace_pcp.sh", "trace.observe.count"},
	{"trace.observe.value", "tests/integration/pcp/pmtrace_pcp.sh", "trace.observe.value"},
	{"trace.counter.count", "tests/integration/pcp/pmtrace_pcp.sh", "trace.counter.count"},
	{"trace.counter.value", "tests/integration/pcp/pmtrace_pcp.sh", "trace.counter.value"},
	{"trace.transact.ave_time", "docs/examples/pmtrace/trace.derived", "trace.transact.ave_time = mmv.trace.transact.ave_time"},
	{"trace.transact.min_time", "docs/examples/pmtrace/trace.derived", "trace.transact.min_time = mmv.trace.transact.min_time"},
	{"trace.transact.max_time", "docs/examples/pmtrace/trace.derived", "trace.transact.max_time = mmv.trace.transact.max_time"},
	{"trace.observe.rate", "docs/examples/pmtrace/trace.derived", "trace.observe.rate = mmv.trace.observe.rate"},
	{"trace.counter.rate", "docs/examples/pmtrace/trace.derived", "trace.counter.rate = mmv.trace.counter.rate"},
	{"the most recent value is there, before the interval ends", "tests/integration/pcp/pmtrace_pcp.sh", "until_value mmv.trace.observe.value \"weight=$weight\""},
	{"their types, semantics and units", "tests/integration/pcp/pmtrace_pcp.sh", "metrics are described otherwise than by the agent"},
	{"trace.control.*", NULL,
		"there is no agent to control; -i is the period"},
	{"pmdatrace -A, -d, -I, -i, -l, -M, -U", NULL,
		"of a server that programs connect to; nothing connects here"},
	{"pmdatrace -T period, -N buckets", "tests/integration/pcp/pmtrace_pcp.sh", "trace_start tags -t pcp,pmtrace -i 0.2"},
	{"pmtrace(1)", "tests/integration/runtime/pmtrace_installed.sh", "traced pmtrace -e true sleeping"},
};

static const struct counterpart posix_trace[] = {
	/* The program that is traced. */
	{"posix_trace_event", "tests/integration/library/standard.c", "posix_trace_event("},
	{"posix_trace_event, of an unknown type", "tests/unit/runtime/test_events.c", "posix_trace_event(100000, \"x\", 1)"},
	{"posix_trace_event, in a signal handler", NULL,
		"it takes no lock: a load, a test and a call"},
	{"posix_trace_event: POSIX_TRACE_TRUNCATED_RECORD", "tests/integration/runtime/events.sh", "the data of events"},
	{"posix_trace_eventid_open", "tests/integration/library/standard.c", "posix_trace_eventid_open("},
	{"posix_trace_eventid_open: ENAMETOOLONG", "tests/unit/runtime/test_events.c", "ENAMETOOLONG"},
	{"posix_trace_eventid_open: more than TRACE_USER_EVENT_MAX names", "tests/unit/runtime/test_events.c", "static void number_of_names"},
	{"posix_trace_eventid_open, in forked children", "tests/unit/runtime/test_events.c", "files_after_fork"},
	{"posix_trace_eventid_open, without descriptors", "tests/unit/runtime/test_events.c", "static void no_descriptor_left"},
	{"posix_trace_eventid_open, while traced", "tests/integration/runtime/events.sh", "hits of names that came later"},
	{"POSIX_TRACE_UNNAMED_USEREVENT", "tests/integration/runtime/events.sh", "hits of the unnamed"},
	{"<trace.h>, strictly", "tests/integration/runtime/events.sh", "a program of the standard does not compile"},
	{"<limits.h>", "tests/targets/runtime/trace_h.c", "_POSIX_TRACE_USER_EVENT_MAX"},

	/* Attributes; standard.c calls the functions of a controller; probe/stream.h has what they do. */
	{"posix_trace_attr_init", "tests/integration/library/standard.c", "posix_trace_attr_init("},
	{"posix_trace_attr_destroy", "tests/integration/library/standard.c", "posix_trace_attr_destroy("},
	{"posix_trace_attr_getgenversion", "tests/integration/library/standard.c", "posix_trace_attr_getgenversion("},
	{"posix_trace_attr_getname", "tests/integration/library/standard.c", "posix_trace_attr_getname("},
	{"posix_trace_attr_getcreatetime", "tests/integration/library/standard.c", "posix_trace_attr_getcreatetime("},
	{"posix_trace_attr_getclockres", "tests/integration/library/standard.c", "posix_trace_attr_getclockres("},
	{"posix_trace_attr_setname", "tests/integration/library/standard.c", "posix_trace_attr_setname("},
	{"posix_trace_attr_getinherited", "tests/integration/library/standard.c", "posix_trace_attr_getinherited("},
	{"posix_trace_attr_setinherited", "tests/integration/library/standard.c", "posix_trace_attr_setinherited("},
	{"POSIX_TRACE_INHERITED: names that a child opens", "tests/integration/library/heirs.c", "hit(\"after the grandchild\")"},
	{"posix_trace_attr_getstreamfullpolicy", "tests/integration/library/standard.c", "posix_trace_attr_getstreamfullpolicy("},
	{"posix_trace_attr_setstreamfullpolicy", "tests/integration/library/standard.c", "posix_trace_attr_setstreamfullpolicy("},
	{"posix_trace_attr_getlogfullpolicy", "tests/integration/library/standard.c", "posix_trace_attr_getlogfullpolicy("},
	{"posix_trace_attr_setlogfullpolicy", "tests/integration/library/standard.c", "posix_trace_attr_setlogfullpolicy("},
	{"posix_trace_attr_getlogsize", "tests/integration/library/standard.c", "posix_trace_attr_getlogsize("},
	{"posix_trace_attr_setlogsize", "tests/integration/library/standard.c", "posix_trace_attr_setlogsize("},
	{"posix_trace_attr_getmaxdatasize", "tests/integration/library/standard.c", "posix_trace_attr_getmaxdatasize("},
	{"posix_trace_attr_setmaxdatasize", "tests/integration/library/standard.c", "posix_trace_attr_setmaxdatasize("},
	{"posix_trace_attr_getmaxusereventsize", "tests/integration/library/standard.c", "posix_trace_attr_getmaxusereventsize("},
	{"posix_trace_attr_getmaxsystemeventsize", "tests/integration/library/standard.c", "posix_trace_attr_getmaxsystemeventsize("},
	{"posix_trace_attr_getstreamsize", "tests/integration/library/standard.c", "posix_trace_attr_getstreamsize("},
	{"posix_trace_attr_setstreamsize", "tests/integration/library/standard.c", "posix_trace_attr_setstreamsize("},
	{"posix_trace_attr_*: EINVAL", "tests/unit/stream/test_stream.c", "is_error(create(l, \"live:value\", &tiny), EINVAL)"},

	/* Active streams. */
	{"posix_trace_create", "tests/integration/library/standard.c", "posix_trace_create("},
	{"posix_trace_create: EINVAL", "tests/unit/stream/test_stream.c", "&bad), EINVAL)"},
	{"posix_trace_create: ENAMETOOLONG", "tests/unit/stream/test_stream.c", "&name), ENAMETOOLONG)"},
	{"posix_trace_create: ESRCH", "tests/integration/library/standard.c", "posix_trace_create(gone, &attr, &trid), ESRCH"},
	{"posix_trace_create_withlog", "tests/integration/library/standard.c", "posix_trace_create_withlog("},
	{"posix_trace_create_withlog: EINVAL", "tests/unit/stream/test_stream.c", "&bad_log), EINVAL)"},
	{"posix_trace_start", "tests/integration/library/standard.c", "posix_trace_start("},
	{"posix_trace_stop", "tests/integration/library/standard.c", "posix_trace_stop("},
	{"posix_trace_clear", "tests/integration/library/standard.c", "posix_trace_clear("},
	{"posix_trace_flush", "tests/integration/library/standard.c", "posix_trace_flush("},
	{"posix_trace_flush: ENOSPC", "tests/unit/stream/test_stream_log_limits.c", "test_no_room"},
	{"posix_trace_shutdown", "tests/integration/library/standard.c", "posix_trace_shutdown("},
	{"posix_trace_get_attr", "tests/integration/library/standard.c", "posix_trace_get_attr("},
	{"posix_trace_get_status", "tests/integration/library/standard.c", "posix_trace_get_status("},
	{"posix_trace_set_filter", "tests/integration/library/standard.c", "posix_trace_set_filter("},
	{"posix_trace_set_filter: EINVAL", "tests/unit/stream/test_stream.c", "(enum probe_stream_how)9), EINVAL)"},
	{"posix_trace_get_filter", "tests/integration/library/standard.c", "posix_trace_get_filter("},
	{"posix_trace_start, _stop, _clear, _flush, _shutdown: EINVAL", "tests/unit/stream/test_stream_log.c", "is_error(probe_stream_start(stream), EINVAL)"},
	{"posix_trace_create: EPERM", "tests/unit/ptrace/test_control.c", "PROBE_ERROR_PERMISSION"},
	{"posix_trace_create: EAGAIN", "libprobe/runtime/trace/posix_stream.c", "return EAGAIN;"},
	{"posix_trace_create: EINTR", NULL,
		"creating one does not wait for signals"},
	{"posix_trace_create: ENOMEM", NULL,
		"memory does not run out on request; the error is PROBE_ERROR_MEMORY"},
	{"posix_trace_create: ENOSYS", NULL,
		"streams are there"},
	{"posix_trace_create_withlog: EBADF", "tests/integration/library/standard.c", "create_withlog(getpid(), &attr, -1, &trid), EBADF"},
	{"posix_trace_create_withlog: EFBIG", NULL,
		"the size of a log is the policy's"},

	/* Types and sets. */
	{"posix_trace_trid_eventid_open", "tests/integration/library/standard.c", "posix_trace_trid_eventid_open("},
	{"posix_trace_trid_eventid_open: ENAMETOOLONG, EINVAL", "tests/unit/stream/test_stream.c", "probe_stream_type_open(stream, \"\", &type), EINVAL"},
	{"posix_trace_eventid_get_name", "tests/integration/library/standard.c", "posix_trace_eventid_get_name("},
	{"posix_trace_eventid_get_name: EINVAL", "tests/unit/stream/test_stream.c", "probe_stream_type_name(stream, UINT32_MAX, &name), EINVAL"},
	{"posix_trace_eventtypelist_getnext_id", "tests/integration/library/standard.c", "posix_trace_eventtypelist_getnext_id("},
	{"posix_trace_eventtypelist_rewind", "tests/integration/library/standard.c", "posix_trace_eventtypelist_rewind("},
	{"posix_trace_eventset_add", "tests/integration/library/standard.c", "posix_trace_eventset_add("},
	{"posix_trace_eventset_del", "tests/integration/library/standard.c", "posix_trace_eventset_del("},
	{"posix_trace_eventset_empty", "tests/integration/library/standard.c", "posix_trace_eventset_empty("},
	{"posix_trace_eventset_fill", "tests/integration/library/standard.c", "posix_trace_eventset_fill("},
	{"posix_trace_eventset_ismember", "tests/integration/library/standard.c", "posix_trace_eventset_ismember("},
	{"posix_trace_eventid_equal", "tests/integration/library/standard.c", "posix_trace_eventid_equal("},

	/* Reading. */
	{"posix_trace_getnext_event", "tests/integration/library/standard.c", "posix_trace_getnext_event("},
	{"posix_trace_getnext_event: EINVAL", "tests/unit/stream/test_stream_log.c", "is_error(probe_stream_next(stream, NULL, 0, NULL, &event, &there), EINVAL)"},
	{"posix_trace_getnext_event: EINTR", "tests/unit/stream/test_stream_wait.c", "test_interrupted"},
	{"posix_trace_getnext_event: POSIX_TRACE_TRUNCATED_READ", "tests/unit/stream/test_stream.c", "TRUNCATED_READ"},
	{"posix_trace_timedgetnext_event", "tests/integration/library/standard.c", "posix_trace_timedgetnext_event("},
	{"posix_trace_timedgetnext_event: ETIMEDOUT", "tests/unit/stream/test_stream_wait.c", "ETIMEDOUT"},
	{"posix_trace_trygetnext_event", "tests/integration/library/standard.c", "posix_trace_trygetnext_event("},
	{"posix_trace_open", "tests/integration/library/standard.c", "posix_trace_open("},
	{"posix_trace_rewind", "tests/integration/library/standard.c", "posix_trace_rewind("},
	{"posix_trace_rewind: EINVAL", "tests/unit/stream/test_stream.c", "is_error(probe_stream_rewind(stream), EINVAL)"},
	{"posix_trace_close", "tests/integration/library/standard.c", "posix_trace_close("},
	{"posix_trace_open: EBADF, EINVAL", "tests/integration/library/standard.c", "posix_trace_open(file, &trid), EINVAL"},
	{"posix_trace_create, of the calling process", "tests/integration/library/standard.c", "posix_trace_create(0, &attr, &trid)"},
};

static const struct counterpart tracepoints[] = {
	/* Connecting and disconnecting; without tracepoint_, register_trace_NAME() and the others. */
	{"tracepoint_probe_register", "tests/unit/self/test_self_order.c", "static void test_registration("},
	{"tracepoint_probe_register_prio", "tests/unit/self/test_self_order.c", "static void test_priority("},
	{"tracepoint_probe_register_prio_may_exist", NULL,
		"the error can be ignored: the function stays connected once"},
	{"tracepoint_probe_unregister", "tests/unit/self/test_self_calls.c", "static void test_unregister_itself("},
	{"tracepoint_synchronize_unregister", "tests/unit/self/test_self_calls.c", "static void test_unregister_waits("},
	{"tracepoint_is_faultable", NULL,
		"a function may wait and fault at every probe, as the code at the site may"},
	{"register_trace_NAME", "tests/unit/self/test_self_calls.c", "static void test_arguments("},
	{"register_trace_prio_NAME", "tests/unit/self/test_self_order.c", "add(\"testcalls:hit\", 50, 'c')"},
	{"unregister_trace_NAME", "tests/unit/self/test_self_order.c", "drop(\"testcalls:hit\", 'd')"},
	{"check_trace_callback_type_NAME", NULL,
		"one type of function for all probes: a note has sizes and signs, no C types"},
	{"TRACEPOINT_DEFAULT_PRIO", "tests/unit/self/test_self_order.c", "PROBE_SELF_PRIORITY"},

	/* The order of calls, and calls while functions come and go. */
	{"a higher priority first, then the order of registration", "tests/unit/self/test_self_order.c",
		"assert_string_equal(order_of(hit), \"abcdefghi\")"},
	{"several functions at one tracepoint", "tests/unit/self/test_self_calls.c", "static void test_many_functions("},
	{"the same function with other data", "tests/unit/self/test_self_order.c", "note, letter('b')"},
	{"no call is missed while others come and go", "tests/unit/self/test_self_order.c", "static void test_changes("},
	{"a tracepoint within a function (recursion)", "tests/unit/self/test_self_calls.c", "static void test_nested("},

	/* Whether it is on. */
	{"trace_NAME_enabled, tracepoint_enabled", "tests/integration/runtime/tracepoint.sh", "trace_tp_both_enabled()"},
	{"... by a jump label (static_key, asm goto)", "tests/integration/runtime/guard.sh",
		"#define PROBE_TRACEPOINT_GUARD"},
	{"do_trace_NAME, trace_call__NAME", NULL, "trace_NAME() passes the probe without a test"},
	{"trace_NAME_rcuidle", NULL, "user programs have no state in which a probe cannot be used"},

	/* What there is. */
	{"for_each_kernel_tracepoint", "tests/unit/self/test_self.c", "static void test_list("},
	{"for_each_module_tracepoint", "tests/integration/library/self.sh", "libraries"},
	{"for_each_tracepoint_in_module", "tests/unit/self/test_self.c", "static void test_list("},
	{"register_tracepoint_module_notifier", "tests/integration/library/self.sh", "answers told \"told 1 0 0\""},
	{"unregister_tracepoint_module_notifier", "tests/integration/library/self.sh", "answers unfollow ok"},
	{"MODULE_STATE_COMING: before the module's initialisation", "tests/integration/library/self.sh",
		"answers \"unregister ctor:construct\" \"calls 2\""},
	{"MODULE_STATE_GOING", "tests/integration/library/self.sh", "answers update \"updated 0\""},
	{"a name that is registered before its module is there", "tests/integration/library/self.sh", "patterns wait for them"},
	{"trace_module_has_bad_taint", NULL, "libraries have no taint; one that cannot be patched is refused with its reason"},

	/* Defining. */
	{"DECLARE_TRACE, DEFINE_TRACE, TP_PROTO, TP_ARGS", "tests/integration/runtime/tracepoint.sh",
		"PROBE_DECLARE_TRACE(tp, both, int, where, const char *, text)"},
	{"trace_NAME: checked arguments", "tests/integration/runtime/tracepoint.sh", "refused \"an argument too few\""},
	{"register_trace_NAME, unregister_trace_NAME: checked prototypes", "tests/integration/runtime/tracepoint.sh",
		"refused \"a function with another type\""},
	{"one definition, several source files and modules", "tests/integration/runtime/tracepoint.sh",
		"# A library has tracepoints of its own"},
	{"inline functions, unrolled loops", "tests/integration/runtime/tracepoint.sh", "both=2 copied=5"},
	{"DEFINE_TRACE_FN, TRACE_EVENT_FN (reg, unreg)", "docs/instrumenting.md", "_SDT_HAS_SEMAPHORES"},
	{"DECLARE_TRACE_CONDITION, TP_CONDITION", NULL,
		"an if before the probe; or a filter, -f, which is computed at the site"},
	{"EXPORT_TRACEPOINT_SYMBOL", NULL, "every probe of every file can be connected: no symbol is needed"},
	{"TRACE_EVENT, DECLARE_EVENT_CLASS, TP_printk", NULL,
		"formats of events, not of tracepoints; records have the arguments by their notes"},
	{"tracepoint_string", NULL, "str(argN) records the text itself"},

	/* Errors. */
	{"EEXIST: the same function with the same data", "tests/unit/self/test_self_calls.c",
		"the function is connected already, with the same data"},
	{"ENOENT: not connected", "tests/unit/self/test_self_calls.c",
		"testcalls:hit: the function is not connected with this data"},
	{"EINVAL: no function", "tests/unit/self/test_self_calls.c",
		"testcalls:hit: there is no function to be connected"},
	{"ENOMEM", "libprobe/include/probe/self.h", "PROBE_ERROR_MEMORY"},
	{"ENOSYS: tracepoints are not compiled in", "tests/unit/self/test_self_calls.c",
		"self_fails(probe_self_register(\"testcalls:hut\""},
};
/* clang-format on */

enum {
	PMTRACE = sizeof(pmtrace) / sizeof(pmtrace[0]),
	POSIX = sizeof(posix_trace) / sizeof(posix_trace[0]),
	TRACEPOINTS = sizeof(tracepoints) / sizeof(tracepoints[0])
};

/* The file, with a NUL behind it; NULL if there is none. To be freed. */
static char *read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 1 << 20);

	assert_non_null(text);
	if (!file) {
		free(text);
		return NULL;
	}
	assert_true(fread(text, 1, (1 << 20) - 1, file) < (1 << 20) - 1);
	fclose(file);
	return text;
}

static void check_rows(const struct counterpart *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char *text;

		if (!rows[i].file) {
			assert_true(strlen(rows[i].text) > 10);
			continue;
		}
		text = read_file(rows[i].file);
		if (!text || !strstr(text, rows[i].text))
			fail_msg("%s: %s has no '%s'", rows[i].what, rows[i].file, rows[i].text);
		free(text);
	}
}

static void tests_are_there(void **state)
{
	(void)state;
	check_rows(pmtrace, PMTRACE);
	check_rows(posix_trace, POSIX);
	check_rows(tracepoints, TRACEPOINTS);
}

/* Whether a name is that of a row, or a word in it. */
static bool has_row(const struct counterpart *rows, size_t count, const char *name, size_t length)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(rows[i].what, name, length) == 0 && !isalnum(rows[i].what[length]) &&
			rows[i].what[length] != '_')
			return true;
	return false;
}

static size_t word_length(const char *text)
{
	size_t length = 0;

	while (isalnum((unsigned char)text[length]) || text[length] == '_')
		length++;
	return length;
}

/* Every word of a file that begins so has a row; returns how many there are. */
static size_t check_words(const char *path, const char *prefix)
{
	char *text = read_file(path);
	size_t found = 0;

	for (const char *at = text; at && (at = strstr(at, prefix)); at += word_length(at)) {
		if (at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))
			continue;
		if (!has_row(pmtrace, PMTRACE, at, word_length(at)))
			fail_msg("%s: %.*s has no row", path, (int)word_length(at), at);
		found++;
	}
	free(text);
	return found;
}

static void all_of_pcp(void **state)
{
	static const char header[] = "/usr/include/pcp/trace.h";

	(void)state;
	if (access(header, R_OK) != 0)
		skip_because("needs the header of PCP's trace library");
	assert_true(check_words(header, "PMTRACE_ERR_") >= 13);
	assert_true(check_words(header, "PMTRACE_STATE_") >= 7);
	/* Declarations, and what comments say of them. */
	assert_true(check_words(header, "pmtrace") >= 8);
	assert_true(check_words("libprobe/runtime/pmtrace/pmtrace.map", "pmtrace") == 16);
}

/* trace.transact { count TRACE:0:0 ... } */
static void all_metrics(void **state)
{
	char *text = read_file("/usr/lib/pcp/pmdas/trace/pmns"), *line, *rest = text;
	char group[64] = "", name[64], metric[192];
	size_t found = 0;

	(void)state;
	if (!text)
		skip_because("needs PCP's trace agent");
	while ((line = strsep(&rest, "\n"))) {
		if (strchr(line, '{') && sscanf(line, "%63s {", name) == 1) {
			strcpy(group, name);
			continue;
		}
		if (sscanf(line, "\t%63s TRACE:", name) != 1 || !strstr(line, "TRACE:") ||
			!strcmp(group, "trace.control"))
			continue;
		snprintf(metric, sizeof(metric), "%s.%s", group, name);
		if (!has_row(pmtrace, PMTRACE, metric, strlen(metric)))
			fail_msg("%s has no row", metric);
		found++;
	}
	free(text);
	assert_int_equal(found, 14);
}

/* What our <trace.h> defines, the program of the standard uses. */
static void all_constants(void **state)
{
	char *header = read_file("libprobe/include/probe/standard/trace.h");
	char *program = read_file("tests/targets/runtime/trace_h.c"), name[64];
	size_t found = 0;

	(void)state;
	assert_non_null(header);
	assert_non_null(program);
	for (const char *at = header; (at = strstr(at, "#define ")); at++) {
		snprintf(name, sizeof(name), "%.*s", (int)word_length(at + 8), at + 8);
		if (!strcmp(name, "PROBE_STANDARD_TRACE_H"))
			continue;
		if (!strstr(program, name))
			fail_msg("tests/targets/runtime/trace_h.c does not use %s", name);
		found++;
	}
	assert_int_equal(found, 38);
	free(program);
	free(header);
}

/* The 50 functions of the standard. */
static void all_functions(void **state)
{
	size_t found = 0;

	(void)state;
	for (size_t i = 0; i < POSIX; i++)
		found += strncmp(posix_trace[i].what, "posix_trace_", 12) == 0 &&
			 posix_trace[i].what[word_length(posix_trace[i].what)] == '\0';
	assert_int_equal(found, 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tests_are_there),
		cmocka_unit_test(all_of_pcp),
		cmocka_unit_test(all_metrics),
		cmocka_unit_test(all_constants),
		cmocka_unit_test(all_functions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
