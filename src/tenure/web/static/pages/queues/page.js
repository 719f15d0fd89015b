/** Queues: what stands in them, what holds them back; and the schedules that fill them. */
import { change } from "../../lib/act.js";
import { useAnswer } from "../../lib/answer.js";
import { Bar, Count, Empty, Fault, Page, Panel, Status } from "../../lib/parts.js";
import { to } from "../../lib/route.js";
import { duration } from "../../lib/time.js";
import { html, useState } from "../../lib/ui.js";
import { filter_word, number, plural } from "../../lib/words.js";
import { can } from "../../lib/can.js";
import { Limits, limit_words } from "./limits.js";
import { Schedules } from "./schedules.js";
import { Switch } from "../../lib/switch.js";

const STATES = ["pending", "scheduled", "processing", "failed", "dead_letter", "cancelled"];
const HEADS = {
  pending: "Pending",
  scheduled: "Scheduled",
  processing: "Held",
  failed: "Failed",
  dead_letter: "Dead",
  cancelled: "Cancelled",
};
const OLD_SECONDS = 60;
/** @type {Record<string, string>} */
const REASONS = {
  held: "is held by a worker",
  scheduled: "waits for its time",
  waits_for_operator: "waits for you",
};

/** @typedef {import("./limits.js").Queue} Queue */
/**
 * @typedef {{queue: string, key: string, head: string, status: string, reason: string,
 *   waiting: number}} Blocked
 */

export default function Queues() {
  const { answer, fault, reload } = useAnswer("api/queues");
  const queues = /** @type {Queue[]} */ (answer?.queues ?? []);
  const paused = queues.filter((queue) => queue.paused).length;
  const note =
    answer &&
    [plural(queues.length, "queue"), paused && `${paused} paused`].filter(Boolean).join(" · ");
  return html`
    <${Page} title="Queues and schedules" note=${note}>
      <${Fault} fault=${fault} retry=${reload} />
      ${answer && html`
        <${Panel} title="Queues">
          ${queues.length ? html`
            <${Table} queues=${queues} />
          ` : html`
            <${Empty}>
              No queue has a row or a setting. The first <code>enqueue</code> makes one.
            <//>
          `}
        <//>
      `}
      <${BlockedKeys} />
      <${Schedules} />
    <//>
  `;
}

/** @param {{queues: Queue[]}} props */
function Table({ queues }) {
  const [edited, setEdited] = useState(/** @type {string | null} */ (null));
  const toggle = (/** @type {string} */ name) => setEdited(edited === name ? null : name);
  return html`
    <div class="scroll">
      <table class="table cards queues">
        <thead>
          <tr>
            <th>Queue</th>
            <th>State</th>
            <th class="right">Oldest runnable</th>
            ${STATES.map((state) => html`
              <th key=${state} class="right">
                ${HEADS[/** @type {"failed"} */ (state)]}
              </th>
            `)}
            <th>Limits</th>
          </tr>
        </thead>
        <tbody>
          ${queues.map((queue) => html`
            <${Line}
              key=${queue.queue}
              queue=${queue}
              open=${edited === queue.queue}
              toggle=${() => toggle(queue.queue)}
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
  return html`
    <tr class=${queue.paused ? "is-paused" : ""}>
      <td class="title">
        <a href=${to("rows", { filter: `queue:${filter_word(queue.queue)}` })}>${queue.queue}</a>
      </td>
      <td data-label="State" class="whole">
        <${Switch}
          on=${!queue.paused}
          label=${`Queue ${queue.queue}`}
          may=${can(queue.paused ? "resume_queue" : "pause_queue")}
          flip=${() => flip(queue)}
        />
      </td>
      <td data-label="Oldest runnable" class=${`right whole ${old ? "old" : ""}`}>
        ${duration(queue.oldest_runnable_seconds)}
      </td>
      ${STATES.map((state) => html`
        <td key=${state} data-label=${HEADS[/** @type {"failed"} */ (state)]} class="right">
          <${Cell} queue=${queue} state=${state} />
        </td>
      `)}
      <td data-label="Limits" class="whole">
        <div class="limits">
          <${Used} queue=${queue} />
          <span>${limit_words(queue) || html`<span class="quiet">none</span>`}</span>
          ${can("limit_queue") && html`
            <button
              class="button small"
              aria-expanded=${open ? "true" : "false"}
              aria-label=${`${open ? "Close" : "Edit"} the limits of ${queue.queue}`}
              onClick=${toggle}
            >
              ${open ? "Close" : "Edit"}
            </button>
          `}
        </div>
      </td>
    </tr>
    ${open && html`
      <tr class="editing">
        <td colspan=${4 + STATES.length}>
          <${Limits} key=${queue.queue} queue=${queue} close=${toggle} />
        </td>
      </tr>
    `}
  `;
}

/** @param {{queue: Queue, state: string}} props */
function Cell({ queue, state }) {
  const n = queue[/** @type {"failed"} */ (state)];
  if (!n) return html`<span class="quiet">0</span>`;
  return html`
    <a
      class=${`count-of is-${state}`}
      href=${to("rows", { filter: `status:${state} queue:${filter_word(queue.queue)}` })}
    >
      <${Count} count=${{ n, more: queue.more.includes(state) }} />
    </a>
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
const flip = ({ queue, paused }) =>
  change("POST", `api/queues/${encodeURIComponent(queue)}/${paused ? "resume" : "pause"}`, {
    said: paused
      ? `${queue} goes on.`
      : `${queue} is paused: nothing more of it starts, what runs goes on.`,
  });

function BlockedKeys() {
  const { answer, fault, reload } = useAnswer("api/blocked", { every_seconds: 4 });
  const keys = /** @type {Blocked[]} */ (answer?.keys ?? []);
  return html`
    <${Panel}
      title="Blocked keys"
      aside="ordered keys that cannot go on, and the row that stands in the way"
    >
      <${Fault} fault=${fault} retry=${reload} />
      ${answer && !keys.length && html`<${Empty}>No ordered key waits.<//>`}
      ${keys.length > 0 && html`
        <div class="scroll">
          <table class="table cards">
            <thead>
              <tr>
                <th>Key</th>
                <th>Queue</th>
                <th>Head</th>
                <th>Because it</th>
                <th class="right">Rows behind it</th>
                <th>
                  <span class="unseen">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              ${keys.map((each) => html`
                <tr key=${`${each.queue} ${each.key}`}>
                  <td class="title">
                    <a
                      class="mono"
                      href=${to("rows", {
                        filter: `queue:${filter_word(each.queue)} key:${filter_word(each.key)}`,
                      })}
                    >
                      ${each.key}
                    </a>
                  </td>
                  <td data-label="Queue">${each.queue}</td>
                  <td data-label="Head">
                    <a href=${`rows/${each.head}`} title=${`The head of ${each.key}`}>
                      <${Status} status=${each.status} />
                    </a>
                  </td>
                  <td data-label="Because it">${REASONS[each.reason] ?? each.reason}</td>
                  <td data-label="Rows behind it" class="right">
                    ${number(each.waiting)}
                  </td>
                  <td>
                    <div class="acts">
                      ${each.reason === "waits_for_operator" && can("free_key") && html`
                        <button
                          class="button small"
                          aria-label=${`Free the key ${each.key}`}
                          onClick=${() => free(each)}
                        >
                          Free the key
                        </button>
                      `}
                    </div>
                  </td>
                </tr>
              `)}
            </tbody>
          </table>
        </div>
      `}
    <//>
  `;
}

/** @param {Blocked} blocked */
const free = ({ queue, key, waiting }) =>
  change("POST", "api/blocked/free", {
    body: { queue, key },
    ask: {
      title: `Free the key ${key}?`,
      verb: "Free the key",
      body: `The ${plural(waiting, "row")} behind its head may run although the head did not succeed; the head stays as it ended. To run it first, redrive it instead.`,
    },
    said: `${key} goes on without its head.`,
  });
