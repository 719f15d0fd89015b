/**
 * The lease tape: one lane per attempt, who held the row from when to when, and each write that came late.
 */
import { clock } from "../../lib/clock.js";
import { folded, spread } from "../../lib/scale.js";
import { duration, exact } from "../../lib/time.js";
import { html } from "../../lib/ui.js";
import { useWidth } from "../../lib/width.js";
import { worker_colour } from "../../lib/words.js";
import { LANE, LEFT, LETTER, LaneShape, RIGHT } from "./lane.js";
import { lane, summary } from "./lanes.js";

const TOP = 22;
const LANES_MAX = 12;
const WIDTH_MIN = 40;
const LEASE_WIDTH = 110; // a lease's remainder is drawn this long at most: what has happened matters more
const CLOCK = 8 * LETTER; // "17:45:47"

/** @typedef {import("./lanes.js").Lane} Lane */

/**
 * @param {{attempts: import("./lanes.js").Attempt[], refusals: import("./lanes.js").Refusal[],
 *   lease_expires_at: string | null}} props
 */
export function Tape({ attempts, refusals, lease_expires_at }) {
  const [box, width] = useWidth();
  const shown = attempts.slice(-LANES_MAX);
  const lanes = shown.map((attempt) => lane(attempt, refusals, lease_expires_at, clock.value));
  const before = attempts.length - shown.length;
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
        ${width > WIDTH_MIN && html`<${Drawing} lanes=${lanes} width=${width} />`}
      </div>
      ${before > 0 && html`<p class="quiet">The ${before} attempts before these are in the list below.</p>`}
    </div>
  `;
}

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
  const taken = [
    [0, LEFT + CLOCK],
    [width - (shows_end ? RIGHT + CLOCK : 0), Infinity],
  ];
  return html`
    <svg
      viewBox=${`0 0 ${width} ${height}`}
      width=${width}
      height=${height}
      role="img"
      aria-label=${summary(lanes)}
    >
      <${Folds} folds=${scale.folds} margin_ms=${margin} height=${height} taken=${taken} />
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
 * @param {{folds: import("../../lib/scale.js").Scale["folds"], margin_ms: number, height: number,
 *   taken: [number, number][]}} props
 */
function Folds({ folds, margin_ms, height, taken }) {
  const marks = folds.map((fold) => ({
    x: LEFT + fold.x,
    words: duration(fold.seconds + (2 * margin_ms) / 1000),
  }));
  return html`
    <g class="folds">
      ${marks.map(({ x, words }) => html`
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

/** First and last moment of the tape. @param {{from: number, to: number | null, width: number}} props */
const Ends = ({ from, to, width }) => html`
  <g class="ends">
    <text x=${LEFT} y="11">
      ${time_of_day(from)}
    </text>
    ${to !== null && html`
      <text x=${width - RIGHT} y="11" text-anchor="end">
        ${time_of_day(to)}
      </text>
    `}
  </g>
`;

/** "17:45:47" @param {number} ms */
const time_of_day = (ms) => exact(new Date(ms).toISOString()).slice(11, 19);
