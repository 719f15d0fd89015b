/** Durations and moments in words. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { duration, exact, relative } from "../../src/tenure/web/static/lib/time.js";

test("a duration has the two units that matter, and no more", () => {
  const said = [0.042, 1.24, 42.4, 200, 3600, 3660, 86_400 * 3 + 3600 * 4 + 59].map(duration);
  assert.deepEqual(said, ["42 ms", "1.2 s", "42 s", "3 m 20 s", "1 h", "1 h 1 m", "3 d 4 h"]);
});

test("nothing is a dash, and next to nothing is zero", () => {
  assert.equal(duration(null), "–");
  assert.equal(duration(undefined), "–");
  assert.equal(duration(0), "0 s");
  assert.equal(duration(0.0004), "0 s");
});

test("a second is not called a thousand milliseconds, nor a minute sixty seconds", () => {
  assert.equal(duration(1), "1.0 s");
  assert.equal(duration(59.6), "1 m");
});

test("a moment is past, future or now", () => {
  const now = Date.parse("2026-11-15T10:00:00Z");
  assert.equal(relative("2026-11-15T09:56:40Z", now), "3 m 20 s ago");
  assert.equal(relative("2026-11-15T10:05:00Z", now), "in 5 m");
  assert.equal(relative("2026-11-15T10:00:01Z", now), "just now");
});

test("an exact moment is in the reader's own zone", () => {
  const at = "2026-11-15T10:22:49.123Z";
  const shifted = new Date(Date.parse(at) - new Date(at).getTimezoneOffset() * 60_000);
  assert.equal(exact(at), shifted.toISOString().slice(0, 23).replace("T", " "));
});
