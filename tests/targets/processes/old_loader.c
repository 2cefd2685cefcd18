/* SPDX-License-Identifier: MIT */
/* flags: -nostdlib -static -fno-pie -no-pie -fno-stack-protector */
/*
 * Starts as a program with glibc 2.33 or older does: when everything is mapped, its loader sets the
 * thread pointer, and tells the kernel nothing else of the thread. It passes old_loader:turn(I)
 * three times. What makes it look like glibc's loader is the names of its functions; it can return
 * from a handler of signals, as every program with such a loader can.
 */
#include <asm/prctl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/sdt.h>
#include <sys/syscall.h>

struct r_debug _r_debug = {.r_version = 1, .r_state = RT_CONSISTENT};
static char page[4096] __attribute__((aligned(4096)));

void _dl_debug_state(void);
void _dl_allocate_tls(void);
void _start(void);

__asm__(".globl _dl_debug_state, _dl_allocate_tls\n"
	".type _dl_debug_state, @function\n"
	"_dl_debug_state: nopl 0(%rax,%rax,1)\n ret\n"
	".size _dl_debug_state, . - _dl_debug_state\n"
	".type _dl_allocate_tls, @function\n"
	"_dl_allocate_tls: leave\n ret\n"
	".size _dl_allocate_tls, . - _dl_allocate_tls\n"
	"return_from_signal: mov $15, %rax\n syscall\n ret\n");

static long call(long number, long first, long second, long third)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(first), "S"(second), "d"(third)
			 : "rcx", "r11", "memory");
	return result;
}

void _start(void)
{
	call(SYS_brk, 0, 0, 0);
	call(SYS_arch_prctl, ARCH_SET_FS, (long)page, 0);
	call(SYS_mprotect, (long)page, sizeof(page), PROT_READ);
	for (int i = 0; i < 3; i++) {
		STAP_PROBE1(old_loader, turn, i);
		call(SYS_getpid, 0, 0, 0);
	}
	call(SYS_exit_group, 0, 0, 0);
	__builtin_unreachable();
}
