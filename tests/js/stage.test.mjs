/** What is drawn of a stage: holds, leases, props, guards, words, and recordings to and fro. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { answer, answer_tag } from "../../src/tenure/web/static/pages/drills/guards.js";
import * as holds from "../../src/tenure/web/static/pages/drills/holds.js";
import { lease_left, wait_left } from "../../src/tenure/web/static/pages/drills/lease.js";
import { FREE, otherwise, pace_of, unhurried } from "../../src/tenure/web/static/pages/drills/props.js";
import { EMPTY } from "../../src/tenure/web/static/pages/drills/reduce.js";
import * as replay from "../../src/tenure/web/static/pages/drills/replay.js";
import * as words from "../../src/tenure/web/static/pages/drills/words.js";

const run = (/** @type {object} */ over = {}) => ({
  job: "j",
  worker: "worker-A",
  token: 1,
  from: 1,
  to: null,
  outcome: "held",
  lease_until: 4,
  lease_whole: 3,
  gone_at: null,
  told: false,
  late: [],
  ...over,
});
const row = (/** @type {object} */ over = {}) => ({
  id: "j",
  key: "order:1",
  kind: "order",
  status: "processing",
  token: 1,
  attempts: 1,
  max_attempts: 5,
  wait_left: 0,
  lease_left: 2,
  worker: "worker-A",
  error: null,
  ...over,
});
const late = (/** @type {object} */ over = {}) => ({
  at: 6,
  ok: false,
  token: 1,
  current: 2,
  reason: "",
  ...over,
});

test("a hold that nobody took ends with its lease, and its words say so", () => {
  assert.equal(holds.end_of(run(), 3), 3);
  assert.equal(holds.end_of(run(), 9), 4);
  assert.equal(holds.run_words(run(), 3), "token 1, held");
  assert.equal(holds.run_words(run(), 9), "token 1, its lease ran out after 3.0 s");
  assert.equal(
    holds.run_words(run({ gone_at: 2 }), 3),
    "token 1, its process is gone, the lease runs on",
  );
  assert.equal(holds.run_words(run({ to: 4, outcome: "expired" }), 9), "token 1, expired after 3.0 s");
  assert.equal(holds.run_words(run({ to: 4, outcome: "completed" }), 9), "token 1, completed");
});

test("a hold reaches to now while its holder believes in it, and to its last late write", () => {
  assert.equal(holds.reach(run({ to: 4, outcome: "expired" }), 9), 9);
  assert.equal(holds.reach(run({ to: 4, told: true }), 9), 4);
  assert.equal(holds.reach(run({ to: 4, told: true, late: [late()] }), 9), 6);
  assert.equal(holds.moves(run({ to: 4, told: true })), false);
  assert.equal(holds.moves(run({ to: 4 })), true);
});

test("a process stands still only within its hold", () => {
  const stops = [
    { worker: "worker-A", from: 0, to: 2 },
    { worker: "worker-A", from: 3, to: null },
    { worker: "worker-A", from: 20, to: 21 },
  ];
  assert.deepEqual(holds.still(run(), stops, 5), [
    [1, 2],
    [3, 5],
  ]);
});

test("words above bars keep off the edges and off each other", () => {
  assert.equal(holds.placed("abc", 0, 200, 0)?.x, holds.SIDE);
  const right = holds.placed("abc", 199, 200, 0);
  assert.equal(right?.end, 200 - holds.SIDE);
  assert.equal(holds.placed("abc", 50, 200, 51), null);
});

test("a worker whose lease ran out only believes that it holds", () => {
  const runs = [run(), run({ worker: "worker-B" })];
  assert.deepEqual(holds.holdings(runs, "worker-A", false, 3), {
    held: [runs[0]],
    believed: [],
    late: [],
  });
  assert.deepEqual(holds.holdings(runs, "worker-A", false, 5), {
    held: [],
    believed: [runs[0]],
    late: [],
  });
});

test("what a namesake left is not held by the one who came after", () => {
  const left = run({ gone_at: 2 });
  assert.deepEqual(holds.holdings([left], "worker-A", false, 3).held, []);
  assert.deepEqual(holds.holdings([left], "worker-A", true, 3).held, [left]);
});

test("a late write is told with the token it met", () => {
  assert.equal(holds.late_words(late()), "✗ stale write blocked, token 1 < 2");
  assert.equal(
    holds.late_words(late({ ok: true, current: null })),
    "stale write went through, token 1",
  );
  assert.equal(
    holds.summary([run({ late: [late()] })]),
    "Tape: worker-A with token 1: held, then a stale write blocked",
  );
});

test("a lease runs down between two pictures, and says when it ran out", () => {
  const state = { ...EMPTY, pictured_at: 10, runs: [run({ lease_whole: 4 })] };
  assert.deepEqual(lease_left(row(), state, 11), {
    left: 1,
    share: 0.25,
    words: "1.0 s of its lease left",
  });
  assert.deepEqual(lease_left(row(), state, 13), {
    left: -1,
    share: 0,
    words: "lease ran out 1.0 s ago",
  });
  assert.equal(lease_left(row(), state, 9)?.left, 2, "a clock behind the picture adds nothing");
  assert.equal(lease_left(row({ status: "completed" }), state, 11), null);
  assert.equal(wait_left(row({ wait_left: 3 }), state, 99), 0);
});

test("a lease that may be set outlasts the rest between two steps", () => {
  const drill = { ...FREE, props: { lease_seconds: 1, orders: 3 }, settable: ["lease_seconds"] };
  assert.equal(unhurried(drill, 2.5).lease_seconds, 4.5);
  assert.equal(unhurried(drill, 0).lease_seconds, 1, "at once there is no rest");
  assert.equal(unhurried({ ...drill, settable: [] }, 2.5).lease_seconds, 1);
  assert.deepEqual(unhurried(FREE, 1), { lease_seconds: 3, handler_seconds: 0.5 });
  assert.deepEqual(otherwise(drill, { lease_seconds: 2, orders: 9 }), { lease_seconds: 2 });
  assert.deepEqual(otherwise(drill, { lease_seconds: 1 }), {});
});

test("a pace that makes no sense is the usual one", () => {
  assert.deepEqual([undefined, "0", "2.5", "5", "6", "-1", "x"].map(pace_of), [1, 0, 2.5, 5, 1, 1, 1]);
});

test("the explorer names the guard that stopped the write, or says that nothing did", () => {
  const verdict = { ok: true, shown: "refused", seconds: 1, checks: [] };
  assert.equal(answer({ ...verdict, stopped_by: "generation" }), "Stopped by: owner + generation");
  assert.equal(answer({ ...verdict, shown: "no race" }), "There was no race");
  assert.equal(answer({ ...verdict, trouble: "no Postgres" }), "Not finished");
  assert.equal(answer(verdict), "Nothing stopped it");
  assert.deepEqual(answer_tag({ ...verdict, stopped_by: "new_one" }), {
    word: "new_one",
    tone: " good",
  });
  assert.deepEqual(answer_tag({ ...verdict, shown: "no race" }), { word: "no race", tone: "" });
});

test("a command has an option for what is set, and none for what is not", () => {
  const options = { control: true, guard: null, pace: false, lease_seconds: 1.5, key: "a b" };
  assert.equal(
    words.cli("tenure drill x", options),
    "tenure drill x --control --lease-seconds 1.5 --key 'a b'",
  );
});

test("the gravest notice is told first", () => {
  const closed = { reason: "idle" };
  assert.equal(words.notice("no", true, closed), "no");
  assert.match(words.notice(null, true, closed) ?? "", /^The connection/);
  assert.match(words.notice(null, false, closed) ?? "", /nothing was done on it/);
  assert.equal(
    words.notice(null, false, { error: "boom" }),
    "The stage was closed: boom. Open a new one.",
  );
  assert.equal(words.notice(null, false, {}), "The stage is closed. Open a new one.");
  assert.equal(words.notice(null, false, null), null);
});

test("an event is told by its fields, without what the line has already", () => {
  const said = {
    at: 1,
    who: "worker-A",
    event: "x",
    token: 2,
    key: "order:1",
    run_seconds: 3,
    error: "E: a\nb",
    list: [],
    share: 0.123,
  };
  assert.equal(words.fields(said), "token 2 · key order:1 · error E: a · share 0.12");
  assert.equal(words.counts_words({ processing: 2, dead_letter: 1 }), "2 processing · 1 dead letter");
  assert.equal(words.is_noise("lease_renewed"), true);
  assert.equal(words.is_noise("stale_write_blocked"), false);
});

test("neighbouring workers differ in colour, and the stage has none", () => {
  assert.notEqual(words.tone("worker-A"), words.tone("worker-B"));
  assert.equal(words.tone("worker-I"), words.tone("worker-A"), "the ninth begins again");
  assert.equal(words.tone("stage"), "w-none");
  assert.equal(words.tone(null), "w-none");
});

test("a recording goes to and fro, and comes to the same state", () => {
  const said = [
    { at: 0.5, who: "stage", event: "database_cut" },
    { at: 0.4, who: "stage", event: "enqueued", job_id: "j", key: "k" },
    { at: 2, who: "stage", event: "database_healed" },
  ];
  replay.show(replay.parse(JSON.stringify({ title: "t", said }), "a.json"));
  assert.equal(replay.length.value, 2);
  assert.equal(replay.replayed.value.cut, false);
  replay.moment.value = 0.45;
  assert.equal(
    replay.said_by_now.value,
    0,
    "what was said late cannot be heard before what was said earlier",
  );
  replay.moment.value = 0.5;
  assert.equal(replay.replayed.value.cut, true);
  replay.advance(10);
  assert.deepEqual(
    [replay.moment.value, replay.rolling.value, replay.replayed.value.cut],
    [2, false, false],
  );
  replay.moment.value = 0.5;
  assert.equal(replay.replayed.value.cut, true, "back again");
  replay.put_away();
  assert.equal(replay.replayed.value, EMPTY);
});

test("a file that is no recording is refused with the reason", () => {
  const why = (/** @type {string} */ text) => {
    try {
      replay.parse(text, "a.json");
    } catch (error) {
      return /** @type {Error} */ (error).message;
    }
    return "taken";
  };
  assert.match(why("{"), /^a\.json is not a recording: it is not JSON\./);
  assert.match(why("{}"), /it has no list of events/);
  assert.match(why('{"said": []}'), /it has no list/);
  assert.match(
    why('[{"at": 0, "who": "a", "event": "x"}, {"at": "1", "who": "a", "event": "x"}]'),
    /entry 2 lacks at/,
  );
  assert.match(why('[{"at": 0, "who": "a", "event": "picture", "rows": []}]'), /entry 1/);
  assert.equal(why('[{"at": 0, "who": "a", "event": "x"}]'), "taken", "a plain list is one, too");
});
