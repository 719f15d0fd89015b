/** Flows: those that live or have ended badly; one of them by its id. */
import { useAnswer } from "../../lib/answer.js";
import { Ago } from "../../lib/clock.js";
import { Choice, Empty, Fault, Page, Panel, Status } from "../../lib/parts.js";
import { ask, place } from "../../lib/route.js";
import { html } from "../../lib/ui.js";
import { number } from "../../lib/words.js";
import { Flow } from "./flow.js";
import { label_of } from "./nodes.js";

/** @type {[string, string][]} */
const STATES = [
  ["", "all"],
  ["processing", "at work"],
  ["waiting", "waiting"],
  ["failed", "failed"],
  ["dead_letter", "dead letters"],
  ["cancelled", "cancelled"],
];

/** @param {{parts: string[]}} props */
export default function Flows({ parts }) {
  return parts[1] ? html`<${Flow} key=${parts[1]} id=${parts[1]} />` : html`<${List} />`;
}

function List() {
  const { workflow = "", state = "" } = place.value.query;
  const query = { workflow: workflow || null, state: state || null };
  const { answer, fault, reload } = useAnswer("api/flows", { query, every_seconds: 2 });
  const flows = /** @type {any[]} */ (answer?.flows ?? []);
  const choose = (/** @type {string} */ value) => ask({ state: value || null });
  const states = html`<${Choice} label="State" value=${state} options=${STATES} choose=${choose} />`;
  return html`
    <${Page} title="Flows" note="workflows that live or have ended badly" actions=${states}>
      <${Fault} fault=${fault} retry=${reload} />
      <${Panel}>
        ${answer && !flows.length && html`<${Empty}>There is no such flow.<//>`}
        ${flows.length > 0 && html`
          <div class="scroll">
            <table class="table cards">
              <thead>
                <tr>
                  <th>Workflow</th>
                  <th>Name</th>
                  <th>State</th>
                  <th>Stands at</th>
                  <th>Until</th>
                  <th>Steps</th>
                  <th>Began</th>
                </tr>
              </thead>
              <tbody>
                ${flows.map((each) => html`
                  <${Line} key=${each.id} flow=${each} />
                `)}
              </tbody>
            </table>
          </div>
        `}
      <//>
    <//>
  `;
}

/** @param {{flow: any}} props */
function Line({ flow }) {
  const name = (flow.name ?? flow.id).replace(`flow:${flow.workflow}:`, "");
  return html`
    <tr>
      <td class="title">
        <a href=${`flows/${flow.id}`}>${flow.workflow}</a>
        <span class="quiet"> ${flow.version}</span>
      </td>
      <td data-label="Name">
        <a class="mono" href=${`flows/${flow.id}`}>
          ${name}
        </a>
      </td>
      <td data-label="State">
        <${Status} status=${flow.state === "waiting" ? "scheduled" : flow.state} />
      </td>
      <td data-label="Stands at">${flow.current ? label_of(flow.current) : "the beginning"}</td>
      <td data-label="Until">
        <${Ago} at=${flow.until} />
      </td>
      <td data-label="Steps">${number(flow.steps)}</td>
      <td data-label="Began">
        <${Ago} at=${flow.created_at} />
      </td>
    </tr>
  `;
}
