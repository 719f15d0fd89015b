/** The steps of a flow as a graph. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { graph } from "../../src/tenure/web/static/pages/flows/nodes.js";

const step = (/** @type {string} */ path, /** @type {number} */ n, /** @type {string} */ name) =>
  /** @type {any} */ ({ path, n, name, state: "done" });

test("an undo stands beside the step that it undoes, also among steps of one name", () => {
  const [first, fork] = graph([
    step("", 0, "book"),
    step("", 1, "parallel"),
    step("1.0", 0, "book"),
    step("1.1", 0, "book"),
    step("undo/1.1", 0, "undo:book"),
    step("undo", 0, "undo:book"),
  ]);
  assert.equal(first.undo?.path, "undo");
  assert.deepEqual(
    fork.branches.map(([node]) => node.undo?.path),
    [undefined, "undo/1.1"],
  );
});
