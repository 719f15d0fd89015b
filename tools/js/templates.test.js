/** Templates survive the way through JSX: what htm makes of them is the same before and after. */
import assert from "node:assert/strict";
import { test } from "node:test";
import htm from "htm";
import { formatted } from "./format.js";

/** An element as a list; texts side by side are one text, and a text may be broken at its blanks. @param {any} type @param {any} props @param {any[]} children */
function h(type, props, ...children) {
  const joined = /** @type {any[]} */ ([]);
  for (const child of children) {
    if (typeof child === "string" && typeof joined.at(-1) === "string")
      joined.push(joined.pop() + child);
    else joined.push(child);
  }
  return [
    type,
    props,
    ...joined.map((child) => (typeof child === "string" ? child.replace(/\s+/g, " ") : child)),
  ];
}

/** What htm makes of a template. @param {string} code */
function meaning(code) {
  const html = htm.bind(/** @type {any} */ (h));
  const made = Function(
    "html",
    "Panel",
    "a",
    "b",
    `return html\`<main>\${${code.trim().replace(/;$/, "")}}</main>\``,
  );
  return JSON.stringify(made(html, "Panel", true, "text").flat());
}

const LONG = "word ".repeat(40).trim();
const SAMPLES = [
  "html`<p>one</p>`",
  "html`<p>one ${b} <b>two</b> three</p>`",
  "html` <b>blank before</b>`",
  "html`<i></i><b>two roots</b> and text`",
  'html`<${Panel} title="x" open ...${{ a }} onClick=${1}><i /><//>`',
  "html`<p>${a && html`<b>${b}</b>`} ${a ? html`<i>1</i>` : html`<i>2</i>`}</p>`",
  "html`<p>{ } > are letters</p>`",
  `html\`<p class="${LONG}">${LONG.slice(0, 59)} <b>\${b}</b> <i>\${b}</i></p>\``,
  `html\`<\${Panel} one=\${"${LONG}"} two=\${[1, 2, 3]}>\${[1, 2].map((n) => html\`<li key=\${n}>\${n} <b>\${b}</b></li>\`)}<//>\``,
];

for (const sample of SAMPLES)
  test(`means the same when it is laid out: ${sample.slice(0, 50)}`, async () => {
    const once = await formatted(sample);
    assert.equal(meaning(once), meaning(sample));
    assert.equal(await formatted(once), once, "and is then left alone");
  });
