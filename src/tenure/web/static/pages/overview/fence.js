/** The fence strip: what happened to leases in the period, and every stale write that was refused. */
import { Ago, clock } from "../../lib/clock.js";
import { Worker } from "../../lib/parts.js";
import { duration } from "../../lib/time.js";
import { html } from "../../lib/ui.js";
import { brief, number, why_refused } from "../../lib/words.js";

const PICKETS = 60;
const STEPS = [
  ["acquired", "acquired", "leases begun: a worker claimed a row"],
  ["renewed", "renewed", "leases kept alive by their holder"],
  ["expired", "expired", "leases that ended before their holder settled"],
  ["reclaimed", "reclaimed", "rows taken back from a lease that ran out"],
  ["lost", "lost", "leases a worker noticed it no longer had"],
  ["stale_writes_blocked", "stale writes blocked", "writes of an earlier holder, refused by the token"],
];

/**
 * @typedef {{at: string, row: string, kind: string, key?: string | null, worker: string, verb: string,
 *   stale_token: string, current_token: string | null, reason: string}} Refusal
 */

/** @param {{fence: Record<string, number>, refusals: Refusal[]}} props */
export function Fence({ fence, refusals }) {
  return html`
    <section class="panel fence" aria-label="Fence">
      <header class="panel-head">
        <h2>Fence</h2>
        <div class="panel-aside">leases in the last ${duration(fence.seconds)}</div>
      </header>
      <dl class="fence-steps">
        ${STEPS.map(([name, word, title]) => html`
          <div key=${name} class=${`fence-${name} ${fence[name] ? "" : "none"}`} title=${title}>
            <dd>${number(fence[name] ?? 0)}</dd>
            <dt>${word}</dt>
          </div>
        `)}
      </dl>
      <${Pickets} seconds=${fence.seconds} refusals=${refusals} />
      ${refusals.length > 0 && html`
        <ol class="fence-log">
          ${refusals.slice(0, 6).map((each) => html`
            <${Blocked} key=${each.at + each.row} refusal=${each} />
          `)}
        </ol>
      `}
    </section>
  `;
}

/**
 * While no stale write came, the fence is one line at the foot of the page.
 * @param {{fence: Record<string, number>}} props
 */
export function QuietFence({ fence }) {
  return html`
    <section class="panel fence" aria-label="Fence">
      <p class="fence-quiet">
        <b>Fence</b> ${number(fence.acquired)} leases acquired, ${number(fence.expired)} expired, no stale
        write in the last ${duration(fence.seconds)}. When a paused or partitioned worker wakes up and
        writes with an old token, the write is refused and shown at the top.
      </p>
    </section>
  `;
}

/** Was one of these refused in the period? @param {Refusal[]} refusals @param {number} seconds */
export const lately_refused = (refusals, seconds) =>
  refusals.some(({ at }) => clock.value - Date.parse(at) < seconds * 1000);

/**
 * Sixty pickets from the start of the period to now; those that stopped a write stand out.
 * @param {{seconds: number, refusals: Refusal[]}} props
 */
function Pickets({ seconds, refusals }) {
  const hits = Array(PICKETS).fill(0);
  for (const { at } of refusals) {
    const slot = PICKETS - 1 - Math.floor(((clock.value - Date.parse(at)) / 1000 / seconds) * PICKETS);
    if (slot >= 0 && slot < PICKETS) hits[slot]++;
  }
  return html`
    <svg
      class="pickets"
      viewBox=${`0 0 ${PICKETS * 10} 30`}
      preserveAspectRatio="none"
      role="img"
      aria-label=${`${refusals.length} blocked writes over the period, newest to the right`}
    >
      <rect class="rail" x="0" y="13" width=${PICKETS * 10} height="1.5" />
      <rect class="rail" x="0" y="22" width=${PICKETS * 10} height="1.5" />
      ${hits.map((n, slot) => html`
        <path
          key=${slot}
          class=${n ? "hit" : ""}
          d=${`M${slot * 10 + 3} 30V${n ? 5 : 9}l2-${n ? 5 : 3}l2 ${n ? 5 : 3}V30z`}
        />
      `)}
    </svg>
  `;
}

/** @param {{refusal: Refusal}} props */
function Blocked({ refusal }) {
  const { at, row, kind, key, worker, verb, stale_token, reason } = refusal;
  return html`
    <li>
      <${Ago} at=${at} />
      <span>
        <${Worker} id=${worker} /> tried to <b>${verb}</b>${" "}
        <a href=${`rows/${row}`}>${key ?? `${kind} ${brief(row)}`}</a> with token${" "}
        <b class="stale">${stale_token}</b>, ${why_refused(refusal)}: <em>refused</em>${" "}
        <span class="quiet">(${reason})</span>
      </span>
    </li>
  `;
}
