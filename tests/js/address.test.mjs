/** Addresses below a prefix, and the ways that lead to them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { is_page, place_of, search, to } from "../../src/tenure/web/static/lib/address.js";
import { JUMPS, jump, way_of } from "../../src/tenure/web/static/lib/ways.js";

test("a place is what stands below the prefix", () => {
  const place = place_of("/ops/", "/ops/rows/abc", "?filter=kind%3Aa&n=2");
  assert.deepEqual(place, {
    path: "rows/abc",
    parts: ["rows", "abc"],
    query: { filter: "kind:a", n: "2" },
  });
});

test("an address outside of the prefix is the first page", () => {
  assert.deepEqual(place_of("/ops/", "/other", ""), { path: "", parts: [], query: {} });
});

test("a part that is not encoded as it should be stands as it is", () => {
  assert.deepEqual(place_of("/", "/rows/100%", "").parts, ["rows", "100%"]);
  assert.deepEqual(place_of("/", "/rows/a%2Fb", "").parts, ["rows", "a/b"]);
});

test("a question leaves out what is null, undefined or empty, but not zero", () => {
  assert.equal(search({ a: null, b: undefined, c: "", d: 0, e: false }), "?d=0&e=false");
  assert.equal(search(), "");
  assert.equal(
    to("rows", { filter: 'error:"time out" a&b' }),
    "rows?filter=error%3A%22time+out%22+a%26b",
  );
  assert.equal(to("rows", { filter: null }), "rows");
});

test("what is put together is taken apart again", () => {
  const query = { filter: 'payload.a:"ü + & ?"', before: "1=2" };
  const [path, rest] = to("rows", query).split("?");
  assert.deepEqual(place_of("/", `/${path}`, `?${rest}`).query, query);
});

test("exports, files and metrics are for the browser to fetch", () => {
  assert.deepEqual(["api/rows/export", "static/app.js", "metrics"].map(is_page), [false, false, false]);
  assert.deepEqual(["", "rows", "apiary", "metrics/x"].map(is_page), [true, true, true, true]);
});

test("only rows have places below them", () => {
  const ways = ["", "rows", "workers"].map((name) => ({ name, title: name, load: async () => null }));
  const found = (/** @type {string[]} */ ...parts) => way_of(ways, parts)?.name;
  assert.equal(found(), "");
  assert.equal(found("rows"), "rows");
  assert.equal(found("rows", "abc"), "rows");
  assert.equal(found("rows", "abc", "d"), undefined);
  assert.equal(found("workers", "w1"), undefined);
  assert.equal(found("nope"), undefined);
});

test("every key jumps to one way, which names its key", () => {
  for (const [key, name] of Object.entries(JUMPS)) assert.equal(jump(name), `g ${key}`);
  assert.equal(jump("nope"), undefined);
});
