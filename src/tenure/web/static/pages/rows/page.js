/** Which rows? One filter, the states it finds, and what may be done with them. */
import { search, to } from "../../lib/address.js";
import { useAnswer } from "../../lib/answer.js";
import { me } from "../../lib/api.js";
import { inbox } from "../../lib/asked.js";
import { can } from "../../lib/can.js";
import { write } from "../../lib/enqueue.js";
import { several } from "../../lib/inboxes.js";
import { selecting } from "../../lib/live.js";
import { Copy, Empty, Fault, Page } from "../../lib/parts.js";
import { ask, place } from "../../lib/route.js";
import { html, useEffect, useMemo, useState } from "../../lib/ui.js";
import { command, number } from "../../lib/words.js";
import { Bulk } from "./bulk.js";
import { FilterBox } from "./filter_box.js";
import { Rail } from "./rail.js";
import { sorted } from "./sort.js";
import { RowTable } from "./table.js";
import { ViewBar } from "./view_bar.js";

const PAGE_ROWS = 50;
const NOTHING = { ids: new Set(), all: false };

export default function Rows() {
  const { query } = place.value;
  const { filter = "", before = "" } = query;
  const found = useAnswer("api/rows", { query: { filter, before, n: PAGE_ROWS } });
  const wrong = found.fault?.code === 400;
  const counts = useAnswer("api/rows/statuses", { query: { filter }, every_seconds: 4 });
  const [chosen, setChosen] = useState(/** @type {import("./bulk.js").Chosen} */ (NOTHING));
  const counting = chosen.ids.size || chosen.all;
  const total = useAnswer(counting ? "api/rows/count" : null, { query: { filter }, every_seconds: 0 });
  useSelection(chosen, () => setChosen(NOTHING), filter + before);

  const rows = sorted(found.answer?.rows ?? [], query.sort ?? "");
  const known = useMemo(() => seen(rows), [found.answer]);
  const shows_payload = query.payload !== "0" && me.value?.payloads !== "hidden";
  return html`
    <${Page} title="Rows" wide actions=${html`<${Tools} filter=${filter} shows_payload=${shows_payload} />`}>
      <${FilterBox}
        filter=${filter}
        fault=${wrong ? found.fault.message : ""}
        hint=${found.answer?.hint ?? ""}
        known=${known}
        focus=${query.focus === "1"}
        change=${(/** @type {string} */ text, /** @type {any} */ options) =>
          ask({ filter: text, before: null, focus: null }, options)
        }
      />
      <${ViewBar} filter=${filter} query=${query} />
      <div class="rows-layout">
        <${Rail} filter=${filter} counts=${counts.answer} query=${query} />
        <section class="panel" aria-busy=${found.loading ? "true" : "false"} aria-label="Found rows">
          ${!wrong && html`<${Fault} fault=${found.fault} retry=${found.reload} />`}
          <${Bulk}
            chosen=${chosen}
            rows=${rows}
            filter=${found.answer?.filter ?? filter}
            total=${total.answer}
            choose=${setChosen}
          />
          ${rows.length > 0 && html`
            <${RowTable}
              rows=${rows}
              arrived_ms=${found.arrived_ms}
              payload=${shows_payload}
              sort=${query.sort ?? ""}
              ids=${chosen.ids}
              choose=${(/** @type {Set<string>} */ ids) => setChosen({ ids, all: false })}
            />
          `}
          ${found.answer && !rows.length && html`<${Nothing} filter=${filter} done=${found.answer.done} />`}
          ${found.answer && html`<${Pager} answer=${found.answer} query=${query} />`}
        </section>
      </div>
    <//>
  `;
}

/**
 * While rows are chosen the page does not refresh; a new filter clears the choice.
 * @param {{ids: Set<string>, all: boolean}} chosen
 * @param {() => void} forget
 * @param {string} question
 */
function useSelection(chosen, forget, question) {
  useEffect(forget, [question]);
  useEffect(() => void (selecting.value = chosen.all || chosen.ids.size > 0), [chosen]);
  useEffect(() => () => void (selecting.value = false), []);
}

/** Values on this page, for completion. @param {any[]} rows */
function seen(rows) {
  const of = (/** @type {string} */ name) =>
    [...new Set(rows.map((row) => row[name]).filter(Boolean))].sort();
  return {
    kind: of("kind"),
    queue: of("queue"),
    key: of("key"),
    worker: of("worker"),
    idempotency: of("idempotency_key"),
  };
}

/** @param {{filter: string, shows_payload: boolean}} props */
function Tools({ filter, shows_payload }) {
  const hidden = me.value?.payloads === "hidden";
  return html`
    <button
      class="button small"
      aria-pressed=${shows_payload ? "true" : "false"}
      disabled=${hidden}
      title=${hidden ? "This server hides payloads" : undefined}
      onClick=${() => ask({ payload: shows_payload ? 0 : null }, { replace: true })}
    >
      ${shows_payload ? "Hide" : "Show"} payload
    </button>
    <${File} filter=${filter} format="csv" />
    <${File} filter=${filter} format="jsonl" />
    <${Copy} label="Copy as command" text=${command("rows", filter)} />
    ${can("enqueue") && html`
      <button class="button small primary" onClick=${() => write()}>
        Enqueue…
      </button>
    `}
  `;
}

/**
 * The rows as a file; of several inboxes, those of the one that is looked at.
 * @param {{filter: string, format: string}} props
 */
function File({ filter, format }) {
  const word = format.toUpperCase();
  if (several() && !inbox.value)
    return html`
      <button class="button small" disabled title="A file has the rows of one inbox: choose it above">
        ${word}
      </button>
    `;
  const path = `api/rows/export${search({ filter, format, inbox: inbox.value })}`;
  return html`
    <a class="button small" href=${path} download=${`rows.${format}`}>
      ${word}
    </a>
  `;
}

/** @param {{filter: string, done: boolean}} props */
const Nothing = ({ filter, done }) => html`
  <${Empty}>
    ${!done ? (
      "No match so far."
    ) : filter ? html`
      No row matches. <a href="rows">Show every row</a>
    ` : (
      "No rows yet. Enqueue one: tenure enqueue KIND '{}'"
    )}
  <//>
`;

/** @param {{answer: any, query: Record<string, string>}} props */
function Pager({ answer, query }) {
  const { next, done, searched, rows } = answer;
  const short = !done && rows.length < PAGE_ROWS;
  if (done && !query.before)
    return html`
      <footer class="pager quiet">
        <span>${number(rows.length)} shown, that is all</span>
      </footer>
    `;
  return html`
    <footer class="pager">
      ${query.before && html`
        <a class="button small" href=${to("rows", { ...query, before: null })}>
          ← Newest
        </a>
      `}
      <span class="quiet">
        ${short ? `searched ${number(searched)} rows so far` : done ? "the end" : `${rows.length} shown`}
      </span>
      ${next && html`
        <a
          class=${`button small ${short ? "primary" : ""}`}
          href=${to("rows", { ...query, before: next })}
        >
          ${short ? "Search more" : "Older →"}
        </a>
      `}
    </footer>
  `;
}
