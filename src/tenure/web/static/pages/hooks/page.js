/** Webhooks: endpoints with their state and how the last calls went; one of them by its id. */
import { useAnswer } from "../../lib/answer.js";
import { Ago } from "../../lib/clock.js";
import { Empty, Fault, Page, Panel } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { number } from "../../lib/words.js";
import { Flip, Hook, State } from "./endpoint.js";

/**
 * @typedef {{calls: number, ok: number, p50_ms: number, p99_ms: number, last_at: string,
 *   answers: (number | null)[]}} Lately
 * @typedef {{id: string, tenant: string, url: string, kinds: string[], state: string, failures: number,
 *   failing_since: string | null, open_until: string | null, rotating_until: string | null,
 *   note: string | null, made_at: string, pending: number, lately: Lately | null, inbox?: string}} Endpoint
 */

/** @param {{parts: string[]}} props */
export default function Hooks({ parts }) {
  return parts[1] ? html`<${Hook} key=${parts[1]} id=${parts[1]} />` : html`<${List} />`;
}

function List() {
  const { answer, fault, reload } = useAnswer("api/hooks", { every_seconds: 2 });
  const every = /** @type {Endpoint[]} */ (answer?.endpoints ?? []);
  return html`
    <${Page} title="Webhooks" note="calls to other people's servers">
      <${Fault} fault=${fault} retry=${reload} />
      <${Panel}>
        ${answer && !every.length && html`
          <${Empty}>
            There is no endpoint. Add one:${" "}
            <code>tenure hooks add acme https://acme.example/hook --kind 'order.*'</code>
          <//>
        `}
        ${every.length > 0 && html`
          <div class="scroll">
            <table class="table cards">
              <thead>
                <tr>
                  <th>Endpoint</th>
                  <th>Tenant</th>
                  <th>State</th>
                  <th class="right">Pending</th>
                  <th>Last answers</th>
                  <th class="right">p50</th>
                  <th class="right">p99</th>
                  <th>Last call</th>
                  <th></th>
                </tr>
              </thead>
              <tbody>
                ${every.map((each) => html`
                  <${Line} key=${each.id} each=${each} />
                `)}
              </tbody>
            </table>
          </div>
        `}
      <//>
    <//>
  `;
}

/** @param {{each: Endpoint}} props */
function Line({ each }) {
  const { id, url, tenant, state, pending, lately } = each;
  return html`
    <tr class=${state === "active" ? "" : "is-paused"}>
      <td class="title">
        <a class="clip" href=${`hooks/${id}`}>
          ${url}
        </a>
        ${each.inbox && html`
          ${" "}
          <span class="tag">${each.inbox}</span>
        `}
      </td>
      <td class="name" data-label="Tenant">
        ${tenant}
      </td>
      <td data-label="State">
        <${State} each=${each} />
      </td>
      <td class="right" data-label="Pending">
        ${number(pending)}
      </td>
      <td data-label="Last answers">
        <${Answers} lately=${lately} />
      </td>
      <td class="right" data-label="p50">
        ${lately ? `${number(lately.p50_ms)} ms` : "–"}
      </td>
      <td class="right" data-label="p99">
        ${lately ? `${number(lately.p99_ms)} ms` : "–"}
      </td>
      <td data-label="Last call">
        <${Ago} at=${lately?.last_at ?? null} />
      </td>
      <td>
        <${Flip} each=${each} />
      </td>
    </tr>
  `;
}

/** Five at most; a bad one stands out. @param {{lately: Lately | null}} props */
function Answers({ lately }) {
  if (!lately) return html`<span class="quiet">none yet</span>`;
  return html`
    <span
      class="mono answers"
      title=${`${number(lately.ok)} of the last ${number(lately.calls)} calls were taken`}
    >
      ${lately.answers.slice(0, 5).map((status, n) => html`
        <span key=${n} class=${status !== null && status < 300 ? "" : "bad"}>
          ${status ?? "none"}${" "}
        </span>
      `)}
    </span>
  `;
}
