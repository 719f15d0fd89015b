/** Flows: those that live or have ended badly; one of them by its id. */
import { useAnswer } from "../../lib/answer.js";
import { Ago } from "../../lib/clock.js";
import { Choice, Empty, Fault, Page, Panel, Status } from "../../lib/parts.js";
import { ask, place } from "../../lib/route.js";
import { duration } from "../../lib/time.js";
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
  ["stuck", "stuck"],
];

/** @param {{parts: string[]}} props */
export default function Flows({ parts }) {
  if (parts[1]) return html`<${Flow} key=${parts[1]} id=${parts[1]} />`;
  return place.value.query.state === "stuck" ? html`<${Stuck} />` : html`<${List} />`;
}

function States() {
  const { state = "" } = place.value.query;
  const choose = (/** @type {string} */ value) => ask({ state: value || null });
  return html`<${Choice} label="State" value=${state} options=${STATES} choose=${choose} />`;
}

/** Those that somebody should look at, and why. */
function Stuck() {
  const { workflow = "" } = place.value.query;
  const query = { workflow: workflow || null };
  const { answer, fault, reload } = useAnswer("api/flows/stuck", { query, every_seconds: 5 });
  const stuck = /** @type {any[]} */ (answer?.stuck ?? []);
  return html`
    <${Page} title="Flows" note="those that somebody should look at" actions=${html`<${States} />`}>
      <${Fault} fault=${fault} retry=${reload} />
      <${Panel}>
        ${answer && !stuck.length && html`<${Empty}>No flow is stuck.<//>`}
        ${stuck.length > 0 && html`
          <div class="scroll">
            <table class="table cards">
              <thead>
                <tr>
                  <th>Workflow</th>
                  <th>Name</th>
                  <th>Since</th>
                  <th>Why</th>
                </tr>
              </thead>
              <tbody>
                ${stuck.map((each) => html`
                  <tr key=${each.id}>
                    <${Named} flow=${each} />
                    <td data-label="Since">${each.seconds === null ? "" : duration(each.seconds)}</td>
                    <td data-label="Why">${each.why}</td>
                  </tr>
                `)}
              </tbody>
            </table>
          </div>
        `}
      <//>
    <//>
  `;
}

function List() {
  const { workflow = "", state = "" } = place.value.query;
  const query = { workflow: workflow || null, state: state || null };
  const { answer, fault, reload } = useAnswer("api/flows", { query, every_seconds: 2 });
  const flows = /** @type {any[]} */ (answer?.flows ?? []);
  return html`
    <${Page} title="Flows" note="workflows that live or have ended badly" actions=${html`<${States} />`}>
      <${Fault} fault=${fault} retry=${reload} />
      <${Panel}>
        ${answer && !flows.length && html`
          <${Empty}>
            There is no such flow. Code starts one:${" "}
            <code>await checkout.start(conn, order_id=9182)</code>
          <//>
        `}
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
function Named({ flow }) {
  const name = (flow.name ?? flow.id).replace(`flow:${flow.workflow}:`, "");
  return html`
    <td class="title">
      <a href=${`flows/${flow.id}`}>${flow.workflow}</a>
      <span class="quiet"> ${flow.version}</span>
      ${flow.inbox && html`
        ${" "}
        <span class="tag">${flow.inbox}</span>
      `}
    </td>
    <td data-label="Name">
      <a class="mono" href=${`flows/${flow.id}`}>
        ${name}
      </a>
    </td>
  `;
}

/** @param {{flow: any}} props */
function Line({ flow }) {
  return html`
    <tr>
      <${Named} flow=${flow} />
      <td data-label="State">
        <${Status} status=${flow.state} />
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
