/* SPDX-License-Identifier: MIT */
/*
 * The native methods of the class sgi.pcp.trace (trace.java), for libpcp_trace.so.2.
 *
 * No JDK is needed to build this: the Java Native Interface is an ABI. The first argument of a
 * method points to a pointer to a table of functions, which have fixed places in it; the second is
 * the class or the object; `int` and `double` are passed as C does.
 */
#include <errno.h>
#include <stddef.h>

#include "probe/pmtrace.h"

/* Places in the table, from the chapter "JNI Functions" of the specification. */
enum { NEW_STRING_UTF = 167, GET_STRING_UTF_CHARS = 169, RELEASE_STRING_UTF_CHARS = 170 };

typedef void *const **jni;
typedef void *new_string(jni env, const char *text);
typedef const char *get_chars(jni env, void *string, unsigned char *is_copy_ret);
typedef void release_chars(jni env, void *string, const char *text);

/* Calls one of the two functions with the text of a Java string, which may be null. */
static int with_tag(jni env, void *tag, int (*plain)(const char *tag),
	int (*valued)(const char *tag, double value), double value)
{
	const char *text = tag ? ((get_chars *)(*env)[GET_STRING_UTF_CHARS])(env, tag, NULL) : NULL;
	int result;

	/* Java then throws OutOfMemoryError. */
	if (tag && !text)
		return -ENOMEM;
	result = plain ? plain(text) : valued(text, value);
	if (text)
		((release_chars *)(*env)[RELEASE_STRING_UTF_CHARS])(env, tag, text);
	return result;
}

#define METHOD(name) Java_sgi_pcp_trace_##name

int METHOD(pmtracebegin)(jni env, void *self, void *tag)
{
	(void)self;
	return with_tag(env, tag, pmtracebegin, NULL, 0);
}

int METHOD(pmtraceend)(jni env, void *self, void *tag)
{
	(void)self;
	return with_tag(env, tag, pmtraceend, NULL, 0);
}

int METHOD(pmtraceabort)(jni env, void *self, void *tag)
{
	(void)self;
	return with_tag(env, tag, pmtraceabort, NULL, 0);
}

int METHOD(pmtracepoint)(jni env, void *self, void *tag)
{
	(void)self;
	return with_tag(env, tag, pmtracepoint, NULL, 0);
}

int METHOD(pmtraceobs)(jni env, void *self, void *tag, double value)
{
	(void)self;
	return with_tag(env, tag, NULL, pmtraceobs, value);
}

int METHOD(pmtracecounter)(jni env, void *self, void *tag, double value)
{
	(void)self;
	return with_tag(env, tag, NULL, pmtracecounter, value);
}

int METHOD(pmtracestate)(jni env, void *self, int code)
{
	(void)env;
	(void)self;
	return pmtracestate(code);
}

void *METHOD(pmtraceerrstr)(jni env, void *self, int code)
{
	(void)self;
	return ((new_string *)(*env)[NEW_STRING_UTF])(env, pmtraceerrstr(code));
}
