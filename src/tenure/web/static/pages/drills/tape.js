/** The tape of one key: a lane for each worker that held it, over one line of time. */
import { folded } from "../../lib/scale.js";
import { html } from "../../lib/ui.js";
import { useWidth } from "../../lib/width.js";
import { SIDE, moves, reach, summary } from "./holds.js";
import { Lane } from "./lane.js";
import { now } from "./view.js";
import { seconds_of, tone } from "./words.js";

const LANE = 58;
const TOP = 20;
const WIDTH_MIN = 60;

/** @typedef {import("./said.js").Run} Run */
/** @typedef {import("./said.js").State} State */

/** @param {{state: State, of: string | null}} props */
export function Tape({ state, of }) {
  const [box, width] = useWidth();
  const runs = state.runs.filter((run) => state.keys[run.job] === of);
  const workers = [...new Set(runs.map((run) => run.worker))].sort();
  return html`
    <div class="tape drill-tape">
      ${runs.length === 0 && html`
        <p class="quiet">
          No worker has held ${of ?? "a row"} yet. Each claim becomes a bar here, with its token.
        </p>
      `}
      <ol class="tape-names">
        ${workers.map((worker) => html`
          <li key=${worker} class=${tone(worker)}>
            <b>${worker.at(-1)}</b>
            <span class="mono clip">${worker}</span>
          </li>
        `)}
      </ol>
      <div ref=${box} class="tape-lanes">
        ${runs.length > 0 && width > WIDTH_MIN && html`
          <${Drawing} runs=${runs} workers=${workers} stops=${state.stops} width=${width} />
        `}
      </div>
    </div>
  `;
}

/** @param {{runs: Run[], workers: string[], stops: State["stops"], width: number}} props */
function Drawing({ runs, workers, stops, width }) {
  const at = runs.some(moves) ? now.value : 0;
  const last = Math.max(...runs.map((run) => reach(run, at)));
  const margin = Math.max(0.15, (last - runs[0].from) * 0.02);
  const busy = runs.map(
    (run) =>
      /** @type {[number, number]} */ ([(run.from - margin) * 1000, (reach(run, at) + margin) * 1000]),
  );
  const scale = folded(busy, width - 2 * SIDE);
  const x = (/** @type {number} */ seconds) => SIDE + scale.at(seconds * 1000);
  const height = TOP + workers.length * LANE;
  return html`
    <svg
      viewBox=${`0 0 ${width} ${height}`}
      width=${width}
      height=${height}
      role="img"
      aria-label=${summary(runs)}
    >
      <g class="ends">
        <text x=${SIDE} y="11">
          ${seconds_of(runs[0].from)}
        </text>
        <text x=${width - SIDE} y="11" text-anchor="end">
          ${seconds_of(last)}
        </text>
      </g>
      ${scale.folds.map((fold) => html`
        <g class="fold" key=${fold.x}>
          <path d=${`M${SIDE + fold.x} ${TOP - 6}V${height}`} />
        </g>
      `)}
      ${workers.map((worker, nth) => html`
        <${Lane}
          key=${worker}
          runs=${runs.filter((run) => run.worker === worker)}
          stops=${stops.filter((stop) => stop.worker === worker)}
          y=${TOP + nth * LANE + LANE / 2}
          x=${x}
          at=${at}
          width=${width}
        />
      `)}
    </svg>
  `;
}
