/**
 * A lane of the lease tape: the bar of one attempt, how it ended, what is left of its lease, its late writes.
 */
import { EndMark } from "../../lib/marks.js";
import { duration, exact } from "../../lib/time.js";
import { html } from "../../lib/ui.js";
import { worker_colour } from "../../lib/words.js";
import { label, lane_words, late_words } from "./lanes.js";

export const LANE = 38;
export const LEFT = 4;
export const RIGHT = 16;
/** How wide a letter is. */
export const LETTER = 6.4;
const BAR = 16;

/** @typedef {import("./lanes.js").Lane} Lane */

/**
 * @param {{lane: Lane, next: Lane | undefined, y: number, x: (ms: number) => number, width: number}} props
 */
export function LaneShape({ lane, next, y, x, width }) {
  const { attempt, from, to, held, lease_end, late, last } = lane;
  const [start, end] = [x(from), Math.max(x(to), x(from) + 3)];
  return html`
    <g class=${`lane ${worker_colour(attempt.worker)} out-${attempt.outcome}`}>
      <path class="ground" d=${`M${LEFT} ${y}H${width - RIGHT}`} />
      ${lease_end !== null && lease_end > to && html`
        <${LeaseLeft} from=${to} until=${lease_end} x=${end} y=${y} width=${width} />
      `}
      ${late.length > 0 && html`<path class="ghost" d=${`M${end} ${y}H${x(last)}`} />`}
      <g>
        <title>${lane_words(lane)}</title>
        <rect class="held" x=${start} y=${y - BAR / 2} width=${end - start} height=${BAR} rx="2.5" />
      </g>
      <${EndMark} outcome=${held ? "held" : attempt.outcome} x=${end} y=${y} />
      ${next && html`<path class="hand" d=${`M${x(next.from)} ${y + BAR / 2 + 2}v${LANE - BAR - 4}`} />`}
      <${Label}
        words=${label(lane)}
        start=${start}
        end=${lease_end ? width : x(last)}
        y=${y}
        width=${width}
      />
      ${late.map((each) => html`
        <${StaleMark} key=${each.at} late=${each} x=${x(each.ms)} y=${y} />
      `)}
    </g>
  `;
}

/**
 * The lease of the attempt that holds the row now.
 * @param {{from: number, until: number, x: number, y: number, width: number}} props
 */
function LeaseLeft({ from, until, x, y, width }) {
  const edge = width - RIGHT;
  return html`
    <g>
      <title>Lease until ${exact(new Date(until).toISOString())}</title>
      <rect class="lease" x=${x} y=${y - BAR / 2} width=${edge - x} height=${BAR} rx="2" />
      <path class="lease-end" d=${`M${edge} ${y - BAR / 2 - 3}v${BAR + 6}`} />
      <text class="lease-words" x=${edge - 6} y=${y + 4} text-anchor="end">
        ${duration((until - from) / 1000)} left
      </text>
    </g>
  `;
}

/**
 * Words beside the bar, on the side that has room for them; without room the list below has to do.
 * @param {{words: string, start: number, end: number, y: number, width: number}} props
 */
function Label({ words, start, end, y, width }) {
  const long = words.length * LETTER;
  if (end + 16 + long < width - RIGHT)
    return html`
      <text class="words" x=${end + 14} y=${y + 4}>
        ${words}
      </text>
    `;
  return (
    start - 10 - long > LEFT && html`
      <text class="words" x=${start - 8} y=${y + 4} text-anchor="end">
        ${words}
      </text>
    `
  );
}

/** @param {{late: import("./lanes.js").Refusal, x: number, y: number}} props */
function StaleMark({ late, x, y }) {
  return html`
    <g class="stale-mark">
      <title>${late_words(late)}</title>
      <rect x=${x - 9} y=${y - 11} width="18" height="22" fill="transparent" />
      <path class="post" d=${`M${x + 5} ${y - 11}v22`} />
      <path class="cross" d=${`M${x - 6} ${y - 5}l8 10m0-10l-8 10`} />
    </g>
  `;
}
