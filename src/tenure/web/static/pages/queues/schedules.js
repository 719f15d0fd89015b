/** Schedules: what they enqueue and when, in words; pause, resume, remove. */
import { change } from "../../lib/act.js";
import { to } from "../../lib/address.js";
import { useAnswer } from "../../lib/answer.js";
import { can } from "../../lib/can.js";
import { Ago } from "../../lib/clock.js";
import { Empty, Fault, Panel } from "../../lib/parts.js";
import { Switch } from "../../lib/switch.js";
import { exact } from "../../lib/time.js";
import { html } from "../../lib/ui.js";
import { filter_word } from "../../lib/words.js";

/**
 * @typedef {{name: string, cron: string, words: string, time_zone: string, kind: string, queue: string,
 *   paused: boolean, next_at: string, last_at: string | null, misfire: string}} Schedule
 */

const NOT_NOW = "not while paused";
/** @type {Record<string, string>} */
const MISFIRES = {
  once: "missed ticks: one row for all",
  skip: "missed ticks: skipped",
  all: "missed ticks: a row for each",
};

export function Schedules() {
  const { answer, fault, reload } = useAnswer("api/schedules", { every_seconds: 4 });
  const schedules = /** @type {Schedule[]} */ (answer?.schedules ?? []);
  return html`
    <${Panel} title="Schedules">
      <${Fault} fault=${fault} retry=${reload} />
      ${answer && !schedules.length && html`
        <${Empty}>
          There are no schedules. A worker adds those of its inbox: <code>inbox.schedule(…)</code>
        <//>
      `}
      ${schedules.length > 0 && html`
        <div class="scroll">
          <table class="table cards schedules">
            <thead>
              <tr>
                <th>Schedule</th>
                <th>State</th>
                <th>Fires</th>
                <th>Next</th>
                <th>Last</th>
                <th>Enqueues</th>
                <th>
                  <span class="unseen">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              ${schedules.map((each) => html`
                <${Line} key=${each.name} schedule=${each} />
              `)}
            </tbody>
          </table>
        </div>
      `}
    <//>
  `;
}

/** @param {{schedule: Schedule}} props */
function Line({ schedule }) {
  const { name, cron, words, time_zone, kind, queue, paused, next_at, last_at, misfire } = schedule;
  return html`
    <tr class=${paused ? "is-paused" : ""}>
      <td class="title">${name}</td>
      <td data-label="State">
        <${Switch}
          on=${!paused}
          label=${`Schedule ${name}`}
          may=${can(paused ? "resume_schedule" : "pause_schedule")}
          flip=${() => flip(schedule)}
        />
      </td>
      <td data-label="Fires">
        <div class="two">
          <span>${words}</span>
          <span class="quiet">
            <code>${cron}</code> ${time_zone} · ${MISFIRES[misfire] ?? misfire}
          </span>
        </div>
      </td>
      <td data-label="Next">
        <div class="two">
          <span>${paused ? html`<span class="quiet">${NOT_NOW}</span>` : html`<${Ago} at=${next_at} />`}</span>
          <span class="quiet nowrap">${exact(next_at).slice(0, 19)}</span>
        </div>
      </td>
      <td data-label="Last">
        <${Ago} at=${last_at} empty="never" />
      </td>
      <td data-label="Enqueues">
        <div class="two">
          <a
            class="mono"
            href=${to("rows", { filter: `kind:${filter_word(kind)} queue:${filter_word(queue)}` })}
          >
            ${kind}
          </a>
          <span class="quiet">in ${queue}</span>
        </div>
      </td>
      <td>
        <div class="acts">
          ${can("remove_schedule") && html`
            <button
              class="button danger small"
              aria-label=${`Remove the schedule ${name}`}
              onClick=${() => remove(schedule)}
            >
              Remove
            </button>
          `}
        </div>
      </td>
    </tr>
  `;
}

/** @param {Schedule} schedule */
function flip({ name, paused }) {
  const verb = paused ? "resume" : "pause";
  return change(`${verb}_schedule`, "POST", `api/schedules/${encodeURIComponent(name)}/${verb}`, {
    said: paused ? `${name} is resumed.` : `${name} is paused.`,
  });
}

/** @param {Schedule} schedule */
const remove = ({ name }) =>
  change("remove_schedule", "DELETE", `api/schedules/${encodeURIComponent(name)}`, {
    title: `Remove the schedule ${name}?`,
    said: `${name} is removed.`,
  });
