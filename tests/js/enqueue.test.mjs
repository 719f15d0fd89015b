/** Rows written by hand, and the palette: what is sent, what is wrong, what is found. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { answers, score } from "../../src/tenure/web/static/lib/commands.js";
import {
  body_of,
  command_of,
  draft_of,
  EMPTY,
  is_encrypted,
  seconds_of,
  wrong_with,
} from "../../src/tenure/web/static/lib/draft.js";
import { in_zone } from "../../src/tenure/web/static/pages/schedules/zone.js";

test("the payload is sent as it was written, with every digit", () => {
  const body = body_of({ ...EMPTY, kind: " k ", payload: '{"n": 12345678901234567890}', delay: "5m" });
  assert.equal(body, '{"kind":"k","delay_seconds":300,"payload":{"n": 12345678901234567890}}');
});

test("what cannot be sent is said in a sentence", () => {
  assert.match(wrong_with(EMPTY), /Name the kind/);
  assert.match(wrong_with({ ...EMPTY, kind: "k", payload: "{" }), /must be JSON/);
  assert.match(wrong_with({ ...EMPTY, kind: "k", payload: '{"password": "***"}' }), /hidden values/);
  assert.match(wrong_with({ ...EMPTY, kind: "k", delay: "soon" }), /Due in/);
  assert.equal(wrong_with({ ...EMPTY, kind: "k", delay: "2h" }), "");
  assert.deepEqual(["90", "+5m", "2 h", "soon", ""].map(seconds_of), [90, 300, 7200, null, null]);
});

test("what is shown of an encrypted payload is not sent in its place", () => {
  const shown = '{"order": 7, "$encrypted": "encrypted with key k1"}';
  assert.match(wrong_with({ ...EMPTY, kind: "k", payload: shown }), /encrypted/);
  assert.deepEqual([shown, '{"a": "$encrypted"}', null].map(is_encrypted), [true, false, false]);
});

test("of several inboxes one is chosen, and a row is run again in its own", () => {
  const two = ["eu", "us"];
  const row = { id: "i", key: "i", kind: "k", queue: "mail", payload: "{}" };
  assert.match(wrong_with({ ...EMPTY, kind: "k", inbox: "" }, two), /Choose the inbox/);
  assert.equal(wrong_with(draft_of(row, "us"), two), "");
  assert.equal(wrong_with(draft_of(row), ["eu"]), "");
});

test("a row to run again keeps its lane and leaves its id and idempotency key behind", () => {
  const row = {
    id: "i",
    key: "i",
    kind: "k",
    queue: "mail",
    payload: "[1]",
    ordered: false,
    priority: 5,
  };
  const draft = draft_of({ ...row, max_attempts: 3, idempotency_key: "once" });
  assert.equal(
    body_of(draft),
    '{"kind":"k","queue":"mail","ordered":false,"priority":5,"max_attempts":3,"payload":[1]}',
  );
  assert.equal(
    command_of(draft),
    "tenure enqueue k '[1]' --queue mail --not-ordered --priority 5 --max-attempts 3",
  );
});

test("a copy has the queue, the key and the headers of its row, letter for letter; what is typed is trimmed", () => {
  const headers = '{"tenant": "acme", "authorization": "***"}';
  const row = { id: "i", key: " a ", kind: "k", queue: "mail ", payload: "{}", ordered: true, headers };
  const draft = draft_of({ ...row, priority: 5 }, "us");
  assert.equal(
    body_of(draft),
    '{"kind":"k","queue":"mail ","key":" a ","ordered":true,"headers":{"tenant":"acme"},"payload":{}}',
    "a hidden header stays behind",
  );
  assert.equal(
    command_of(draft),
    "tenure enqueue k '{}' --queue 'mail ' --key ' a ' --ordered --inbox us",
  );
  const typed = { ...draft, queue: " post ", key: " ", headers: undefined };
  assert.equal(body_of(typed), '{"kind":"k","queue":"post","ordered":true,"payload":{}}');
});

test("the palette finds by a beginning, a word, letters; an id is a row and a colon is a filter", () => {
  assert.deepEqual(
    [score("Dead letters", "dead"), score("Dead letters", "let"), score("Dead letters", "dl")],
    [4, 3, 1],
  );
  assert.equal(score("Queues", "x"), 0);
  const gone = /** @type {string[]} */ ([]);
  const go = (/** @type {string} */ path) => void gone.push(path);
  const entries = ["Rows", "Workers"].map((label) => ({ label, note: "", run: () => go(label) }));
  for (const typed of ["work", "0199b383-d086-7f44-8000-000000000001", "kind:a status:failed"])
    answers(entries, typed, go)[0].run();
  assert.deepEqual(gone, [
    "Workers",
    "rows/0199b383-d086-7f44-8000-000000000001",
    "rows?filter=kind%3Aa+status%3Afailed",
  ]);
  assert.equal(answers(entries, "charge", go).at(-1)?.label, "Rows with kind:charge*");
  assert.equal(answers(entries, "", go).length, 2);
});

test("a time of a schedule is told by the clock of its zone", () => {
  assert.equal(
    in_zone("2026-10-25T02:30:00+02:00", "Europe/Berlin"),
    "Sun 25 Oct 02:30 +02:00 Europe/Berlin",
  );
  assert.equal(in_zone("2026-01-02T00:00:30+00:00", "UTC"), "Fri 02 Jan 00:00:30 UTC");
  assert.equal(in_zone("whenever", "UTC"), "whenever UTC");
});
