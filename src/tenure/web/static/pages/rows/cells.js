/** Cells of the table of rows: a head that sorts, the moment that matters, who holds a row. */
import { Ago, clock } from "../../lib/clock.js";
import { Bar, Worker } from "../../lib/parts.js";
import { ask } from "../../lib/route.js";
import { state } from "../../lib/state.js";
import { duration } from "../../lib/time.js";
import { html } from "../../lib/ui.js";
import { direction, next_sort } from "./sort.js";

/** @typedef {import("../../lib/state.js").Row} Row */

/**
 * A head that sorts the rows shown.
 * @param {{column: string, sort: string, right?: boolean, children: any}} props
 */
export function By({ column, sort, right = false, children }) {
  const way = direction(column, sort);
  return html`
    <th class=${right ? "right" : ""} aria-sort=${way}>
      <button
        class=${`sorts ${way}`}
        title="Sort the rows shown"
        onClick=${() => ask({ sort: next_sort(column, sort) || null }, { replace: true })}
      >
        ${children}
      </button>
    </th>
  `;
}

/** Due, begun or ended: the moment that matters in this state. @param {{row: Row}} props */
export function When({ row }) {
  if (row.finished_at) return html`<${Ago} at=${row.finished_at} />`;
  if (state(row) === "scheduled")
    return html`
      <span class="quiet">due</span> <${Ago} at=${row.available_at} />
    `;
  return html`<${Ago} at=${row.claimed_at ?? row.created_at} />`;
}

/**
 * Who holds it and for how long, counted down from the server's number.
 * @param {{row: Row, arrived_ms: number, longest_seconds: number}} props
 */
export function Holder({ row, arrived_ms, longest_seconds }) {
  if (row.status !== "processing")
    return html`
      <span class="quiet">
        <${Worker} id=${row.finished_by} />
      </span>
    `;
  const left = (row.lease_seconds_left ?? 0) - Math.max(0, clock.value - arrived_ms) / 1000;
  const tone = left <= 0 ? "bad" : left < longest_seconds / 4 ? "warn" : "held";
  const words = left > 0 ? `${duration(Math.ceil(left))} left` : `expired ${duration(-left)} ago`;
  return html`
    <span class="holder">
      <${Worker} id=${row.worker} />
      <span class="quiet">${left > 0 ? duration(Math.ceil(left)) : "expired"}</span>
      <${Bar} part=${left} whole=${longest_seconds} tone=${tone} label=${`lease: ${words}`} />
    </span>
  `;
}
