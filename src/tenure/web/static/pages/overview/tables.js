/** The period by queue, and by kind: where rows wait, what fails, what is slow. */
import { to } from "../../lib/address.js";
import { Ago } from "../../lib/clock.js";
import { Empty, Panel } from "../../lib/parts.js";
import { duration } from "../../lib/time.js";
import { html } from "../../lib/ui.js";
import { filter_word, number, short } from "../../lib/words.js";
import { percent } from "./lately.js";

const BAD = 0.05; // of attempts: a rate that stands out

/** @param {{lately: any}} props */
export function Tables({ lately }) {
  return html`
    <div class="columns">
      <${Queues} queues=${lately.queues} />
      <${Kinds} kinds=${lately.kinds} since=${lately.kinds_since} />
    </div>
  `;
}

/** @param {{queues: any[]}} props */
function Queues({ queues }) {
  return html`
    <${Panel} title="Queues" aside=${html`<a href="queues">Limits and pauses</a>`}>
      ${queues.length ? html`
        <div class="scroll">
          <table class="table" aria-label="Queues in this period">
            <thead>
              <tr>
                <th>Queue</th>
                <th class="right">Due</th>
                <th class="right">Oldest</th>
                <th class="right">Running</th>
                <th class="right if-wide">Completed</th>
                <th class="right">Failing</th>
                <th class="right if-wide">Run p95</th>
              </tr>
            </thead>
            <tbody>${queues.map(Queue)}</tbody>
          </table>
        </div>
      ` : html`
        <${Empty}>
          No queue has a row. Send one:${" "}
          <code>
            tenure enqueue send_receipt '${"{"}"order_id": 9182${"}"}'
          </code>
        <//>
      `}
    <//>
  `;
}

/** @param {any} queue */
const Queue = (queue) => html`
  <tr key=${`${queue.inbox ?? ""} ${queue.queue}`}>
    <td>
      <a href=${to("rows", { filter: `queue:${filter_word(queue.queue)}` })}>${queue.queue}</a>
      <${Of} inbox=${queue.inbox} />
    </td>
    <td class="right">${queue.due_more ? `${short(queue.due)}+` : number(queue.due)}</td>
    <td class="right">${duration(queue.oldest_runnable_seconds)}</td>
    <td class="right">${number(queue.processing)}</td>
    <td class="right if-wide">${number(queue.completed)}</td>
    <td class="right">
      <${Share} share=${queue.failing} />
    </td>
    <td class="right if-wide">${duration(queue.run_p95)}</td>
  </tr>
`;

/** @param {{kinds: any[], since: string | null}} props */
function Kinds({ kinds, since }) {
  const aside = since && html`
    <span>
      of rows sent since <${Ago} at=${since} />
    </span>
  `;
  return html`
    <${Panel} title="Slowest kinds" aside=${aside}>
      ${kinds.length ? html`
        <div class="scroll">
          <table class="table" aria-label="Kinds in this period">
            <thead>
              <tr>
                <th>Kind</th>
                <th class="right">Run p50</th>
                <th class="right">Run p95</th>
                <th class="right">Ended</th>
                <th class="right">Badly</th>
              </tr>
            </thead>
            <tbody>${kinds.slice(0, 12).map(Kind)}</tbody>
          </table>
        </div>
      ` : html`
        <${Empty}>
          No row has ended in this period. A worker ends them: <code>tenure worker app:inbox</code>
        <//>
      `}
    <//>
  `;
}

/** @param {any} kind */
const Kind = ({ kind, inbox, ended, badly, run_p50, run_p95 }) => html`
  <tr key=${`${inbox ?? ""} ${kind}`}>
    <td>
      <a class="mono" href=${to("rows", { filter: `kind:${filter_word(kind)}` })}>
        ${kind}
      </a>
      <${Of} inbox=${inbox} />
    </td>
    <td class="right">${duration(run_p50)}</td>
    <td class="right">${duration(run_p95)}</td>
    <td class="right">${number(ended)}</td>
    <td class="right">
      ${badly > 0 ? html`
        <a href=${to("rows", { filter: `status:failed,dead_letter kind:${filter_word(kind)}` })}>
          <${Share} share=${badly / ended} />
        </a>
      ` : html`
        <span class="quiet">0 %</span>
      `}
    </td>
  </tr>
`;

/** Of several inboxes, the one that a line is of. @param {{inbox?: string}} props */
const Of = ({ inbox }) =>
  inbox && html`
    ${" "}
    <span class="tag">${inbox}</span>
  `;

/** @param {{share: number | null}} props */
const Share = ({ share }) => html`
  <span class=${(share ?? 0) >= BAD ? "share-bad" : share ? "" : "quiet"}>${percent(share)}</span>
`;
