# SPDX-License-Identifier: MIT
# Packages, for the Makefile. dpkg-buildpackage wants a folder `debian` at the top of its sources,
# so it gets a copy of them.

PACKED := CHANGELOG.md LICENSE Makefile README.md arch cli docs elf libprobe tests .ci .clang-format .editorconfig
DEB := $(BUILD)/deb
DEB_TREE := $(DEB)/probectl-$(VERSION)

.PHONY: deb check-deb static python

# Symbols for debuggers are put aside: `apt install build/deb/*.deb` would install them, too.
# What this make was told by its command line is not for the make of debian/rules, except what it
# finds in its environment: CC, CFLAGS, DEB_BUILD_OPTIONS.
deb: | $(FIRST)
	$(Q)rm -rf '$(DEB)' && mkdir -p '$(DEB_TREE)'
	$(Q)tar -c --exclude=__pycache__ $(PACKED) | tar -x -C '$(DEB_TREE)'
	$(Q)cp -r docs/packaging/debian '$(DEB_TREE)/debian'
	$(Q)cd '$(DEB_TREE)' && MAKEFLAGS= dpkg-buildpackage -us -uc -J
	$(Q)lintian --allow-root --fail-on error,warning --display-info --pedantic '$(DEB)'/*.changes
	$(Q)mkdir '$(DEB)/debug' && mv '$(DEB)'/*-dbgsym_*.deb '$(DEB)/debug'
	@ls '$(DEB)'/*.deb

check-deb: deb
	$(Q)bash docs/packaging/bare.sh '$(DEB)'

# One file that needs nothing of the system it runs on, except Linux.
STATIC := $(BUILD)/static/probectl
STATIC_LIBS = -liberty $(shell $(PKG_CONFIG) --static --libs libdw libelf capstone) $(LDLIBS)

static: $(STATIC)
$(STATIC): $(CLI_OBJ) $(call objects,$(LINKED_SRC)) $(LIB_A) $(SOURCES)
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) -static -s -o $@ $(filter %.o %.a,$^) $(STATIC_LIBS)

# Python alone, so it suits each Python from 3.9 on. setuptools writes into its sources: it gets a
# copy. Debian's says of each pyproject.toml that its support is new.
PYTHON_TREE := $(BUILD)/python

python: | $(FIRST)
	$(say) WHEEL $(BUILD)/probectl-$(VERSION)-py3-none-any.whl
	$(Q)rm -rf '$(PYTHON_TREE)' && mkdir -p '$(PYTHON_TREE)'
	$(Q)tar -c -C libprobe/python --exclude=__pycache__ . | tar -x -C '$(PYTHON_TREE)'
	$(Q)cd '$(PYTHON_TREE)' && $(PYTHON) -W 'ignore:Support for:UserWarning' -c \
		'from setuptools import build_meta; build_meta.build_wheel("$(abspath $(BUILD))")' >log
