/** Numbers, names, commands and filter words. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as ui from "../../src/tenure/web/static/lib/ui.js";
import * as words from "../../src/tenure/web/static/lib/words.js";

test("counts are grouped, and short where they are not exact", () => {
  assert.equal(words.number(1234567), "1,234,567");
  assert.deepEqual([999, 9_999, 10_000, 99_999, 1_000_000, 1_260_000].map(words.short), [
    "999",
    "9,999",
    "10k",
    "99k",
    "1M",
    "1.3M",
  ]);
  assert.deepEqual(
    [0, 1, 2].map((n) => words.plural(n, "row")),
    ["0 rows", "1 row", "2 rows"],
  );
});

test("a worker has the same one of eight colours everywhere, and nobody has none", () => {
  const ids = Array.from({ length: 200 }, (_, n) => `host-${n}`);
  const colours = new Set(ids.map(words.worker_colour));
  assert.deepEqual([...colours].sort(), ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"]);
  assert.equal(words.worker_colour("host-7"), words.worker_colour("host-7"));
  assert.equal(words.worker_colour(null), "w-none");
});

test("the line of an error that tells is the first after the frames", () => {
  const error =
    'Traceback (most recent call last):\n  File "a.py", line 1\n    boom()\nValueError: no\nmore';
  assert.equal(words.error_line(error), "ValueError: no");
  assert.equal(words.error_line("lease expired"), "lease expired");
  assert.equal(words.error_line(""), "");
});

test("a command can be pasted into a shell as it is", () => {
  assert.equal(words.command("rows", "kind:a"), "tenure rows kind:a");
  assert.equal(words.command("rows", ""), "tenure rows");
  assert.equal(words.command("rows", 'error:"it\'s" $HOME'), `tenure rows 'error:"it'\\''s" $HOME'`);
});

test("a value keeps its meaning as a word of the filter", () => {
  assert.equal(words.filter_word("order:9182"), "order:9182");
  assert.equal(words.filter_word("two words"), '"two words"');
  assert.equal(words.filter_word('a"b\\c'), '"a\\"b\\\\c"');
  assert.equal(words.filter_word("a,b"), '"a,b"');
  assert.equal(words.filter_word("send_*"), '"send_\\\\*"', "a star at the end is meant as one");
});

test("a refused write says why, also when the token was still current", () => {
  const refusal = { stale_token: "1", current_token: "2", reason: "token_mismatch" };
  assert.equal(words.why_refused(refusal), "the row is at token 2");
  assert.equal(words.why_refused({ ...refusal, current_token: null }), "the row has ended");
  assert.equal(
    words.why_refused({ ...refusal, current_token: "1", reason: "lease_expired" }),
    "after its lease had ended",
  );
  assert.equal(
    words.why_refused({ ...refusal, current_token: 1, reason: "not_holding" }),
    "not holding",
  );
});

test("what would turn a text round, or is drawn as nothing, is written out", () => {
  assert.equal(words.seen("cod\u202Egnp.exe"), "cod\\u202egnp.exe");
  assert.equal(words.seen("a\u200Bb\u2066c\u0007d\u009Be"), "a\\u200bb\\u2066c\\u0007d\\u009be");
  assert.equal(words.seen("a\u180Eb\uFFF9c\u{E0041}d"), "a\\u180eb\\ufff9c\\U000e0041d");
  const plain = "Zürich, שלום, 👩\u200D💻\n\tas it is";
  assert.equal(words.seen(plain), plain);
});

test("on a page every text and title of an element is drawn so, and a component has it as it is", () => {
  const evil = "x\u202Ey";
  const shown = { title: evil, "aria-label": evil, placeholder: evil };
  const drawn = ui.html`<p ...${shown} data-id=${evil}>${evil} ${[evil, [evil]]} ${7}</p>`;
  for (const name of Object.keys(shown)) assert.equal(drawn.props[name], "x\\u202ey");
  assert.equal(drawn.props["data-id"], evil);
  assert.ok(!JSON.stringify(drawn.props.children).includes("\u202E"));
  assert.ok(JSON.stringify(drawn.props.children).includes("7"));
  const Part = () => null;
  assert.equal(ui.html`<${Part}>${evil}<//>`.props.children, evil);
});
