/** The row itself: the plain SQL that shows it, beside its values. */
import { api } from "../../lib/api.js";
import { Copy } from "../../lib/parts.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../lib/ui.js";
import { stage } from "./store.js";
import { shown } from "./view.js";

/** @param {{row: any, recorded: boolean, close: () => void}} props */
export function RowDrawer({ row, recorded, close }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [fault, setFault] = useState("");
  const look = () =>
    api(`api/stage/${stage.value?.id}/row/${row.id}`).then(
      (found) => (setAnswer(found), setFault("")),
      (error) => setFault(error.message),
    );
  const seen = shown.value.pictured_at;
  useLayoutEffect(() => box.current?.showModal(), []); // before the first key press
  useEffect(() => void (recorded || look()), [seen]);
  const values = answer?.row ?? (recorded ? row : {});
  return html`
    <dialog ref=${box} class="dialog drill-drawer" aria-labelledby="drill-row-title" onClose=${close}>
      <form method="dialog">
        <h2 id="drill-row-title">${row.key}</h2>
        ${recorded && html`
          <p class="quiet">
            A recording has the row as the picture showed it; on a live stage the database itself is
            asked.
          </p>
        `}
        ${fault && html`
          <p class="wrong" role="alert">
            ${fault}
          </p>
        `}
        <div class="drill-drawer-columns">
          ${answer && html`
            <div>
              <div class="drill-drawer-head">
                <h3>SQL</h3>
                <${Copy} text=${answer.sql} label="Copy SQL" />
              </div>
              <pre class="text" tabindex="0">
                ${answer.sql}
              </pre>
              <${Attempts} tape=${answer.tape ?? []} />
            </div>
          `}
          <div>
            <div class="drill-drawer-head">
              <h3>Row</h3>
            </div>
            <dl class="pairs drill-values">
              ${Object.entries(values).map(([name, value]) => html`
                <div key=${name}>
                  <dt class="mono">${name}</dt>
                  <dd class=${`mono ${value === null || value === "" ? "quiet" : ""}`}>
                    ${value === null ? "NULL" : String(value)}
                  </dd>
                </div>
              `)}
            </dl>
          </div>
        </div>
        <footer>
          ${!recorded && html`
            <button type="button" class="button" onClick=${look}>
              Look again
            </button>
          `}
          <button class="button primary" autofocus>
            Close
          </button>
        </footer>
      </form>
    </dialog>
  `;
}

/** Its past holders. @param {{tape: any[]}} props */
function Attempts({ tape }) {
  return (
    tape.length > 0 && html`
      <h3>Attempts</h3>
      <ul class="drill-attempts">
        ${tape.map((each) => html`
          <li key=${each.token}>
            <b class="number">token ${each.token}</b> <span class="mono">${each.worker}</span>${" "}
            <span class="quiet">${each.outcome}</span>
          </li>
        `)}
      </ul>
    `
  );
}
