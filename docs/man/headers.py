#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Manual pages of the library, made of its headers: headers.py OUTDIR HEADER...

Each header gives a page of its own (probe_list.h.3: what it is about, its types, its
functions), and each function one. Declarations that stand below one comment, without
an empty line between them, share a page; the other names are links to it. Functions that
have their names from another library (pmtrace) get pages in section 3probe, so that both
libraries can be installed. What stands below a line `---- Private' is left out.

What a comment holds is what the page says: paragraphs are separated by empty lines,
lines that are indented are shown as they stand, and a paragraph, or the end of one, that
begins with `Errors' is the section of that name. A function without a comment is an error:
exit status 1, with its name.
"""
import os
import re
import shutil
import sys
import time

def expand_tables(text):
    """A table's rows X(NAME, NUMBER, ...) replace what makes them constants of an enum."""
    tables = dict(re.findall(r"(?m)^#define (\w+)\(X\b.*\n((?:.*\\\n)+.*\n)", text))
    for name, rows in tables.items():
        rows = re.sub(r"X\((\w+), (\d+).*?\).*", r"\1 = \2,", re.sub(r"\s*\\\n", "\n", rows))
        text = re.sub(rf"(?m)^#define (\w+)\(.*\n\s*{name}\(\1\b.*\n#undef \1\n", rows, text)
    return text


def split_header(text):
    """Yields (comment, [declarations]) of what a header has, in order."""
    text = expand_tables(text.split("/* ---- Private", 1)[0])
    # What the preprocessor takes separates.
    text = re.sub(r"(?m)^[ \t]*#(?:.*\\\n)*.*\n", "\n\n", text)
    text = re.sub(r'extern "C" \{|^\}$', "", text, flags=re.M)
    at, comment, declarations = 0, None, []
    while at < len(text):
        if text[at].isspace():
            # An empty line ends what a comment is about.
            if text[at:at + 2] == "\n\n" and (comment or declarations):
                yield comment, declarations
                comment, declarations = None, []
            at += 1
        elif text.startswith("/*", at):
            if comment is not None or declarations:
                yield comment, declarations
                declarations = []
            end = text.index("*/", at)
            comment, at = text[at:end + 2], end + 2
        else:
            end, depth = at, 0
            while depth or text[end] != ";":
                if text.startswith("/*", end):
                    end = text.index("*/", end) + 1
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            declarations.append(text[at:end + 1])
            at = end + 1
    yield comment, declarations


def plain(comment):
    """The text of a comment, without its frame."""
    lines = comment[2:-2].split("\n")
    return "\n".join(re.sub(r"^\s*\* ?", "", line) for line in lines).strip("\n").strip(" ")


def function(declaration):
    """(return type, name, [parameters]) of a prototype, or None."""
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)\s*(?=[;_])", "", declaration, flags=re.S)
    text = " ".join(text.replace("PROBE_MUST_CHECK", "").split()).rstrip("; ")
    match = re.match(r"([\w ]+?[ *]+)(\w+)\((.*)\)$", text)
    if not match or text.startswith("typedef") or "{" in text:
        return None
    parameters, depth, start = [], 0, 0
    for i, c in enumerate(match[3] + ","):
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and not depth:
            parameters.append(match[3][start:i].strip())
            start = i + 1
    return match[1].strip(), match[2], parameters


def escape(line):
    line = line.replace("\\", "\\e")
    return "\\&" + line if line[:1] in (".", "'") else line


def marked(line, here):
    """Names of functions become references, names of what else there is stay as they are."""
    words = []
    for word in line.split(" "):
        match = re.match(r"^(\(?)(probe_\w+)\(\)(\)?)([.,;:]*)$", word)
        if not match or match[2] in here or bool(match[1]) != bool(match[3]):
            words.append(escape(word))
            continue
        macro = "Pq Xr" if match[1] else "Xr"
        words.append(f"\n.{macro} {match[2]} 3 {' '.join(match[4])}".rstrip() + "\n")
    text = " ".join(words)
    return re.sub(r" *\n *", "\n", text).strip("\n")


def body(text, here):
    """mdoc of paragraphs."""
    out = []
    for paragraph in re.split(r"\n\s*\n", text):
        running, literal = [], []
        for line in paragraph.split("\n"):
            (literal if re.match(r"\s{2,}|\t", line) or literal else running).append(line)
        joined = " ".join(line.strip() for line in running)
        out += [".Pp"] if out and joined else []
        for sentence in re.split(r"(?<=[.:?!)])(?<!e\.g\.)(?<!i\.e\.) (?=[A-Z(*`])", joined):
            out += [marked(sentence, here)] if sentence else []
        if literal:
            out += [".Bd -literal -offset indent", *map(escape, literal), ".Ed"]
    return "\n".join(out)


def first_sentence(text):
    sentence = re.split(r"(?<=[.?!;])\s", " ".join(text.split()))[0].rstrip(".:;")
    if len(sentence) > 100:
        sentence = re.split(r"[:(]", sentence)[0].strip()
    if not re.match(r"[A-Z]{2}|[A-Z]_", sentence):
        sentence = sentence[:1].lower() + sentence[1:]
    return escape(sentence.replace("\\", ""))


def split_errors(text):
    match = re.search(r"(?:^|(?<=[.\s]))\s*Errors\b(?=[ :,])", text)
    if not match:
        return text, ""
    end = text.find("\n\n", match.end())
    end = len(text) if end < 0 else end
    errors = re.sub(r"^Errors:\s+", "", text[match.start():end].strip())
    return (text[:match.start()] + text[end:]).strip(), errors


def library(essay):
    """What is linked with: the library that a header's first comment names, or ours."""
    name = re.search(r"-l(probe_\w+)", essay)
    return "lib{0} (-l{0})".format(name[1] if name else "probe")


def function_page(path, essay, comment, functions):
    header = os.path.basename(path)[:-2]
    names = [name for _, name, _ in functions]
    text, errors = split_errors(plain(comment))
    page = [f".Dd {changed(path)}", f".Dt {names[0].upper()} 3", ".Os", ".Sh NAME"]
    page += [f".Nm {name}{' ,' if name != names[-1] else ''}" for name in names]
    page += [f".Nd {first_sentence(text or errors)}", ".Sh LIBRARY", library(essay)]
    page += [".Sh SYNOPSIS", f".In probe/{header}.h"]
    for kind, name, parameters in functions:
        page += [f".Ft {kind}", f".Fo {name}", *(f'.Fa "{p}"' for p in parameters), ".Fc"]
    page += [".Sh DESCRIPTION", body(text or errors, names)]
    if any(kind == "struct probe_error *" for kind, _, _ in functions):
        page += [".Sh RETURN VALUES", ".Dv NULL", "means success.", "Any other value is an error; free it with",
                 ".Xr probe_error_free 3 ."]
    if errors and text:
        page += [".Sh ERRORS", body(errors, names)]
    page += [".Sh SEE ALSO"]
    page += [".Xr libprobe 3 ,", f".Xr probe_{header}.h 3"]
    return "\n".join(page) + "\n"


def header_page(path, essay, types, functions):
    header = os.path.basename(path)[:-2]
    page = [f".Dd {changed(path)}", f".Dt PROBE_{header.upper()}.H 3", ".Os", ".Sh NAME",
            f".Nm probe_{header}.h", f".Nd {first_sentence(essay)}", ".Sh LIBRARY",
            library(essay), ".Sh SYNOPSIS", f".In probe/{header}.h", ".Sh DESCRIPTION",
            body(essay, [])]
    if types:
        page.append(".Sh TYPES")
    for comment, declaration in types:
        text = body(plain(comment), []) if comment else ""
        page += [".Pp"] if text and page[-1] != ".Sh TYPES" and not text.startswith(".Bd") else []
        page += [text] if text else []
        page += [".Bd -literal", *map(escape, declaration.strip("\n").split("\n")), ".Ed"]
    page += [".Sh SEE ALSO", ".Xr libprobe 3"]
    page[-1] += " ," if functions else ""
    page += [f".Xr {name} 3{' ,' if name != functions[-1] else ''}" for name in functions]
    return "\n".join(page) + "\n"


def changed(path):
    return time.strftime("%B %-d, %Y", time.gmtime(os.stat(path).st_mtime))


def page_file(name):
    return name + (".3probe" if name.startswith("pmtrace") else ".3")


def write(folder, name, text):
    with open(os.path.join(folder, page_file(name)), "w", encoding="utf-8") as page:
        page.write(text)


def convert(path, folder):
    """Writes the pages of a header; returns the functions that have no comment."""
    header, bare = os.path.basename(path)[:-2], []
    with open(path, encoding="utf-8") as file:
        parts = list(split_header(file.read()))
    essay = next(plain(c) for c, d in parts if c and not d and "SPDX" not in c)
    types, names = [], []
    for comment, declarations in parts:
        functions = [f for f in map(function, declarations) if f]
        others = [d for d in declarations if not function(d)]
        types += [(comment if i == 0 and not functions else None, d)
                  for i, d in enumerate(others) if not re.match(r"(struct|enum) \w+;$|extern", d)]
        if not functions:
            continue
        names += [name for _, name, _ in functions]
        if not comment:
            bare += [name for _, name, _ in functions]
            continue
        write(folder, functions[0][1], function_page(path, essay, comment, functions))
        for _, name, _ in functions[1:]:
            os.symlink(page_file(functions[0][1]), os.path.join(folder, page_file(name)))
    write(folder, f"probe_{header}.h", header_page(path, essay, types, sorted(names)))
    return [f"{path}: {name} has no comment" for name in bare]


def main():
    folder, headers = sys.argv[1], sys.argv[2:]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    bare = [line for path in headers for line in convert(path, folder)]
    print("\n".join(bare), end="\n" if bare else "", file=sys.stderr)
    return 1 if bare else 0


if __name__ == "__main__":
    sys.exit(main())
