/** The rows themselves: one line each, walked by keyboard, chosen with x, opened with Enter. */
import { several } from "../../lib/inboxes.js";
import { for_page } from "../../lib/keys.js";
import { Status } from "../../lib/parts.js";
import { go } from "../../lib/route.js";
import { state } from "../../lib/state.js";
import { html, useLayoutEffect, useRef } from "../../lib/ui.js";
import { brief } from "../../lib/words.js";
import { By, Holder, When } from "./cells.js";

/** @typedef {import("../../lib/state.js").Row} Row */

/**
 * @param {{rows: Row[], arrived_ms: number, payload: boolean, sort: string, ids: Set<string>,
 *   choose: (ids: Set<string>) => void}} props
 */
export function RowTable({ rows, arrived_ms, payload, sort, ids, choose }) {
  const body = useRef(/** @type {HTMLElement | null} */ (null));
  const every = rows.length > 0 && rows.every((row) => ids.has(row.id));
  const some = !every && ids.size > 0;
  const toggle = (/** @type {string} */ id) =>
    choose(new Set(ids.has(id) ? [...ids].filter((each) => each !== id) : [...ids, id]));
  useKeys(body, { toggle, clear: () => choose(new Set()) });
  const longest_seconds = Math.max(...rows.map((row) => row.lease_seconds_left ?? 0));
  return html`
    <div class="scroll">
      <table class="table cards rows" aria-label="Rows">
        <thead>
          <tr>
            <th class="tick">
              <input
                type="checkbox"
                aria-label="Choose every row of this page"
                checked=${every}
                ref=${(/** @type {any} */ box) => box && (box.indeterminate = some)}
                onChange=${() => choose(every ? new Set() : new Set(rows.map((row) => row.id)))}
              />
            </th>
            <${By} column="status" sort=${sort}>
              Status
            <//>
            <${By} column="kind" sort=${sort}>
              Kind
            <//>
            <${By} column="key" sort=${sort}>
              Key
            <//>
            <${By} column="queue" sort=${sort}>
              Queue
            <//>
            ${several() && html`<th>Inbox</th>`}
            <${By} column="attempts" sort=${sort} right>
              Attempts
            <//>
            <${By} column="when" sort=${sort}>
              When
            <//>
            <th>Worker and lease</th>
            <th class="grow">${payload ? "Payload, error" : "Error"}</th>
          </tr>
        </thead>
        <tbody ref=${body}>
          ${rows.map((row) => html`
            <${Line}
              key=${row.id}
              row=${row}
              arrived_ms=${arrived_ms}
              longest_seconds=${longest_seconds}
              payload=${payload}
              chosen=${ids.has(row.id)}
              toggle=${toggle}
            />
          `)}
        </tbody>
      </table>
    </div>
  `;
}

/**
 * @param {{row: Row, arrived_ms: number, longest_seconds: number, payload: boolean,
 *   chosen: boolean, toggle: (id: string) => void}} props
 */
function Line({ row, arrived_ms, longest_seconds, payload, chosen, toggle }) {
  const open = (/** @type {MouseEvent} */ event) => {
    if (
      event.target instanceof Element &&
      !event.target.closest("a, button, input") &&
      !getSelection()?.toString()
    )
      go(`rows/${row.id}`);
  };
  return html`
    <tr tabindex="-1" data-id=${row.id} class=${chosen ? "chosen" : ""} onClick=${open}>
      <td class="tick">
        <input
          type="checkbox"
          aria-label=${`Choose ${row.kind} ${brief(row.id)}`}
          checked=${chosen}
          onChange=${() => toggle(row.id)}
        />
      </td>
      <td data-label="Status">
        <${Status} status=${state(row)} cancel_asked=${row.cancel_asked} />
      </td>
      <td class="title">
        <a href=${`rows/${row.id}`} title=${row.id}>
          <span class="clip" title=${row.kind}>
            ${row.kind}
          </span>
        </a>
      </td>
      <td data-label="Key" class="mono">
        ${row.key === row.id ? html`
          <span class="quiet">–</span>
        ` : html`
          <span class="clip" title=${row.key}>
            ${row.key}
          </span>
        `}
      </td>
      <td data-label="Queue">${row.queue}</td>
      ${several() && html`<td data-label="Inbox">${row.inbox}</td>`}
      <td data-label="Attempts" class="right">
        ${row.attempts}
        <span class="quiet">/${row.max_attempts}</span>
      </td>
      <td data-label="When" class="when">
        <${When} row=${row} />
      </td>
      <td data-label="Worker">
        <${Holder} row=${row} arrived_ms=${arrived_ms} longest_seconds=${longest_seconds} />
      </td>
      <td data-label="Payload" class="grow content">
        ${payload && html`
          <span class="clip mono quiet" title=${row.payload}>
            ${row.payload}
          </span>
        `}
        ${row.last_error && html`
          <span class="clip error" title=${row.last_error}>
            ${row.status === "completed" ? "Earlier error: " : ""}
            ${row.last_error}
          </span>
        `}
      </td>
    </tr>
  `;
}

/**
 * j, k and arrows walk, Enter opens, x chooses, Esc clears.
 * @param {{current: HTMLElement | null}} body
 * @param {{toggle: (id: string) => void, clear: () => void}} does
 */
function useKeys(body, does) {
  const latest = useRef(does);
  latest.current = does;
  useLayoutEffect(() => {
    const press = (/** @type {KeyboardEvent} */ event) => {
      if (!for_page(event) || !body.current) return;
      const here = document.activeElement?.closest("tr[data-id]");
      const id = here instanceof HTMLElement ? here.dataset.id : undefined;
      const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
      if (step && (here || event.key.length === 1))
        (event.preventDefault(), walk(body.current, here, step));
      else if (event.key === "x" && id) (event.preventDefault(), latest.current.toggle(id));
      else if (event.key === "Enter" && id && here === document.activeElement) go(`rows/${id}`);
      else if (event.key === "Escape") latest.current.clear();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

/** @param {HTMLElement} body @param {Element | null | undefined} here @param {number} step */
function walk(body, here, step) {
  const lines = [...body.children];
  const next = lines[here ? lines.indexOf(here) + step : step > 0 ? 0 : lines.length - 1];
  if (next instanceof HTMLElement) (next.focus(), next.scrollIntoView({ block: "nearest" }));
}
