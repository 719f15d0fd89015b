/** A lane of the tape: one worker's holds as bars, where it stood still, and each late write at the fence. */
import { EndMark } from "../../lib/marks.js";
import { html } from "../../lib/ui.js";
import { LETTER, SIDE, end_of, late_words, placed, reach, run_words, still } from "./holds.js";
import { tone } from "./words.js";

const BAR = 16;

/** @typedef {import("./said.js").Run} Run */
/** @typedef {import("./said.js").Stop} Stop */
/**
 * @typedef {{y: number, x: (seconds: number) => number, at: number, width: number}} Where of a lane,
 *   and its time
 */

/** @param {{runs: Run[], stops: Stop[]} & Where} props */
export function Lane({ runs, stops, y, x, at, width }) {
  let free = 0; // where words may begin, so that none stand on others
  return html`
    <g class=${`lane ${tone(runs[0].worker)}`}>
      <path class="ground" d=${`M${SIDE} ${y}H${width - SIDE}`} />
      ${runs.map((run) => {
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

/** @param {{run: Run, stops: Stop[], words: {text: string, x: number} | null} & Where} props */
function Hold({ run, stops, y, x, at, width, words }) {
  const end = end_of(run, at);
  const alive = Math.min(end, run.gone_at ?? end);
  const [start, stop, far] = [x(run.from), Math.max(x(end), x(run.from) + 3), x(reach(run, at))];
  const died = run.gone_at !== null && run.gone_at < end ? x(run.gone_at) : null;
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
      ${still(run, stops, at).map(([from, to]) => html`
        <path key=${from} class=${`still ${to > end ? "past" : ""}`} d=${`M${x(from)} ${y}H${x(to)}`} />
      `)}
      ${died !== null && html`<path class="cross" d=${cross(died, y)} />`}
      <${EndMark} outcome=${run.to === null && end < at ? "expired" : run.outcome} x=${stop} y=${y} />
      ${words && html`
        <text class="words" x=${words.x} y=${y - BAR / 2 - 6}>
          ${words.text}
        </text>
      `}
      ${run.late.map((write) => html`
        <${LateMark} key=${write.at} write=${write} x=${x(write.at)} y=${y} width=${width} />
      `)}
    </g>
  `;
}

/** @param {number} x @param {number} y */
const cross = (x, y) => `M${x - 4.5} ${y - 5}l9 10m0-10l-9 10`;

/**
 * A write that came too late: stopped at the fence, or, without one, gone through.
 * @param {{write: import("./said.js").Late, x: number, y: number, width: number}} props
 */
function LateMark({ write, x, y, width }) {
  const text = late_words(write);
  const words = placed(text, x - text.length * LETTER + 8, width, 0);
  const reason = write.reason ? ` (${write.reason})` : "";
  return html`
    <g class=${`late ${write.ok ? "through" : "stopped"}`}>
      <title>
        ${text}
        ${reason}
      </title>
      ${write.ok && html`<path class="arrow" d=${`M${x - 9} ${y}h12m-5-5l5 5l-5 5`} />`}
      ${!write.ok && html`
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
