/**
 * The lease tape: one lane per attempt, who held the row from when to when, and each late write that hit the
 * fence.
 */
import { clock, duration, exact } from "../../lib/time.js";
import { worker_colour } from "../../lib/words.js";
import { html, useEffect, useRef, useState } from "../../lib/ui.js";
import { folded, spread } from "../../lib/scale.js";

const LANE = 38;
const BAR = 16;
const TOP = 22;
const LANES_MAX = 12;
const LEFT = 4;
const RIGHT = 16;
const LEASE_WIDTH = 110; // a lease's remainder is drawn this long at most: what has happened matters more
const LETTER = 6.4;
const CLOCK = 8 * LETTER; // "17:45:47"

/**
 * @typedef {{generation: number, fence: string, worker: string, claimed_at: string, ended_at: string | null,
 *   outcome: string, error: string | null}} Attempt
 */
/**
 * @typedef {{at: string, worker: string, verb: string, stale_token: string, current_token: string | null,
 *   reason: string}} Refusal
 */

/** @param {{attempts: Attempt[], refusals: Refusal[], lease_expires_at: string | null}} props */
export function Tape({ attempts, refusals, lease_expires_at }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(() => box.current && setWidth(box.current.clientWidth));
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const shown = attempts.slice(-LANES_MAX);
  const lanes = shown.map((attempt) => lane(attempt, refusals, lease_expires_at, clock.value));
  return html`
    <div class="tape">
      <ol class="tape-names">
        ${shown.map((each) => html`
          <li key=${each.fence} class=${worker_colour(each.worker)}>
            <b class="number">${each.generation}</b>
            <span class="mono clip" title=${each.worker}>
              ${each.worker}
            </span>
          </li>
        `)}
      </ol>
      <div ref=${box} class="tape-lanes">
        ${width > 40 && html`<${Drawing} lanes=${lanes} width=${width} />`}
      </div>
      ${attempts.length > shown.length && html`
        <p class="quiet">
          The ${attempts.length - shown.length} attempts before these are in the list below.
        </p>
      `}
    </div>
  `;
}

/**
 * An attempt with its moments in milliseconds, and the writes it tried after it had lost the row.
 * @param {Attempt} attempt
 * @param {Refusal[]} refusals
 * @param {string | null} lease_expires_at
 * @param {number} now
 */
function lane(attempt, refusals, lease_expires_at, now) {
  const from = Date.parse(attempt.claimed_at);
  const held = !attempt.ended_at;
  const lease_end = held && lease_expires_at ? Date.parse(lease_expires_at) : null;
  const to = attempt.ended_at ? Date.parse(attempt.ended_at) : Math.max(from, now);
  const late = refusals
    .filter(
      (each) =>
        String(each.stale_token) === String(attempt.generation) && each.worker === attempt.worker,
    )
    .map((each) => ({ ...each, ms: Date.parse(each.at) }));
  return {
    attempt,
    from,
    to,
    held,
    lease_end,
    late,
    last: Math.max(to, ...late.map((each) => each.ms)),
  };
}

/** @typedef {ReturnType<typeof lane>} Lane */

/** @param {{lanes: Lane[], width: number}} props */
function Drawing({ lanes, width }) {
  const margin = Math.max(100, (Math.max(...lanes.map((each) => each.last)) - lanes[0].from) * 0.01);
  const stretches = lanes.map(
    (each) => /** @type {[number, number]} */ ([each.from - margin, each.last + margin]),
  );
  const scale = folded(stretches, width - LEFT - RIGHT - (lanes.at(-1)?.lease_end ? LEASE_WIDTH : 0));
  const x = (/** @type {number} */ ms) => LEFT + scale.at(ms);
  const height = TOP + lanes.length * LANE + 4;
  const shows_end = !scale.folds.length || width > 420;
  return html`
    <svg
      viewBox=${`0 0 ${width} ${height}`}
      width=${width}
      height=${height}
      role="img"
      aria-label=${summary(lanes)}
    >
      <${Folds}
        folds=${scale.folds}
        margin_ms=${margin}
        height=${height}
        taken=${[
          [0, LEFT + CLOCK],
          [width - (shows_end ? RIGHT + CLOCK : 0), Infinity],
        ]}
      />
      ${lanes.map((each, i) => html`
        <${LaneShape}
          key=${each.attempt.fence}
          lane=${each}
          y=${TOP + i * LANE + LANE / 2}
          x=${x}
          next=${lanes[i + 1]}
          width=${width}
        />
      `)}
      <${Ends} width=${width} from=${scale.from + margin} to=${shows_end ? scale.to - margin : null} />
    </svg>
  `;
}

/**
 * Where a wait was folded, and how long it was; where the lines are too close for words, it is told on hover.
 * @param {any} props
 */
function Folds({ folds, margin_ms, height, taken }) {
  const marks = folds.map((/** @type {any} */ fold) => ({
    x: LEFT + fold.x,
    words: duration(fold.seconds + (2 * margin_ms) / 1000),
  }));
  return html`
    <g class="folds">
      ${marks.map((/** @type {any} */ { x, words }) => html`
        <g class="fold" key=${x}>
          <title>${words} in between</title>
          <path class="line" d=${`M${x} ${TOP - 6}V${height}`} />
          <rect x=${x - 5} y=${TOP - 6} width="10" height=${height} fill="transparent" />
        </g>
      `)}
      ${spread(marks, taken, LETTER).map(({ x, words }) => html`
        <text key=${x} x=${x} y="11" text-anchor="middle">
          ${words}
        </text>
      `)}
    </g>
  `;
}

/** First and last moment of the tape. @param {any} props */
const Ends = ({ from, to, width }) => html`
  <g class="ends">
    <text x=${LEFT} y="11">
      ${exact(new Date(from).toISOString()).slice(11, 19)}
    </text>
    ${to !== null && html`
      <text x=${width - RIGHT} y="11" text-anchor="end">
        ${exact(new Date(to).toISOString()).slice(11, 19)}
      </text>
    `}
  </g>
`;

/**
 * @param {{lane: Lane, next: Lane | undefined, y: number, x: (ms: number) => number, width: number}} props
 */
function LaneShape({ lane: { attempt, from, to, held, lease_end, late, last }, next, y, x, width }) {
  const [start, end] = [x(from), Math.max(x(to), x(from) + 3)];
  const ran = duration((to - from) / 1000);
  const ending = held ? `held for ${ran} so far` : `${attempt.outcome} after ${ran}`;
  const words = `Attempt ${attempt.generation}, ${attempt.worker}: claimed ${exact(attempt.claimed_at)}, ${ending}. Token ${attempt.fence}.`;
  return html`
    <g class=${`lane ${worker_colour(attempt.worker)} out-${attempt.outcome}`}>
      <path class="ground" d=${`M${LEFT} ${y}H${width - RIGHT}`} />
      ${lease_end !== null && lease_end > to && html`
        <g>
          <title>Lease until ${exact(new Date(lease_end).toISOString())}</title>
          <rect class="lease" x=${end} y=${y - BAR / 2} width=${width - RIGHT - end} height=${BAR} rx="2" />
          <path class="lease-end" d=${`M${width - RIGHT} ${y - BAR / 2 - 3}v${BAR + 6}`} />
          <text class="lease-words" x=${width - RIGHT - 6} y=${y + 4} text-anchor="end">
            ${duration((lease_end - to) / 1000)} left
          </text>
        </g>
      `}
      ${late.length > 0 && html`<path class="ghost" d=${`M${end} ${y}H${x(last)}`} />`}
      <g>
        <title>${words}</title>
        <rect class="held" x=${start} y=${y - BAR / 2} width=${end - start} height=${BAR} rx="2.5" />
      </g>
      <${EndMark} outcome=${held ? "held" : attempt.outcome} x=${end} y=${y} />
      ${next && html`<path class="hand" d=${`M${x(next.from)} ${y + BAR / 2 + 2}v${LANE - BAR - 4}`} />`}
      <${Label}
        words=${label(attempt, held, late, ran)}
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

/** @param {Attempt} attempt @param {boolean} held @param {any[]} late @param {string} ran */
function label(attempt, held, late, ran) {
  if (late.length) return `expired after ${ran}, ${late[0].verb} refused`;
  return held ? `held for ${ran}` : `${attempt.outcome.replace("_", " ")} after ${ran}`;
}

/**
 * Words beside the bar, on the side that has room for them; without room the list below has to do.
 * @param {any} props
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

/**
 * How the attempt ended, as a shape at the end of its bar.
 * @param {{outcome: string, x: number, y: number}} props
 */
function EndMark({ outcome, x, y }) {
  if (outcome === "held") return html`<circle class="now" cx=${x} cy=${y} r="4.5" />`;
  if (outcome === "completed")
    return html`
      <g class="end good">
        <circle cx=${x} cy=${y} r="7.5" />
        <path d=${`M${x - 3.2} ${y + 0.3}l2.2 2.4l4.2-4.8`} />
      </g>
    `;
  if (outcome === "expired")
    return html`<path class="end torn" d=${`M${x} ${y - 11}l-3 5.5l6 5.5l-6 5.5l3 5.5`} />`;
  const bad = ["failed", "dead_lettered", "dead_letter"].includes(outcome);
  return html`
    <path
      class=${`end ${bad ? "bad" : "again"}`}
      d=${bad ? `M${x - 5} ${y - 5}h10v10h-10z` : `M${x} ${y - 6.5}l6.5 6.5l-6.5 6.5l-6.5-6.5z`}
    />
  `;
}

/** @param {{late: any, x: number, y: number}} props */
function StaleMark({ late, x, y }) {
  const current = late.current_token ? `, the row was at token ${late.current_token}` : "";
  const words = `${exact(late.at)}: ${late.worker} tried to ${late.verb} with token ${late.stale_token}${current}: refused (${late.reason})`;
  return html`
    <g class="stale-mark">
      <title>${words}</title>
      <rect x=${x - 9} y=${y - 11} width="18" height="22" fill="transparent" />
      <path class="post" d=${`M${x + 5} ${y - 11}v22`} />
      <path class="cross" d=${`M${x - 6} ${y - 5}l8 10m0-10l-8 10`} />
    </g>
  `;
}

/** @param {Lane[]} lanes */
function summary(lanes) {
  const parts = lanes.map(
    ({ attempt, held, from, to, late }) =>
      `attempt ${attempt.generation} by ${attempt.worker} ${held ? "holds" : attempt.outcome} after ${duration((to - from) / 1000)}` +
      (late.length ? `, then ${late.length} late write${late.length > 1 ? "s" : ""} refused` : ""),
  );
  return `Lease tape: ${parts.join("; ")}`;
}
