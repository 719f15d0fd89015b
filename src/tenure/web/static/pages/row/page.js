/** One row: what it is, why it stands where it stands, who held it, and what may be done. */
import { act, allowed, VERBS } from "../../lib/act.js";
import { useAnswer } from "../../lib/answer.js";
import { Copy, Empty, Fault, Panel, Status } from "../../lib/parts.js";
import { to } from "../../lib/route.js";
import { as_ended, Attempts, Traceback } from "./attempts.js";
import { Json } from "./json.js";
import { Tape } from "./tape.js";
import { state } from "../../lib/state.js";
import { Ago } from "../../lib/time.js";
import { brief, command, filter_word, plural } from "../../lib/words.js";
import { html, useEffect } from "../../lib/ui.js";

/** @param {{parts: string[]}} props */
export default function RowPage({ parts }) {
  const id = parts[1];
  const { answer, fault, reload } = useAnswer(`api/rows/${encodeURIComponent(id)}`);
  useEffect(
    () => void (answer && (document.title = `${answer.row.kind} ${answer.row.key} · Tenure`)),
    [answer?.row.id],
  );
  if (!answer)
    return html`
      <div class="page" aria-busy=${fault ? "false" : "true"}>
        <${Fault} fault=${fault} retry=${reload} />
      </div>
    `;
  const { row, why, sql, refusals } = answer;
  const attempts = as_ended(answer.attempts, row);
  return html`
    <div class="page row">
      <${Fault} fault=${fault} retry=${reload} />
      <${Headline} row=${row} why=${why} sql=${sql} />
      <${Panel}
        title="Lease tape"
        aside=${
          refusals.length > 0 && html`
            <span class="tag bad">${plural(refusals.length, "late write")} refused</span>
          `
        }
      >
        ${attempts.length ? html`
          <${Tape} attempts=${attempts} refusals=${refusals} lease_expires_at=${row.lease_expires_at} />
        ` : html`
          <${Empty}>No worker has held this row yet.<//>
        `}
      <//>
      <div class="row-columns">
        <div class="stack">
          ${attempts.length > 0 && html`
            <${Panel} title="Attempts">
              <${Attempts} attempts=${attempts} refusals=${refusals} />
            <//>
          `}
          ${row.last_error &&
            !attempts.some((/** @type {any} */ each) => each.error === row.last_error) && html`
              <${Panel} title="Last error">
                <div class="panel-body">
                  <${Traceback} error=${row.last_error} />
                </div>
              <//>
            `}
          <${Text} title="Payload" text=${row.payload} hidden=${row.payload_hidden} />
          ${row.headers && html`<${Text} title="Headers" text=${row.headers} />`}
          <details class="panel sql">
            <summary class="panel-head">
              <h2>The same by SQL</h2>
            </summary>
            <pre class="text" tabindex="0">
              ${sql}
            </pre>
          </details>
        </div>
        <div class="stack">
          <${Facts} row=${row} />
          <${Keyed} row=${row} answer=${answer} />
        </div>
      </div>
    </div>
  `;
}

/** @param {{row: any, why: string, sql: string}} props */
function Headline({ row, why, sql }) {
  const verbs = allowed().filter((verb) => VERBS[verb].from.includes(state(row)));
  return html`
    <header class="row-head">
      <p class="crumbs">
        <a href="rows">Rows</a> <span class="quiet">/</span>${" "}
        <a href=${to("rows", { filter: `kind:${filter_word(row.kind)}` })}>${row.kind}</a>
      </p>
      <div class="row-title">
        <h1>
          ${row.kind} <span class="mono">${row.key}</span>
        </h1>
        <${Status} status=${state(row)} cancel_asked=${row.cancel_asked} />
      </div>
      <p class="why">${why}</p>
      <div class="row-actions">
        ${verbs.map((verb) => html`
          <button
            key=${verb}
            class=${`button ${VERBS[verb].danger ? "danger" : ""}`}
            onClick=${() => act(verb, `id:${row.id}`)}
          >
            ${VERBS[verb].label}…
          </button>
        `)}
        <span class="spring"></span>
        <${Copy} className="button" label="Copy as command" text=${command("row", row.id)} />
        <${Copy} className="button" label="Copy as SQL" text=${sql} />
      </div>
    </header>
  `;
}

/** @param {{title: string, text: string | null, hidden?: boolean}} props */
function Text({ title, text, hidden = false }) {
  return html`
    <${Panel}
      title=${title}
      aside=${text !== null && html`<${Copy} text=${text} title="Copy as it stands in the row" />`}
    >
      ${text === null ? html`
        <${Empty}>${hidden ? "Hidden by this server." : "None."}<//>
      ` : html`
        <${Json} text=${text} />
      `}
    <//>
  `;
}

/** @param {{row: any}} props */
function Facts({ row }) {
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
    row.fence && row.fence !== "0" && ["Fence token", html`<span class="mono">${row.fence}</span>`],
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
 * What else happened under its keys: who asked first, what is already done, who waits beside it.
 * @param {{row: any, answer: any}} props
 */
function Keyed({ row, answer: { idempotency, effects, key_neighbours } }) {
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
        title="Beside it, same key"
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
    <b>${effect}</b> <span class="quiet">under</span> <span class="mono">${fence}</span>${" "}
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
