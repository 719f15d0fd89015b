/** Outboxes: what waits for a broker, for how long, and since when it is away. */
import { to } from "../lib/address.js";
import { useAnswer } from "../lib/answer.js";
import { Ago } from "../lib/clock.js";
import { Empty, Fault, Page, Panel } from "../lib/parts.js";
import { duration } from "../lib/time.js";
import { html } from "../lib/ui.js";
import { filter_word, number, plural } from "../lib/words.js";

/**
 * @typedef {{worker: string, since: string, error: string}} Away
 * @typedef {{outbox: string, pending: number, processing: number, postponed: number,
 *   oldest_seconds: number | null, blocked: number, dead: number, away: Away[], served: boolean, inbox?: string}} Box
 */

export default function Outbox() {
  const { answer, fault, reload } = useAnswer("api/outbox", { every_seconds: 2 });
  const boxes = /** @type {Box[]} */ (answer?.outboxes ?? []);
  return html`
    <${Page} title="Outbox" note="events on their way to a broker">
      <${Fault} fault=${fault} retry=${reload} />
      ${answer && !boxes.length && html`
        <${Panel}>
          <${Empty}>
            No worker has declared an outbox. Code does:${" "}
            <code>Outbox(inbox, to=…, source="/shop")</code>
          <//>
        <//>
      `}
      ${boxes.map((box) => html`
        <${One} key=${`${box.inbox ?? ""} ${box.outbox}`} box=${box} />
      `)}
    <//>
  `;
}

/** @param {{box: Box}} props */
function One({ box }) {
  const filter = `kind:${filter_word(`outbox:${box.outbox}`)}`;
  return html`
    <${Panel}
      title=${box.outbox}
      tag=${box.inbox}
      aside=${
        box.away.length ? html`
          <span class="tag bad">the broker is away</span>
        ` : box.served ? (
          "the broker is reached"
        ) : html`
          <span class="tag bad">no worker serves it</span>
        `
      }
    >
      <div class="scroll">
        <table class="table cards">
          <thead>
            <tr>
              <th>Waiting</th>
              <th>Being sent</th>
              <th>Postponed</th>
              <th>Lag</th>
              <th>Blocked keys</th>
              <th>Dead letters</th>
            </tr>
          </thead>
          <tbody>
            <tr>
              <td data-label="Waiting">
                <a href=${to("rows", { filter: `${filter} status:pending` })}>${number(box.pending)}</a>
              </td>
              <td data-label="Being sent">${number(box.processing)}</td>
              <td data-label="Postponed">${number(box.postponed)}</td>
              <td data-label="Lag">
                ${box.oldest_seconds === null ? "none" : duration(box.oldest_seconds)}
              </td>
              <td data-label="Blocked keys">
                <a href="queues">${number(box.blocked)}</a>
              </td>
              <td data-label="Dead letters">
                <a href=${to("rows", { filter: `${filter} status:dead_letter` })}>${number(box.dead)}</a>
              </td>
            </tr>
          </tbody>
        </table>
      </div>
      ${box.away.map((each) => html`
        <p key=${each.worker} class="fault">
          <span>
            Broker away, first seen <${Ago} at=${each.since} /> by ${each.worker}:${" "}
            ${each.error.replace(/\.$/, "")}. ${plural(box.postponed, "event")} postponed; no attempt is
            used up.
          </span>
        </p>
      `)}
    <//>
  `;
}
