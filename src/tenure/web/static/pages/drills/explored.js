/** What the explorer found: the answer of the last run, and all runs side by side. */
import { Panel } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { answer, answer_tag, guard_name } from "./guards.js";
import { seconds_of } from "./words.js";

/** @typedef {import("./said.js").Verdict} Verdict */

/** @param {{verdict: Verdict}} props */
export function Answer({ verdict }) {
  const written = (verdict.written ?? []).map((each) => `${each.worker} with token ${each.token}`);
  const harmless = verdict.stopped_by || verdict.shown === "no race";
  return html`
    <section
      class=${`panel drill-answer ${harmless ? "ok" : "not"}`}
      aria-label="What stopped it"
      role="status"
    >
      <b>${answer(verdict)}</b>
      <p>${verdict.explanation ?? verdict.trouble}</p>
      <p class="quiet">Written: ${written.join(", ") || "nothing"}</p>
    </section>
  `;
}

/** @param {{runs: {id: string, asked: import("./guards.js").Asked, result: Verdict}[]}} props */
export function Compared({ runs }) {
  if (!runs.length) return null;
  return html`
    <${Panel} title="Runs so far">
      <div class="scroll">
        <table class="table cards drill-runs">
          <thead>
            <tr>
              <th>Guard</th>
              <th class="right">Lease</th>
              <th class="right">Stall</th>
              <th>Kind</th>
              <th>Renewal</th>
              <th>Taken over by</th>
              <th>Second</th>
              <th>Written</th>
              <th>Stopped by</th>
            </tr>
          </thead>
          <tbody>
            ${runs.map(({ id, asked, result }) => html`
              <${Line} key=${id} asked=${asked} verdict=${result} />
            `)}
          </tbody>
        </table>
      </div>
    <//>
  `;
}

/** @param {{asked: import("./guards.js").Asked, verdict: Verdict}} props */
function Line({ asked, verdict }) {
  const { word, tone } = answer_tag(verdict);
  const written = (verdict.written ?? []).map((each) => `token ${each.token}`);
  return html`
    <tr>
      <td class="title">${guard_name(asked.guard)}</td>
      <td class="right" data-label="Lease">
        ${seconds_of(asked.lease_seconds)}
      </td>
      <td class="right" data-label="Stall">
        ${seconds_of(asked.stall_seconds)}
      </td>
      <td data-label="Kind">${asked.stall}</td>
      <td data-label="Renewal">${asked.renews ? "on" : "off"}</td>
      <td data-label="Taken over by">${asked.taker === "same" ? "same name" : "another"}</td>
      <td data-label="Second">${asked.second}</td>
      <td data-label="Written">${written.join(", ") || "nothing"}</td>
      <td data-label="Stopped by">
        <span class=${`tag${tone}`}>${word}</span>
      </td>
    </tr>
  `;
}
