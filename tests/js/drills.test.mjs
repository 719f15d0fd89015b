/** A stage: what it said, reduced to what it looks like; and a whole recorded race. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { dealt, EMPTY, reduce, telling_key } from "../../src/tenure/web/static/pages/drills/reduce.js";
import { speaker } from "../../src/tenure/web/static/pages/drills/runs.js";

const RACE = new URL("../../src/tenure/web/static/recordings/lease-race.json", import.meta.url);
const told = (/** @type {any[]} */ ...said) =>
  said.map((each, n) => ({ at: n, who: "stage", ...each })).reduce(reduce, EMPTY);
const claim = (/** @type {string} */ worker, /** @type {number} */ token, over = {}) => ({
  event: "lease_acquired",
  worker,
  token,
  job_id: "j",
  ...over,
});
const picture = (/** @type {object[]} */ rows, over = {}) => ({
  event: "picture",
  rows: rows.map((row) => ({ id: "j", key: "order:1", ...row })),
  ring: { workers: [], owners: "" },
  ...over,
});

test("a claim by another ends the hold before it, at the end of its lease if that came first", () => {
  const held = { status: "processing", token: 1, lease_left: 2 };
  const state = told(claim("worker-A", 1), picture([held]), claim("worker-B", 2, { at: 9 }));
  assert.deepEqual(
    state.runs.map((run) => [run.worker, run.to, run.outcome]),
    [
      ["worker-A", 3, "expired"],
      ["worker-B", null, "held"],
    ],
  );
});

test("without a known lease the hold before ends when the other begins", () => {
  const state = told(claim("worker-A", 1), claim("worker-B", 2, { at: 9 }));
  assert.equal(state.runs[0].to, 9);
});

test("a blocked write is late, against the newest token", () => {
  const blocked = { event: "stale_write_blocked", job_id: "j", stale_token: 1, reason: "lease_lost" };
  const state = told(claim("worker-A", 1), claim("worker-B", 2), blocked);
  assert.deepEqual(state.runs[0].late, [
    { at: 2, ok: false, token: 1, current: 2, reason: "lease_lost" },
  ]);
  assert.equal(state.runs[0].told, true, "it knows now");
});

test("a stale write that the ledger took went through; one of the holder is none", () => {
  const write = (/** @type {number} */ token) => ({ event: "ledger_written", job_id: "j", token });
  const state = told(claim("worker-A", 1), claim("worker-B", 2), write(1), write(2));
  assert.deepEqual(
    state.runs.map((run) => run.late.length),
    [1, 0],
  );
  assert.equal(state.runs[0].late[0].ok, true);
});

test("a stale completion is not told twice when its write was already late", () => {
  const stale = [
    { event: "ledger_written", job_id: "j", token: 1 },
    { event: "job_completed", job_id: "j", token: 1 },
  ];
  const state = told(claim("worker-A", 1), claim("worker-B", 2), ...stale);
  assert.equal(state.runs[0].late.length, 1);
  assert.equal(state.runs[0].outcome, "expired");
});

test("a picture may be quicker than the event that ends a hold", () => {
  const pending = picture([{ status: "pending", token: 1, lease_left: null }]);
  const state = told(claim("worker-A", 1), pending, { event: "job_retried", job_id: "j", token: 1 });
  assert.deepEqual([state.runs[0].outcome, state.runs[0].to], ["retried", 2]);
});

test("a killed process is gone and stands still no more, but its lease runs on", () => {
  const state = told(
    claim("worker-A", 1),
    { event: "worker_paused", worker: "worker-A" },
    { event: "worker_killed", worker: "worker-A" },
  );
  assert.deepEqual([state.runs[0].gone_at, state.runs[0].to], [2, null]);
  assert.deepEqual(state.stops, [{ worker: "worker-A", from: 1, to: 2 }]);
});

test("a worker that noticed its loss gave up, unless it had ended before", () => {
  const lost = { event: "lease_lost", job_id: "j", token: 1 };
  assert.equal(told(claim("worker-A", 1), lost).runs[0].outcome, "given up");
  assert.equal(told(claim("worker-A", 1), claim("worker-B", 2), lost).runs[0].outcome, "expired");
});

test("time never goes back, and what nobody knows changes nothing else", () => {
  const state = told({ event: "nobody_knows", at: 5 }, { event: "nobody_knows", at: 3 });
  assert.deepEqual(state, { ...EMPTY, at: 5 });
});

test("reducing leaves the state before as it was", () => {
  const before = told(claim("worker-A", 1));
  const copy = structuredClone(before);
  reduce(before, { at: 9, who: "stage", ...claim("worker-B", 2) });
  assert.deepEqual(before, copy);
});

test("a change of the ring says how many buckets moved; the first members are no change", () => {
  const with_ring = (/** @type {string[]} */ workers, /** @type {string} */ owners) =>
    picture([], { ring: { workers, owners } });
  const first = with_ring(["worker-A"], "AAAA");
  assert.equal(told(first).change, null);
  const { change } = told(first, with_ring(["worker-A", "worker-B"], "AABA"));
  assert.deepEqual(change, { moved: [2], needless: 0, workers: 2, at: 1 });
  assert.deepEqual(dealt({ workers: ["worker-A"], owners: "A-" }).buckets, [0, -1]);
});

test("a worker is known by its short name, whoever speaks", () => {
  assert.equal(speaker({ at: 0, who: "worker-A-8120-3fa9", event: "x" }), "worker-A");
  assert.equal(speaker({ at: 0, who: "stage", event: "x", worker: "worker-B-1-2" }), "worker-B");
  assert.equal(speaker({ at: 0, who: "stage", event: "x" }), "stage");
});

test("the tape shows the chosen key, else the one with most to tell, else the newest", () => {
  const enqueued = ["j", "k"].map((job_id) => ({ event: "enqueued", job_id, key: `order:${job_id}` }));
  const state = told(
    ...enqueued,
    claim("worker-A", 2, { job_id: "j" }),
    claim("worker-B", 1, { job_id: "k" }),
  );
  assert.equal(telling_key(state, null), "order:j");
  assert.equal(telling_key(state, "order:k"), "order:k");
  assert.equal(telling_key(state, "order:gone"), "order:j");
  assert.equal(telling_key(told(...enqueued), null), "order:k");
  assert.equal(telling_key(EMPTY, null), null);
});

test("the recorded race ends with a blocked write, one entry in the ledger and a verdict", () => {
  const { said } = JSON.parse(readFileSync(RACE, "utf8"));
  const state = said.reduce(reduce, EMPTY);
  const [first, second] = state.runs;
  assert.deepEqual([first.token, second.token], [1, 2]);
  assert.equal(
    first.late.length > 0 && first.late.every((/** @type {any} */ write) => !write.ok),
    true,
  );
  assert.equal(second.outcome, "completed");
  assert.equal(state.picture.ledger.length, 1);
  assert.equal(state.verdict.ok, true);
});
