/** Workers that are dead: when they were last seen, and what they left. */
import { Panel } from "../../lib/parts.js";
import { duration } from "../../lib/time.js";
import { html } from "../../lib/ui.js";
import { number } from "../../lib/words.js";
import { held_by } from "./words.js";

/** @typedef {import("./words.js").Member} Member */

/** @param {{dead: Member[]}} props */
export function Graveyard({ dead }) {
  const aside = "no heartbeat for 30 s, or no session for too long; other workers run their rows";
  return html`
    <${Panel} title="Dead" className="fleet-dead" aside=${aside}>
      <div class="scroll">
        <table class="table cards">
          <thead>
            <tr>
              <th>Worker</th>
              <th>Last seen</th>
              <th>Process</th>
              <th>Version</th>
              <th>Queues</th>
              <th class="right">Rows left</th>
            </tr>
          </thead>
          <tbody>
            ${dead.map((each) => html`
              <${Line} key=${`${each.inbox ?? ""} ${each.id}`} worker=${each} />
            `)}
          </tbody>
        </table>
      </div>
    <//>
  `;
}

/** @param {{worker: Member}} props */
function Line({ worker }) {
  const { id, inbox, seen_seconds, host, pid, version, queues, held } = worker;
  return html`
    <tr>
      <td class="title">
        <span class="mono">${id}</span>
        ${inbox && html`
          ${" "}
          <span class="tag">${inbox}</span>
        `}
      </td>
      <td data-label="Last seen">${duration(seen_seconds)} ago</td>
      <td data-label="Process" class="mono">
        ${host ?? "?"} : ${pid ?? "?"}
      </td>
      <td data-label="Version">${version ?? "?"}</td>
      <td data-label="Queues">${queues.join(", ")}</td>
      <td data-label="Rows left" class="right">
        ${held === 0 ? "0" : html`<a href=${held_by(worker)}>${held === null ? "look" : number(held)}</a>`}
      </td>
    </tr>
  `;
}
