/** What people can change, in words: verbs, limits, workers, and the time to think again. */
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { done_words, not_made, shares, takes } from "../../src/tenure/web/static/lib/verbs.js";
import { countdown } from "../../src/tenure/web/static/pages/dead/countdown.js";
import {
  asked,
  kept_seconds,
  limit_words,
} from "../../src/tenure/web/static/pages/queues/limit_words.js";
import * as workers from "../../src/tenure/web/static/pages/workers/words.js";

const redrive = { past: "redriven", statuses: ["failed", "dead_letter"] };

test("what came of an action is told with what had moved on", () => {
  assert.equal(done_words(redrive, { changed: 1, skipped: 0 }), "1 row redriven.");
  assert.equal(
    done_words({ past: "cancelled" }, { changed: 1200, skipped: 3 }),
    "1,200 rows cancelled, 3 had changed meanwhile.",
  );
  assert.equal(
    done_words({ past: "deleted" }, { changed: 1, skipped: 1 }),
    "1 row deleted, 1 were left: changed meanwhile, or flows that have begun.",
  );
  assert.match(
    done_words(redrive, { done: false, action: 7, changed: 0 }),
    /^Still running as action 7/,
  );
});

test("of several inboxes it is told where a change was not made; where there is no such thing, none was meant", () => {
  const eu = { answers: true };
  const inboxes = (/** @type {any} */ us) => ({ inboxes: { eu, us } });
  assert.equal(not_made(inboxes({ answers: false, error: "it is away" })), "us: it is away");
  assert.equal(not_made(inboxes({ answers: true, error: "not now", status: 409 })), "us: not now");
  assert.equal(not_made(inboxes({ answers: true, error: "there is none", status: 404 })), "");
  assert.deepEqual([inboxes(eu), { inboxes: [] }, {}, null].map(not_made), ["", "", "", ""]);
  const going = { done: false, action: 7, changed: 0, ...inboxes(eu) };
  assert.match(
    done_words(redrive, going),
    /^Still running; the audit/,
    "each inbox counts its actions",
  );
});

test("a count is split by states only where the filter leaves that open", () => {
  const statuses = {
    failed: { n: 2, more: false },
    dead_letter: { n: 3, more: true },
    completed: { n: 9, more: false },
  };
  assert.deepEqual(shares(redrive, { filter: "kind:a", statuses }), {
    failed: { n: 2, more: false },
    "dead letter": { n: 3, more: true },
  });
  assert.equal(shares(redrive, { filter: "kind:a status:failed", statuses }), undefined);
  assert.equal(shares(redrive, { filter: "", statuses: { failed: { n: 2, more: false } } }), undefined);
});

test("a verb that takes pending rows takes both halves of them", () => {
  assert.deepEqual(takes({ statuses: ["pending", "failed"] }), ["runnable", "scheduled", "failed"]);
  assert.deepEqual(takes(redrive), ["failed", "dead_letter"]);
});

test("limits are sent as numbers, null where nothing was typed, and as typed where it is no number", () => {
  const typed = { max_running: " 8 ", max_per_key: "", rate_per_second: "0.5", burst: "many" };
  assert.deepEqual(asked(typed), {
    max_running: 8,
    max_per_key: null,
    rate_per_second: 0.5,
    burst: "many",
  });
  assert.deepEqual(asked({ a: "Infinity", b: "1e3" }), { a: "Infinity", b: 1000 });
});

test("days are sent as seconds, null where nothing was typed, and as typed where it is no number", () => {
  assert.deepEqual(["7", " 0.5 ", "", "week"].map(kept_seconds), [604_800, 43_200, null, "week"]);
});

test("only limits that are set are told", () => {
  const queue = /** @type {any} */ ({
    running: 4,
    max_running: 8,
    max_per_key: 1,
    rate_per_second: 10,
    burst: 10,
    retention_seconds: 604_800,
  });
  assert.equal(limit_words(queue), "4 of 8 run · 1 per key · 10 per second, burst 10 · kept 7 d");
  assert.equal(limit_words(/** @type {any} */ ({ running: 4 })), "");
  assert.equal(limit_words(/** @type {any} */ ({ running: 0, max_running: 0 })), "0 of 0 run");
});

const member = (/** @type {object} */ over) =>
  /** @type {any} */ ({
    id: "w",
    status: "alive",
    version: "1",
    slots: 10,
    slots_used: 3,
    held: 1,
    queues: [],
    ...over,
  });

test("the fleet is summed up without the slots of the dead", () => {
  const fleet = [member({}), member({ status: "draining", slots_used: 2 }), member({ status: "dead" })];
  assert.equal(workers.summary(fleet), "1 alive · 1 draining · 1 dead · 5 of 20 slots taken");
  assert.equal(workers.summary([]), "0 alive");
});

test("the usual version is the one most run", () => {
  assert.equal(workers.usual_version(["2", "1", "2"].map((version) => member({ version }))), "2");
  assert.equal(workers.usual_version([]), null);
});

test("a heartbeat is fresh, fades, and falls silent", () => {
  assert.deepEqual(
    [0, 15, 16, 29.9, 30, 99].map((seconds) => workers.freshness(seconds).word),
    ["fresh", "fresh", "fading", "fading", "silent", "silent"],
  );
  assert.equal(workers.freshness(99).left, 0);
});

test("a worker without a session is neither here nor gone", () => {
  assert.deepEqual([true, false, null].map(workers.presence), ["here", "gone", "none"]);
  assert.equal(workers.rows_held(member({ held: null })), "rows");
  assert.equal(
    workers.held_by(member({ id: "a b" })),
    "rows?filter=status%3Aprocessing+worker%3A%22a+b%22",
  );
});

/** A countdown whose clock is ours: go(ms) lets it be so late and ticks once. */
function counted() {
  let [now, tick] = [0, () => {}];
  mock.method(performance, "now", () => now);
  mock.method(globalThis, "setInterval", (/** @type {() => void} */ call) => ((tick = call), 1));
  const [send, tell] = [mock.fn(), mock.fn()];
  const { undo } = countdown(send, tell, 10);
  return { send, tell, undo, go: (/** @type {number} */ ms) => ((now = ms), tick()) };
}

test("what is undone in time is never sent", () => {
  const { send, tell, undo, go } = counted();
  go(4000);
  assert.deepEqual(tell.mock.calls[0].arguments, [{ left: 6, share: 0.6 }]);
  assert.equal(undo(), true);
  go(20_000);
  assert.equal(send.mock.callCount(), 0);
  assert.deepEqual(tell.mock.calls.at(-1)?.arguments, [null]);
  mock.restoreAll();
});

test("what is not undone is sent once, and then it is too late", () => {
  const { send, undo, go } = counted();
  go(10_000);
  go(10_100);
  assert.equal(send.mock.callCount(), 1);
  assert.equal(undo(), false);
  mock.restoreAll();
});
