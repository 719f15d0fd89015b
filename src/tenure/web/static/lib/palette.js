/** The command palette: Ctrl-K, a few letters, Enter. */
import { can } from "./can.js";
import { answers } from "./commands.js";
import { write } from "./enqueue.js";
import { helping, palette_open } from "./keys.js";
import { pausedByUser } from "./live.js";
import { go } from "./route.js";
import { html, useLayoutEffect, useRef, useState } from "./ui.js";
import { jump } from "./ways.js";

/** @typedef {import("./ways.js").Way} Way */

/** @param {{ways: Way[]}} props */
export function Palette({ ways }) {
  return palette_open.value && html`<${Dialog} ways=${ways} />`;
}

/** @param {Way[]} ways @returns {import("./commands.js").Entry[]} */
const entries = (ways) => [
  ...ways.map(({ name, title }) => ({ label: title, note: jump(name) ?? "page", run: () => go(name) })),
  ...(can("enqueue") ? [{ label: "Enqueue a row", note: "command", run: () => write() }] : []),
  {
    label: "Dead letters of the last hour",
    note: "rows",
    run: () => go(rows("status:dead_letter age:<1h")),
  },
  { label: "Rows that run now", note: "rows", run: () => go(rows("status:processing")) },
  {
    label: pausedByUser.value ? "Resume updates" : "Pause updates",
    note: "p",
    run: () => (pausedByUser.value = !pausedByUser.value),
  },
  { label: "Help: keys and words", note: "?", run: () => (helping.value = true) },
];

/** @param {string} filter */
const rows = (filter) => `rows?${new URLSearchParams({ filter })}`;

/** @param {{ways: Way[]}} props */
function Dialog({ ways }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  useLayoutEffect(() => box.current?.showModal(), []); // before the first key press
  const found = answers(entries(ways), typed, go);
  const run = (/** @type {import("./commands.js").Entry | undefined} */ entry) => {
    if (!entry) return;
    box.current?.close();
    palette_open.value = false;
    entry.run();
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length)
      (event.preventDefault(), setAt((at + step + found.length) % found.length));
    else if (event.key === "Enter") (event.preventDefault(), run(found[at]));
  };
  return html`
    <dialog
      ref=${box}
      class="dialog palette"
      aria-label="Commands"
      onClose=${() => (palette_open.value = false)}
      onClick=${(/** @type {MouseEvent} */ event) =>
        event.target === box.current && box.current?.close()
      }
    >
      <input
        class="box"
        type="text"
        role="combobox"
        aria-label="Go to a page, a row or a filter"
        aria-expanded="true"
        aria-autocomplete="list"
        aria-controls="palette-entries"
        aria-activedescendant=${found[at] ? `entry-${at}` : undefined}
        placeholder="A page, a command, an id, kind:…"
        autocomplete="off"
        spellcheck="false"
        autofocus
        value=${typed}
        onInput=${(/** @type {any} */ event) => (setTyped(event.target.value), setAt(0))}
        onKeyDown=${press}
      />
      <ul id="palette-entries" role="listbox" aria-label="Found">
        ${found.map((entry, i) => html`
          <li
            key=${entry.label}
            id=${`entry-${i}`}
            role="option"
            aria-selected=${i === at ? "true" : "false"}
            ref=${(/** @type {any} */ line) => i === at && line?.scrollIntoView({ block: "nearest" })}
            onClick=${() => run(entry)}
          >
            <span>${entry.label}</span>
            <span class="quiet">${entry.note}</span>
          </li>
        `)}
      </ul>
    </dialog>
  `;
}
