/** Ordered keys that are blocked, each with the row that blocks it. */
import { change } from "../../lib/act.js";
import { to } from "../../lib/address.js";
import { useAnswer } from "../../lib/answer.js";
import { can } from "../../lib/can.js";
import { Empty, Fault, Panel, Status } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { filter_word, number, plural } from "../../lib/words.js";

/** @type {Record<string, string>} */
const REASONS = {
  held: "is held by a worker",
  scheduled: "is not due yet",
  waits_for_operator: "waits for you",
};

/**
 * @typedef {{queue: string, inbox?: string, key: string, head: string, status: string, reason: string,
 *   waiting: number}} Blocked
 */

export function BlockedKeys() {
  const { answer, fault, reload } = useAnswer("api/blocked", { every_seconds: 4 });
  const keys = /** @type {Blocked[]} */ (answer?.keys ?? []);
  return html`
    <${Panel} title="Blocked keys" aside="ordered keys, and the row that blocks each of them">
      <${Fault} fault=${fault} retry=${reload} />
      ${answer && !keys.length && html`<${Empty}>No ordered key is blocked.<//>`}
      ${keys.length > 0 && html`
        <div class="scroll">
          <table class="table cards">
            <thead>
              <tr>
                <th>Key</th>
                <th>Queue</th>
                <th>First row</th>
                <th>Because it</th>
                <th class="right">Rows behind it</th>
                <th>
                  <span class="unseen">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              ${keys.map((each) => html`
                <${Line} key=${`${each.inbox ?? ""} ${each.queue} ${each.key}`} blocked=${each} />
              `)}
            </tbody>
          </table>
        </div>
      `}
    <//>
  `;
}

/** @param {{blocked: Blocked}} props */
function Line({ blocked }) {
  const { queue, key, head, status, reason, waiting } = blocked;
  const filter = `queue:${filter_word(queue)} key:${filter_word(key)}`;
  return html`
    <tr>
      <td class="title">
        <a class="mono" href=${to("rows", { filter })}>
          ${key}
        </a>
      </td>
      <td data-label="Queue">
        ${queue}
        ${blocked.inbox && html`
          ${" "}
          <span class="tag">${blocked.inbox}</span>
        `}
      </td>
      <td data-label="First row">
        <a href=${`rows/${head}`} title=${`The first row of ${key}`}>
          <${Status} status=${status} />
        </a>
      </td>
      <td data-label="Because it">${REASONS[reason] ?? reason}</td>
      <td data-label="Rows behind it" class="right">
        ${number(waiting)}
      </td>
      <td>
        <div class="acts">
          ${reason === "waits_for_operator" && can("free_key") && html`
            <button
              class="button small"
              aria-label=${`Free the key ${key}`}
              onClick=${() => free(blocked)}
            >
              Free the key
            </button>
          `}
          ${reason === "scheduled" && can("postpone_key") && html`
            <button
              class="button small"
              aria-label=${`Postpone the key ${key}`}
              onClick=${() => postpone(blocked)}
            >
              Postpone
            </button>
          `}
        </div>
      </td>
    </tr>
  `;
}

/** @param {Blocked} blocked */
const free = ({ queue, key, waiting, inbox }) =>
  change("free_key", "POST", "api/blocked/free", {
    body: { queue, key },
    at: inbox,
    title: `Free the key ${key}?`,
    note:
      `${plural(waiting, "row")} ${waiting === 1 ? "waits" : "wait"} there. ` +
      "To run the first row again, redrive it instead.",
    said: `${key} goes on without its first row.`,
  });

/** @param {Blocked} blocked */
const postpone = ({ queue, key, waiting, inbox }) =>
  change("postpone_key", "POST", "api/blocked/postpone", {
    body: { queue, key, seconds: 3600 },
    at: inbox,
    title: `Postpone the key ${key} by an hour?`,
    note: `${plural(waiting + 1, "row")} of it will wait; one that is due later stays so.`,
    said: `${key} waits for an hour.`,
  });
