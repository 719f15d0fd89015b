/** Schedules: what they enqueue and when, in words and by the clock of their zone; run, pause, resume, remove. */
import { change } from "../../lib/act.js";
import { to } from "../../lib/address.js";
import { useAnswer } from "../../lib/answer.js";
import { can } from "../../lib/can.js";
import { Ago } from "../../lib/clock.js";
import { Empty, Fault, Page, Panel } from "../../lib/parts.js";
import { Switch } from "../../lib/switch.js";
import { html } from "../../lib/ui.js";
import { filter_word, plural } from "../../lib/words.js";
import { in_zone } from "./zone.js";

/**
 * @typedef {{name: string, inbox?: string, cron: string, words: string, time_zone: string, kind: string, queue: string,
 *   paused: boolean, next_at: string, last_at: string | null, misfire: string,
 *   payload: string | null, coming: string[]}} Schedule
 */

const NOT_NOW = "not while paused";
const ELSEWHERE = "in another inbox, its home";
/** @type {Record<string, string>} */
const MISFIRES = {
  once: "missed ticks: one row for all",
  skip: "missed ticks: skipped",
  all: "missed ticks: a row for each",
};

export default function Schedules() {
  const { answer, fault, reload } = useAnswer("api/schedules", { every_seconds: 4 });
  const schedules = /** @type {Schedule[]} */ (answer?.schedules ?? []);
  const paused = schedules.filter((each) => each.paused).length;
  const note =
    answer &&
    [plural(schedules.length, "schedule"), paused && `${paused} paused`].filter(Boolean).join(" · ");
  return html`
    <${Page} title="Schedules" note=${note}>
      <${Fault} fault=${fault} retry=${reload} />
      ${answer && !schedules.length && html`<${Nothing} />`}
      ${schedules.length > 0 && html`<${Table} schedules=${schedules} />`}
    <//>
  `;
}

const Nothing = () => html`
  <${Panel}>
    <${Empty}>
      There are no schedules. Write one in your code, and the next worker adds it:
      <pre class="text" tabindex="0">
        ${`inbox.schedule("nightly", Cron("30 2 * * *", zone="Europe/Berlin"), report)`}
      </pre>
    <//>
  <//>
`;

/** @param {{schedules: Schedule[]}} props */
const Table = ({ schedules }) => html`
  <${Panel}>
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
            <${Line} key=${`${each.inbox ?? ""} ${each.name}`} schedule=${each} />
          `)}
        </tbody>
      </table>
    </div>
  <//>
`;

/** @param {{schedule: Schedule}} props */
function Line({ schedule }) {
  const { name, cron, words, time_zone, kind, queue, paused, next_at, last_at, misfire } = schedule;
  const [first, ...later] = schedule.coming.map((at) => in_zone(at, time_zone));
  const not_now = paused ? NOT_NOW : first ? "" : ELSEWHERE;
  return html`
    <tr class=${paused ? "is-paused" : ""}>
      <td class="title">
        ${name}
        ${schedule.inbox && html`
          ${" "}
          <span class="tag">${schedule.inbox}</span>
        `}
      </td>
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
          <span>${not_now ? html`<span class="quiet">${not_now}</span>` : html`<${Ago} at=${next_at} />`}</span>
          <details class="coming" hidden=${!first}>
            <summary class="nowrap" title="The times after it">
              ${first}
            </summary>
            <ol>
              ${later.map((at) => html`
                <li key=${at} class="nowrap">
                  ${at}
                </li>
              `)}
            </ol>
          </details>
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
          ${can("run_schedule") && html`
            <button
              class="button small"
              aria-label=${`Run now the schedule ${name}`}
              onClick=${() => run(schedule)}
            >
              Run now
            </button>
          `}
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
function flip({ name, paused, inbox }) {
  const verb = paused ? "resume" : "pause";
  return change(`${verb}_schedule`, "POST", `api/schedules/${encodeURIComponent(name)}/${verb}`, {
    said: paused ? `${name} is resumed.` : `${name} is paused.`,
    at: inbox,
  });
}

/** @param {Schedule} schedule */
const run = ({ name, kind, inbox }) =>
  change("run_schedule", "POST", `api/schedules/${encodeURIComponent(name)}/run`, {
    title: `Run the schedule ${name} now?`,
    said: `A row of ${kind} is enqueued.`,
    at: inbox,
  });

/** @param {Schedule} schedule */
const remove = ({ name, inbox }) =>
  change("remove_schedule", "DELETE", `api/schedules/${encodeURIComponent(name)}`, {
    title: `Remove the schedule ${name}?`,
    said: `${name} is removed.`,
    at: inbox,
  });
