# SPDX-License-Identifier: MIT
# Builds probectl and libprobe. `make help` names the targets and variables.
#
# Sources are found by wildcard, and nothing but nproc is run while this file is
# being read: `make deps all` must work where neither a compiler nor pkg-config is
# installed yet.

# All processors build, if only one thing is asked for: others come one after another.
ifeq ($(filter -j%,$(MAKEFLAGS))$(word 2,$(filter-out deps,$(MAKECMDGOALS))),)
MAKEFLAGS += -j$(shell nproc)
endif

VERSION = 0.1.0
SOVERSION = 0

BUILD ?= build
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
FISHDIR ?= $(PREFIX)/share/fish/vendor_completions.d
PKGCONFIGDIR ?= $(LIBDIR)/pkgconfig
PROBESDIR ?= $(PREFIX)/share/probectl/probes.d
UNITDIR ?= $(PREFIX)/lib/systemd/system

INSTALL ?= install
PKG_CONFIG ?= pkg-config
# The system's, for which `make deps` installs modules; PATH may begin with one that lacks them.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
# Sanitized code is slow at any level, and takes half the time to build at the lower one.
CFLAGS ?= $(if $(SANITIZE),-O1,-O2) -g
CXXFLAGS ?= -O2 -g
# What is built for: make's own machine, unless a cross compiler is used.
MACHINE ?= $(firstword $(subst -, ,$(MAKE_HOST)))
# A list for -fsanitize=; empty for a plain build.
SANITIZE ?=
# What `make check` runs, and for how long each test may run.
KINDS ?= unit golden integration
TEST_SECONDS ?= 600
# How many tests run at a time: many of them wait most of their time.
JOBS ?= $(shell expr $$(nproc) + 2)
FUZZ_SECONDS ?= 20
# What `make torture` does to each of PROGRAMS; see tests/torture/run.sh.
KILLS ?= 1000
CYCLES ?= 1000
CALLS ?= 20000
STRIDE ?= 1
FUNCTIONS ?= 0
PROGRAMS ?=
# Then, for so many seconds, to all of them at once; see tests/torture/chaos.sh.
CHAOS ?= 0

ifeq ($(V),1)
Q :=
say = @:
say_folder = @:
else
Q := @
say = @printf '  %-7s %s\n'
# $(call say_folder,WHAT,FOLDER): prints a line when the first file of a folder is built. mkdir
# succeeds in only one of the jobs. The rule of $(SETTINGS), which runs before them, empties $(SAID).
say_folder = @! mkdir '$(SAID)/$(1) $(subst /,-,$(2))' 2>/dev/null || printf '  %-7s %s\n' $(1) $(2)
endif

# ---- Flags ---------------------------------------------------------------

# Expands to the output of a shell command, which runs once, when first needed.
once = $(eval $(1) := $$(shell $(2)))$($(1))

PKG_CFLAGS = $(call once,PKG_CFLAGS,$(PKG_CONFIG) --cflags libelf libdw capstone)
PKG_LIBS = $(call once,PKG_LIBS,$(PKG_CONFIG) --libs libelf || echo -lelf)
CMOCKA_CFLAGS = $(call once,CMOCKA_CFLAGS,$(PKG_CONFIG) --cflags cmocka)
CMOCKA_LIBS = $(call once,CMOCKA_LIBS,$(PKG_CONFIG) --libs cmocka || echo -lcmocka)

# The fortified functions need an optimising compiler, and hide from the
# sanitizers what they look for.
ifeq ($(SANITIZE),)
OPTIMISED := $(filter-out -O0,$(filter -O%,$(CFLAGS)))
HARDEN := -fstack-protector-strong $(if $(OPTIMISED),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
else
HARDEN := -fno-omit-frame-pointer -fsanitize=$(SANITIZE) -fno-sanitize-recover=undefined
SANITIZE_LD := -fsanitize=$(SANITIZE)
endif

OUR_CPPFLAGS := -Ilibprobe/include -I. -D_GNU_SOURCE -DPROBE_VERSION='"$(VERSION)"'
OUR_CFLAGS := -std=gnu11 -Wall -Wextra -Werror=implicit -fPIC $(HARDEN)
# The user's flags come last, so that they win.
COMPILE = $(CC) $(OUR_CPPFLAGS) $(PKG_CFLAGS) $(CPPFLAGS) $(OUR_CFLAGS) $(CFLAGS) -MMD -MP -c
LINK = $(CC) $(OUR_CFLAGS) $(CFLAGS) $(SANITIZE_LD) -Wl,--as-needed $(LDFLAGS)
# libiberty is an archive only: what demangles becomes a part of ours.
LIBS = $(PKG_LIBS) -liberty -ldl -lpthread $(LDLIBS)

# ---- Sources -------------------------------------------------------------

# Small libraries. Those for the programs that are traced need nothing but the C library:
# libprobe/runtime/NAME/*.c and NAME.map become libprobe_NAME.
SMALL := events pmtrace trace
SMALL_events := User events of programs, by the names of IEEE 1003.1 (posix_trace_event)
SMALL_pmtrace := The functions of libpcp_trace (pmtrace), as probes
# The controller's functions of <trace.h>: on libprobe, and with those for the traced program.
SMALL_trace := Traces a program by the functions of IEEE 1003.1 (posix_trace_create)
SMALL_WITH_trace := events
SMALL_ON_trace = $(LIB_SO)
SMALL_SRC := $(sort $(wildcard $(SMALL:%=libprobe/runtime/%/*.c)))
# What makes libprobe.so a program, which changes the program that uses it.
PROGRAM_SRC := libprobe/self/helper/program.c
# What the static probectl has instead of dlopen(3).
LINKED_SRC := libprobe/base/linked.c
LIB_SRC := $(sort $(filter-out $(SMALL_SRC) $(PROGRAM_SRC) $(LINKED_SRC),$(wildcard libprobe/*/*.c \
	libprobe/*/*/*.c elf/*.c arch/*.c arch/*/*.c arch/*/*/*.c)))
CLI_SRC := $(sort $(wildcard cli/*.c cli/*/*.c))
UNIT_SRC := $(sort $(wildcard tests/unit/test_*.c tests/unit/*/test_*.c tests/golden/test_*.c))
HELPER_SRC := $(sort $(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c tests/unit/*/*.c)))
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
# What probes mean: text that is part of the library, too.
PROBES := $(sort $(wildcard libprobe/query/probes/*.probes))
# The page of a report, which is part of it, too.
PAGE_HTML := libprobe/report/page.html
# Targets about x86-64's own instructions and registers.
X86_TARGETS := heads% hops% ocaml% taken%
TARGET_SRC := $(sort $(wildcard $(foreach e,c S cc,tests/targets/*.$(e) tests/targets/*/*.$(e))))
ifneq ($(MACHINE),x86_64)
TARGET_SRC := $(filter-out $(foreach e,c S,$(foreach t,$(X86_TARGETS),$(foreach d,\
	arguments libraries processes sites threads,tests/targets/$(d)/$(t).$(e)))),$(TARGET_SRC))
endif

objects = $(patsubst %,$(BUILD)/obj/%.o,$(basename $(1)))
BUILTIN := $(BUILD)/obj/libprobe/query/builtin.o
PAGE := $(BUILD)/obj/libprobe/report/page.o
LIB_OBJ := $(call objects,$(LIB_SRC)) $(BUILTIN) $(PAGE)
PROGRAM_OBJ := $(call objects,$(PROGRAM_SRC))
CLI_OBJ := $(call objects,$(CLI_SRC))
# Unit tests may call what is in cli/, but for its main().
CLI_TESTED_OBJ := $(filter-out $(BUILD)/obj/cli/main.o,$(CLI_OBJ))
HELPER_OBJ := $(call objects,$(HELPER_SRC))
ALL_OBJ := $(call objects,$(LIB_SRC) $(PROGRAM_SRC) $(SMALL_SRC) $(CLI_SRC) $(LINKED_SRC) $(UNIT_SRC) \
	$(HELPER_SRC) $(FUZZ_SRC))

UNIT_BIN := $(patsubst %.c,$(BUILD)/%,$(UNIT_SRC))
FUZZ_BIN := $(patsubst %.c,$(BUILD)/%,$(FUZZ_SRC))
# tests/targets/*/libNAME.c is a library that the other targets may use, and
# NAME_sites.S is a part of NAME.c. All are built into one folder.
TARGET_PARTS := $(foreach s,$(TARGET_SRC),$(wildcard $(basename $(s))_sites.S))
TARGET_MAIN := $(notdir $(basename $(filter-out $(TARGET_PARTS),$(TARGET_SRC))))
TARGET_LIB := $(patsubst %,$(BUILD)/tests/targets/%.so,$(filter lib%,$(TARGET_MAIN)))
TARGET_BIN := $(addprefix $(BUILD)/tests/targets/,$(filter-out lib%,$(TARGET_MAIN)))
TORTURE := $(BUILD)/tests/torture
TORTURE_BIN := $(addprefix $(TORTURE)/,cycler killer steps.so victim)

LIB_A := $(BUILD)/libprobe.a
LIB_SO := $(BUILD)/libprobe.so
PROBECTL := $(BUILD)/probectl
SMALL_A := $(SMALL:%=$(BUILD)/libprobe_%.a)
SMALL_SO := $(SMALL:%=$(BUILD)/libprobe_%.so)
# The library for programs that are linked with libpcp_trace, with its header and class.
PCP := $(BUILD)/pcp
PCP_SO := $(PCP)/libpcp_trace.so.2
PCP_HEADER := libprobe/include/probe/pmtrace.h
PCP_CLASS := libprobe/runtime/pmtrace/trace.java

# Packages first, where both are asked for in one command.
FIRST := $(filter deps,$(MAKECMDGOALS))

.PHONY: all deps demo check check-all torture bench lint fmt asan ubsan tsan fuzz coverage man
.PHONY: install uninstall clean help targets unit-tests fuzzers FORCE
.DELETE_ON_ERROR:
.SUFFIXES:

all: $(LIB_A) $(LIB_SO) $(SMALL_A) $(SMALL_SO) $(PCP_SO) $(PROBECTL)

# ---- Building ------------------------------------------------------------

# Files that change when what everything is built with, or is built from, does.
SETTINGS := $(BUILD)/settings
SOURCES := $(BUILD)/sources
PLACE := $(BUILD)/place
SAID := $(BUILD)/said
$(SETTINGS): content = $(CC) $(CXX) $(OUR_CPPFLAGS) $(CPPFLAGS) $(OUR_CFLAGS) $(CFLAGS) $(LDFLAGS)
$(SOURCES): content = $(LIB_SRC) $(PROGRAM_SRC) $(SMALL_SRC) $(CLI_SRC) $(HELPER_SRC) $(PROBES)
$(PLACE): content = $(LIBDIR)
$(SETTINGS) $(SOURCES) $(PLACE): FORCE | $(FIRST)
	@mkdir -p $(@D) $(if $(filter $(SETTINGS),$@),&& rm -rf $(SAID) && mkdir $(SAID))
	@printf '%s\n' '$(subst ','\'',$(content))' >$@.new
	@cmp -s $@.new $@ && rm -f $@.new || mv -f $@.new $@

# A controller and the program that has started it are of the same build: what both were made of.
IDENTITY := $(BUILD)/identity.h
$(IDENTITY): $(LIB_SRC) $(PROGRAM_SRC) $(wildcard *.h $(foreach d,libprobe elf arch,$(foreach s,\
	*.h */*.h */*/*.h,$(d)/$(s)))) $(SETTINGS) | $(FIRST)
	@printf '#define PROBE_IDENTITY "%s"\n' "$$(cat $(sort $^) | cksum)" >$@
$(call objects,libprobe/self/helper/helper.c): $(IDENTITY)
$(call objects,libprobe/self/helper/helper.c): private OUR_CPPFLAGS += -include $(IDENTITY)
# Where programs that are linked with libprobe.a find it.
$(call objects,libprobe/self/helper/message.c): $(PLACE)
$(call objects,libprobe/self/helper/message.c): private OUR_CPPFLAGS += \
	-DPROBE_IMAGE='"$(LIBDIR)/libprobe.so.$(VERSION)"'
# The loader of programs that this compiler links.
INTERPRETER = $(call once,INTERPRETER,$(CC) $(CFLAGS) $(LDFLAGS) -v -o /dev/null -x c /dev/null 2>&1 | \
	sed -n 's/.*-dynamic-linker[= "]*\([^" ]*\).*/\1/p' | tail -1)
# Characters of expressions are signed on every machine, which the test compares with the compiler's.
$(call objects,tests/unit/query/test_expr_c.c): private OUR_CPPFLAGS += -fsigned-char
$(PROGRAM_OBJ): private OUR_CPPFLAGS += -DPROBE_INTERPRETER='"$(INTERPRETER)"'

$(ALL_OBJ): $(BUILD)/obj/%.o: %.c $(SETTINGS) | $(FIRST)
	$(call say_folder,CC,$(patsubst %/,%,$(dir $<)))
	@mkdir -p $(@D)
	$(Q)$(COMPILE) $(if $(filter tests/%,$<),$(CMOCKA_CFLAGS)) $< -o $@

# The lines of the catalogue, and of the page, as string literals.
# $(call text_source,HEADER,NAME,FILES): C source with a string NAME that has the text of files.
define text_source
@mkdir -p $(@D)
@printf '%s\n' '#include "$(1)"' 'const char $(2)[] =' >$@
@sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $(3) >>$@
@printf '%s\n' ';' >>$@
endef
$(BUILTIN:.o=.c): $(PROBES) $(SOURCES)
	$(call text_source,libprobe/query/query.h,catalogue_builtin,$(PROBES))
	@printf '%s\n' 'const size_t catalogue_builtin_length = sizeof(catalogue_builtin) - 1;' >>$@
$(PAGE:.o=.c): $(PAGE_HTML)
	$(call text_source,libprobe/report/report.h,page_template,$<)
$(BUILTIN) $(PAGE): %.o: %.c libprobe/query/query.h libprobe/report/report.h $(SETTINGS)
	$(call say_folder,CC,$(patsubst $(BUILD)/obj/%/,%,$(dir $@)))
	$(Q)$(COMPILE) $< -o $@

define archive
$(say) AR $@
@rm -f $@
$(Q)$(AR) rcs $@ $(filter %.o,$^)
endef

$(LIB_A): $(LIB_OBJ) $(SOURCES)
	$(archive)
$(BUILD)/libcli.a: $(CLI_TESTED_OBJ) $(SOURCES)
	$(archive)
$(BUILD)/libhelpers.a: $(HELPER_OBJ) $(SOURCES)
	$(archive)

# The map is what hides internal names; nothing outside replaces our own calls. It is never
# unloaded: stubs may call it (probe/self.h).
$(LIB_SO): $(LIB_OBJ) $(PROGRAM_OBJ) libprobe/libprobe.map $(SOURCES)
	$(say) LD $@
	$(Q)$(LINK) -shared -Wl,-soname,libprobe.so.$(SOVERSION) -Wl,-Bsymbolic-functions \
		-Wl,-z,nodelete -Wl,-e,image_entry \
		-Wl,--version-script=libprobe/libprobe.map -o $@ $(LIB_OBJ) $(PROGRAM_OBJ) $(LIBS)
	@ln -sf libprobe.so $@.$(SOVERSION)

# $(call link_small,SONAME,MAP,LIBRARIES): they stay loaded, too: identifiers, probes and what is in
# progress outlive a dlclose(3).
link_small = $(LINK) -shared -Wl,-soname,$(1) -Wl,-Bsymbolic-functions -Wl,-z,nodelete \
	-Wl,--version-script=$(2) -o $@ -Wl,--whole-archive $< -Wl,--no-whole-archive \
	$(3) -ldl -lpthread $(LDLIBS)
define small_library
$(BUILD)/libprobe_$(1).a: $(foreach p,$(1) $(SMALL_WITH_$(1)), \
	$(filter $(BUILD)/obj/libprobe/runtime/$(p)/%,$(call objects,$(SMALL_SRC)))) $(SOURCES)
	$$(archive)
$(BUILD)/libprobe_$(1).so: $(BUILD)/libprobe_$(1).a libprobe/runtime/$(1)/$(1).map $(SMALL_ON_$(1))
	$$(say) LD $$@
	$(Q)$$(call link_small,libprobe_$(1).so.$(SOVERSION),libprobe/runtime/$(1)/$(1).map,$(SMALL_ON_$(1)))
	@ln -sf libprobe_$(1).so $$@.$(SOVERSION)
endef
$(foreach s,$(SMALL),$(eval $(call small_library,$(s))))

# The same objects, with the names that the dynamic linker and Java look for.
$(PCP_SO): $(BUILD)/libprobe_pmtrace.a libprobe/runtime/pmtrace/pmtrace.map $(PCP_HEADER) $(PCP_CLASS)
	$(say) LD $@
	@mkdir -p $(PCP)/pcp $(PCP)/sgi/pcp
	@sed 's/^LIBPROBE_PMTRACE_0 /PCP_TRACE_2.0 /; s/^global:/&\n\tJava_sgi_pcp_trace_*;/' \
		libprobe/runtime/pmtrace/pmtrace.map >$(BUILD)/libpcp_trace.map
	$(Q)$(call link_small,$(@F),$(BUILD)/libpcp_trace.map)
	@ln -sf $(@F) $(PCP)/libpcp_trace.so
	@cp $(PCP_HEADER) $(PCP)/pcp/trace.h && cp $(PCP_CLASS) $(PCP)/sgi/pcp

# Static: one file to load less at the start of every command.
$(PROBECTL): $(CLI_OBJ) $(LIB_A) $(SOURCES)
	$(say) LD $@
	$(Q)$(LINK) -o $@ $(CLI_OBJ) $(LIB_A) $(LIBS)

TEST_LIBS := $(BUILD)/libhelpers.a $(BUILD)/libcli.a $(SMALL_A) $(LIB_A)

unit-tests: $(UNIT_BIN)
$(UNIT_BIN): $(BUILD)/%: $(BUILD)/obj/%.o $(TEST_LIBS)
	$(call say_folder,LD,$(@D))
	@mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $< $(TEST_LIBS) $(CMOCKA_LIBS) $(LIBS)

# Functions of libm: the rules for rounding, ceil(3).
$(BUILD)/tests/unit/form/test_form_double $(BUILD)/tests/unit/session/test_gather: private LDLIBS += -lm

# Its segments are far apart.
$(BUILD)/tests/unit/session/test_naming: private LDFLAGS += -Wl,-z,max-page-size=0x10000

fuzzers: $(FUZZ_BIN)
$(FUZZ_BIN): $(BUILD)/%: $(BUILD)/obj/%.o $(TEST_LIBS)
	$(call say_folder,LD,$(@D))
	@mkdir -p $(@D)
	$(Q)$(LINK) -fsanitize=fuzzer $(WRAPPED:%=-Wl,--wrap=%) -o $@ $< $(TEST_LIBS) $(LIBS)
# Their records are in memory.
IN_MEMORY := open close read pread fstat lstat scandir
$(BUILD)/tests/fuzz/fuzz_record: WRAPPED := $(IN_MEMORY)
$(BUILD)/tests/fuzz/fuzz_stream: WRAPPED := $(IN_MEMORY) tsdl_parse own_trace_compile own_trace_free

-include $(ALL_OBJ:.o=.d)

# Targets are what a user's compiler would make of them: only simple flags, and
# those of a line "flags: ..." among the first five, or of a file NAME.flags.
# In both, $$OUT is the folder of the built targets.
TARGET_FLAGS = OUT=$(@D); eval "set -- $$(sed -n '1,5s/.*flags: *\(.*\)$$/\1/p' $< | \
	sed 's,\*/ *$$,,') $$(cat $(basename $<).flags 2>/dev/null)"

targets: $(TARGET_LIB) $(TARGET_BIN) $(TORTURE_BIN)
define target_rules
$(BUILD)/tests/targets/lib%.so: $(1)lib%.$(2) | $(FIRST)
	$$(call say_folder,TARGET,$$(@D))
	@mkdir -p $$(@D)
	$(Q)$$(TARGET_FLAGS); $(3) -O2 -g -shared -fPIC -o $$@ $$< \
		$$(wildcard $$(basename $$<)_sites.S) "$$$$@"
$(BUILD)/tests/targets/%: $(1)%.$(2) | $(TARGET_LIB) $(FIRST)
	$$(call say_folder,TARGET,$$(@D))
	@mkdir -p $$(@D)
	$(Q)$$(TARGET_FLAGS); $(3) -O2 -g -o $$@ $$< \
		$$(wildcard $$(basename $$<)_sites.S) "$$$$@"
endef
$(foreach d,$(sort $(dir $(TARGET_SRC))),$(eval $(call target_rules,$(d),c,$(CC))) \
	$(eval $(call target_rules,$(d),S,$(CC))) $(eval $(call target_rules,$(d),cc,$(CXX))))
# Targets include each other's sources, and are quick to build.
$(TARGET_LIB) $(TARGET_BIN): $(SETTINGS) $(TARGET_SRC) $(SMALL_SRC) \
	$(wildcard $(foreach e,h flags,tests/targets/*.$(e) tests/targets/*/*.$(e)))

# The programs of tests/torture, with simple flags, too. One of them calls the library.
TORTURE_CC = $(CC) -Wl,--as-needed
$(TORTURE)/cycler: private TORTURE_CC = $(LINK)
$(TORTURE)/steps.so: private TORTURE_CC += -shared -fPIC
$(TORTURE)/cycler: tests/torture/cycler.c $(LIB_A)
$(TORTURE)/killer: tests/torture/killer.c
$(TORTURE)/steps.so: tests/torture/steps.c
$(TORTURE)/victim: tests/torture/victim.c tests/torture/victim_mix.c
$(TORTURE_BIN): $(SETTINGS) $(wildcard tests/torture/*.h) tests/targets/target.h | $(FIRST)
	$(call say_folder,TARGET,$(@D))
	@mkdir -p $(@D)
	$(Q)$(TORTURE_CC) -O2 -g -Wall -Wextra -D_GNU_SOURCE -std=gnu11 -I. -Ilibprobe/include -o $@ \
		$(filter %.c %.a,$^) $(LIBS)

# ---- Packages ------------------------------------------------------------

# python3 makes the manual pages of the library.
DEPS_BUILD := gcc libc6-dev make pkg-config binutils python3-minimal libelf-dev libdw-dev \
	libiberty-dev \
	libcapstone-dev libpcp-mmv1-dev libpcp3-dev libmicrohttpd-dev \
	libcurl4-openssl-dev systemtap-sdt-dev
DEPS_DEMO := python3.11-minimal
# Programs of 32 bits, and those that probectl refuses: gcc-12-multilib (gcc-multilib excludes every
# cross compiler, for one link of headers), valgrind, qemu-user.
# Reads records: babeltrace2; metrics: pcp, prometheus, python3-prometheus-client; what pmtrace is compared with: libpcp-trace2-dev, gfortran;
# looks at the page of a report: chromium; is a terminal: tmux; have a completion: zsh, fish;
# reads the unit: systemd.
DEPS_CHECK := libcmocka-dev g++ clang lld mold musl-tools \
	gcc-12-multilib valgrind qemu-user strace \
	procps iproute2 jq tmux zsh fish gdb elfutils dwz babeltrace2 pcp prometheus systemd \
	python3-prometheus-client libpcp-trace2-dev gfortran chromium chromium-driver \
	python3 python3.11 python3-setuptools python3-wheel python3-mypy \
	postgresql-15 openjdk-17-jre-headless openjdk-17-jdk-headless ruby php8.2-cli systemtap \
	nginx-light redis-server sqlite3 openssl
# The processor that we are ported to: a cross compiler, an emulator, and what makes its disk.
DEPS_AARCH64 := gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-system-arm kmod cpio e2fsprogs xz-utils
DEPS_LINT := clang-format cppcheck mandoc shellcheck git
DEPS_FUZZ := clang libclang-rt-14-dev llvm
DEPS_COVERAGE := gcovr
# Archives that libdw's needs.
DEPS_STATIC := libbz2-dev liblzma-dev zlib1g-dev
DEPS_DEB := build-essential debhelper lintian
DEPS_CHECK_DEB := debootstrap
DEPS_PYTHON := python3-setuptools python3-wheel

# What a goal beside `deps` needs; `make deps` alone installs everything.
needs_demo := DEMO
needs_check := DEMO CHECK STATIC
needs_check-all := DEMO CHECK STATIC
needs_check-aarch64 := AARCH64
needs_asan := CHECK
needs_ubsan := CHECK
needs_tsan := CHECK
needs_torture := DEMO CHECK
needs_bench := DEMO CHECK
needs_lint := CHECK LINT
needs_fmt := LINT
needs_fuzz := CHECK FUZZ
needs_coverage := CHECK COVERAGE STATIC
needs_static := STATIC
needs_deb := DEB
needs_check-deb := DEB CHECK_DEB
needs_python := PYTHON
OTHER_GOALS := $(filter-out deps,$(MAKECMDGOALS))
PURPOSES := BUILD $(if $(OTHER_GOALS),$(foreach g,$(OTHER_GOALS),$(needs_$(g))), \
	DEMO CHECK AARCH64 LINT FUZZ COVERAGE STATIC DEB CHECK_DEB PYTHON)

deps:
	$(Q)sh .ci/deps $(sort $(foreach p,$(PURPOSES),$(DEPS_$(p))))

include docs/packaging/packaging.mk
include tests/aarch64/aarch64.mk

# ---- Running -------------------------------------------------------------

demo: all
	$(Q)PROBECTL='$(abspath $(PROBECTL))' bash tests/demo.sh

check: all unit-tests targets $(if $(SANITIZE),,static)
	$(Q)bash tests/run.sh -b '$(BUILD)' -j $(JOBS) -t $(TEST_SECONDS) $(KINDS)

# All of `check`, with what takes longer.
check-all: export TEST_ALL = 1
check-all: check

lint: all man
	$(Q)CC='$(CC)' bash tests/run.sh -b '$(BUILD)' -t 900 lint

fmt: | $(FIRST)
	$(Q)git ls-files '*.c' '*.h' | xargs clang-format -i

torture: all targets
	$(Q)BUILD='$(abspath $(BUILD))' bash tests/torture/run.sh -k '$(KILLS)' -c '$(CYCLES)' \
		-l '$(CALLS)' -n '$(STRIDE)' -f '$(FUNCTIONS)' $(PROGRAMS)
	$(Q)[ '$(CHAOS)' = 0 ] || BUILD='$(abspath $(BUILD))' bash tests/torture/chaos.sh \
		-s '$(CHAOS)'

bench: all targets $(BUILD)/tests/unit/stub/test_stub_instructions
	$(Q)BUILD='$(abspath $(BUILD))' bash tests/bench/run.sh

# The sanitizers build into folders of their own. `make asan KINDS=integration`
# runs the integration tests with a sanitized probectl.
# A test that a sanitizer cannot run says why in its first lines: "Not under ThreadSanitizer: ".
all_for = $(shell grep -L '^/\* Not under $(1)Sanitizer: ' $(UNIT_SRC))
SANITIZED_KINDS := $(if $(filter command line,$(origin KINDS)),$(KINDS),unit golden)
ASAN_KINDS = $(if $(filter command line,$(origin KINDS)),$(KINDS),$(call all_for,Address))
TSAN_KINDS = $(if $(filter command line,$(origin KINDS)),$(KINDS),$(call all_for,Thread))
asan: | $(FIRST)
	$(Q)$(MAKE) check BUILD=$(BUILD)/asan SANITIZE=address KINDS='$(ASAN_KINDS)'
ubsan: | $(FIRST)
	$(Q)$(MAKE) check BUILD=$(BUILD)/ubsan SANITIZE=undefined KINDS='$(SANITIZED_KINDS)'
tsan: | $(FIRST)
	$(Q)$(MAKE) check BUILD=$(BUILD)/tsan SANITIZE=thread KINDS='$(TSAN_KINDS)'

fuzz: | $(FIRST)
	$(Q)$(MAKE) fuzzers BUILD=$(BUILD)/fuzz CC=clang SANITIZE=fuzzer-no-link,address,undefined
	$(Q)bash tests/fuzz/run.sh $(BUILD)/fuzz $(FUZZ_SECONDS)

# As root throughout: the counters are written into the build folder.
coverage: | $(FIRST)
	$(Q)PROBE_TEST_AS=self $(MAKE) check BUILD=$(BUILD)/coverage CFLAGS='-O0 -g --coverage'
	$(Q)gcovr --root . --object-directory $(BUILD)/coverage --exclude 'tests/.*' --sort-percentage

# ---- Installing ----------------------------------------------------------

HEADERS := $(wildcard libprobe/include/probe/*.h)
# A folder that programs find only if they are told.
PCPDIR = $(LIBDIR)/probe/pcp
# Headers with the names of standards, in a folder that only users of one library look into.
STANDARD := $(wildcard libprobe/include/probe/standard/*.h)
SMALL_CFLAGS_events := -I$${includedir}/probe/standard
SMALL_CFLAGS_trace := $(SMALL_CFLAGS_events)
# The linker looks for libprobe.so there, too.
SMALL_LIBS_trace := -Wl,-rpath-link,$${libdir}
SMALL_REQUIRES_trace := probe
MAN := $(wildcard docs/man/*.[1-8])
COMPLETION := docs/completion/probectl
UNIT := docs/packaging/systemd/probectl@.service
# The other shells ask bash's.
named_completion = sed 's|/usr/local/share/bash-completion/completions|$(COMPLETIONDIR)|' $(COMPLETION).$(1)
man_dir = $(MANDIR)/man$(subst .,,$(suffix $(1)))
D = $(DESTDIR)

$(BUILD)/probe.pc: Makefile | $(FIRST)
	@mkdir -p $(@D)
	@printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$(INCLUDEDIR)' '' \
		'Name: probe' 'Description: Switches static probes of running programs' \
		'Version: $(VERSION)' 'Requires.private: libelf' \
		'Libs: -L$${libdir} -lprobe' 'Libs.private: -liberty -ldl -lpthread' \
		'Cflags: -I$${includedir}' >$@

$(SMALL:%=$(BUILD)/probe_%.pc): Makefile | $(FIRST)
	@mkdir -p $(@D)
	@printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$(INCLUDEDIR)' '' \
		'Name: $(basename $(@F))' 'Description: $(SMALL_$(subst probe_,,$(basename $(@F))))' \
		'Version: $(VERSION)' \
		'Libs: -L$${libdir} -l$(basename $(@F)) $(SMALL_LIBS_$(subst probe_,,$(basename $(@F))))' \
		'Libs.private: -ldl -lpthread' \
		'Requires.private: $(SMALL_REQUIRES_$(subst probe_,,$(basename $(@F))))' \
		'Cflags: -I$${includedir} $(SMALL_CFLAGS_$(subst probe_,,$(basename $(@F))))' >$@

# The pages of the library's functions are made of what its headers say.
man: $(BUILD)/man3
$(BUILD)/man3: docs/man/headers.py $(HEADERS) | $(FIRST)
	$(Q)$(PYTHON) docs/man/headers.py $@ $(HEADERS)

install: all man
	$(Q)$(MAKE) -B -s $(BUILD)/probe.pc $(SMALL:%=$(BUILD)/probe_%.pc)
	$(INSTALL) -d '$(D)$(BINDIR)' '$(D)$(LIBDIR)' '$(D)$(INCLUDEDIR)/probe/standard' \
		'$(D)$(PKGCONFIGDIR)' '$(D)$(PROBESDIR)'
	$(INSTALL) -m 755 $(PROBECTL) '$(D)$(BINDIR)/probectl'
	$(INSTALL) -m 644 $(LIB_A) '$(D)$(LIBDIR)/libprobe.a'
	$(INSTALL) -m 755 $(LIB_SO) '$(D)$(LIBDIR)/libprobe.so.$(VERSION)'
	ln -sf libprobe.so.$(VERSION) '$(D)$(LIBDIR)/libprobe.so.$(SOVERSION)'
	ln -sf libprobe.so.$(SOVERSION) '$(D)$(LIBDIR)/libprobe.so'
	$(foreach s,$(SMALL:%=probe_%),$(INSTALL) -m 644 $(BUILD)/lib$(s).a '$(D)$(LIBDIR)/lib$(s).a' && \
		$(INSTALL) -m 755 $(BUILD)/lib$(s).so '$(D)$(LIBDIR)/lib$(s).so.$(VERSION)' && \
		ln -sf lib$(s).so.$(VERSION) '$(D)$(LIBDIR)/lib$(s).so.$(SOVERSION)' && \
		ln -sf lib$(s).so.$(SOVERSION) '$(D)$(LIBDIR)/lib$(s).so' && \
		$(INSTALL) -m 644 $(BUILD)/$(s).pc '$(D)$(PKGCONFIGDIR)/$(s).pc' &&) :
	$(INSTALL) -D -m 755 $(PCP_SO) '$(D)$(PCPDIR)/$(notdir $(PCP_SO))'
	ln -sf $(notdir $(PCP_SO)) '$(D)$(PCPDIR)/libpcp_trace.so'
	$(INSTALL) -D -m 644 $(PCP_HEADER) '$(D)$(PCPDIR)/pcp/trace.h'
	$(INSTALL) -D -m 644 $(PCP_CLASS) '$(D)$(PCPDIR)/sgi/pcp/trace.java'
	$(INSTALL) -m 644 $(HEADERS) '$(D)$(INCLUDEDIR)/probe'
	$(INSTALL) -m 644 $(STANDARD) '$(D)$(INCLUDEDIR)/probe/standard'
	$(INSTALL) -m 644 $(PROBES) '$(D)$(PROBESDIR)'
	$(INSTALL) -m 644 $(BUILD)/probe.pc '$(D)$(PKGCONFIGDIR)/probe.pc'
	$(foreach m,$(MAN),$(INSTALL) -D -m 644 $(m) '$(D)$(call man_dir,$(m))/$(notdir $(m))' &&) :
	$(INSTALL) -d '$(D)$(MANDIR)/man3' && cp -P $(BUILD)/man3/* '$(D)$(MANDIR)/man3'
	$(INSTALL) -D -m 644 $(COMPLETION).bash '$(D)$(COMPLETIONDIR)/probectl'
	$(call named_completion,zsh) | $(INSTALL) -D -m 644 /dev/stdin '$(D)$(ZSHDIR)/_probectl'
	$(call named_completion,fish) | $(INSTALL) -D -m 644 /dev/stdin '$(D)$(FISHDIR)/probectl.fish'
	sed 's|@BINDIR@|$(BINDIR)|' $(UNIT) | $(INSTALL) -D -m 644 /dev/stdin '$(D)$(UNITDIR)/$(notdir $(UNIT))'

uninstall: man
	rm -f '$(D)$(BINDIR)/probectl' '$(D)$(LIBDIR)/libprobe.a' '$(D)$(LIBDIR)/libprobe.so' \
		'$(D)$(LIBDIR)/libprobe.so.$(SOVERSION)' '$(D)$(LIBDIR)/libprobe.so.$(VERSION)' \
		'$(D)$(PKGCONFIGDIR)/probe.pc' '$(D)$(COMPLETIONDIR)/probectl' \
		'$(D)$(ZSHDIR)/_probectl' '$(D)$(FISHDIR)/probectl.fish' \
		'$(D)$(UNITDIR)/$(notdir $(UNIT))'
	rm -f $(foreach s,$(SMALL:%=probe_%),$(foreach e,a so so.$(SOVERSION) so.$(VERSION), \
		'$(D)$(LIBDIR)/lib$(s).$(e)') '$(D)$(PKGCONFIGDIR)/$(s).pc')
	rm -rf '$(D)$(PCPDIR)'
	rmdir '$(D)$(dir $(PCPDIR))' 2>/dev/null || :
	rm -f $(foreach h,$(HEADERS),'$(D)$(INCLUDEDIR)/probe/$(notdir $(h))')
	rm -f $(foreach p,$(PROBES),'$(D)$(PROBESDIR)/$(notdir $(p))')
	rmdir '$(D)$(PROBESDIR)' '$(D)$(dir $(PROBESDIR))' 2>/dev/null || :
	rm -f $(foreach h,$(STANDARD),'$(D)$(INCLUDEDIR)/probe/standard/$(notdir $(h))')
	rmdir '$(D)$(INCLUDEDIR)/probe/standard' 2>/dev/null || :
	$(if $(MAN),rm -f $(foreach m,$(MAN),'$(D)$(call man_dir,$(m))/$(notdir $(m))'))
	cd $(BUILD)/man3 && for page in *; do rm -f '$(D)$(MANDIR)/man3'/"$$page"; done
	rmdir '$(D)$(INCLUDEDIR)/probe' 2>/dev/null || :

clean:
	rm -rf '$(BUILD)'

define HELP
Targets:
  all        libprobe.a, libprobe.so and probectl, in $(BUILD)/ (the default)
  deps       install the Debian packages that are missing (apt-get, sudo unless root):
             alone those of every target; beside other targets only theirs,
             as in `make deps demo` or `make deps check`
  demo       trace the functions that a small Python program calls
  check      unit, golden and integration tests; the last line counts them
  check-all  the same with more cases of each, as before a release
  check-aarch64   build for aarch64, and run all tests there, in an emulator (about ten hours);
             PART=3/12 runs the third twelfth of the tests, AARCH64_SHORT=1 a small choice
  torture    for each of PROGRAMS: KILLS random kills (now $(KILLS)), a kill at each STRIDEth
             step (now $(STRIDE); 0: none), on and off CYCLES times by commands (now $(CYCLES))
             and CALLS times by the library (now $(CALLS)); takes hours; then many
             controllers on all programs at once for CHAOS seconds (now $(CHAOS))
  bench      costs per hit, pauses and start-up times, beside other tracers
  lint       style, static analysis, layering, exported names, man pages, scripts
  fmt        format the sources with clang-format
  asan ubsan tsan   unit tests under a sanitizer (KINDS=integration for those)
  fuzz       each fuzzer for FUZZ_SECONDS (now $(FUZZ_SECONDS))
  coverage   the tests' line coverage
  man        the manual pages of the library, in $(BUILD)/man3
  deb        Debian packages, in $(BUILD)/deb
  check-deb  build them, and try them in a bare Debian (debootstrap, as root or with sudo)
  static     $(BUILD)/static/probectl, which needs no libraries
  python     a wheel for pip, in $(BUILD)/
  install uninstall   below $$(DESTDIR)$$(PREFIX), now $(DESTDIR)$(PREFIX)
  clean      remove $(BUILD)/
Variables:
  V=1 shows the commands; BUILD=DIR builds elsewhere; CC, CFLAGS, CPPFLAGS, LDFLAGS,
  LDLIBS are added to; PYTHON makes manual pages and the wheel (now $(PYTHON));
  SANITIZE=LIST is for -fsanitize=; TEST_SECONDS is a test's limit;
  JOBS tests run at a time; MACHINE is what a cross compiler builds for (aarch64)
endef

help:
	$(info $(HELP))
	@:
