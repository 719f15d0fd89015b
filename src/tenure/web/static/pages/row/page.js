/** One row: what it is, why it is in its state, who held it, and what may be done. */
import { useAnswer } from "../../lib/answer.js";
import { Empty, Fault, Panel } from "../../lib/parts.js";
import { html, useEffect } from "../../lib/ui.js";
import { plural } from "../../lib/words.js";
import { Attempts, Traceback } from "./attempts.js";
import { Facts, Keyed } from "./facts.js";
import { Family } from "./family.js";
import { Headline } from "./headline.js";
import { as_ended } from "./lanes.js";
import { LeftBehind } from "./left.js";
import { Payload } from "./payload.js";
import { Tape } from "./tape.js";

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
      <${Headline} row=${row} why=${why} sql=${sql} inbox=${answer.inbox} />
      <${LeaseTape} attempts=${attempts} refusals=${refusals} lease_expires_at=${row.lease_expires_at} />
      <div class="row-columns">
        <div class="stack">
          ${attempts.length > 0 && html`
            <${Panel} title="Attempts">
              <${Attempts} attempts=${attempts} refusals=${refusals} />
            <//>
          `}
          <${LastError}
            error=${row.last_error}
            attempts=${attempts}
            ended_well=${row.status === "completed"}
          />
          <${Payload} row=${row} />
          <details class="panel sql">
            <summary class="panel-head">
              <h2>The same in SQL</h2>
            </summary>
            <pre class="text" tabindex="0">
              ${sql}
            </pre>
          </details>
        </div>
        <div class="stack">
          <${Facts} row=${row} />
          <${Family} id=${row.id} />
          <${LeftBehind} left=${answer.left} inbox=${answer.inbox} />
          <${Keyed} row=${row} answer=${answer} />
        </div>
      </div>
    </div>
  `;
}

/** @typedef {import("./lanes.js").Attempt} Attempt */

/**
 * @param {{attempts: Attempt[], refusals: import("./lanes.js").Refusal[],
 *   lease_expires_at: string | null}} props
 */
function LeaseTape({ attempts, refusals, lease_expires_at }) {
  const refused = refusals.length > 0 && html`
    <span class="tag bad">${plural(refusals.length, "late write")} refused</span>
  `;
  return html`
    <${Panel} title="Lease tape" aside=${refused}>
      ${attempts.length ? html`
        <${Tape} attempts=${attempts} refusals=${refusals} lease_expires_at=${lease_expires_at} />
      ` : html`
        <${Empty}>No worker has held this row yet.<//>
      `}
    <//>
  `;
}

/**
 * The last error, where no attempt tells it.
 * @param {{error: string | null, attempts: Attempt[], ended_well: boolean}} props
 */
function LastError({ error, attempts, ended_well }) {
  if (!error || attempts.some((each) => each.error === error)) return null;
  return html`
    <${Panel} title=${ended_well ? "Earlier error" : "Last error"}>
      <div class="panel-body">
        <${Traceback} error=${error} />
      </div>
    <//>
  `;
}
