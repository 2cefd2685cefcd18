// SPDX-License-Identifier: MIT
// Calls, allocates and hashes, and checks every result; answers lines as victim.c does.
const crypto = require("crypto");
const zlib = require("zlib");

function work() {
  const data = {};
  for (let i = 0; i < 60; i++) data["k" + i] = { n: i * i, t: "x".repeat(i) };
  const text = JSON.stringify(data);
  const back = zlib.gunzipSync(zlib.gzipSync(text)).toString();
  let caught = 0;
  for (let i = 0; i < 20; i++) {
    try {
      null.x;
    } catch (error) {
      caught++;
    }
  }
  return crypto.createHash("sha256").update(back).digest("hex") + caught + (back === text);
}

const first = work();
let rounds = 0;
let wrong = 0;

function again() {
  rounds++;
  if (work() !== first) wrong++;
  setImmediate(again);
}

require("readline")
  .createInterface({ input: process.stdin })
  .on("line", (line) => {
    if (line === "quit") process.exit(wrong ? 1 : 0);
    console.log(`rounds ${rounds} wrong ${wrong} interrupted 0 late 0`);
  });
console.log("ready");
again();
