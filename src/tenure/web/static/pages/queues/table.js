/** The table of queues: a switch, the age of the oldest row, a count for each state, and the limits. */
import { change } from "../../lib/act.js";
import { to } from "../../lib/address.js";
import { can } from "../../lib/can.js";
import { several } from "../../lib/inboxes.js";
import { Bar, Count } from "../../lib/parts.js";
import { Switch } from "../../lib/switch.js";
import { duration } from "../../lib/time.js";
import { html, useState } from "../../lib/ui.js";
import { filter_word } from "../../lib/words.js";
import { limit_words } from "./limit_words.js";
import { Limits } from "./limits.js";
import { Retention } from "./retention.js";

/** @typedef {import("./limit_words.js").Queue} Queue */

/** The states with a column, and its head. Pending rows have two: due, and scheduled. */
const STATES = /** @type {const} */ ([
  ["pending", "Due"],
  ["scheduled", "Scheduled"],
  ["processing", "Processing"],
  ["failed", "Failed"],
  ["dead_letter", "Dead letters"],
  ["cancelled", "Cancelled"],
]);
const OLD_SECONDS = 60;

/** Its name, and of several inboxes the one that it is in. @param {Queue} queue */
const place_of = ({ inbox, queue }) => `${inbox ?? ""} ${queue}`;

/** @param {{queues: Queue[]}} props */
export function Table({ queues }) {
  const [edited, setEdited] = useState(/** @type {string | null} */ (null));
  const toggle = (/** @type {string} */ name) => setEdited(edited === name ? null : name);
  return html`
    <div class="scroll">
      <table class="table cards queues">
        <thead>
          <tr>
            <th>Queue</th>
            ${several() && html`<th>Inbox</th>`}
            <th>State</th>
            <th class="right">Oldest runnable</th>
            ${STATES.map(([state, head]) => html`
              <th key=${state} class="right">
                ${head}
              </th>
            `)}
            <th>Limits</th>
          </tr>
        </thead>
        <tbody>
          ${queues.map((queue) => html`
            <${Line}
              key=${place_of(queue)}
              queue=${queue}
              open=${edited === place_of(queue)}
              toggle=${() => toggle(place_of(queue))}
            />
          `)}
        </tbody>
      </table>
    </div>
  `;
}

/** @param {{queue: Queue, open: boolean, toggle: () => void}} props */
function Line({ queue, open, toggle }) {
  const old = (queue.oldest_runnable_seconds ?? 0) > OLD_SECONDS;
  const may = can(queue.paused ? "resume_queue" : "pause_queue");
  return html`
    <tr class=${queue.paused ? "is-paused" : ""}>
      <td class="title">
        <a href=${to("rows", { filter: `queue:${filter_word(queue.queue)}` })}>${queue.queue}</a>
      </td>
      ${several() && html`<td data-label="Inbox">${queue.inbox}</td>`}
      <td data-label="State" class="whole">
        <${Switch}
          on=${!queue.paused}
          label=${`Queue ${queue.queue}`}
          may=${may}
          flip=${() => flip(queue)}
        />
      </td>
      <td data-label="Oldest runnable" class=${`right whole ${old ? "old" : ""}`}>
        ${duration(queue.oldest_runnable_seconds)}
      </td>
      ${STATES.map(([state, head]) => html`
        <td key=${state} data-label=${head} class="right">
          <${Cell} queue=${queue} state=${state} />
        </td>
      `)}
      <td data-label="Limits" class="whole">
        <${LimitCell} queue=${queue} open=${open} toggle=${toggle} />
      </td>
    </tr>
    ${open && html`
      <tr class="editing">
        <td colspan=${(several() ? 5 : 4) + STATES.length}>
          <${Limits} key=${place_of(queue)} queue=${queue} close=${toggle} />
          ${can("retain_queue") && html`<${Retention} queue=${queue} close=${toggle} />`}
        </td>
      </tr>
    `}
  `;
}

/** @param {{queue: Queue, state: (typeof STATES)[number][0]}} props */
function Cell({ queue, state }) {
  const n = queue[state];
  if (!n) return html`<span class="quiet">0</span>`;
  const filter = `status:${state === "pending" ? "runnable" : state} queue:${filter_word(queue.queue)}`;
  return html`
    <a class=${`count-of is-${state}`} href=${to("rows", { filter })}>
      <${Count} count=${{ n, more: queue.more.includes(state) }} />
    </a>
  `;
}

/** @param {{queue: Queue, open: boolean, toggle: () => void}} props */
function LimitCell({ queue, open, toggle }) {
  const label = `${open ? "Close" : "Edit"} the limits of ${queue.queue}`;
  return html`
    <div class="limits">
      <${Used} queue=${queue} />
      <span>${limit_words(queue) || html`<span class="quiet">none</span>`}</span>
      ${can("limit_queue") && html`
        <button
          class="button small"
          aria-expanded=${open ? "true" : "false"}
          aria-label=${label}
          onClick=${toggle}
        >
          ${open ? "Close" : "Edit"}
        </button>
      `}
    </div>
  `;
}

/** How much of the limit is taken. @param {{queue: Queue}} props */
function Used({ queue }) {
  if (!queue.max_running) return null;
  const full = queue.running >= queue.max_running;
  return html`
    <${Bar}
      part=${queue.running}
      whole=${queue.max_running}
      tone=${full ? "warn" : "held"}
      label=${`${queue.running} of ${queue.max_running} run`}
    />
  `;
}

/** @param {Queue} queue */
function flip({ queue, paused, inbox }) {
  const verb = paused ? "resume" : "pause";
  return change(`${verb}_queue`, "POST", `api/queues/${encodeURIComponent(queue)}/${verb}`, {
    said: paused
      ? `${queue} is resumed.`
      : `${queue} is paused: no more rows start, those that have started go on.`,
    at: inbox,
  });
}
