/** The calls of one endpoint of webhooks, each with its answer; one may be sent again. */
import { change } from "../../lib/act.js";
import { can, verb_of } from "../../lib/can.js";
import { Ago } from "../../lib/clock.js";
import { html } from "../../lib/ui.js";
import { brief, number } from "../../lib/words.js";
import { path } from "./path.js";

/**
 * @typedef {import("./page.js").Endpoint} Endpoint
 * @typedef {{row: string, webhook: string, kind: string | null, attempt: number, at: string,
 *   status: number | null, ms: number, address: string | null, note: string | null}} Call
 */

/** @param {{each: Endpoint, calls: Call[]}} props */
export const Calls = ({ each, calls }) => html`
  <div class="scroll">
    <table class="table cards">
      <thead>
        <tr>
          <th>Webhook</th>
          <th>Kind</th>
          <th>Answer</th>
          <th class="right">Attempt</th>
          <th class="right">Took</th>
          <th>To</th>
          <th>When</th>
          <th>What was said</th>
          <th></th>
        </tr>
      </thead>
      <tbody>
        ${calls.map((call) => html`
          <${Line} key=${`${call.row} ${call.at}`} each=${each} call=${call} />
        `)}
      </tbody>
    </table>
  </div>
`;

/** @param {{each: Endpoint, call: Call}} props */
function Line({ each, call }) {
  const { row, webhook, kind, attempt, at, status, ms, address, note } = call;
  const taken = status !== null && status >= 200 && status < 300;
  return html`
    <tr>
      <td class="title">
        <a class="mono" href=${`rows/${row}`} title=${webhook}>
          ${brief(webhook)}
        </a>
      </td>
      <td data-label="Kind">${kind ?? "no longer kept"}</td>
      <td data-label="Answer">
        <span class=${`tag ${taken ? "" : "bad"}`}>${status ?? "none"}</span>
      </td>
      <td class="right" data-label="Attempt">
        ${number(attempt)}
      </td>
      <td class="right" data-label="Took">
        ${number(ms)} ms
      </td>
      <td class="mono" data-label="To">
        ${address ?? "–"}
      </td>
      <td data-label="When">
        <${Ago} at=${at} />
      </td>
      <td class="wrap" data-label="What was said">
        ${note ?? ""}
      </td>
      <td>
        ${kind && each.state !== "disabled" && can("resend_webhooks") && html`
          <button
            class="button small"
            aria-label=${`Resend ${webhook}`}
            onClick=${() => resend(each, webhook)}
          >
            ${verb_of("resend_webhooks").button}
          </button>
        `}
      </td>
    </tr>
  `;
}

/** @param {Endpoint} each @param {string} webhook */
const resend = (each, webhook) =>
  change("resend_webhooks", "POST", path(each.id, "resend"), {
    body: { webhooks: [webhook] },
    title: `Send this webhook to ${each.url} again?`,
    said: "It will be sent again.",
    at: each.inbox,
  });
