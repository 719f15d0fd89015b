/** The list of rows: its order, its ranges of time, its saved views. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { range_of, RANGES, with_range } from "../../src/tenure/web/static/pages/rows/filter.js";
import { direction, next_sort, sorted } from "../../src/tenure/web/static/pages/rows/sort.js";
import { kept, read, same, with_view } from "../../src/tenure/web/static/pages/rows/views.js";

const row = (/** @type {any} */ told) => ({
  kind: "k",
  key: "k",
  queue: "q",
  status: "pending",
  ...told,
});

test("a column sorts up, then down, then not at all", () => {
  assert.deepEqual(
    ["", "kind", "-kind", "attempts"].map((sort) => next_sort("kind", sort)),
    ["kind", "-kind", "", "kind"],
  );
  assert.deepEqual(
    ["", "kind", "-kind"].map((sort) => direction("kind", sort)),
    ["none", "ascending", "descending"],
  );
});

test("numbers sort as numbers, also within a key, and an unknown column changes nothing", () => {
  const rows = [row({ key: "order:10", attempts: 2 }), row({ key: "order:9", attempts: 10 })];
  assert.deepEqual(
    sorted(rows, "key").map(({ key }) => key),
    ["order:9", "order:10"],
  );
  assert.deepEqual(
    sorted(rows, "-attempts").map(({ attempts }) => attempts),
    [10, 2],
  );
  assert.equal(sorted(rows, "payload"), rows);
});

test("a range takes the place of the old one and keeps the other words", () => {
  assert.equal(with_range('kind:a age:<1h error:"x y"', "age:<5m"), 'kind:a error:"x y" age:<5m');
  assert.equal(with_range("kind:a age:>1h age:<1d", ""), "kind:a");
  for (const [range] of RANGES) assert.equal(range_of(with_range("kind:a age:<2m", range)), range);
});

test("a view keeps the question and not the page, and a name stands once", () => {
  const query = kept({ filter: "kind:a", before: "x", sort: "-when", focus: "1" });
  assert.deepEqual(query, { filter: "kind:a", sort: "-when" });
  const views = with_view(with_view([], { name: "mine", query: {} }), { name: "mine", query });
  assert.deepEqual(views, [{ name: "mine", query }]);
  assert.ok(same(query, { ...query, before: "y" }));
  assert.ok(!same(query, { filter: "kind:a" }));
});

test("what somebody else wrote into the storage is no view", () => {
  assert.deepEqual(read(null), []);
  assert.deepEqual(read("{"), []);
  assert.deepEqual(read('[{"name": 3}, null, {"name": "a", "query": {}}]'), [{ name: "a", query: {} }]);
});
