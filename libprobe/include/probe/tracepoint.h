/* SPDX-License-Identifier: MIT */
/*
 * Static probes with types, declared as the Linux kernel declares its tracepoints. Needs gcc or
 * clang, C99 or C++, and no other package.
 *
 *	// shop.h: a provider, a name, and the type and name of each argument
 *	PROBE_DECLARE_TRACE(shop, order, int, id, const char *, customer);
 *
 *	// shop.c: one source file of each executable or library with these probes
 *	PROBE_DEFINE_TRACE(shop, order);
 *
 *	// anywhere
 *	trace_shop_order(id, customer);
 *	if (trace_shop_order_enabled())
 *		trace_shop_order(id, describe(order));
 *
 * The declaration makes these functions, whose arguments the compiler checks:
 *
 *	void trace_shop_order(int id, const char *customer)
 *		is the probe: a nop in the code, and a note in the file, of the form that
 *		<sys/sdt.h> has and every tracer knows. It moves no value. Each inlined or
 *		unrolled copy is a site of its own.
 *	int trace_shop_order_enabled(void)
 *		tests whether somebody listens, by the probe's semaphore. In a source file that
 *		defines PROBE_TRACEPOINT_GUARD before it includes this header, it is a
 *		guard instead: instructions that do nothing and read no memory, of which probectl
 *		and libprobe turn one into a jump while they listen. Other tracers raise
 *		semaphores, and cannot do that: it stays 0 for them.
 *	struct probe_error *register_trace_shop_order(
 *			void (*function)(void *data, int id, const char *customer), void *data)
 *	struct probe_error *unregister_trace_shop_order(the same)
 *		connect and disconnect a function, which each hit calls with the arguments
 *		(probe_self_register()). A function of another type is an error of the compiler.
 *		The program must be linked with libprobe if it uses these two.
 *
 * An argument whose place no note can tell (docs/instrumenting.md) is 0 for a connected function.
 *
 * Up to 12 arguments: integers, enumerations, pointers, float and double. A type is one or several
 * words before the name, so arrays and pointers to functions need a typedef. The probes of a
 * program and of a library are apart: each needs the definition. A provider or name that is a macro
 * is replaced. The compiler must write AT&T's syntax on x86-64 (no -masm=intel).
 *
 * Sources of the note's form and of the names: SystemTap, "User Space Probe Implementation".
 */
#ifndef PROBE_TRACEPOINT_H
#define PROBE_TRACEPOINT_H

#include "hit.h"
#include "self.h"

#define PROBE_DECLARE_TRACE(...) PROBE_TRACE_DECLARE(PROBE_TRACE_COUNT(__VA_ARGS__), __VA_ARGS__, )
#define PROBE_DEFINE_TRACE(provider, name) PROBE_TRACE_DEFINE(provider, name)

/* ---- Private: for the macros above ---------------------------------------------- */

/* ---- For each argument ------------------------------------------------------- */

/* clang-format off */
#define PROBE_TRACE_EACH_0(m, s, ...) m##_NONE
#define PROBE_TRACE_EACH_1(m, s, t, a, ...) m(t, a)
#define PROBE_TRACE_EACH_2(m, s, t, a, ...) m(t, a) s() PROBE_TRACE_EACH_1(m, s, __VA_ARGS__)
#define PROBE_TRACE_EACH_3(m, s, t, a, ...) m(t, a) s() PROBE_TRACE_EACH_2(m, s, __VA_ARGS__)
#define PROBE_TRACE_EACH_4(m, s, t, a, ...) m(t, a) s() PROBE_TRACE_EACH_3(m, s, __VA_ARGS__)
#define PROBE_TRACE_EACH_5(m, s, t, a, ...) m(t, a) s() PROBE_TRACE_EACH_4(m, s, __VA_ARGS__)
#define PROBE_TRACE_EACH_6(m, s, t, a, ...) m(t, a) s() PROBE_TRACE_EACH_5(m, s, __VA_ARGS__)
#define PROBE_TRACE_EACH_7(m, s, t, a, ...) m(t, a) s() PROBE_TRACE_EACH_6(m, s, __VA_ARGS__)
#define PROBE_TRACE_EACH_8(m, s, t, a, ...) m(t, a) s() PROBE_TRACE_EACH_7(m, s, __VA_ARGS__)
#define PROBE_TRACE_EACH_9(m, s, t, a, ...) m(t, a) s() PROBE_TRACE_EACH_8(m, s, __VA_ARGS__)
#define PROBE_TRACE_EACH_10(m, s, t, a, ...) m(t, a) s() PROBE_TRACE_EACH_9(m, s, __VA_ARGS__)
#define PROBE_TRACE_EACH_11(m, s, t, a, ...) m(t, a) s() PROBE_TRACE_EACH_10(m, s, __VA_ARGS__)
#define PROBE_TRACE_EACH_12(m, s, t, a, ...) m(t, a) s() PROBE_TRACE_EACH_11(m, s, __VA_ARGS__)

/* The number of arguments behind provider and name. One type or name too many is an error. */
#define PROBE_TRACE_COUNT(...) \
	PROBE_TRACE_27TH(__VA_ARGS__, 12, odd, 11, odd, 10, odd, 9, odd, 8, odd, 7, odd, 6, odd, 5, \
		odd, 4, odd, 3, odd, 2, odd, 1, odd, 0, odd, odd)
#define PROBE_TRACE_27TH(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, \
	y, z, n27, ...) n27

#define PROBE_TRACE_COMMA() ,
#define PROBE_TRACE_NOTHING()
#define PROBE_TRACE_SPACE() "\t.ascii \" \"\n"

/* The list of arguments of a pattern: a probe that has fewer is an error. */
#define PROBE_TRACE_LIST_0 ""
#define PROBE_TRACE_LIST_1 "(arg0)"
#define PROBE_TRACE_LIST_2 "(arg0,arg1)"
#define PROBE_TRACE_LIST_3 "(arg0,arg1,arg2)"
#define PROBE_TRACE_LIST_4 "(arg0,arg1,arg2,arg3)"
#define PROBE_TRACE_LIST_5 "(arg0,arg1,arg2,arg3,arg4)"
#define PROBE_TRACE_LIST_6 "(arg0,arg1,arg2,arg3,arg4,arg5)"
#define PROBE_TRACE_LIST_7 "(arg0,arg1,arg2,arg3,arg4,arg5,arg6)"
#define PROBE_TRACE_LIST_8 "(arg0,arg1,arg2,arg3,arg4,arg5,arg6,arg7)"
#define PROBE_TRACE_LIST_9 "(arg0,arg1,arg2,arg3,arg4,arg5,arg6,arg7,arg8)"
#define PROBE_TRACE_LIST_10 "(arg0,arg1,arg2,arg3,arg4,arg5,arg6,arg7,arg8,arg9)"
#define PROBE_TRACE_LIST_11 "(arg0,arg1,arg2,arg3,arg4,arg5,arg6,arg7,arg8,arg9,arg10)"
#define PROBE_TRACE_LIST_12 "(arg0,arg1,arg2,arg3,arg4,arg5,arg6,arg7,arg8,arg9,arg10,arg11)"
/* clang-format on */

/* ---- Types --------------------------------------------------------------------- */

#define PROBE_TRACE_INLINE static inline __attribute__((always_inline, unused))

/*
 * A compiler keeps a floating-point constant in memory that no symbol names. So that the note can
 * tell where it is, it is copied to the stack.
 */
PROBE_TRACE_INLINE double trace_probe_double(double value)
{
	if (__builtin_constant_p(value))
		__asm__("" : "+m"(value));
	return value;
}
PROBE_TRACE_INLINE float trace_probe_float(float value)
{
	if (__builtin_constant_p(value))
		__asm__("" : "+m"(value));
	return value;
}

#ifdef __cplusplus
#define PROBE_TRACE_METHOD static inline __attribute__((always_inline))
/* clang-format off */
/* Integers and enumerations. */
template <class T> struct probe_trace_type {
	enum { is_float = 0, is_signed = T(-1) < T(1) };
	PROBE_TRACE_METHOD T from(const struct probe_value &value) { return (T)value.u; }
	PROBE_TRACE_METHOD T place(T value) { return value; }
};
template <class T> struct probe_trace_type<T *> {
	enum { is_float = 0, is_signed = 0 };
	PROBE_TRACE_METHOD T *from(const struct probe_value &value) { return (T *)(size_t)value.u; }
	PROBE_TRACE_METHOD T *place(T *value) { return value; }
};
template <> struct probe_trace_type<float> {
	enum { is_float = 1, is_signed = 1 };
	PROBE_TRACE_METHOD float from(const struct probe_value &value) { return (float)value.f; }
	PROBE_TRACE_METHOD float place(float value) { return trace_probe_float(value); }
};
template <> struct probe_trace_type<double> {
	enum { is_float = 1, is_signed = 1 };
	PROBE_TRACE_METHOD double from(const struct probe_value &value) { return value.f; }
	PROBE_TRACE_METHOD double place(double value) { return trace_probe_double(value); }
};
template <class T> struct probe_trace_type<const T> : probe_trace_type<T> {};
/* clang-format on */
#define PROBE_TRACE_IS_FLOAT(t) (int)probe_trace_type<t>::is_float
#define PROBE_TRACE_IS_SIGNED(t) (int)probe_trace_type<t>::is_signed
#define PROBE_TRACE_FROM(t, value) probe_trace_type<t>::from(*(value))
#define PROBE_TRACE_PLACE(t, a) probe_trace_type<t>::place(a)
#define PROBE_TRACE_FUNCTION(type, ...) typedef void (*type)(void *data __VA_ARGS__)
#define PROBE_TRACE_GIVEN(function) (function)
#define PROBE_TRACE_C extern "C"
#else
/* GNU's numbers of classes: 5 is a pointer, 8 a floating-point number. */
#define PROBE_TRACE_IS_POINTER(t) (__builtin_classify_type((t)0) == 5)
#define PROBE_TRACE_IS_FLOAT(t) (__builtin_classify_type((t)0) == 8)
#define PROBE_TRACE_IS_SIGNED(t)                                                                   \
	((__typeof__(__builtin_choose_expr(PROBE_TRACE_IS_POINTER(t), 0U, (t)0)))-1 < 1)
#define PROBE_TRACE_FROM(t, value)                                                                 \
	(t) __builtin_choose_expr(PROBE_TRACE_IS_FLOAT(t), (value)->f, (size_t)(value)->u)
#define PROBE_TRACE_PLACE(t, a)                                                                    \
	__builtin_choose_expr(PROBE_TRACE_IS_FLOAT(t),                                             \
		__builtin_choose_expr(sizeof(t) == sizeof(float),                                  \
			trace_probe_float(PROBE_TRACE_IF_FLOAT(t, a)),                             \
			trace_probe_double(PROBE_TRACE_IF_FLOAT(t, a))),                           \
		a)
#define PROBE_TRACE_IF_FLOAT(t, a) __builtin_choose_expr(PROBE_TRACE_IS_FLOAT(t), a, 0)
/*
 * C converts between types of functions, with a warning at most. As a member of such a union, a
 * function of another type is an error.
 */
#define PROBE_TRACE_FUNCTION(type, ...)                                                            \
	typedef union {                                                                            \
		void (*call)(void *data __VA_ARGS__);                                              \
	} __attribute__((transparent_union)) type
#define PROBE_TRACE_GIVEN(function) (function).call
#define PROBE_TRACE_C extern
#endif

/* ---- The note -------------------------------------------------------------------- */

#ifdef __LP64__
#define PROBE_TRACE_ADDRESS ".8byte"
#else
#define PROBE_TRACE_ADDRESS ".4byte"
#endif

/*
 * An argument is its size, negative if it is signed, an "f" if it is a floating-point number, and
 * where it is: "-4@%eax", "8f@-16(%rbp)".
 */
#define PROBE_TRACE_ARGUMENT(t, a)                                                                 \
	"\t.if %c[probe_size_" #a "] == 64\n\t.ascii \"4f@\"\n"                                    \
	"\t.elseif %c[probe_size_" #a "] == 128\n\t.ascii \"8f@\"\n"                               \
	"\t.else\n\t.ascii \"%c[probe_size_" #a "]@\"\n\t.endif\n"                                 \
	"\t.ascii \"%[probe_value_" #a "]\"\n"
#define PROBE_TRACE_ARGUMENT_NONE ""
/* The compiler allows 30 operands: size and kind are one. */
#define PROBE_TRACE_OPERANDS(t, a)                                                                 \
	PROBE_TRACE_NAMED(probe_size_##a)                                                          \
	"n"((int)sizeof(t) * (PROBE_TRACE_IS_FLOAT(t)		? 16                               \
				     : PROBE_TRACE_IS_SIGNED(t) ? -1                               \
								: 1)),                             \
		PROBE_TRACE_NAMED(probe_value_##a) "nor"(PROBE_TRACE_PLACE(t, a))
#define PROBE_TRACE_NAMED(name) [name]
#define PROBE_TRACE_OPERANDS_NONE

/*
 * A nop, and the note for it. The section of the note belongs to the section group of the code, so
 * that both are dropped together ("?"). The base lets tools notice that a file was moved by
 * prelink; it is the same in all files of a program.
 */
#define PROBE_TRACE_NOTE(provider, name, arguments)                                                \
	"990:\tnop\n"                                                                              \
	"\t.pushsection .note.stapsdt, \"?\", \"note\"\n"                                          \
	"\t.balign 4\n"                                                                            \
	"\t.4byte 992f - 991f, 994f - 993f, 3\n"                                                   \
	"991:\t.asciz \"stapsdt\"\n"                                                               \
	"992:\t.balign 4\n"                                                                        \
	"993:\t" PROBE_TRACE_ADDRESS " 990b, _.stapsdt.base, " #provider "_" #name "_semaphore\n"  \
	"\t.asciz \"" #provider "\", \"" #name "\"\n" arguments "\t.byte 0\n"                      \
	"994:\t.balign 4\n"                                                                        \
	"\t.popsection\n" PROBE_TRACE_BASE
#define PROBE_TRACE_BASE                                                                           \
	"\t.ifndef _.stapsdt.base\n"                                                               \
	"\t.pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"              \
	"\t.weak _.stapsdt.base\n"                                                                 \
	"\t.hidden _.stapsdt.base\n"                                                               \
	"_.stapsdt.base:\t.space 1\n"                                                              \
	"\t.size _.stapsdt.base, 1\n"                                                              \
	"\t.popsection\n"                                                                          \
	"\t.endif\n"

/* ---- The guard ------------------------------------------------------------------- */

#ifndef PROBE_TRACEPOINT_GUARD
#define PROBE_TRACE_ENABLED(provider, name) return provider##_##name##_semaphore != 0;
#else
/*
 * On x86-64, `test $imm32,%eax`: another first byte makes it `jmp rel32`, with the same number. The
 * nop before it has room for the jump of a site that is right before.
 */
#if defined(__x86_64__) && defined(__LP64__)
#define PROBE_TRACE_ROOM "\t.byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n"
#define PROBE_TRACE_OFF "\t.byte 0xa9\n\t.4byte %l[probe_on] - 991f\n"
#define PROBE_TRACE_REFER "R_X86_64_NONE"
#define PROBE_TRACE_CHANGED "cc"
#elif defined(__aarch64__) && defined(__LP64__)
#define PROBE_TRACE_ROOM
#define PROBE_TRACE_OFF "\tnop\n"
#define PROBE_TRACE_REFER "R_AARCH64_NONE"
#define PROBE_TRACE_CHANGED
#else
#error "PROBE_TRACEPOINT_GUARD is for x86-64 and AArch64: leave it out"
#endif
/*
 * The note has a section and a name of its own, which only probectl reads. A guard belongs to the
 * probes with its semaphore. It refers to that, so that linkers keep it (--gc-sections).
 */
#define PROBE_TRACE_ENABLED(provider, name)                                                        \
	__asm__ goto(PROBE_TRACE_ROOM "990:" PROBE_TRACE_OFF "991:\n"                              \
				      "\t.pushsection .note.probectl, \"?\", \"note\"\n"           \
				      "\t.balign 4\n"                                              \
				      "\t.4byte 993f - 992f, 995f - 994f, 0x6764\n"                \
				      "992:\t.asciz \"probectl\"\n"                                \
				      "993:\t.balign 4\n"                                          \
				      "994:\t.8byte 990b, %l[probe_on], _.stapsdt.base\n"          \
				      "\t.8byte " #provider "_" #name "_semaphore\n"               \
				      "995:\t.popsection\n"                                        \
				      "\t.reloc 990b, " PROBE_TRACE_REFER ", " #provider "_" #name \
				      "_semaphore\n" PROBE_TRACE_BASE ::                           \
					      : PROBE_TRACE_CHANGED                                \
		     : probe_on);                                                                  \
	return 0;                                                                                  \
	probe_on:                                                                                  \
	return 1;
#endif

/* ---- Declaring and defining -------------------------------------------------------- */

#define PROBE_TRACE_PARAMETER(t, a) t a
#define PROBE_TRACE_PARAMETER_NONE void
#define PROBE_TRACE_MORE(t, a) , t a
#define PROBE_TRACE_MORE_NONE
#define PROBE_TRACE_VALUE(t, a) const struct probe_value *probe_value_##a = probe_args++;
#define PROBE_TRACE_VALUE_NONE
#define PROBE_TRACE_PASS(t, a) , PROBE_TRACE_FROM(t, probe_value_##a)
#define PROBE_TRACE_PASS_NONE

/* Here `count` becomes a number. */
#define PROBE_TRACE_DECLARE(count, ...) PROBE_TRACE_DECLARE_ALL(count, __VA_ARGS__)
#define PROBE_TRACE_DECLARE_ALL(count, provider, name, ...)                                        \
	PROBE_TRACE_C volatile unsigned short provider##_##name##_semaphore                        \
		__attribute__((visibility("hidden")));                                             \
	PROBE_TRACE_INLINE int trace_##provider##_##name##_guard(void){PROBE_TRACE_ENABLED(        \
		provider, name)} PROBE_TRACE_INLINE int trace_##provider##_##name##_enabled(void)  \
	{                                                                                          \
		return __builtin_expect(trace_##provider##_##name##_guard(), 0);                   \
	}                                                                                          \
	PROBE_TRACE_INLINE void trace_##provider##_##name(                                         \
		PROBE_TRACE_EACH_##count(PROBE_TRACE_PARAMETER, PROBE_TRACE_COMMA, __VA_ARGS__))   \
	{                                                                                          \
		__asm__ volatile(PROBE_TRACE_NOTE(provider, name,                                  \
			PROBE_TRACE_EACH_##count(PROBE_TRACE_ARGUMENT, PROBE_TRACE_SPACE,          \
				__VA_ARGS__))::PROBE_TRACE_EACH_##count(PROBE_TRACE_OPERANDS,      \
			PROBE_TRACE_COMMA, __VA_ARGS__));                                          \
	}                                                                                          \
	PROBE_TRACE_FUNCTION(trace_##provider##_##name##_function,                                 \
		PROBE_TRACE_EACH_##count(PROBE_TRACE_MORE, PROBE_TRACE_NOTHING, __VA_ARGS__));     \
	static inline __attribute__((unused)) void trace_##provider##_##name##_through(            \
		const struct probe_self_hit *hit, void *data)                                      \
	{                                                                                          \
		void (*function)(void *data PROBE_TRACE_EACH_##count(                              \
			PROBE_TRACE_MORE, PROBE_TRACE_NOTHING, __VA_ARGS__)) =                     \
			(void (*)(void *PROBE_TRACE_EACH_##count(PROBE_TRACE_MORE,                 \
				PROBE_TRACE_NOTHING, __VA_ARGS__)))hit->function;                  \
		const struct probe_value *probe_args = hit->args;                                  \
		PROBE_TRACE_EACH_##count(PROBE_TRACE_VALUE, PROBE_TRACE_NOTHING, __VA_ARGS__)(     \
			void) probe_args;                                                          \
		function(data PROBE_TRACE_EACH_##count(                                            \
			PROBE_TRACE_PASS, PROBE_TRACE_NOTHING, __VA_ARGS__));                      \
	}                                                                                          \
	PROBE_MUST_CHECK static inline                                                             \
		__attribute__((unused)) struct probe_error *register_trace_##provider##_##name(    \
			trace_##provider##_##name##_function function, void *data)                 \
	{                                                                                          \
		return probe_self_register_typed(#provider ":" #name PROBE_TRACE_LIST_##count,     \
			trace_##provider##_##name##_through,                                       \
			(void (*)(void))PROBE_TRACE_GIVEN(function), data);                        \
	}                                                                                          \
	PROBE_MUST_CHECK static inline                                                             \
		__attribute__((unused)) struct probe_error *unregister_trace_##provider##_##name(  \
			trace_##provider##_##name##_function function, void *data)                 \
	{                                                                                          \
		return probe_self_unregister_typed(#provider ":" #name PROBE_TRACE_LIST_##count,   \
			(void (*)(void))PROBE_TRACE_GIVEN(function), data);                        \
	}                                                                                          \
	struct trace_##provider##_##name##_declared

#define PROBE_TRACE_DEFINE(provider, name)                                                         \
	volatile unsigned short provider##_##name##_semaphore                                      \
		__attribute__((section(".probes"), visibility("hidden"), used)) = 0

#endif
