/** One endpoint of webhooks, live: its state, its last calls with their answers, and what may be done. */
import { change } from "../../lib/act.js";
import { useAnswer } from "../../lib/answer.js";
import { can, verb_of } from "../../lib/can.js";
import { Ago } from "../../lib/clock.js";
import { Empty, Fault, Page, Panel } from "../../lib/parts.js";
import { Switch } from "../../lib/switch.js";
import { html } from "../../lib/ui.js";
import { number, plural } from "../../lib/words.js";
import { Calls } from "./calls.js";
import { path } from "./path.js";

/**
 * @typedef {import("./page.js").Endpoint} Endpoint
 * @typedef {import("./calls.js").Call} Call
 */

/** @param {{id: string}} props */
export function Hook({ id }) {
  const { answer, fault, reload } = useAnswer(`api/hooks/${encodeURIComponent(id)}`, {
    every_seconds: 2,
  });
  const each = /** @type {Endpoint | undefined} */ (
    answer?.endpoint && { ...answer.endpoint, inbox: answer.inbox }
  );
  const calls = /** @type {Call[]} */ (answer?.calls ?? []);
  return html`
    <${Page}
      title="Webhook endpoint"
      note=${each?.tenant ?? ""}
      actions=${each && html`<${Acts} each=${each} />`}
    >
      <${Fault} fault=${fault} retry=${reload} />
      ${each && html`
        <${Head} each=${each} />
        <${Panel} title="Calls" aside="the last 50, the newest first">
          ${!calls.length && html`<${Empty}>It was not called yet.<//>`}
          ${calls.length > 0 && html`<${Calls} each=${each} calls=${calls} />`}
        <//>
      `}
    <//>
  `;
}

/** @param {{each: Endpoint}} props */
function Head({ each }) {
  const { url, kinds, lately, pending, failures, failing_since, rotating_until, note } = each;
  const taken = lately && `${number(lately.ok)} of ${plural(lately.calls, "call")} taken`;
  const facts = /** @type {[string, any][]} */ (
    [
      ["Address", html`<span class="mono">${url}</span>`],
      each.inbox && ["Inbox", each.inbox],
      ["State", html`<${State} each=${each} />`],
      ["Pending", plural(pending, "row")],
      ["Kinds", kinds.join(", ")],
      lately && [
        "Lately",
        `${taken}, p50 ${number(lately.p50_ms)} ms, p99 ${number(lately.p99_ms)} ms`,
      ],
      failing_since && [
        "Failing",
        html`<span>
          ${plural(failures, "failure")} in a row, the first <${Ago} at=${failing_since} />
        </span>`,
      ],
      rotating_until && [
        "Rotation",
        html`<span>
          two secrets sign, the older one until <${Ago} at=${rotating_until} />
        </span>`,
      ],
      note && ["Note", note],
    ].filter(Boolean)
  );
  return html`
    <${Panel}>
      <dl class="pairs panel-body facts">
        ${facts.map(([name, what]) => html`
          <div key=${name}>
            <dt>${name}</dt>
            <dd>${what}</dd>
          </div>
        `)}
      </dl>
    <//>
  `;
}

/** The state in a word, and the circuit if it is open. @param {{each: Endpoint}} props */
export function State({ each: { state, open_until } }) {
  if (state !== "active")
    return html`<span class=${`tag ${state === "disabled" ? "bad" : "warn"}`}>${state}</span>`;
  if (!open_until) return html`<span class="tag">active</span>`;
  return html`
    <span>
      <span class="tag bad">circuit open</span>${" "}
      <span class="quiet">
        probe <${Ago} at=${open_until} />
      </span>
    </span>
  `;
}

/** @param {{each: Endpoint}} props */
export function Flip({ each }) {
  const { url, state } = each;
  const on = state === "active";
  const flip = () => (on ? pause(each) : resume(each));
  return html`
    <${Switch}
      on=${on}
      label=${`Endpoint ${url}`}
      words=${["runs", state]}
      may=${can(on ? "pause_endpoint" : "resume_endpoint")}
      flip=${flip}
    />
  `;
}

/** @param {{each: Endpoint}} props */
function Acts({ each }) {
  const { state, open_until } = each;
  return html`
    ${state === "active" && open_until && can("resume_endpoint") && html`
      <button class="button" onClick=${() => resume(each)}>
        Close the circuit
      </button>
    `}
    ${state !== "disabled" && can("test_endpoint") && html`
      <button class="button" onClick=${() => test(each)}>
        ${verb_of("test_endpoint").button}
      </button>
    `}
    <${Flip} each=${each} />
    <a class="button" href="hooks">
      All endpoints
    </a>
  `;
}

/** @param {Endpoint} each */
const pause = ({ id, url, inbox }) =>
  change("pause_endpoint", "POST", path(id, "pause"), { said: `${url} is paused.`, at: inbox });

/** @param {Endpoint} each */
const resume = ({ id, url, inbox }) =>
  change("resume_endpoint", "POST", path(id, "resume"), { said: `${url} is called again.`, at: inbox });

/** @param {Endpoint} each */
const test = ({ id, inbox }) =>
  change("test_endpoint", "POST", path(id, "test"), { said: "A test is on its way.", at: inbox });
