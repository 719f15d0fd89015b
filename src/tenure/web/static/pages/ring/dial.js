/** The dial: 1,024 ticks by owner, depth as bars around them, and a hand that pointer and arrow keys move. */
import { ask, place } from "../../lib/route.js";
import { html, useMemo, useRef, useState } from "../../lib/ui.js";
import { number, plural } from "../../lib/words.js";
import {
  BUCKETS,
  FOOT,
  MARKS,
  NOBODY,
  SIZE,
  bars,
  bucketAt,
  bucketsOf,
  outline,
  runAt,
  runs,
  ticks,
} from "./shape.js";
import { colours, named, pending, range } from "./words.js";

const PAGE = 16;
/** @type {Record<string, (bucket: number) => number>} */
const STEPS = {
  ArrowRight: (bucket) => bucket + 1,
  ArrowUp: (bucket) => bucket + 1,
  ArrowLeft: (bucket) => bucket - 1,
  ArrowDown: (bucket) => bucket - 1,
  PageUp: (bucket) => bucket + PAGE,
  PageDown: (bucket) => bucket - PAGE,
  Home: () => 0,
  End: () => BUCKETS - 1,
};

/** @typedef {import("./words.js").Ring} Ring */

/** @param {{ring: Ring, only: string | null, flash: number[]}} props */
export function Dial({ ring, only, flash }) {
  const kept = Number(place.value.query.bucket ?? NaN);
  const [hand, setHand] = useState(/** @type {number | null} */ (null));
  const bucket = hand ?? (Number.isInteger(kept) && kept >= 0 && kept < BUCKETS ? kept : null);
  const arcs = useMemo(() => runs(ring.buckets), [ring.buckets.join()]);
  const keep = (/** @type {number | null} */ found) =>
    found !== null && ask({ bucket: found === kept ? null : found }, { replace: true });

  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" || event.key === " ") keep(bucket);
    else if (event.key === "Escape") setHand(null);
    else if (event.key in STEPS) setHand((STEPS[event.key](bucket ?? -1) + BUCKETS) % BUCKETS);
    else return;
    event.preventDefault();
  };
  const said = bucket === null ? "no bucket chosen" : sentence(ring, arcs, bucket);
  return html`
    <div
      class="ring-dial"
      role="slider"
      tabindex="0"
      aria-label="Bucket"
      aria-describedby="ring-words"
      aria-valuemin="0"
      aria-valuemax=${BUCKETS - 1}
      aria-valuenow=${bucket ?? 0}
      aria-valuetext=${said}
      onKeyDown=${press}
      onBlur=${() => setHand(null)}
      onPointerMove=${(/** @type {PointerEvent} */ event) => setHand(under(event))}
      onPointerLeave=${() => setHand(null)}
      onClick=${(/** @type {PointerEvent} */ event) => keep(under(event))}
    >
      <${Ticks}
        ring=${ring}
        only=${only}
        flash=${flash}
        arc=${bucket === null ? undefined : runAt(arcs, bucket)}
      />
      <${Centre} ring=${ring} arcs=${arcs} bucket=${bucket} />
    </div>
  `;
}

/** The bucket under the pointer. @param {PointerEvent} event */
function under(event) {
  const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
  const scale = SIZE / box.width;
  return bucketAt((event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
}

/**
 * @param {{ring: Ring, only: string | null, flash: number[],
 *   arc: import("./shape.js").Run | undefined}} props only: the worker whose ticks stand out
 */
function Ticks({ ring, only, flash, arc }) {
  const drawn = useMemo(
    () => ring.workers.map((_, owner) => ticks(bucketsOf(ring.buckets, owner))),
    [ring.buckets.join()],
  );
  const tones = useMemo(() => colours(ring.workers), [ring.workers.join()]);
  const deep = useMemo(() => bars(ring.depth), [ring.depth.join()]);
  const orphans = ring.buckets.includes(NOBODY);
  const alone = ring.workers.find((worker) => worker === only);
  return html`
    <svg viewBox=${`0 0 ${SIZE} ${SIZE}`} aria-hidden="true" focusable="false">
      <circle class="ring-foot" cx=${SIZE / 2} cy=${SIZE / 2} r=${FOOT} />
      ${deep.map(
        (bar) =>
          bar.path && html`
            <path
              key=${bar.from}
              class=${`ring-depth ${arc && bar.from <= arc.to && arc.from <= bar.to ? "here" : ""}`}
              d=${bar.path}
            />
          `,
      )}
      ${orphans && html`<path class="ring-ticks w-none" d=${ticks(bucketsOf(ring.buckets, NOBODY))} />`}
      ${drawn.map((path, owner) => html`
        <path
          key=${ring.workers[owner]}
          class=${`ring-ticks ${tones[owner]} ${alone && alone !== ring.workers[owner] ? "faded" : ""}`}
          d=${path}
        />
      `)}
      ${flash.length > 0 && html`<path class="ring-flash" d=${ticks(flash)} />`}
      ${arc && html`<path class="ring-arc" d=${outline(arc)} />`}
      ${MARKS.map((mark) => html`
        <text key=${mark.bucket} class="ring-mark" x=${mark.x} y=${mark.y}>
          ${mark.bucket}
        </text>
      `)}
    </svg>
  `;
}

/** @param {{ring: Ring, arcs: import("./shape.js").Run[], bucket: number | null}} props */
function Centre({ ring, arcs, bucket }) {
  if (bucket === null)
    return html`
      <div class="ring-centre" aria-hidden="true">
        <b>${plural(ring.workers.length, "worker")}</b>
        <span>${number(BUCKETS)} buckets</span>
        <span class="quiet">${pending(ring)}</span>
      </div>
    `;
  const run = runAt(arcs, bucket);
  const tone = run && run.owner !== NOBODY ? colours(ring.workers)[run.owner] : "w-none";
  return html`
    <div class=${`ring-centre ${tone}`} aria-hidden="true">
      <b>${range(run ?? { from: bucket, to: bucket })}</b>
      <span class="ring-owner">
        <i class="ring-swatch"></i>
        <span class="mono">${named(ring, run?.owner ?? NOBODY)}</span>
      </span>
      <span class="quiet">${deepness(ring, bucket)}</span>
    </div>
  `;
}

/** @param {Ring} ring @param {import("./shape.js").Run[]} arcs @param {number} bucket */
function sentence(ring, arcs, bucket) {
  const run = runAt(arcs, bucket) ?? { owner: NOBODY, from: bucket, to: bucket };
  return `bucket ${bucket}, owned by ${named(ring, run.owner)} (${range(run)}), ${deepness(ring, bucket)}`;
}

/** How many rows are pending around a bucket. @param {Ring} ring @param {number} bucket */
function deepness(ring, bucket) {
  const width = BUCKETS / ring.depth.length;
  const nth = Math.floor(bucket / width);
  return `${plural(ring.depth[nth], "row")} pending in ${nth * width} to ${(nth + 1) * width - 1}`;
}
