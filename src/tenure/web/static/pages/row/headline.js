/** The head of a row's page: what it is, why it is in its state, and what may be done. */
import { act } from "../../lib/act.js";
import { to } from "../../lib/address.js";
import { can, on_rows } from "../../lib/can.js";
import { draft_of, is_encrypted } from "../../lib/draft.js";
import { write } from "../../lib/enqueue.js";
import { Copy, Status } from "../../lib/parts.js";
import { state } from "../../lib/state.js";
import { html } from "../../lib/ui.js";
import { takes } from "../../lib/verbs.js";
import { command, filter_word } from "../../lib/words.js";

/** A flow goes on from what it recorded: a copy of its row would be another flow. @param {any} row */
const is_flow = ({ headers }) => headers?.includes('"tenure-flow"') ?? false;

/**
 * May a row like it be sent from here? What is hidden, or encrypted with a key that is elsewhere, may not.
 * @param {any} row
 */
const can_copy = (row) =>
  can("enqueue") && !row.payload_hidden && !is_flow(row) && !is_encrypted(row.payload);

/** @param {{row: any, why: string, sql: string, inbox?: string}} props of several inboxes, its own */
export function Headline({ row, why, sql, inbox }) {
  const verbs = on_rows().filter((verb) => takes(verb).includes(state(row)));
  return html`
    <header class="row-head">
      <p class="crumbs">
        <a href="rows">Rows</a> <span class="quiet">/</span>${" "}
        <a href=${to("rows", { filter: `kind:${filter_word(row.kind)}` })}>${row.kind}</a>
      </p>
      <div class="row-title">
        <h1>
          ${row.kind} <span class="mono">${row.key}</span>
        </h1>
        <${Status} status=${state(row)} cancel_asked=${row.cancel_asked} />
      </div>
      <p class="why">${why}</p>
      <div class="row-actions">
        ${verbs.map((verb) => html`
          <button
            key=${verb.name}
            class=${`button ${verb.grave ? "danger" : ""}`}
            onClick=${() => act(verb.name, `id:${row.id}`, { at: inbox })}
          >
            ${verb.button}…
          </button>
        `)}
        ${can_copy(row) && html`
          <button
            class="button"
            title="A new row like this one, edited if you like"
            onClick=${() => write(draft_of(row, inbox))}
          >
            Edit and run again…
          </button>
        `}
        <span class="spring"></span>
        <${Copy} className="button" label="Copy as command" text=${command("row", row.id)} />
        <${Copy} className="button" label="Copy as SQL" text=${sql} />
      </div>
    </header>
  `;
}
