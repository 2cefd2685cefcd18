/* SPDX-License-Identifier: MIT */
package sgi.pcp;

/**
 * The functions of pmtrace(3) for Java: probes of libpcp_trace.so, which java.library.path or
 * LD_LIBRARY_PATH has to find. A negative result is an error; pmtraceerrstr() says which.
 */
public class trace {
	public static final int PMTRACE_ERR_BASE = 12000;
	public static final int PMTRACE_ERR_TAGNAME = -12000;
	public static final int PMTRACE_ERR_INPROGRESS = -12001;
	public static final int PMTRACE_ERR_NOPROGRESS = -12002;
	public static final int PMTRACE_ERR_NOSUCHTAG = -12003;
	public static final int PMTRACE_ERR_TAGTYPE = -12004;
	public static final int PMTRACE_ERR_TAGLENGTH = -12005;
	public static final int PMTRACE_ERR_IPC = -12006;
	public static final int PMTRACE_ERR_ENVFORMAT = -12007;
	public static final int PMTRACE_ERR_TIMEOUT = -12008;
	public static final int PMTRACE_ERR_VERSION = -12009;
	public static final int PMTRACE_ERR_PERMISSION = -12010;
	public static final int PMTRACE_ERR_CONNLIMIT = -12011;

	public static final int PMTRACE_STATE_NONE = 0;
	public static final int PMTRACE_STATE_API = 1;
	public static final int PMTRACE_STATE_COMMS = 2;
	public static final int PMTRACE_STATE_PDU = 4;
	public static final int PMTRACE_STATE_PDUBUF = 8;
	public static final int PMTRACE_STATE_NOAGENT = 16;
	public static final int PMTRACE_STATE_ASYNC = 32;

	static {
		System.loadLibrary("pcp_trace");
	}

	public static native int pmtracebegin(String tag);
	public static native int pmtraceend(String tag);
	public static native int pmtraceabort(String tag);
	public static native int pmtracepoint(String tag);
	public static native int pmtraceobs(String tag, double value);
	public static native int pmtracecounter(String tag, double value);
	public static native int pmtracestate(int flags);
	public static native String pmtraceerrstr(int code);
}
