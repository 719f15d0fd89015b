/** The graph of one flow, drawn: every step a node, its undo beside it, its branches below it. */
import { Ago } from "../../lib/clock.js";
import { Bar } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { number, plural } from "../../lib/words.js";
import { is_current, state_words } from "./nodes.js";

/** @typedef {import("./nodes.js").Node} Node */
/** @typedef {import("./nodes.js").Step} Step */

/** @param {{nodes: Node[], after?: any}} props */
export function Lane({ nodes, after }) {
  return html`
    <ol class="flow-lane">
      ${nodes.map((node) => html`
        <${One} key=${node.step.n} node=${node} />
      `)}
      ${after && html`
        <li class="flow-place">
          <div class="flow-pair">${after}</div>
        </li>
      `}
    </ol>
  `;
}

/** @param {{node: Node}} props */
function One({ node: { step, label, undo, branches } }) {
  return html`
    <li class="flow-place">
      <div class="flow-pair">
        <${Box} step=${step} label=${label} />
        ${undo && html`
          <span class="flow-back" aria-hidden="true">
            ←
          </span>
          <${Box} step=${undo} label=${`undo ${label}`} undoes />
        `}
      </div>
      ${branches.length > 0 && html`
        <div class="flow-branches">
          ${branches.map((each, i) => html`
            <${Lane} key=${i} nodes=${each} />
          `)}
        </div>
      `}
    </li>
  `;
}

/** @param {{step: Step, label: string, undoes?: boolean}} props */
function Box({ step, label, undoes = false }) {
  const now = is_current(step) ? "is-current" : "";
  return html`
    <div
      class=${`flow-node is-${step.state} ${now} ${undoes ? "undoes" : ""}`}
      title=${step.error ?? step.result ?? undefined}
    >
      <i aria-hidden="true"></i>
      <span class="flow-name">${label}</span>
      <span class="flow-state">
        ${state_words(step)}
        ${step.tries > 1 && html`<span class="tag">try ${number(step.tries)}</span>`}
      </span>
      <span class="quiet">
        ${is_current(step) && step.until ? html`
          until <${Ago} at=${step.until} />
        ` : html`
          <${Ago} at=${step.recorded_at} />
        `}
      </span>
      ${step.children && html`<${Counted} of=${step.children} />`}
      ${step.error && html`<span class="flow-error">${step.error}</span>`}
    </div>
  `;
}

/** Children as one node, with their count. @param {{of: import("./nodes.js").Children}} props */
function Counted({ of }) {
  const ended = of.size - of.open;
  const words = [
    `${number(ended)} of ${plural(of.size, "child").replace("childs", "children")} ended`,
    of.failed > 0 && `${number(of.failed)} failed`,
    of.cancelled > 0 && `${number(of.cancelled)} cancelled`,
  ].filter(Boolean);
  return html`
    <span class="flow-children">
      <${Bar} part=${ended} whole=${of.size} label=${words.join(", ")} tone=${of.failed ? "warn" : ""} />
      <span>${words.join(", ")}</span>
    </span>
  `;
}
