/** The tape in words: every attempt and every refused write, in the order of time, tracebacks included. */
import { Ago } from "../../lib/clock.js";
import { Worker } from "../../lib/parts.js";
import { duration } from "../../lib/time.js";
import { html } from "../../lib/ui.js";
import { error_line } from "../../lib/words.js";

const SHOWN_MAX = 100;
const TAGS = /** @type {Record<string, string>} */ ({
  completed: "good",
  processing: "held",
  expired: "warn",
  retried: "warn",
  failed: "bad",
  dead_lettered: "bad",
  dead_letter: "bad",
  cancelled: "",
  released: "",
});
const WORDS = /** @type {Record<string, string>} */ ({
  processing: "processing",
  dead_lettered: "dead letter",
  dead_letter: "dead letter",
  expired: "lease expired",
});

/** @param {{attempts: any[], refusals: any[]}} props */
export function Attempts({ attempts, refusals }) {
  const events = [
    ...attempts.map((each) => ({ at: each.claimed_at, attempt: each })),
    ...refusals.map((each) => ({ at: each.at, refusal: each })),
  ];
  events.sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
  return html`
    <div class="scroll">
      <table class="table cards attempts" aria-label="Attempts and refused writes">
        <thead>
          <tr>
            <th class="right">Token</th>
            <th>Worker</th>
            <th>When</th>
            <th class="right">Held for</th>
            <th>Outcome</th>
          </tr>
        </thead>
        <tbody>
          ${events
            .slice(0, SHOWN_MAX)
            .map((event) =>
              "attempt" in event ? html`
                <${Attempted} key=${event.at + "a"} attempt=${event.attempt} />
              ` : html`
                <${Refused} key=${event.at + "r"} refusal=${event.refusal} />
              `,
            )}
        </tbody>
      </table>
    </div>
  `;
}

/** @param {{attempt: any}} props */
function Attempted({ attempt }) {
  const { generation, fence, worker, claimed_at, ended_at, outcome, error } = attempt;
  const seconds = ended_at && (Date.parse(ended_at) - Date.parse(claimed_at)) / 1000;
  return html`
    <tr>
      <td data-label="Token" class="right" title=${`fence ${fence}`}>
        <b>${generation}</b>
      </td>
      <td data-label="Worker">
        <${Worker} id=${worker} link />
      </td>
      <td data-label="When">
        <${Ago} at=${claimed_at} />
      </td>
      <td data-label="Held for" class="right">
        ${duration(seconds)}
      </td>
      <td data-label="Outcome">
        <span class=${`tag ${TAGS[outcome] ?? ""}`}>${WORDS[outcome] ?? outcome}</span>
      </td>
    </tr>
    ${error && html`
      <tr class="trace">
        <td colspan="5">
          <${Traceback} error=${error} />
        </td>
      </tr>
    `}
  `;
}

/** The line that says what happened; the rest opens. @param {{error: string}} props */
export function Traceback({ error }) {
  if (!error.trim().includes("\n")) return html`<p class="error mono">${error}</p>`;
  return html`
    <details>
      <summary class="error mono">${error_line(error)}</summary>
      <pre class="text" tabindex="0">
        ${error}
      </pre>
    </details>
  `;
}

/** @param {{refusal: any}} props */
function Refused({ refusal }) {
  const { at, worker, verb, stale_token, current_token, reason } = refusal;
  const row = current_token ? `row at token ${current_token}` : "row ended";
  const words = `${verb}, ${row}, ${reason.replaceAll("_", " ")}`;
  return html`
    <tr class="refused">
      <td data-label="Token" class="right">
        <s>${stale_token}</s>
      </td>
      <td data-label="Worker">
        <${Worker} id=${worker} link />
      </td>
      <td data-label="When">
        <${Ago} at=${at} />
      </td>
      <td></td>
      <td data-label="Outcome">
        <span class="tag bad">refused</span> <span class="quiet">${words}</span>
      </td>
    </tr>
  `;
}
