/** How far journals can be read, of one inbox and of several. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { journals, read_up_to } from "../../src/tenure/web/static/pages/projections/journals.js";

test("one inbox has one journal, which needs no name", () => {
  assert.equal(read_up_to(journals({ horizon: 1200, last: 1203 })), "1,200");
});

test("of several inboxes each journal is told with the name of its inbox", () => {
  const inboxes = {
    eu: { answers: true, horizon: 40, last: 40 },
    us: { answers: true, horizon: 12, last: 15 },
  };
  const found = journals({ horizon: 40, last: 40, inboxes });
  assert.equal(read_up_to(found), "40 in eu, 12 in us");
  assert.deepEqual(found[1], { inbox: "us", horizon: 12, last: 15 });
});

test("numbers that are the same everywhere are told for each, and who is away says nothing", () => {
  const both = { eu: { answers: true }, us: { answers: true }, asia: { answers: false } };
  assert.equal(read_up_to(journals({ horizon: 7, last: 7, inboxes: both })), "7 in eu, 7 in us");
  const one = { eu: { answers: true }, us: { answers: false } };
  assert.equal(read_up_to(journals({ horizon: 7, last: 7, inboxes: one })), "7");
});
