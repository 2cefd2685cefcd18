#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The layout of C files is clang-format's (.clang-format).
. tests/lint/lib.sh
need clang-format
sources '*.c' '*.h' | xargs -r clang-format --dry-run -Werror
