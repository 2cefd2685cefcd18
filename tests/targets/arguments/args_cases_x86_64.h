/* SPDX-License-Identifier: MIT */
/*
 * Every form of operand that a note's arguments can have on x86-64, with the value that a tracer
 * must show.
 *
 *	ARGS_CASE(NAME, SETUP, SPEC, EXPECTED)
 *
 * NAME is the probe's, and SPEC its argument string. SETUP is assembly that runs right before
 * the site, after ARGS_ENTER (args.c) has given every general register except the stack pointer a
 * value of its own. EXPECTED is the `args` of the hit in JSON; an aggregate is the hexadecimal
 * string of its bytes.
 *
 * The file is included several times, with a different ARGS_CASE each time.
 */
/* clang-format off */

/* General registers in every width. */
ARGS_CASE(rax, "", "8@%rax -8@%rax 4@%eax -4@%eax 2@%ax -2@%ax 1@%al -1@%al",
	"[9833440829064126592, -8613303244645425024, 2419105920, -1875861376, 41088, -24448, 128, -128]")
ARGS_CASE(rbx, "", "8@%rbx -8@%rbx 4@%ebx -4@%ebx 2@%bx -2@%bx 1@%bl -1@%bl",
	"[9833440829080969601, -8613303244628582015, 2435948929, -1859018367, 41345, -24191, 129, -127]")
ARGS_CASE(rcx, "", "8@%rcx -8@%rcx 4@%ecx -4@%ecx 2@%cx -2@%cx 1@%cl -1@%cl",
	"[9833440829097812610, -8613303244611739006, 2452791938, -1842175358, 41602, -23934, 130, -126]")
ARGS_CASE(rdx, "", "8@%rdx -8@%rdx 4@%edx -4@%edx 2@%dx -2@%dx 1@%dl -1@%dl",
	"[9833440829114655619, -8613303244594895997, 2469634947, -1825332349, 41859, -23677, 131, -125]")
ARGS_CASE(rsi, "", "8@%rsi -8@%rsi 4@%esi -4@%esi 2@%si -2@%si 1@%sil -1@%sil",
	"[9833440829131498628, -8613303244578052988, 2486477956, -1808489340, 42116, -23420, 132, -124]")
ARGS_CASE(rdi, "", "8@%rdi -8@%rdi 4@%edi -4@%edi 2@%di -2@%di 1@%dil -1@%dil",
	"[9833440829148341637, -8613303244561209979, 2503320965, -1791646331, 42373, -23163, 133, -123]")
ARGS_CASE(rbp, "", "8@%rbp -8@%rbp 4@%ebp -4@%ebp 2@%bp -2@%bp 1@%bpl -1@%bpl",
	"[9833440829165184646, -8613303244544366970, 2520163974, -1774803322, 42630, -22906, 134, -122]")
ARGS_CASE(r8, "", "8@%r8 -8@%r8 4@%r8d -4@%r8d 2@%r8w -2@%r8w 1@%r8b -1@%r8b",
	"[9833440829182027655, -8613303244527523961, 2537006983, -1757960313, 42887, -22649, 135, -121]")
ARGS_CASE(r9, "", "8@%r9 -8@%r9 4@%r9d -4@%r9d 2@%r9w -2@%r9w 1@%r9b -1@%r9b",
	"[9833440829198870664, -8613303244510680952, 2553849992, -1741117304, 43144, -22392, 136, -120]")
ARGS_CASE(r10, "", "8@%r10 -8@%r10 4@%r10d -4@%r10d 2@%r10w -2@%r10w 1@%r10b -1@%r10b",
	"[9833440829215713673, -8613303244493837943, 2570693001, -1724274295, 43401, -22135, 137, -119]")
ARGS_CASE(r11, "", "8@%r11 -8@%r11 4@%r11d -4@%r11d 2@%r11w -2@%r11w 1@%r11b -1@%r11b",
	"[9833440829232556682, -8613303244476994934, 2587536010, -1707431286, 43658, -21878, 138, -118]")
ARGS_CASE(r12, "", "8@%r12 -8@%r12 4@%r12d -4@%r12d 2@%r12w -2@%r12w 1@%r12b -1@%r12b",
	"[9833440829249399691, -8613303244460151925, 2604379019, -1690588277, 43915, -21621, 139, -117]")
ARGS_CASE(r13, "", "8@%r13 -8@%r13 4@%r13d -4@%r13d 2@%r13w -2@%r13w 1@%r13b -1@%r13b",
	"[9833440829266242700, -8613303244443308916, 2621222028, -1673745268, 44172, -21364, 140, -116]")
ARGS_CASE(r14, "", "8@%r14 -8@%r14 4@%r14d -4@%r14d 2@%r14w -2@%r14w 1@%r14b -1@%r14b",
	"[9833440829283085709, -8613303244426465907, 2638065037, -1656902259, 44429, -21107, 141, -115]")
ARGS_CASE(r15, "", "8@%r15 -8@%r15 4@%r15d -4@%r15d 2@%r15w -2@%r15w 1@%r15b -1@%r15b",
	"[9833440829299928718, -8613303244409622898, 2654908046, -1640059250, 44686, -20850, 142, -114]")
ARGS_CASE(high_bytes, "", "1@%ah -1@%ah 1@%bh -1@%bh 1@%ch -1@%ch 1@%dh -1@%dh",
	"[160, -96, 161, -95, 162, -94, 163, -93]")
ARGS_CASE(narrower_than_register, "", "4@%rax -4@%rax 2@%eax -2@%rax 1@%eax -1@%ax 1@%rdi",
	"[2419105920, -1875861376, 41088, -24448, 128, -128, 133]")
ARGS_CASE(size_missing, "", "%rax %eax %ax %al %ah %r9d %r9b",
	"[9833440829064126592, 2419105920, 41088, 128, 160, 2553849992, 136]")
/* The stack pointer, on a stack at a known address (ARGS_STACK in args.c). */
ARGS_CASE(rsp, "movl $0x60008000, %esp", "8@%rsp -8@%rsp 4@%esp 2@%sp -2@%sp 1@%spl",
	"[1610645504, 1610645504, 1610645504, 32768, -32768, 0]")

/* Immediates of all sizes and signs. */
ARGS_CASE(immediate_64, "", "8@$18446744073709551615 -8@$-9223372036854775808"
	" -8@$9223372036854775807 8@$0x7fffffffffffffff 8@$-1 -8@$-0x10 8@$0",
	"[18446744073709551615, -9223372036854775808, 9223372036854775807,"
	" 9223372036854775807, 18446744073709551615, -16, 0]")
ARGS_CASE(immediate_32, "", "4@$5 -4@$-5 4@$-1 4@$4294967295 -4@$4294967295 -4@$0 4@$0x10 $5",
	"[5, -5, 4294967295, 4294967295, -1, 0, 16, 5]")
ARGS_CASE(immediate_16, "", "2@$-1 2@$65535 -2@$65535 -2@$-32768 2@$7",
	"[65535, 65535, -1, -32768, 7]")
ARGS_CASE(immediate_8, "", "1@$255 1@$-1 -1@$-1 -1@$255 -1@$127", "[255, 255, -1, -1, 127]")

/* Memory: sizes and signs. */
ARGS_CASE(memory_sizes, "lea args_data(%rip), %rax",
	"8@(%rax) -8@8(%rax) 8@8(%rax) -4@16(%rax) 4@16(%rax) 4@20(%rax) -4@20(%rax)"
	" -2@24(%rax) 2@24(%rax) 2@26(%rax) -1@28(%rax) 1@28(%rax) 1@29(%rax)",
	"[1234605616436508552, -77129852519530769, 18369614221190020847, -100000, 4294867296,"
	" 3000000000, -1294967296, -3000, 62536, 60000, -3, 253, 250]")

/* disp(base,index,scale), with parts missing. */
ARGS_CASE(memory_index, "lea args_data(%rip), %rax; mov $2, %ecx; mov $8, %edx",
	"8@-8(%rax,%rcx,4) -4@(%rax,%rcx,8) -8@(%rax,%rdx) -8@(%rax,%rdx,1) -4@8(%rax,%rdx)"
	" 8@-4(%rax,%rcx,2) -8@0x4(%rax,%rcx,2) 8@-0x8(%rax,%rdx,1) -4@12(%rax,%rcx,2)",
	"[1234605616436508552, -100000, -77129852519530769, -77129852519530769, -100000,"
	" 1234605616436508552, -77129852519530769, 1234605616436508552, -100000]")
ARGS_CASE(memory_no_base, "lea args_data(%rip), %rcx; mov %rcx, %rdx; shr $3, %rcx",
	"8@(,%rcx,8) -8@8(,%rcx,8) -4@16(,%rdx,1) -4@16(,%rdx)",
	"[1234605616436508552, -77129852519530769, -100000, -100000]")
ARGS_CASE(memory_high_registers, "lea args_data(%rip), %r13; mov $2, %r12d; mov %r13, %rbp; mov %r13, %r8",
	"8@(%r13) 8@0(%rbp) -4@(%r8,%r12,8) -4@8(%r13,%r12,4) 8@(%rbp)",
	"[1234605616436508552, 1234605616436508552, -100000, -100000, 1234605616436508552]")
ARGS_CASE(memory_negative_index, "lea args_data+16(%rip), %rbx; mov $-2, %r9; mov $-8, %rsi",
	"8@(%rbx,%r9,8) -8@(%rbx,%rsi)", "[1234605616436508552, -77129852519530769]")
ARGS_CASE(stack, "pushq $-5; pushq $7; pushq $0x12345678",
	"8@(%rsp) 4@8(%rsp) -8@16(%rsp) -4@16(%rsp) 2@(%rsp) 1@1(%rsp)",
	"[305419896, 7, -5, -5, 22136, 86]")
ARGS_CASE(red_zone, "movq $123, -8(%rsp); movl $-456, -64(%rsp); movq $789, -128(%rsp)",
	"8@-8(%rsp) -4@-64(%rsp) 8@-128(%rsp)", "[123, -456, 789]")

/* Symbols, relative to the instruction. */
ARGS_CASE(rip, "", "8@args_data(%rip) -8@args_data+8(%rip) -8@8+args_data(%rip)"
	" -4@args_data+16(%rip) 8@args_end-8(%rip) 8@-8+args_end(%rip) -4@args_local(%rip)"
	" -4@args_local+4(%rip) 2@args_local(%rip)",
	"[1234605616436508552, -77129852519530769, -77129852519530769, -100000, 4242, 4242,"
	" -31337, 31338, 34199]")

/* Floating point. */
ARGS_CASE(float_memory, "lea args_data(%rip), %rax",
	"8f@32(%rax) 8f@40(%rax) 4f@48(%rax) 4f@52(%rax) -8f@32(%rax)",
	"[1.5, -22500000000.0, 0.5, -0.125, 1.5]")
ARGS_CASE(float_xmm, "movsd args_data+32(%rip), %xmm0; movss args_data+52(%rip), %xmm1;"
	" movsd args_data+40(%rip), %xmm15; movss args_data+48(%rip), %xmm8",
	"8f@%xmm0 4f@%xmm1 8f@%xmm15 4f@%xmm8", "[1.5, -0.125, -22500000000.0, 0.5]")
ARGS_CASE(integer_xmm, "movq args_data(%rip), %xmm2; movd args_data+16(%rip), %xmm9",
	"8@%xmm2 -4@%xmm9 4@%xmm2", "[1234605616436508552, -100000, 1432778632]")
ARGS_CASE(float_general, "mov args_data+32(%rip), %rcx; mov args_data+52(%rip), %edx",
	"8f@%rcx 4f@%edx", "[1.5, -0.125]")

/* Aggregates. */
ARGS_CASE(aggregate, "lea args_data(%rip), %rax",
	"16@56(%rax) 4@$1 24@56(%rax)",
	"[\"0102030405060708090a0b0c0d0e0f10\", 1,"
	" \"0102030405060708090a0b0c0d0e0f101112131415161718\"]")

/* Of 16 bytes in registers, or a constant, the note names the lower half. */
ARGS_CASE(half, "mov args_data(%rip), %rsi; mov $7, %edi", "16@%rsi -16@%rdi 4@$1 -16@$-2",
	"[\"8877665544332211\", \"0700000000000000\", 1, \"feffffffffffffff\"]")

/* An unreadable argument affects neither the probe nor the other arguments. */
ARGS_CASE(unreadable, "", "8@%zzz 4@$1 8@(%rax,%rbx,3) 4@$2 8@[rax] 8@ @ 4@$3 8@(%rax 4@$4"
	" 99999999999999999999@%rax 8@no_such_symbol(%rip) nonsense 4@$5",
	"[null, 1, null, 2, null, null, null, 3, null, 4, null, null, null, 5]")

/* None, and more than <sys/sdt.h> can make. */
ARGS_CASE(none, "", "", "[]")
ARGS_CASE(sixteen, "", "4@$0 4@$1 4@$2 4@$3 4@$4 4@$5 4@$6 4@$7 4@$8 4@$9 4@$10 4@$11 4@$12 4@$13"
	" 4@$14 4@$15", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]")

#ifdef ARGS_NOPIE
/* Absolute addresses, which only code that is not position-independent holds. */
ARGS_CASE(absolute_symbol, "", "8@args_data -8@args_data+8 -4@16+args_data 8@args_end-8",
	"[1234605616436508552, -77129852519530769, -100000, 4242]")
ARGS_CASE(absolute_number, "", "4@1610612736 -4@0x60000004", "[3735928559, -77]")
ARGS_CASE(symbol_with_base, "mov $8, %ebx; mov $2, %ecx",
	"-8@args_data(%rbx) -4@args_data(,%rcx,8) -4@args_data+8(%rbx) -4@args_data(%rbx,%rcx,4)"
	" -4@8+args_data(%rbx) 8@args_data-8(%rbx)",
	"[-77129852519530769, -100000, -100000, -100000, -100000, 1234605616436508552]")
#endif
