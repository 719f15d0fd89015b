/** The inboxes of a Citus cluster: which ranges of keys are at home in each, and what waits. */
import { useAnswer } from "../lib/answer.js";
import { Empty, Fault, Page, Panel } from "../lib/parts.js";
import { duration } from "../lib/time.js";
import { html } from "../lib/ui.js";
import { number } from "../lib/words.js";

/**
 * @typedef {{inbox: string, epoch: number, home: number, waiting: number, depth: number, dead: number,
 *   oldest_seconds: number | null, workers: number, reason: string | null}} Shard
 */

export default function Shards() {
  const { answer, fault, reload } = useAnswer("api/shards", { every_seconds: 5 });
  const shards = /** @type {Shard[]} */ (answer?.shards ?? []);
  return html`
    <${Page} title="Shards" note="the inboxes of the cluster, and where ranges of keys are at home">
      <${Fault} fault=${fault} retry=${reload} />
      ${answer && !shards.length && html`
        <${Panel}>
          <${Empty}>
            No inbox answers. <code>tenure doctor --citus</code> says what each node lacks.
          <//>
        <//>
      `}
      ${shards.length > 0 && html`<${Table} shards=${shards} />`}
    <//>
  `;
}

/** @param {{shards: Shard[]}} props */
function Table({ shards }) {
  return html`
    <${Panel} title="Inboxes" aside=${waiting(shards)}>
      <div class="scroll">
        <table class="table cards">
          <thead>
            <tr>
              <th>Inbox</th>
              <th title="ranges of keys whose ordered rows run here">Ranges at home</th>
              <th title="ranges that have come and are not yet at home">Ranges waiting</th>
              <th>Live rows</th>
              <th title="how long a row has been due">Oldest</th>
              <th>Dead letters</th>
              <th>Workers</th>
              <th title="of its fences">Epoch</th>
            </tr>
          </thead>
          <tbody>
            ${shards.map((each) => html`
              <${One} key=${each.inbox} shard=${each} />
            `)}
          </tbody>
        </table>
      </div>
      ${shards
        .filter((each) => each.reason)
        .map((each) => html`
          <p key=${each.inbox} class="fault calm">
            Inbox ${each.inbox}: ordered rows wait, because ${each.reason}. Workers look every ten
            seconds.
          </p>
        `)}
    <//>
  `;
}

/** @param {Shard[]} shards */
function waiting(shards) {
  const n = shards.reduce((sum, each) => sum + each.waiting, 0);
  return n ? html`
    <span class="tag warn">${n === 1 ? "1 range waits" : `${number(n)} ranges wait`}</span>
  ` : (
    "every range is at home"
  );
}

/** @param {{shard: Shard}} props */
function One({ shard }) {
  return html`
    <tr>
      <td data-label="Inbox">${shard.inbox}</td>
      <td data-label="Ranges at home">${number(shard.home)}</td>
      <td data-label="Ranges waiting">${number(shard.waiting)}</td>
      <td data-label="Live rows">${number(shard.depth)}</td>
      <td data-label="Oldest">
        ${shard.oldest_seconds === null ? "none" : duration(shard.oldest_seconds)}
      </td>
      <td data-label="Dead letters">${number(shard.dead)}</td>
      <td data-label="Workers">${number(shard.workers)}</td>
      <td data-label="Epoch">${number(shard.epoch)}</td>
    </tr>
  `;
}
