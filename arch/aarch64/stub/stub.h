/* SPDX-License-Identifier: MIT */
#ifndef ARCH_AARCH64_STUB_STUB_H
#define ARCH_AARCH64_STUB_STUB_H

#include "arch/arch.h"

bool aarch64_capturable(const struct arch_arg *arg);
bool aarch64_capture_checked(const struct arch_capture *capture);
enum arch_stub_status aarch64_stub(const struct arch_stub *stub, uint64_t at, uint8_t *out,
	size_t room, struct arch_stub_code *ret);
size_t aarch64_call_unwind(
	const struct arch_extent *stubs, size_t count, uint8_t *out, size_t room);

#endif
