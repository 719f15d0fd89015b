/** The overview's numbers: the part of a period with data, failure rates, the lines of a backlog. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  begun,
  busy,
  failing,
  lines,
  percent,
} from "../../src/tenure/web/static/pages/overview/lately.js";

const point = (/** @type {any} */ told) => ({
  completed: 0,
  retried: 0,
  released: 0,
  failed: 0,
  dead_lettered: 0,
  cancelled: 0,
  ...told,
});

test("a new inbox does not hide at the right edge of its period", () => {
  const quiet = Array.from({ length: 360 }, () => point({}));
  assert.equal(begun(quiet, busy).length, 360);
  const late = [...quiet.slice(0, 355), ...Array.from({ length: 5 }, () => point({ completed: 1 }))];
  assert.equal(begun(late, busy).length, 30);
  const half = [...quiet.slice(0, 180), ...Array.from({ length: 180 }, () => point({ retried: 1 }))];
  assert.equal(begun(half, busy).length, 183);
  const whole = quiet.map(() => point({ completed: 2 }));
  assert.equal(begun(whole, busy).length, 360);
});

test("a rate counts attempts that ran to an end, and none is not zero", () => {
  assert.equal(failing(point({ completed: 6, retried: 1, dead_lettered: 1, released: 9 })), 0.25);
  assert.equal(failing(point({ released: 3, cancelled: 1 })), null);
  assert.deepEqual([null, 0, 0.0004, 0.0312, 0.5].map(percent), [
    "–",
    "0 %",
    "<0.1 %",
    "3.1 %",
    "50 %",
  ]);
});

test("every queue has a colour of its own, and the rest is grey", () => {
  const told = lines([
    { queue: "mail", due: [1, 2] },
    { queue: "", due: [0, 1] },
  ]);
  assert.deepEqual(
    told.map(({ label, token }) => [label, token]),
    [
      ["mail", "--w0"],
      ["all others", "--cancelled"],
    ],
  );
});
