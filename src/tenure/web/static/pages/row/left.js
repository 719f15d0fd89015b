/** What a row leaves for those who wait for it: how far it is, what it returned, its batch. */
import { to } from "../../lib/address.js";
import { Ago } from "../../lib/clock.js";
import { Bar, Copy, Empty, Panel } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { Json } from "./json.js";

/**
 * @typedef {{at: string, share: number | null, note: string | null}} Progress
 * @typedef {{progress: Progress | null, result: string | null, result_hidden: boolean,
 *   batch: number | null, uncounted: boolean}} Left
 */

/** @param {{left: Left, inbox?: string}} props of several inboxes, its own: each counts its batches */
export function LeftBehind({ left, inbox }) {
  const { progress, result, result_hidden, batch, uncounted } = left;
  return html`
    ${progress && html`<${Far} progress=${progress} />`}
    ${batch !== null && html`
      <${Panel} title="Batch">
        <p class="panel-body">
          It is of <a href=${to(`batches/${batch}`, { inbox })}>batch ${batch}</a>
          ${uncounted ? ", which had ended when this row was redriven: it is not counted." : "."}
        </p>
      <//>
    `}
    ${(result !== null || result_hidden) && html`
      <${Panel}
        title="Result"
        aside=${result !== null && html`<${Copy} text=${result} title="Copy the result" />`}
      >
        ${result === null ? html`<${Empty}>Hidden by this server.<//>` : html`<${Json} text=${result} />`}
      <//>
    `}
  `;
}

/** @param {{progress: Progress}} props */
function Far({ progress: { at, share, note } }) {
  const label = share === null ? "" : `${Math.round(share * 100)} %`;
  return html`
    <${Panel}
      title="Progress"
      aside=${
        html`
          told <${Ago} at=${at} />
        `
      }
    >
      <div class="panel-body">
        ${share !== null && html`
          <p>
            ${label} <${Bar} part=${share} whole=${1} label=${label} tone="held" />
          </p>
        `}
        ${note && html`<p>${note}</p>`}
      </div>
    <//>
  `;
}
