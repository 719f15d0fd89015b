/** One row: its attempts as lanes of the tape, and its JSON. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { indented } from "../../src/tenure/web/static/pages/row/json.js";
import {
  as_ended,
  label,
  lane,
  late_words,
  summary,
} from "../../src/tenure/web/static/pages/row/lanes.js";

const CLAIMED = "2026-11-15T10:00:00Z";
const attempt = (/** @type {object} */ over) => ({
  generation: 1,
  fence: "41",
  worker: "a",
  claimed_at: CLAIMED,
  ended_at: "2026-11-15T10:00:30Z",
  outcome: "expired",
  error: null,
  ...over,
});
const refusal = (/** @type {object} */ over) => ({
  at: "2026-11-15T10:01:00Z",
  worker: "a",
  verb: "complete",
  stale_token: "1",
  current_token: "2",
  reason: "lease_lost",
  ...over,
});
const ms = (/** @type {string} */ at) => Date.parse(at);

test("a late write belongs to the attempt whose token it has, whatever its worker is called now", () => {
  const refusals = [refusal({ worker: "a, registered anew" }), refusal({ stale_token: "2" })];
  const found = lane(attempt({}), refusals, null, 0);
  assert.equal(found.late.length, 1);
  assert.equal(found.last, ms("2026-11-15T10:01:00Z"), "the lane reaches to its last write");
  assert.equal(label(found), "expired after 30 s, complete refused");
});

test("an attempt that holds the row goes on until now, with a lease", () => {
  const lease = "2026-11-15T10:02:00Z";
  const found = lane(
    attempt({ ended_at: null, outcome: "processing" }),
    [],
    lease,
    ms("2026-11-15T10:00:20Z"),
  );
  assert.deepEqual(
    [found.held, found.to, found.lease_end],
    [true, ms("2026-11-15T10:00:20Z"), ms(lease)],
  );
  assert.equal(label(found), "held for 20 s");
});

test("a clock that runs behind draws no bar to the left", () => {
  const found = lane(attempt({ ended_at: null }), [], null, ms(CLAIMED) - 5000);
  assert.equal(found.to, found.from);
});

test("an ended attempt has no lease left, whatever the row says", () => {
  assert.equal(lane(attempt({}), [], "2026-11-15T11:00:00Z", 0).lease_end, null);
});

test("the attempt that ended the row has the row's own ending", () => {
  const at = "2026-11-15T10:00:30Z";
  const attempts = [
    attempt({ outcome: "retried", ended_at: CLAIMED }),
    attempt({ outcome: "retried" }),
  ];
  const ended = as_ended(attempts, { status: "dead_letter", finished_at: at });
  assert.deepEqual(
    ended.map((each) => each.outcome),
    ["retried", "dead_letter"],
  );
  const expired = as_ended([attempt({})], { status: "completed", finished_at: at });
  assert.equal(expired[0].outcome, "expired", "only what gave the row back is renamed");
});

test("the whole tape is told to those who do not see it", () => {
  const lanes = [lane(attempt({}), [refusal({}), refusal({ at: "2026-11-15T10:01:01Z" })], null, 0)];
  assert.equal(
    summary(lanes),
    "Lease tape: attempt 1 by a expired after 30 s, then 2 late writes refused",
  );
  assert.match(
    late_words(refusal({ current_token: null })),
    /with token 1, the row has ended: refused \(lease_lost\)$/,
  );
});

test("every digit of a payload stays as it stands in the row", () => {
  const text = '{"big":12345678901234567890,"tiny":1e-400,"a":[1,{"b":null}],"empty":{},"none":[]}';
  const shown = indented(text)
    .map((token) => token.text)
    .join("");
  assert.equal(shown.replace(/\s/g, ""), text);
  assert.ok(shown.includes('\n  "big": 12345678901234567890,'));
  assert.ok(
    shown.includes('"empty": {},') && shown.includes('"none": []'),
    "what is empty stays on its line",
  );
});

test("names, strings, digits and words have a colour each, and blanks in strings stay", () => {
  const kinds = indented('{"a b":"c: d","n":-1.5e3,"t":true}').filter((token) => token.kind);
  assert.deepEqual(
    kinds.map((token) => [token.kind, token.text]),
    [
      ["name", '"a b"'],
      ["string", '"c: d"'],
      ["name", '"n"'],
      ["digits", "-1.5e3"],
      ["name", '"t"'],
      ["word", "true"],
    ],
  );
});

test("a text that is no JSON is shown all the same", () => {
  const shown = indented('}{"open')
    .map((token) => token.text)
    .join("");
  assert.equal(shown.replace(/\s/g, ""), '}{"open');
});
