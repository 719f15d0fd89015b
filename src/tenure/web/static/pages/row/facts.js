/** The facts of a row besides its tape: its fields, and what else happened with its keys. */
import { to } from "../../lib/address.js";
import { Ago } from "../../lib/clock.js";
import { Copy, Panel, Status } from "../../lib/parts.js";
import { state } from "../../lib/state.js";
import { html } from "../../lib/ui.js";
import { brief, filter_word } from "../../lib/words.js";

/** @param {{row: any}} props */
export function Facts({ row }) {
  const facts = [
    [
      "Id",
      html`
        <span class="mono id">${row.id}</span> <${Copy} text=${row.id} />
      `,
    ],
    ["Queue", html`<a href=${to("rows", { filter: `queue:${filter_word(row.queue)}` })}>${row.queue}</a>`],
    ["Bucket", html`<a href=${to("rows", { filter: `bucket:${row.bucket}` })}>${row.bucket}</a>`],
    ["Attempts", `${row.attempts} of ${row.max_attempts}`],
    ["Priority", row.priority],
    ["Order", row.ordered ? "kept within its key" : "not kept"],
    ["Created", html`<${Ago} at=${row.created_at} />`],
    ["Due", html`<${Ago} at=${row.available_at} />`],
    row.finished_at && ["Ended", html`<${Ago} at=${row.finished_at} />`],
    row.generation > 0 && ["Token", html`<b>${row.generation}</b>`],
    row.fence && row.fence !== "0" && ["Fence", html`<span class="mono">${row.fence}</span>`],
  ].filter(Boolean);
  return html`
    <${Panel} title="Facts">
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

/**
 * What else happened with its keys: the first use, effects already done, other rows of the key.
 * @param {{row: any, answer: any}} props
 */
export function Keyed({ row, answer: { idempotency, effects, key_neighbours } }) {
  return html`
    ${idempotency && html`
      <${Panel} title="Idempotency">
        <p class="panel-body">
          <code>${idempotency.key}</code> was first sent <${Ago} at=${idempotency.first_at} />. Sent
          again with the same content it gives this row; with other content it is refused.
        </p>
      <//>
    `}
    ${effects.length > 0 && html`
      <${Panel} title="Effects done once">
        <ul class="panel-body effects">${effects.map(Effect)}</ul>
      <//>
    `}
    ${key_neighbours.length > 0 && html`
      <${Panel}
        title="Other rows of this key"
        aside=${html`<a href=${to("rows", { filter: `key:${filter_word(row.key)}` })}>All</a>`}
      >
        <ul class="neighbours">${key_neighbours.map(Neighbour)}</ul>
      <//>
    `}
  `;
}

/** @param {any} effect */
const Effect = ({ effect, fence, done_at }) => html`
  <li key=${effect}>
    <b>${effect}</b> <span class="quiet">under fence</span> <span class="mono">${fence}</span>${" "}
    <${Ago} at=${done_at} />
  </li>
`;

/** @param {any} row */
const Neighbour = (row) => html`
  <li key=${row.id}>
    <${Status} status=${state(row)} />
    <a href=${`rows/${row.id}`}>
      ${row.kind} <span class="mono quiet">${brief(row.id)}</span>
    </a>
    <${Ago} at=${row.created_at} />
  </li>
`;
