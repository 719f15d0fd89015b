/** The filter box: its words, its statuses, its completions. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as filter from "../../src/tenure/web/static/pages/rows/filter.js";

test("words end at blanks, unless they are quoted", () => {
  assert.deepEqual(filter.words('kind:a  error:"time out" x'), ["kind:a", 'error:"time out"', "x"]);
  assert.deepEqual(filter.words('error:"not closed yet'), ['error:"not closed yet']);
  assert.deepEqual(filter.words('error:"a \\" b" c'), ['error:"a \\" b"', "c"]);
  assert.deepEqual(filter.words("  "), []);
});

test("another status takes the place of the old one and keeps the rest", () => {
  assert.equal(
    filter.with_status('kind:a status:failed error:"x y"', "runnable"),
    'status:runnable kind:a error:"x y"',
  );
  assert.equal(filter.with_status("status:failed kind:a", ""), "kind:a");
  assert.deepEqual(filter.statuses_of("kind:a status:failed,dead_letter"), ["failed", "dead_letter"]);
  assert.deepEqual(filter.statuses_of('error:"status:failed"'), []);
});

test("a last word that is only begun is not asked about yet", () => {
  assert.equal(filter.finished("kind:a sta"), "kind:a");
  assert.equal(filter.finished("kind:a status:fai"), "kind:a");
  assert.equal(filter.finished("kind:a status:failed,"), "kind:a");
  assert.equal(filter.finished('kind:a error:"time o'), "kind:a");
  assert.equal(filter.finished("kind:"), "");
});

test("a finished last word is asked about", () => {
  assert.equal(filter.finished("status:failed"), "status:failed");
  assert.equal(filter.finished("status:pending"), "status:pending");
  assert.equal(filter.finished("kind:a"), "kind:a");
  assert.equal(filter.finished("sta "), "sta", "a blank after it means it");
  const id = "0191d2f0-5a3e-7c4b-8f6d-2b1a9c8e7d6f";
  assert.equal(filter.finished(id), id, "a row's id needs no field");
});

test("fields complete by their beginning, values by what is known", () => {
  const fields = filter.complete("kind:a st", 9, {});
  assert.deepEqual(
    [fields.from, fields.to, fields.choices.map((each) => each.text)],
    [7, 9, ["status:"]],
  );
  const kinds = filter.complete("kind:SEND", 9, { kind: ["send_receipt", "send_mail", "charge"] });
  assert.deepEqual(
    [kinds.from, kinds.choices.map((each) => each.text)],
    [5, ["send_receipt", "send_mail"]],
  );
});

test("each status of a list is completed on its own", () => {
  const found = filter.complete("status:failed,de", 16, {});
  assert.deepEqual(
    [found.from, found.to, found.choices],
    [14, 16, [{ text: "dead_letter", note: "" }]],
  );
});

test("the word at the caret is completed, not the last one", () => {
  const found = filter.complete("que kind:a", 3, {});
  assert.deepEqual([found.from, found.to, found.choices[0].text], [0, 3, "queue:"]);
});

test("no more than ten values are offered, and none for a field nobody knows", () => {
  const known = { key: Array.from({ length: 30 }, (_, n) => `order:${n}`) };
  assert.equal(filter.complete("key:", 4, known).choices.length, 10);
  assert.deepEqual(filter.complete("nope:", 5, known).choices, []);
});
