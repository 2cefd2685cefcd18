/* SPDX-License-Identifier: MIT */
/*
 * Demangles symbols with libiberty, the library of c++filt, gdb and perf.
 *
 * Symbols are not trusted. libiberty refuses those that are too long or deep for its stack, but a
 * short one may expand to terabytes, because it can refer to its own parts. So callbacks receive
 * the text in pieces, and longjmp(3) leaves the demangler when the text gets too long. That may
 * leak memory for one identifier of a Rust symbol; the C++ demangler does not allocate while it
 * prints.
 */
#include <setjmp.h>

#include <libiberty/demangle.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/error.h"
#include "libprobe/query/query.h"
#include "probe/symbol.h"

enum { NAME_BYTES_MAX = 16 << 10 };

struct demangling {
	struct buffer text;
	jmp_buf too_long;
};

static void add_piece(const char *piece, size_t length, void *data)
{
	struct demangling *its = data;

	if (length > NAME_BYTES_MAX - its->text.length)
		longjmp(its->too_long, 1);
	buffer_bytes(&its->text, piece, length);
}

static bool demangle(struct demangling *its, const char *symbol, bool *is_rust_ret)
{
	const int options = DMGL_PARAMS | DMGL_ANSI;

	if (setjmp(its->too_long))
		return false;
	/* Rust's older symbols are valid C++ symbols, with a hash at the end: try Rust first. */
	*is_rust_ret = rust_demangle_callback(symbol, options, add_piece, its) != 0;
	if (*is_rust_ret)
		return true;
	its->text.length = 0;
	return cplus_demangle_v3_callback(symbol, options, add_piece, its) != 0;
}

struct probe_error *demangle_symbol(const char *symbol, bool *is_rust_ret, char **ret)
{
	struct demangling its = {0};

	*ret = NULL;
	*is_rust_ret = false;
	/*
	 * A name without `_` is not mangled: do not let libiberty search it for Rust's characters.
	 */
	if (symbol[0] != '_')
		return NULL;
	if (!demangle(&its, symbol, is_rust_ret) || !its.text.length) {
		buffer_deinit(&its.text);
		return NULL;
	}
	*ret = buffer_take(&its.text, NULL);
	return *ret ? NULL : probe_error_no_memory();
}

struct probe_error *probe_demangle(const char *symbol, char **ret)
{
	return demangle_symbol(symbol, &(bool){false}, ret);
}
