# SPDX-License-Identifier: MIT
# `make check-aarch64`, for the Makefile: builds all of the project with a cross compiler and the
# packages of an arm64 Debian, and runs there, in an emulator, what `make check` runs. The build
# folder has to be below the sources, which is all that the emulator sees.

AARCH64 := $(BUILD)/aarch64
AARCH64_ROOT := $(abspath $(AARCH64))/debian/root
AARCH64_LIB := $(AARCH64_ROOT)/usr/lib/aarch64-linux-gnu
# The limits of the whole and of a test: an emulator is slow.
AARCH64_SECONDS ?= 43200
AARCH64_TEST_SECONDS ?= 1800
# 1: only tests of what is different there.
AARCH64_SHORT ?= 0
# How many tests run at a time there. The emulator has two processors.
AARCH64_JOBS ?= $(if $(filter 1,$(AARCH64_SHORT)),2,1)
# N/M: the Nth of M parts of the list of all tests. $(AARCH64)/parts remembers which have been run.
PART ?=
AARCH64_MAKE = PKG_CONFIG_SYSROOT_DIR='$(AARCH64_ROOT)' PKG_CONFIG_LIBDIR='$(AARCH64_LIB)/pkgconfig' \
	$(MAKE) BUILD='$(AARCH64)' MACHINE=aarch64 CC='aarch64-linux-gnu-gcc --sysroot=$(AARCH64_ROOT)' \
	CXX='aarch64-linux-gnu-g++ --sysroot=$(AARCH64_ROOT)' AR=aarch64-linux-gnu-ar SANITIZE=
# Its kernel: a package, or PACKAGE/SUITE. One that has pages of 16 KiB is
# linux-image-arm64-16k/bookworm-backports.
AARCH64_KERNEL ?= linux-image-arm64
# What tests need, as on every machine; less for the short list. No compiler there makes programs of
# 32 bits.
AARCH64_PACKAGES := $(DEPS_BUILD) $(if $(filter 1,$(AARCH64_SHORT)),$(filter g++ jq lib% postgresql% ruby \
	python3,$(DEPS_CHECK)),$(DEPS_DEMO) $(DEPS_STATIC) $(filter-out %-multilib,$(DEPS_CHECK)))
AARCH64_GOALS := all targets static unit-tests
AARCH64_TESTS := unit golden integration
ifeq ($(AARCH64_SHORT),1)
# Code that runs on the processor, threads and their stops. Tests of mere bytes, such as golden pairs
# and decoders, give the same on every host. test_form_pairs hands over thousands of times from one
# thread to the next, which takes minutes if the emulator's processors have to wait for others.
AARCH64_UNIT_TESTS := $(sort $(filter-out %/test_form_pairs.c,$(wildcard tests/unit/form/test_*.c)) \
	$(wildcard tests/unit/stub_aarch64/test_*.c)) \
	$(patsubst %,tests/unit/%.c,arch/test_move_aarch64 arch/test_process patch/test_plan_aarch64 \
	ptrace/test_children ptrace/test_registers ptrace/test_rseq registry/test_space registry/test_threads \
	self/test_general session/test_unwinder stub/test_stub_instructions)
AARCH64_GOALS := all targets $(patsubst %.c,$(AARCH64)/%,$(AARCH64_UNIT_TESTS))
AARCH64_TESTS := $(AARCH64_UNIT_TESTS) $(patsubst %,tests/integration/%.sh,functions/shapes \
	list/plans_aarch64 trace/tags_aarch64 programs/python programs/ruby repair/repair sites/general sites/large)
AARCH64_LOST := $(filter-out $(wildcard $(AARCH64_TESTS)),$(AARCH64_TESTS))
$(if $(AARCH64_LOST),$(error aarch64.mk names tests that are not there: $(AARCH64_LOST)))
else ifneq ($(PART),)
AARCH64_TESTS = $(shell bash tests/aarch64/parts.sh tests '$(PART)')
AARCH64_RUN := bash tests/aarch64/parts.sh run '$(PART)' '$(AARCH64)/parts'
endif

.PHONY: check-aarch64
check-aarch64: | $(FIRST)
	@$(if $(PART),bash tests/aarch64/parts.sh tests '$(PART)' >/dev/null)
	$(Q)bash tests/aarch64/root.sh '$(AARCH64)/debian' $(AARCH64_KERNEL) $(AARCH64_PACKAGES)
	+$(Q)$(AARCH64_MAKE) $(AARCH64_GOALS)
	$(Q)$(AARCH64_RUN) bash tests/aarch64/boot.sh '$(AARCH64)/debian' '$(AARCH64)' '$(AARCH64_SECONDS)' \
		'bash tests/run.sh -b $(AARCH64) -j $(AARCH64_JOBS) -t $(AARCH64_TEST_SECONDS) $(AARCH64_TESTS)'
