/** The ring: shares, moves, places on the dial, and its sentences. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as shape from "../../src/tenure/web/static/pages/ring/shape.js";
import * as words from "../../src/tenure/web/static/pages/ring/words.js";

const ring = (/** @type {string[]} */ workers, /** @type {(bucket: number) => number} */ owner) => ({
  workers,
  buckets: Array.from({ length: shape.BUCKETS }, (_, bucket) => owner(bucket)),
});

test("neighbouring buckets of one owner are one run, and every bucket is in one", () => {
  const found = shape.runs([0, 0, 1, 0, -1]);
  assert.deepEqual(found, [
    { owner: 0, from: 0, to: 1 },
    { owner: 1, from: 2, to: 2 },
    { owner: 0, from: 3, to: 3 },
    { owner: -1, from: 4, to: 4 },
  ]);
  assert.equal(shape.runAt(found, 1)?.to, 1);
  assert.equal(shape.runAt(found, 5), undefined);
});

test("shares are counted, the largest first, and nobody's buckets are nobody's share", () => {
  const dealt = { workers: ["b", "a", "c"], buckets: [0, 1, 1, 0, 2, 2, 2, shape.NOBODY] };
  assert.deepEqual(
    shape.shares(dealt).map((each) => [each.worker, each.buckets]),
    [
      ["c", 3],
      ["a", 2],
      ["b", 2],
    ],
  );
});

test("who joins takes buckets, and none move between those who stayed", () => {
  const before = ring(["a", "b"], (bucket) => bucket % 2);
  const after = ring(["a", "b", "c"], (bucket) => (bucket % 4 === 3 ? 2 : bucket % 2));
  const { moved, needless } = shape.moves(before, after);
  assert.equal(moved.length, 256);
  assert.equal(needless, 0);
});

test("a bucket that moves between two who stayed moved needlessly", () => {
  const before = ring(["a", "b"], () => 0);
  const after = ring(["a", "b"], (bucket) => (bucket < 3 ? 1 : 0));
  assert.deepEqual(shape.moves(before, after), { moved: [0, 1, 2], needless: 3 });
});

test("a list in another order moves nothing", () => {
  const before = ring(["a", "b"], (bucket) => bucket % 2);
  const after = ring(["b", "a"], (bucket) => 1 - (bucket % 2));
  assert.deepEqual(shape.moves(before, after), { moved: [], needless: 0 });
});

test("bucket 0 begins at twelve o'clock, and they go round with the clock", () => {
  const [middle, out] = [shape.SIZE / 2, 230];
  assert.equal(shape.bucketAt(middle + 0.1, middle - out), 0);
  assert.equal(shape.bucketAt(middle + out, middle + 0.1), 256);
  assert.equal(shape.bucketAt(middle - 0.1, middle - out), shape.BUCKETS - 1);
});

test("there is no bucket in the middle of the dial, nor outside of it", () => {
  assert.equal(shape.bucketAt(shape.SIZE / 2, shape.SIZE / 2), null);
  assert.equal(shape.bucketAt(0, 0), null);
});

test("a part without rows has no bar, and the deepest has the longest", () => {
  const bars = shape.bars([0, 100, 1, 0]);
  assert.deepEqual(
    bars.map((bar) => [bar.from, bar.to, bar.path !== ""]),
    [
      [0, 255, false],
      [256, 511, true],
      [512, 767, true],
      [768, 1023, false],
    ],
  );
});

test("the cost of a change is told against its ideal, one share of N", () => {
  assert.equal(words.cost(252, 4, 0), "moved 252 of 1024 (0.98/N), 0 needless");
  const change = { at: "", what: "left", worker: "a", moved: 512, of: 1024, workers: 1 };
  assert.equal(words.costOf(change), "moved 512 of 1024 (1.00/N) · N = 2");
  assert.equal(
    words.costOf({ ...change, what: "joined", workers: 2, needless: 1 }),
    "moved 512 of 1024 (1.00/N), 1 needless · N = 2",
  );
});

test("workers that share a colour get tints of it", () => {
  const tones = words.colours(Array.from({ length: 24 }, (_, n) => `host-${n}`));
  assert.equal(new Set(tones).size > 8, true);
  assert.deepEqual(
    words.colours(["a", "a"]).map((tone) => tone.includes("tint")),
    [false, true],
  );
});

test("an empty ring says that nobody owns a bucket", () => {
  const empty = { workers: [], buckets: [], depth: [], queues: [], sets: [], history: [] };
  assert.equal(words.described(empty), "No worker is alive: nobody owns a bucket.");
  assert.equal(words.range({ from: 3, to: 3 }), "bucket 3");
});
