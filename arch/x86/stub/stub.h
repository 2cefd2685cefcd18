/* SPDX-License-Identifier: MIT */
#ifndef ARCH_X86_STUB_STUB_H
#define ARCH_X86_STUB_STUB_H

#include "arch/arch.h"

bool x86_64_capturable(const struct arch_arg *arg);
bool x86_64_capture_checked(const struct arch_capture *capture);
enum arch_stub_status x86_64_stub(const struct arch_stub *stub, uint64_t at, uint8_t *out,
	size_t room, struct arch_stub_code *ret);
size_t x86_64_call_unwind(const struct arch_extent *stubs, size_t count, uint8_t *out, size_t room);

#endif
