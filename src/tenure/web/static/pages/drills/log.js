/** Every event of the stage, the newest last; routine events are hidden at first. */
import { Panel } from "../../lib/parts.js";
import { html, useLayoutEffect, useRef, useState } from "../../lib/ui.js";
import { said, shown } from "./view.js";
import { fields, is_noise, spoken, tone } from "./words.js";

const LINES_MAX = 200;
const LOUD = /** @type {Record<string, string>} */ ({
  stale_write_blocked: "bad",
  ledger_written: "good",
  job_completed: "good",
  job_dead_lettered: "bad",
  job_failed: "bad",
  worker_killed: "bad",
  worker_paused: "warn",
  lease_lost: "warn",
  leases_swept: "warn",
  database_cut: "bad",
  mail_sent: "accent",
});

export function Log() {
  const [all, setAll] = useState(false);
  const box = useRef(/** @type {HTMLOListElement | null} */ (null));
  const held = useRef(false); // the reader scrolled up to read: new lines do not pull it away
  void shown.value;
  const lines = said()
    .filter(
      (each) => each.event !== "picture" && each.event !== "verdict" && (all || !is_noise(each.event)),
    )
    .slice(-LINES_MAX);
  useLayoutEffect(() => {
    if (box.current && !held.current) box.current.scrollTop = box.current.scrollHeight;
  });
  const scroll = () =>
    box.current &&
    (held.current = box.current.scrollHeight - box.current.scrollTop - box.current.clientHeight > 30);
  return html`
    <${Panel}
      title="Events"
      className="drill-events"
      aside=${
        html`<label class="drill-all">
          <input type="checkbox" checked=${all} onChange=${() => setAll(!all)} /> everything
        </label>`
      }
    >
      ${lines.length === 0 ? html`
        <p class="empty">No event yet.</p>
      ` : html`
        <ol ref=${box} class="drill-log" tabindex="0" aria-label="Events, newest last" onScroll=${scroll}>
          ${lines.map((each, nth) => html`
            <li
              key=${nth}
              class=${`${tone(each.who)} ${each.event === "step" ? "is-step" : ""} ${LOUD[each.event] ?? ""}`}
            >
              <time>${each.at.toFixed(3)}</time>
              <span class="drill-who mono">${each.who}</span>
              ${each.event === "step" ? html`
                <span>${each.caption}</span>
              ` : html`
                <span>
                  <b>${spoken(each.event)}</b> <span class="quiet">${fields(each)}</span>
                </span>
              `}
            </li>
          `)}
        </ol>
      `}
    <//>
  `;
}
