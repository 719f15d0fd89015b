/** The rows of a stage's inbox, the newest first, with their leases running down. */
import { Panel, Status } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { plural } from "../../lib/words.js";
import { lease_left, wait_left } from "./lease.js";
import { chosen, now } from "./view.js";
import { counts_words, seconds_of, tone } from "./words.js";

const ROWS_SHOWN = 12;

/** @typedef {import("./said.js").Row} Row */
/** @typedef {import("./said.js").State} State */

/** @param {{state: State, of: string | null, show: (row: Row) => void}} props */
export function Inbox({ state, of, show }) {
  const { rows, counts } = state.picture;
  return html`
    <${Panel} title="Inbox" aside=${counts_words(counts) || "real rows"} className="drill-inbox">
      ${rows.length === 0 && html`<p class="empty">No row yet.</p>`}
      ${rows.length > 0 && html`
        <ul class="drill-rows" tabindex="0" aria-label="Rows, newest first">
          ${rows.slice(0, ROWS_SHOWN).map((row) => html`
            <${Line} key=${row.id} row=${row} state=${state} picked=${row.key === of} show=${show} />
          `)}
        </ul>
      `}
      ${rows.length > ROWS_SHOWN && html`
        <p class="drill-more quiet">and ${plural(rows.length - ROWS_SHOWN, "older row")}</p>
      `}
    <//>
  `;
}

/** @param {{row: Row, state: State, picked: boolean, show: (row: Row) => void}} props */
function Line({ row, state, picked, show }) {
  const pick = () => (chosen.value = row.key);
  const waits = row.status === "pending" && row.wait_left > 0;
  return html`
    <li class=${`drill-row ${picked ? "picked" : ""}`}>
      <button
        type="button"
        class="drill-key mono"
        aria-pressed=${picked ? "true" : "false"}
        title="Draw the tape of this key"
        onClick=${pick}
      >
        ${row.key}
      </button>
      <${Status} status=${waits ? "scheduled" : row.status} />
      <span class="number" title="token · attempts">
        <span class="quiet">token</span> <b>${row.token}</b>${" "}
        <span class="quiet">
          try ${row.attempts}/${row.max_attempts}
        </span>
      </span>
      ${waits ? html`
        <span class="drill-lease quiet">
          next try in ${seconds_of(wait_left(row, state, now.value))}
        </span>
      ` : html`
        <${Lease} row=${row} state=${state} />
      `}
      <button
        type="button"
        class="button plain small"
        title="The row itself, and the SQL that shows it"
        onClick=${() => show(row)}
      >
        Show the row
      </button>
      ${row.error && row.status !== "completed" && html`
        <span class="drill-error clip" title=${row.error}>
          ${row.error}
        </span>
      `}
    </li>
  `;
}

/** @param {{row: Row, state: State}} props */
function Lease({ row, state }) {
  const lease = lease_left(row, state, now.value);
  if (!lease) return html`<span class="drill-lease"></span>`;
  const { left, share, words } = lease;
  return html`
    <span
      class=${`drill-lease ${tone(row.worker)} ${left > 0 ? "" : "out"}`}
      title=${`${row.worker}: ${words}`}
    >
      <span class="drill-lease-who mono">${row.worker?.at(-1)}</span>
      <span class="bar" role="img" aria-label=${words}>
        <i style=${{ width: `${(share * 100).toFixed(1)}%` }}></i>
      </span>
      <span class="number">${left > 0 ? seconds_of(left) : "ran out"}</span>
    </span>
  `;
}
