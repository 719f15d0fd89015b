/** Failed rows and dead letters by kind and error: look at one, redrive a group, or delete it. */
import { to } from "../../lib/address.js";
import { useAnswer } from "../../lib/answer.js";
import { can } from "../../lib/can.js";
import { Ago } from "../../lib/clock.js";
import { Copy, Count, Empty, Fault, Page, Panel, Status } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { command, error_line, number, plural } from "../../lib/words.js";
import { Tray, isPlanned, plan } from "./undo.js";

/**
 * @typedef {{inbox?: string,
 *   status: string, kind: string, fingerprint: string, n: number, more: boolean, first_at: string,
 *   last_at: string, last_error: string | null, sample: string, filter: string}} Group
 */

export default function Dead() {
  const { answer, fault, reload } = useAnswer("api/dead", { query: { n: 50 }, every_seconds: 4 });
  const groups = /** @type {Group[]} */ (answer?.groups ?? []);
  return html`
    <${Page} title="Dead letters" note=${answer && summary(groups)}>
      <${Fault} fault=${fault} retry=${reload} />
      <${Tray} />
      ${answer && !groups.length && html`
        <${Panel}>
          <${Empty}>
            No failed rows and no dead letters. They appear here, grouped by error; a drill makes one:${" "}
            <code>tenure drill poison</code>
          <//>
        <//>
      `}
      <ul class="graves" aria-label="Groups by kind and error">
        ${groups.map((group) => html`
          <${Entry} key=${group.filter} group=${group} />
        `)}
      </ul>
    <//>
  `;
}

/** @param {Group[]} groups */
function summary(groups) {
  if (!groups.length) return "none";
  const rows = groups.reduce((sum, group) => sum + group.n, 0);
  const more = groups.some((group) => group.more) ? "more than " : "";
  return `${more}${plural(rows, "row")} in ${plural(groups.length, "group")}`;
}

/** @param {{group: Group}} props */
function Entry({ group }) {
  const leaving = isPlanned(group.filter);
  return html`
    <li class=${`panel grave ${leaving ? "leaving" : ""}`}>
      <div class="grave-count">
        <b>
          <${Count} count=${group} />
        </b>
        <span class="quiet">${group.n === 1 ? "row" : "rows"}</span>
      </div>
      <div class="grave-what">
        <h2>
          <span class="mono">${group.kind}</span> <${Status} status=${group.status} />
          ${group.inbox && html`
            ${" "}
            <span class="tag">${group.inbox}</span>
          `}
        </h2>
        <${Reason} error=${group.last_error} />
        <p class="grave-when">
          <span>
            <span class="quiet">first</span> <${Ago} at=${group.first_at} />
          </span>
          <span>
            <span class="quiet">last</span> <${Ago} at=${group.last_at} />
          </span>
          <a href=${`rows/${group.sample}`}>latest row</a>
          <a href=${to("rows", { filter: group.filter })}>all of them</a>
        </p>
      </div>
      <div class="grave-acts">
        ${can("redrive") && html`
          <button
            class="button"
            disabled=${leaving}
            aria-label=${`Redrive the group ${group.kind}: ${last(group.last_error)}`}
            onClick=${() => plan("redrive", group.filter)}
          >
            Redrive
          </button>
        `}
        ${can("delete") && html`
          <button
            class="button danger"
            disabled=${leaving}
            aria-label=${`Delete the group ${group.kind}: ${last(group.last_error)}`}
            onClick=${() => plan("delete", group.filter)}
          >
            Delete
          </button>
        `}
        <${Copy}
          className="button plain"
          label="Copy command"
          title="The same on the command line"
          text=${command("redrive", "--filter", group.filter)}
        />
      </div>
    </li>
  `;
}

/** The line of an error that tells; the whole of it on demand. @param {{error: string | null}} props */
function Reason({ error }) {
  const text = (error ?? "").trim();
  if (!text) return html`<p class="quiet">no error was recorded</p>`;
  const lines = text.split("\n").length;
  if (lines === 1 && text.length < 160) return html`<p class="grave-error mono">${text}</p>`;
  return html`
    <details class="grave-error">
      <summary class="mono">
        <span>${last(text)}</span>
        <small class="quiet">${lines > 1 ? `${number(lines)} lines` : "all of it"}</small>
      </summary>
      <pre class="text" tabindex="0" aria-label="The whole error">
        ${text}
      </pre>
    </details>
  `;
}

/** @param {string | null} error */
const last = (error) => error_line(error ?? "no error").slice(0, 200);
