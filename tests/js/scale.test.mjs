/** The time scale of the tapes: order is kept, long waits are folded, words never overlap. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { folded, spread } from "../../src/tenure/web/static/lib/scale.js";

test("without long waits the scale is even, from edge to edge", () => {
  const scale = folded(
    [
      [0, 1000],
      [1000, 2000],
    ],
    200,
  );
  assert.deepEqual([0, 500, 1000, 2000].map(scale.at), [0, 50, 100, 200]);
  assert.deepEqual(scale.folds, []);
});

test("a wait of days takes a small share and is marked with its length", () => {
  const day = 86_400_000;
  const scale = folded(
    [
      [0, 1000],
      [day, day + 1000],
    ],
    216,
  );
  assert.equal(scale.folds.length, 1);
  assert.equal(scale.folds[0].seconds, (day - 1000) / 1000);
  assert.ok(Math.abs(scale.at(day) - scale.at(1000) - 16) < 1e-9, "8 % of the busy time");
  assert.ok(scale.folds[0].x > scale.at(1000) && scale.folds[0].x < scale.at(day));
});

test("a later moment is never to the left of an earlier one", () => {
  const scale = folded(
    [
      [5000, 6000],
      [0, 3000],
      [2000, 2500],
      [90_000, 90_001],
    ],
    640,
  );
  const moments = Array.from({ length: 1000 }, (_, n) => n * 100);
  const places = moments.map(scale.at);
  for (let n = 1; n < places.length; n++) assert.ok(places[n] >= places[n - 1]);
});

test("what lies outside of the tape is at its edge", () => {
  const scale = folded([[1000, 2000]], 100);
  assert.deepEqual([scale.at(0), scale.at(9000)], [0, 100]);
  assert.deepEqual([scale.from, scale.to], [1000, 2000]);
});

test("a single moment has a place, and no division by zero", () => {
  assert.ok(Number.isFinite(folded([[1000, 1000]], 100).at(1000)));
});

test("the stretches given are left as they are", () => {
  const given = /** @type {[number, number][]} */ ([
    [5, 6],
    [0, 1],
  ]);
  folded(given, 10);
  assert.deepEqual(given, [
    [5, 6],
    [0, 1],
  ]);
});

test("words stand over their place, else beside it, else they are left out", () => {
  const at = (/** @type {number} */ ...places) => places.map((x) => ({ x, words: "four" }));
  const starts = (/** @type {{x: number}[]} */ placed) => placed.map(({ x }) => x - 4);
  assert.deepEqual(starts(spread(at(50), [[0, 10]], 2)), [46], "over its place");
  assert.deepEqual(starts(spread(at(50, 55), [], 2)), [46, 59], "beside it");
  assert.deepEqual(starts(spread(at(50, 51), [], 2)), [46], "not at all");
  assert.deepEqual(
    starts(
      spread(
        at(5, 95),
        [
          [0, 10],
          [90, Infinity],
        ],
        2,
      ),
    ),
    [],
    "not upon what is taken",
  );
});
