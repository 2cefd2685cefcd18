/* SPDX-License-Identifier: MIT */
/* flags: -nostdlib -shared -fpic -fno-stack-protector -Wl,-soname,ld-old.so -Wl,-e,_start */
/*
 * Starts as a program with glibc 2.33 or older does: when everything is mapped, its loader sets the
 * thread pointer, and tells the kernel nothing else of the thread. It passes old_loader:turn(I)
 * three times. What makes it look like glibc's loader is its name (DT_SONAME) and those of its
 * functions; it can return from a handler of signals, as every program with such a loader can.
 */
#include <link.h>
#include <sys/mman.h>
#include <sys/sdt.h>
#include <sys/syscall.h>

struct r_debug _r_debug = {.r_version = 1, .r_state = RT_CONSISTENT};
static char page[4096] __attribute__((aligned(4096)));

void _dl_debug_state(void);
void _dl_allocate_tls(void);
void _start(void);

#ifdef __x86_64__
#include <asm/prctl.h>

#define NOTIFY "nopl 0(%rax,%rax,1)\n ret\n"
#define ALLOCATE "leave\n ret\n"
#define RETURN_FROM_SIGNAL "mov $15, %rax\n syscall\n ret\n"

static long call(long number, long first, long second, long third)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(first), "S"(second), "d"(third)
			 : "rcx", "r11", "memory");
	return result;
}

static void set_thread_pointer(void *pointer)
{
	call(SYS_arch_prctl, ARCH_SET_FS, (long)pointer, 0);
}
#else
#define NOTIFY "nop\n ret\n"
#define ALLOCATE "mov sp, x29\n ldp x29, x30, [sp], #16\n ret\n"
/* Behind it, a call that returns; libc has such code, too. */
#define RETURN_FROM_SIGNAL "mov x8, #139\n svc #0\n mov x8, #172\n svc #0\n ret\n"

static long call(long number, long first, long second, long third)
{
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = first;
	register long x1 __asm__("x1") = second, x2 __asm__("x2") = third;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
}

static void set_thread_pointer(void *pointer)
{
	__asm__ volatile("msr tpidr_el0, %0" ::"r"(pointer));
}
#endif

__asm__(".globl _dl_debug_state, _dl_allocate_tls\n"
	".type _dl_debug_state, %function\n"
	"_dl_debug_state: " NOTIFY ".size _dl_debug_state, . - _dl_debug_state\n"
	".type _dl_allocate_tls, %function\n"
	"_dl_allocate_tls: " ALLOCATE ".size _dl_allocate_tls, . - _dl_allocate_tls\n"
	"return_from_signal: " RETURN_FROM_SIGNAL);

void _start(void)
{
	call(SYS_brk, 0, 0, 0);
	set_thread_pointer(page);
	call(SYS_mprotect, (long)page, sizeof(page), PROT_READ);
	for (int i = 0; i < 3; i++) {
		STAP_PROBE1(old_loader, turn, i);
		call(SYS_getpid, 0, 0, 0);
	}
	call(SYS_exit_group, 0, 0, 0);
	__builtin_unreachable();
}
