/** The family of a row: the one that waits for it, and those it waits for. */
import { useAnswer } from "../../lib/answer.js";
import { Panel, Status } from "../../lib/parts.js";
import { state } from "../../lib/state.js";
import { html } from "../../lib/ui.js";
import { brief, plural } from "../../lib/words.js";

/** @typedef {{id: string, kind: string | null, status: string | null, available_at: string | null}} Relative */

/** @param {{id: string}} props */
export function Family({ id }) {
  const { answer } = useAnswer(`api/rows/${encodeURIComponent(id)}/family`, { every_seconds: 4 });
  const { parents = [], children = [], more = false } = answer ?? {};
  const ended = children.filter((/** @type {Relative} */ { status }) => !waits(status)).length;
  const count = more
    ? `first ${children.length}`
    : `${ended} of ${plural(children.length, "row")} ended`;
  return html`
    ${parents.length > 0 && html`
      <${Panel} title="Parent, which waits for this row">
        <ul class="neighbours">${parents.map(Line)}</ul>
      <//>
    `}
    ${children.length > 0 && html`
      <${Panel} title="Children" aside=${html`<span>${count}</span>`}>
        <ul class="neighbours">${children.map(Line)}</ul>
      <//>
    `}
  `;
}

/** @param {string | null} status */
const waits = (status) => status === "pending" || status === "processing";

/** @param {Relative} row */
const Line = ({ id, kind, status, available_at }) => html`
  <li key=${id}>
    ${status === null || available_at === null ? html`
      <span class="quiet">gone</span> <span class="mono quiet">${brief(id)}</span>
    ` : html`
      <${Status} status=${state({ status, available_at })} />
      <a href=${`rows/${id}`}>
        ${kind} <span class="mono quiet">${brief(id)}</span>
      </a>
    `}
  </li>
`;
