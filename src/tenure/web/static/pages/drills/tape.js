/**
 * The tape of one key: a lane for each worker, its holds as bars, where it stood still, and each late write
 * at the fence.
 */
import { folded } from "../../lib/scale.js";
import { html, useEffect, useRef, useState } from "../../lib/ui.js";
import { seconds_of, tone } from "./words.js";
import { now } from "./view.js";

const LANE = 58;
const BAR = 16;
const TOP = 20;
const SIDE = 10;
const LETTER = 6.1;

/** @typedef {import("./reduce.js").Run} Run */
/** @typedef {import("./reduce.js").State} State */

/** @param {{state: State, of: string | null}} props */
export function Tape({ state, of }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(() => box.current && setWidth(box.current.clientWidth));
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const runs = state.runs.filter((run) => state.keys[run.job] === of);
  const workers = [...new Set(runs.map((run) => run.worker))].sort();
  return html`
    <div class="tape drill-tape">
      ${runs.length === 0 && html`
        <p class="quiet">
          Nobody has held ${of ?? "a row"} yet. Each claim becomes a bar here, with its token.
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
        ${runs.length > 0 && width > 60 && html`
          <${Drawing} runs=${runs} workers=${workers} stops=${state.stops} width=${width} />
        `}
      </div>
    </div>
  `;
}

/**
 * Where its hold ends: when it ended, or when its lease did, though nobody has taken it yet.
 * @param {Run} run
 * @param {number} at
 */
const end_of = (run, at) => run.to ?? Math.max(run.from, Math.min(at, run.lease_until ?? at));

/**
 * How far a run reaches: to its end, to its last late write, or to now while its holder knows of no end.
 * @param {Run} run
 * @param {number} at
 */
function reach(run, at) {
  const end = run.to ?? at;
  const believes = !run.told && run.gone_at === null;
  return Math.max(end, believes ? at : end, ...run.late.map((write) => write.at));
}

/** @param {{runs: Run[], workers: string[], stops: State["stops"], width: number}} props */
function Drawing({ runs, workers, stops, width }) {
  const moves =
    runs.some((run) => !run.told && run.gone_at === null) || runs.some((run) => run.to === null);
  const at = moves ? now.value : 0;
  const last = Math.max(...runs.map((run) => reach(run, at)));
  const margin = Math.max(0.15, (last - runs[0].from) * 0.02);
  const scale = folded(
    runs.map((run) => [(run.from - margin) * 1000, (reach(run, at) + margin) * 1000]),
    width - 2 * SIDE,
  );
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

/** @param {any} props */
function Lane({ runs, stops, y, x, at, width }) {
  let free = 0; // where words may begin, so that none stand on others
  return html`
    <g class=${`lane ${tone(runs[0].worker)}`}>
      <path class="ground" d=${`M${SIDE} ${y}H${width - SIDE}`} />
      ${runs.map((/** @type {Run} */ run) => {
        const words = placed(run_words(run, at), x(run.from), width, free);
        if (words) free = words.end + 10;
        return html`
          <${Hold}
            key=${run.job + run.token}
            run=${run}
            stops=${stops}
            y=${y}
            x=${x}
            at=${at}
            width=${width}
            words=${words}
          />
        `;
      })}
    </g>
  `;
}

/** @param {any} props */
function Hold({ run, stops, y, x, at, width, words }) {
  const end = end_of(run, at);
  const alive = Math.min(end, run.gone_at ?? end);
  const [start, stop, far] = [x(run.from), Math.max(x(end), x(run.from) + 3), x(reach(run, at))];
  const still = stops
    .map((/** @type {any} */ each) => [
      Math.max(each.from, run.from),
      Math.min(each.to ?? at, reach(run, at)),
    ])
    .filter((/** @type {number[]} */ [from, to]) => to > from);
  return html`
    <g class=${`hold out-${run.outcome.replace(" ", "_")}`}>
      ${far > stop && html`<path class="ghost" d=${`M${stop} ${y}H${far}`} />`}
      <rect class="lease" x=${start} y=${y - BAR / 2} width=${stop - start} height=${BAR} rx="2.5" />
      <rect
        class="held"
        x=${start}
        y=${y - BAR / 2}
        width=${Math.max(2, x(alive) - start)}
        height=${BAR}
        rx="2.5"
      />
      ${still.map(([from, to]) => html`
        <path key=${from} class=${`still ${to > end ? "past" : ""}`} d=${`M${x(from)} ${y}H${x(to)}`} />
      `)}
      ${run.gone_at !== null && run.gone_at < end && html`<path class="cross" d=${cross(x(run.gone_at), y)} />`}
      <${EndMark} outcome=${run.to === null && end < at ? "expired" : run.outcome} x=${stop} y=${y} />
      ${words && html`
        <text class="words" x=${words.x} y=${y - BAR / 2 - 6}>
          ${words.text}
        </text>
      `}
      ${run.late.map((/** @type {any} */ write) => html`
        <${LateMark} key=${write.at} write=${write} x=${x(write.at)} y=${y} width=${width} />
      `)}
    </g>
  `;
}

/** @param {number} x @param {number} y */
const cross = (x, y) => `M${x - 4.5} ${y - 5}l9 10m0-10l-9 10`;

/**
 * Words above a bar, where they fit; null where they do not.
 * @param {string} text
 * @param {number} start
 * @param {number} width
 * @param {number} free
 */
function placed(text, start, width, free) {
  const long = text.length * LETTER;
  const x = Math.max(Math.min(start, width - SIDE - long), SIDE);
  return x < free ? null : { text, x, end: x + long };
}

/** @param {Run} run @param {number} at */
function run_words(run, at) {
  const ran = seconds_of(end_of(run, at) - run.from);
  if (run.to === null && end_of(run, at) < at)
    return `token ${run.token}, its lease ran out after ${ran}`;
  if (run.outcome === "held")
    return `token ${run.token}, ${run.gone_at === null ? "held" : "its process is gone, the lease runs on"}`;
  if (run.outcome === "given up") return `token ${run.token}, given up by its holder's own clock`;
  return `token ${run.token}, ${run.outcome}${run.outcome === "expired" ? ` after ${ran}` : ""}`;
}

/** @param {{outcome: string, x: number, y: number}} props */
function EndMark({ outcome, x, y }) {
  if (outcome === "held") return html`<circle class="now" cx=${x} cy=${y} r="4.5" />`;
  if (outcome === "completed")
    return html`
      <g class="end good">
        <circle cx=${x} cy=${y} r="7.5" />
        <path d=${`M${x - 3.2} ${y + 0.3}l2.2 2.4l4.2-4.8`} />
      </g>
    `;
  if (outcome === "expired" || outcome === "given up" || outcome === "lost")
    return html`<path class="end torn" d=${`M${x} ${y - 11}l-3 5.5l6 5.5l-6 5.5l3 5.5`} />`;
  const bad = outcome === "failed" || outcome === "dead letter";
  return html`
    <path
      class=${`end ${bad ? "bad" : "again"}`}
      d=${bad ? `M${x - 5} ${y - 5}h10v10h-10z` : `M${x} ${y - 6.5}l6.5 6.5l-6.5 6.5l-6.5-6.5z`}
    />
  `;
}

/** A write that came too late: stopped at the fence, or, without one, gone through. @param {any} props */
function LateMark({ write, x, y, width }) {
  const against =
    write.current > write.token ? `token ${write.token} < ${write.current}` : `token ${write.token}`;
  const text = write.ok ? `stale write went through, ${against}` : `✗ stale write blocked, ${against}`;
  const words = placed(text, x - text.length * LETTER + 8, width, 0);
  return html`
    <g class=${`late ${write.ok ? "through" : "stopped"}`}>
      <title>
        ${text}
        ${write.reason ? ` (${write.reason})` : ""}
      </title>
      ${write.ok ? html`
        <path class="arrow" d=${`M${x - 9} ${y}h12m-5-5l5 5l-5 5`} />
      ` : html`
        <path class="post" d=${`M${x + 6} ${y - 12}v24`} />
        <path class="cross" d=${cross(x - 1.5, y)} />
      `}
      ${words && html`
        <text class="words" x=${words.x} y=${y + BAR / 2 + 15}>
          ${text}
        </text>
      `}
    </g>
  `;
}

/** @param {Run[]} runs */
function summary(runs) {
  const parts = runs.map(
    (run) =>
      `${run.worker} with token ${run.token}: ${run.outcome}` +
      run.late
        .map((write) =>
          write.ok ? ", then a stale write went through" : ", then a stale write blocked",
        )
        .join(""),
  );
  return `Tape: ${parts.join("; ")}`;
}
