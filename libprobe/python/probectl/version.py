# SPDX-License-Identifier: MIT
"""The version of the library that this binding is for: that of the Makefile."""

VERSION = "0.1.0"
