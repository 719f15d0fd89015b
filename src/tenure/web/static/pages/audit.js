/** Who did what, when, by which way, to which rows, and why. */
import { to } from "../lib/address.js";
import { useAnswer } from "../lib/answer.js";
import { audited_as } from "../lib/can.js";
import { Ago } from "../lib/clock.js";
import { several } from "../lib/inboxes.js";
import { Empty, Fault, Page, Panel } from "../lib/parts.js";
import { ask, place } from "../lib/route.js";
import { exact } from "../lib/time.js";
import { html } from "../lib/ui.js";
import { number } from "../lib/words.js";

const PAGE_ROWS = 50;
const ROW_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * @typedef {{inbox?: string,
 *   id: number, at: string, actor: string, via: string, verb: string, target: string, rows: number,
 *   reason: string, done_at: string | null}} Deed
 */

export default function Audit() {
  const { before } = place.value.query;
  const { answer, fault, loading, reload } = useAnswer("api/audit", {
    query: { before, n: PAGE_ROWS },
    every_seconds: before ? 0 : 4,
  });
  const deeds = /** @type {Deed[]} */ (answer?.audit ?? []);
  return html`
    <${Page} title="Audit" note="what people changed, exported and revealed, and who failed to log in">
      <${Fault} fault=${fault} retry=${reload} />
      ${answer && html`
        <${Panel} className=${loading ? "waiting" : ""}>
          ${deeds.length ? html`
            <${Deeds} deeds=${deeds} />
          ` : html`
            <${Empty}>Nobody has changed anything${before ? " before that" : " yet"}.<//>
          `}
          <${Pages} before=${before} next=${answer.next} />
        <//>
      `}
    <//>
  `;
}

/** @param {{deeds: Deed[]}} props */
function Deeds({ deeds }) {
  return html`
    <div class="scroll">
      <table class="table cards audit">
        <thead>
          <tr>
            <th>When</th>
            ${several() && html`<th>Inbox</th>`}
            <th>Who</th>
            <th>By</th>
            <th>Did</th>
            <th>To</th>
            <th class="right">Rows</th>
            <th>Why</th>
          </tr>
        </thead>
        <tbody>
          ${deeds.map((deed) => html`
            <tr key=${`${deed.inbox ?? ""} ${deed.id}`}>
              <td class="title nowrap">
                <${Ago} at=${deed.at} />
              </td>
              ${several() && html`<td data-label="Inbox">${deed.inbox}</td>`}
              <td data-label="Who">${deed.actor}</td>
              <td data-label="By">
                <span class="tag">${deed.via}</span>
              </td>
              <td data-label="Did">
                <span class=${audited_as(deed.verb)?.grave ? "grave-verb" : ""}>
                  ${(audited_as(deed.verb)?.name ?? deed.verb).replaceAll("_", " ")}
                </span>
              </td>
              <td data-label="To">
                <${Target} deed=${deed} />
              </td>
              <td data-label="Rows" class="right">
                ${number(deed.rows)}
                ${!deed.done_at && html`
                  ${" "}
                  <span
                    class="tag warn"
                    title=${`started ${exact(deed.at)}, no end recorded: it still runs, or was stopped`}
                  >
                    open
                  </span>
                `}
              </td>
              <td data-label="Why" class="audit-why">
                ${deed.reason}
              </td>
            </tr>
          `)}
        </tbody>
      </table>
    </div>
  `;
}

/** @param {{deed: Deed}} props */
function Target({ deed }) {
  if (ROW_ID.test(deed.target))
    return html`
      <a class="mono" href=${`rows/${deed.target}`}>
        ${deed.target}
      </a>
    `;
  if (audited_as(deed.verb)?.on === "rows")
    return html`
      <a class="mono" href=${to("rows", { filter: deed.target })} title="The rows that match now">
        ${deed.target || "(every row)"}
      </a>
    `;
  return html`<span class="mono">${deed.target}</span>`;
}

/** @param {{before: string | undefined, next: number | null}} props */
function Pages({ before, next }) {
  if (!before && !next) return null;
  return html`
    <nav class="pages" aria-label="Pages of the audit">
      <button class="button small" disabled=${!before} onClick=${() => ask({ before: null })}>
        Newest
      </button>
      <button class="button small" disabled=${!next} onClick=${() => ask({ before: next })}>
        Older
      </button>
    </nav>
  `;
}
