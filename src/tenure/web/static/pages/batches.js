/** Batches: how far each has come; one batch with its rows that are open or ended badly. */
import { to } from "../lib/address.js";
import { useAnswer } from "../lib/answer.js";
import { Ago } from "../lib/clock.js";
import { Bar, Empty, Fault, Page, Panel, Status } from "../lib/parts.js";
import { place } from "../lib/route.js";
import { html } from "../lib/ui.js";
import { brief, number } from "../lib/words.js";

/**
 * @typedef {{id: number, name: string | null, size: number, open: number, ended: number, failed: number,
 *   cancelled: number, failing: boolean, opened_at: string, ended_at: string | null,
 *   then_row: string | null, then_batch: number | null, inbox?: string}} Batch
 * @typedef {{id: string, status: string, kind: string, error: string | null}} Member
 */

/** @param {{parts: string[]}} props */
export default function Batches({ parts }) {
  return parts[1] ? html`<${One} id=${parts[1]} />` : html`<${All} />`;
}

function All() {
  const { answer, fault, reload } = useAnswer("api/batches", { every_seconds: 2 });
  const every = /** @type {Batch[]} */ (answer?.batches ?? []);
  return html`
    <${Page} title="Batches" note="rows that are counted as they end, and what follows the last one">
      <${Fault} fault=${fault} retry=${reload} />
      <${Panel}>
        ${answer && !every.length && html`
          <${Empty}>
            There are no batches. Code opens one:${" "}
            <code>async with inbox.batch(conn, then=report) as batch</code>
          <//>
        `}
        ${every.length > 0 && html`<${Table} every=${every} />`}
      <//>
    <//>
  `;
}

/** @param {{id: string}} props */
function One({ id }) {
  const { answer, fault, reload } = useAnswer(`api/batches/${encodeURIComponent(id)}`, {
    at: place.value.query.inbox, // each inbox counts its batches
    every_seconds: 2,
  });
  const rows = /** @type {Member[]} */ (answer?.rows ?? []);
  const batch = /** @type {Batch | undefined} */ (
    answer?.batch && { ...answer.batch, inbox: answer.inbox }
  );
  return html`
    <${Page}
      title=${`Batch ${batch?.name ?? id}`}
      note=${batch?.ended_at ? "every row has ended" : "open"}
      actions=${
        html`<a class="button" href="batches">
          All batches
        </a>`
      }
    >
      <${Fault} fault=${fault} retry=${reload} />
      ${batch && html`
        <${Panel}>
          <${Table} every=${[batch]} />
        <//>
        <${Panel}
          title="Rows that are open or ended badly"
          aside="up to 50, in the order in which they were sent"
        >
          ${!rows.length && html`<${Empty}>None.<//>`}
          ${rows.length > 0 && html`<${Rows} rows=${rows} />`}
        <//>
      `}
    <//>
  `;
}

/** @param {{every: Batch[]}} props */
const Table = ({ every }) => html`
  <div class="scroll">
    <table class="table cards">
      <thead>
        <tr>
          <th>Batch</th>
          <th>State</th>
          <th class="right">Rows</th>
          <th class="right">Ended</th>
          <th class="right">Failed</th>
          <th class="right">Cancelled</th>
          <th>Sent</th>
          <th>Then</th>
        </tr>
      </thead>
      <tbody>
        ${every.map((batch) => html`
          <${Line} key=${`${batch.inbox ?? ""} ${batch.id}`} batch=${batch} />
        `)}
      </tbody>
    </table>
  </div>
`;

/** @param {{batch: Batch}} props */
function Line({ batch }) {
  const { id, name, size, open, ended, failed, cancelled, failing, opened_at, ended_at } = batch;
  const label = `${number(ended)} of ${number(size)} ended`;
  return html`
    <tr>
      <td class="title">
        <a href=${to(`batches/${id}`, { inbox: batch.inbox })}>${name ?? `batch ${id}`}</a>
        ${batch.inbox && html`
          ${" "}
          <span class="tag">${batch.inbox}</span>
        `}
      </td>
      <td data-label="State">
        <div class="two">
          <span>
            ${ended_at ? html`
              ended <${Ago} at=${ended_at} />
            ` : (
              `${number(open)} to go`
            )}
            ${failing && !ended_at ? html`<span class="tag bad">failing</span>` : ""}
          </span>
          <${Bar} part=${ended} whole=${size} label=${label} tone=${failed ? "bad" : "held"} />
        </div>
      </td>
      <td class="right" data-label="Rows">
        ${number(size)}
      </td>
      <td class="right" data-label="Ended">
        ${number(ended)}
      </td>
      <td class="right" data-label="Failed">
        ${number(failed)}
      </td>
      <td class="right" data-label="Cancelled">
        ${number(cancelled)}
      </td>
      <td data-label="Sent">
        <${Ago} at=${opened_at} />
      </td>
      <td data-label="Then">
        <${Then} batch=${batch} />
      </td>
    </tr>
  `;
}

/** @param {{batch: Batch}} props */
function Then({ batch: { then_row, then_batch, inbox } }) {
  if (then_row)
    return html`
      <a class="mono" href=${`rows/${then_row}`}>
        ${brief(then_row)}
      </a>
    `;
  if (then_batch) return html`<a href=${to(`batches/${then_batch}`, { inbox })}>batch ${then_batch}</a>`;
  return html`<span class="quiet">nothing</span>`;
}

/** @param {{rows: Member[]}} props */
const Rows = ({ rows }) => html`
  <div class="scroll">
    <table class="table cards">
      <thead>
        <tr>
          <th>Row</th>
          <th>State</th>
          <th>Kind</th>
          <th>Error</th>
        </tr>
      </thead>
      <tbody>
        ${rows.map((row) => html`
          <tr key=${row.id}>
            <td class="title">
              <a class="mono" href=${`rows/${row.id}`}>
                ${brief(row.id)}
              </a>
            </td>
            <td data-label="State">
              <${Status} status=${row.status} />
            </td>
            <td data-label="Kind">${row.kind}</td>
            <td data-label="Error">${row.error ?? ""}</td>
          </tr>
        `)}
      </tbody>
    </table>
  </div>
`;
