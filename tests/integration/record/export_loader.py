#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
Loads an exported trace with the loader of Chromium's Performance panel.

    export_loader.py FILE       "PID TID NAME SLICES", a line for each thread
"""

import json
import pathlib
import sys

from browser import Browser, SECONDS

# The code of the panel without the panel, which takes long to load.
MODEL = "devtools://devtools/bundled/models/trace/trace.js"
LOAD = """
const done = arguments[arguments.length - 1];
(async () => {
  const {TraceModel} = await import(location.href);
  const model = TraceModel.Model.createWithAllHandlers();
  await model.parse(JSON.parse(arguments[0]).traceEvents, {metadata: {}});
  const parsed = model.parsedTrace(0);
  return [...(parsed.data || parsed).Renderer.processes].flatMap(([pid, process]) =>
    [...process.threads].map(([tid, thread]) => [pid, tid, thread.name, thread.entries.length]));
})().then(done, error => done(String(error)));
"""

browser = Browser()
try:
    browser.call("/timeouts", {"script": SECONDS * 1000})
    browser.call("/url", {"url": MODEL})
    threads = browser.call("/execute/async", {
        "script": LOAD, "args": [pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")]})
finally:
    browser.close()
if isinstance(threads, str):
    raise SystemExit("Chromium does not load it: " + threads)
for thread in sorted(threads):
    print(*thread)
