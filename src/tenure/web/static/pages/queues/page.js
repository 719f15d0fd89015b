/** Queues with their rows and limits, and the keys that wait. */
import { useAnswer } from "../../lib/answer.js";
import { Empty, Fault, Page, Panel } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { plural } from "../../lib/words.js";
import { BlockedKeys } from "./blocked.js";
import { Table } from "./table.js";

/** @typedef {import("./limit_words.js").Queue} Queue */

export default function Queues() {
  const { answer, fault, reload } = useAnswer("api/queues");
  const queues = /** @type {Queue[]} */ (answer?.queues ?? []);
  const paused = queues.filter((queue) => queue.paused).length;
  const note =
    answer &&
    [plural(queues.length, "queue"), paused && `${paused} paused`].filter(Boolean).join(" · ");
  return html`
    <${Page} title="Queues" note=${note}>
      <${Fault} fault=${fault} retry=${reload} />
      ${answer && html`
        <${Panel} title="Queues">
          ${queues.length ? html`
            <${Table} queues=${queues} />
          ` : html`
            <${Empty}>
              No queue has a row or a setting. The first row makes one:${" "}
              <code>
                tenure enqueue send_receipt '${"{"}"order_id": 9182${"}"}' --queue mail
              </code>
            <//>
          `}
        <//>
      `}
      <${BlockedKeys} />
    <//>
  `;
}
