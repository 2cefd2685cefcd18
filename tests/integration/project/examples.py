#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
usage: examples.py DOCUMENT...

Prints the commands of probectl that documents show, one a line, with what `\\` continues:
"DOCUMENT<tab>HEADING<tab>COMMAND". In Markdown they are indented by four blanks, in mdoc(7) between
.Bd -literal and .Ed, or after .Dl. The `$` before them may be missing.
"""
import re
import sys

COMMAND = re.compile(r"(?:\$ )?((?:[A-Z_]+=\S+ )*probectl .*)$")


def markdown(lines):
    """Yields (heading, text); None ends a block."""
    heading, fenced = "", False
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
            yield heading, None
        elif fenced:
            yield heading, line
        elif line.startswith("    "):
            yield heading, line[4:]
        else:
            if line.startswith("#"):
                heading = line.lstrip("# ")
            yield heading, None


def mdoc(lines):
    heading, literal = "", False
    for line in lines:
        text = line.replace("\\e", "\\").replace("\\-", "-").replace("\\&", "")
        if line.startswith((".Sh ", ".Ss ")):
            heading = line[4:]
        if line.startswith(".Bd -literal"):
            literal = True
        elif line.startswith(".Ed"):
            literal = False
        if line.startswith(".Dl "):
            yield heading, text[4:]
        else:
            yield heading, text if literal and not line.startswith(".") else None


def commands(lines):
    """Yields (heading, command)."""
    command = None
    for heading, text in lines:
        if text is None:
            command = None
            continue
        if command is None:
            match = COMMAND.match(text)
            command = match and match.group(1)
        else:
            command += " " + text.strip()
        # The first line of a screen of `probectl top` is no command.
        if command and command.startswith("probectl top  "):
            command = None
        if command and command.endswith(("\\", "|")):
            command = command.rstrip("\\").rstrip()
        elif command:
            yield heading, command
            command = None


def main():
    for document in sys.argv[1:]:
        with open(document, encoding="utf-8") as file:
            lines = file.read().splitlines()
        blocks = markdown(lines) if document.endswith(".md") else mdoc(lines)
        for heading, command in commands(blocks):
            print(document, heading, command, sep="\t")


main()
