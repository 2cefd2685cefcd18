#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks a page as a reader sees it, in headless Chromium with chromedriver (WebDriver).

usage: browser.py look PAGE                its contents, as JSON
       browser.py shot PAGE FILE WIDTH light|dark

`look` fails with a line for each of these: console output, a loaded resource, a page wider than
the screen, a skipped heading level, an element without a name, text with too little contrast.
"""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

WIDTHS = (320, 360, 1280)
# How long an answer may take.
SECONDS = int(os.environ.get("TEST_SECONDS", "300"))


class Browser:
    """One window, which keeps these logs."""

    def __init__(self, *logs):
        self.folder = tempfile.mkdtemp(prefix="browser.")
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, env={**os.environ, "HOME": self.folder})
        for line in self.driver.stdout:
            port = re.search(r"started successfully on port (\d+)", line)
            if port:
                self.url = f"http://127.0.0.1:{port.group(1)}/session"
                break
        else:
            raise SystemExit("chromedriver does not start")
        arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage",
                     f"--user-data-dir={self.folder}/profile", "--no-first-run",
                     "--disable-background-networking", "--hide-scrollbars"]
        # With a port, chromedriver gives up where Chromium takes longer than a few seconds to answer.
        arguments.append("--remote-debugging-pipe")
        # Its own sandbox cannot be set up as root, nor in a container. The page is ours.
        arguments.append("--no-sandbox")
        session = self.call("", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments, "browserStartupTimeout": SECONDS * 1000},
            "goog:loggingPrefs": dict.fromkeys(logs, "ALL")}}})
        self.url += "/" + session["sessionId"]

    def call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data,
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise SystemExit(f"{path or 'session'}: {value['error']}: {value['message']}") from None

    def devtools(self, command, **parameters):
        return self.call("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def run(self, script):
        return self.call("/execute/sync", {"script": script, "args": []})

    def log(self, kind):
        return self.call("/se/log", {"type": kind})

    def show(self, width, scheme):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=800,
                      deviceScaleFactor=1, mobile=width < 600)
        self.devtools("Emulation.setEmulatedMedia",
                      features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, page):
        self.call("/url", {"url": pathlib.Path(page).resolve().as_uri()})

    def close(self):
        try:
            request = urllib.request.Request(self.url, method="DELETE")
            urllib.request.urlopen(request, timeout=SECONDS).close()
        finally:
            self.driver.terminate()
            self.driver.wait()
            shutil.rmtree(self.folder, ignore_errors=True)


# Everything that is written, with the contrast to what is behind it (WCAG 2.1, 1.4.3).
CONTRAST = r"""
const number = c => { const m = c.match(/[\d.]+/g).map(Number); return m; };
const light = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255;
  return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
  return .2126 * r + .7152 * g + .0722 * b; };
const ground = e => { for (; e; e = e.parentElement) {
  const c = number(getComputedStyle(e).backgroundColor);
  if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
const bad = {};
for (const e of document.querySelectorAll('body *')) {
  if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || e.closest('svg')) continue;
  const a = light(number(getComputedStyle(e).color)), b = light(ground(e));
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (ratio < 4.5) bad[e.className + ' ' + e.tagName] = ratio.toFixed(2);
}
return bad;
"""

# What a screen reader would find, and what the page says.
CONTENT = r"""
const text = e => (e.textContent || '').replace(/\s+/g, ' ').trim();
const data = s => { const e = document.querySelector(s); return e && Number(e.value); };
const row = r => [...r.cells].map(c => { const d = c.querySelector('data');
  return d ? Number(d.value) : text(c); });
const rows = s => [...document.querySelectorAll(s + ' tbody tr')].map(row);
return {
  lang: document.documentElement.lang, title: document.title,
  headings: [...document.querySelectorAll('h1,h2,h3')].map(h => [Number(h.tagName[1]), text(h)]),
  charts: [...document.querySelectorAll('svg[role=img]')].map(s =>
    [text(document.getElementById(s.getAttribute('aria-labelledby')) || {}),
     text(document.getElementById(s.getAttribute('aria-describedby')) || {})]),
  silent: [...document.querySelectorAll('svg:not([role=img])')].filter(
    s => !s.closest('[aria-hidden=true]')).length,
  captions: [...document.querySelectorAll('table')].map(t => text(t.caption || {})),
  columns: [...document.querySelectorAll('table')].filter(
    t => [...t.tHead.rows[0].cells].some(c => c.scope !== 'col')).length,
  ids: [...document.querySelectorAll('[id]')].map(e => e.id),
  links: [...document.querySelectorAll('a')].map(a => a.getAttribute('href')),
  scripts: document.querySelectorAll('script').length,
  foreign: [...document.querySelectorAll('[src],link,img,iframe,object,embed,form')].length,
  hits: data('#hits data'), lost: data('#lost data'),
  probes: rows('table.probes'), pairs: rows('table.pairs'), threads: rows('table.threads'),
  keys: [...document.querySelectorAll('table.keys')].map(t =>
    [text(t.caption), [...t.tBodies[0].rows].map(row)]),
};
"""

# The page's own functions for axes: what they do wrong.
AXES = r"""
const bad = [];
for (const [value, number, time] of [[0, '0', '0'], [.004, '0.004', '0.004ns'], [1.5, '1.5', '1.5ns'],
    [999, '999', '999ns'], [2500, '2.5k', '2.5µs'], [1e6, '1M', '1ms'], [90e9, '90G', '90s'],
    [120e9, '120G', '2min'], [7200e9, '7.2T', '2h'], [3 * (1 - 1e-15), '3', '3ns']])
  if (tick(value) !== number || tickTime(value) !== time)
    bad.push(`${value} is ${tick(value)} or ${tickTime(value)}`);
for (let value = 1e-3; value < 1e25; value *= 1.07) {
  const [end, parts] = axisEnd(value);
  if (end < value * (1 - 1e-8) || end > 1.51 * value || parts < 3 || parts > 5)
    bad.push(`for ${value}, an axis ends at ${end}, with ${parts} parts`);
}
for (let low = 0; low < 128; low++)
  for (let high = low + 6; high <= 128; high++)
    if (!latencyTicks(low, high).length)
      bad.push(`no ticks from row ${low} to ${high}`);
return bad;
"""

# Tab by tab: what has the focus, and whether that can be seen.
FOCUS = r"""
const e = document.activeElement, style = getComputedStyle(e);
return [e.tagName, e.className, (e.textContent || '').trim().slice(0, 40),
  style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2];
"""


def tab(browser):
    for kind in "keyDown", "keyUp":
        browser.devtools("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab",
                         windowsVirtualKeyCode=9)


def check_names(content, fail):
    levels = [level for level, _ in content["headings"]]
    if levels.count(1) != 1 or levels[0] != 1:
        fail("not one first heading")
    if any(after > before + 1 for before, after in zip(levels, levels[1:])):
        fail(f"a level of headings is left out: {levels}")
    if not all(name for _, name in content["headings"]) or not content["title"]:
        fail("a heading is empty")
    if not all(name and words for name, words in content["charts"]):
        fail("a chart has no name or description")
    if content["silent"]:
        fail(f"{content['silent']} pictures without a role that are read all the same")
    if not all(content["captions"]) or content["columns"]:
        fail("a table without a caption, or a column without a heading")
    if len(set(content["ids"])) != len(content["ids"]):
        fail("an id is there twice")
    for link in content["links"]:
        if link[1:] not in content["ids"]:
            fail(f"a link leads nowhere: {link}")
    if content["lang"] != "en":
        fail("no language")
    if content["scripts"] != 2 or content["foreign"]:
        fail("there is another script than the page's own two, or something from elsewhere")


def check_keyboard(browser, links, fail):
    seen = []
    for _ in range(len(links) + 3):
        tab(browser)
        seen.append(browser.run(FOCUS))
    if seen[0][:2] != ["A", "skip"]:
        fail(f"the first stop of the keyboard is {seen[0]}")
    for stop in seen:
        if stop[0] != "BODY" and not stop[3]:
            fail(f"nobody sees that this has the focus: {stop}")


def look(page):
    failures = []
    browser = Browser("browser", "performance")
    try:
        for scheme in "light", "dark":
            for width in WIDTHS:
                browser.show(width, scheme)
                browser.open(page)
                inner = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
                if inner[0] > width or inner[1] != width:
                    failures.append(f"at {width}, the page is {inner[0]} of {inner[1]} wide")
                # With all tables open.
                browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
                inner = browser.run("return document.documentElement.scrollWidth")
                if inner > width:
                    failures.append(f"at {width}, the open page is {inner} wide")
            for what, ratio in browser.run(CONTRAST).items():
                failures.append(f"{scheme}: {what} has a contrast of {ratio}")
        browser.open(page)
        content = browser.run(CONTENT)
        check_names(content, failures.append)
        check_keyboard(browser, content["links"], failures.append)
        failures += browser.run(AXES)
        # Chromium's own first page loads a lot, and complains where that is slow.
        for entry in browser.log("browser"):
            if not entry["message"].startswith("chrome://"):
                failures.append(f"on the console: {entry['message']}")
        own = pathlib.Path(page).resolve().as_uri()
        for entry in browser.log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] != "Network.requestWillBeSent":
                continue
            asked = message["params"]
            if asked.get("documentURL") == own and asked["request"]["url"] != own:
                failures.append(f"it loads {asked['request']['url']}")
    finally:
        browser.close()
    for failure in failures:
        print(f"FAIL: {failure}", file=sys.stderr)
    json.dump(content, sys.stdout, indent=1)
    return 1 if failures else 0


def shot(page, file, width, scheme):
    browser = Browser()
    try:
        browser.show(int(width), scheme)
        browser.open(page)
        image = browser.devtools("Page.captureScreenshot", captureBeyondViewport=True,
                                 format="png")
        with open(file, "wb") as out:
            out.write(base64.b64decode(image["data"]))
    finally:
        browser.close()
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "look":
        sys.exit(look(sys.argv[2]))
    if len(sys.argv) == 6 and sys.argv[1] == "shot":
        sys.exit(shot(*sys.argv[2:]))
    sys.exit(__doc__)
