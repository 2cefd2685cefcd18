# SPDX-License-Identifier: MIT
# `make check-aarch64`, for the Makefile: builds all of the project with a cross compiler and the
# packages of an arm64 Debian, and runs there, in an emulator, what works on aarch64 so far. The
# build folder has to be below the sources, which is all that the emulator sees.

AARCH64 := $(BUILD)/aarch64
AARCH64_ROOT := $(abspath $(AARCH64))/debian/root
AARCH64_LIB := $(AARCH64_ROOT)/usr/lib/aarch64-linux-gnu
# The limits of the whole and of a test: an emulator is slow.
AARCH64_SECONDS ?= 14400
AARCH64_TEST_SECONDS ?= 900
# By how much the hits that only have to be many are fewer there.
AARCH64_SLOWER ?= 10
# 1: only tests of what is different there.
AARCH64_SHORT ?= 0
AARCH64_MAKE = PKG_CONFIG_SYSROOT_DIR='$(AARCH64_ROOT)' PKG_CONFIG_LIBDIR='$(AARCH64_LIB)/pkgconfig' \
	$(MAKE) BUILD='$(AARCH64)' MACHINE=aarch64 CC='aarch64-linux-gnu-gcc --sysroot=$(AARCH64_ROOT)' \
	CXX='aarch64-linux-gnu-g++ --sysroot=$(AARCH64_ROOT)' AR=aarch64-linux-gnu-ar SANITIZE= \
	TEST_SLOWER=$(AARCH64_SLOWER)
# Its kernel: a package, or PACKAGE/SUITE. One that has pages of 16 KiB is
# linux-image-arm64-16k/bookworm-backports.
AARCH64_KERNEL ?= linux-image-arm64
# What tests need, as on every machine; less for the short list. No compiler there makes programs of
# 32 bits.
AARCH64_PACKAGES := $(DEPS_BUILD) $(if $(filter 1,$(AARCH64_SHORT)),$(filter g++ jq lib% babeltrace2 \
	postgresql% ruby python3,$(DEPS_CHECK)),$(DEPS_DEMO) $(DEPS_STATIC) $(filter-out %-multilib,$(DEPS_CHECK)))
AARCH64_GOALS := all targets $(if $(filter 1,$(AARCH64_SHORT)),,static)

# All unit tests, and of the others those that have passed there so far.
AARCH64_TESTS := $(sort $(wildcard tests/unit/*/test_*.c tests/golden/test_*.c)) \
	$(patsubst %,tests/aarch64/%.sh,list count postgres registers stacks tags trace) \
	$(patsubst %,tests/integration/%.sh,follow/exec library/examples library/python_package \
		library/self list/catalogue list/list list/memcheck others/chaos others/debugger others/held \
		others/hostile others/leaving others/locked others/notice others/replaced \
		others/strace others/together others/uprobe pcp/pcp_life processes/brief \
		processes/calls processes/cgroup processes/crew processes/forked processes/killed processes/life \
		processes/limits processes/scale processes/strange processes/threads processes/worlds programs/beside programs/jvm \
		programs/names programs/names_postgres programs/norm_postgres programs/postgres \
		programs/python programs/record_postgres programs/ruby project/demo \
		project/static record/ctf2 record/export record/export_loader record/machines record/own \
		record/record record/remains record/stacks record/traced repair/leftovers repair/repair \
		repair/restore runtime/event_storm runtime/events runtime/instrument \
		runtime/pmtrace runtime/pmtrace_fortran sites/args sites/crowded sites/general \
		sites/large sites/neighbours sites/rows_uprobe sites/tight sites/unfit \
		trace/count trace/jit trace/kept trace/load trace/order trace/spans trace/stack \
		trace/stack_hits trace/symbols trace/tracers trace/tracers_loaded trace/values trace/words)
ifeq ($(AARCH64_SHORT),1)
AARCH64_TESTS := $(sort $(wildcard tests/unit/arch/test_*_aarch64.c tests/unit/form/test_*.c \
	tests/unit/stub_aarch64/test_*.c)) \
	$(patsubst %,tests/unit/%.c,arch/test_process plan/test_plan_aarch64 stop/test_children \
	self/test_general stub/test_stub_instructions target/test_registry target/test_space \
	target/test_threads thread/test_registers) tests/golden/test_move.c \
	$(patsubst %,tests/aarch64/%.sh,count list stacks tags trace) \
	$(patsubst %,tests/integration/sites/%.sh,general large)
endif

.PHONY: check-aarch64
check-aarch64: | $(FIRST)
	$(Q)bash tests/aarch64/root.sh '$(AARCH64)/debian' $(AARCH64_KERNEL) $(AARCH64_PACKAGES)
	+$(Q)$(AARCH64_MAKE) $(AARCH64_GOALS) \
		$(patsubst %.c,$(AARCH64)/%,$(filter %.c,$(AARCH64_TESTS)))
	$(Q)bash tests/aarch64/boot.sh '$(AARCH64)/debian' '$(AARCH64)' '$(AARCH64_SECONDS)' \
		'PROBE_TEST_SLOWER=$(AARCH64_SLOWER) bash tests/run.sh -b $(AARCH64) -t $(AARCH64_TEST_SECONDS) -r $(REPEATS) $(AARCH64_TESTS)'
