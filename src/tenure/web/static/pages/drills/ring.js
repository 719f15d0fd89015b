/** The ring of a stage: 1,024 ticks in the colours of their owners; those that just moved flash. */
import { Panel } from "../../lib/parts.js";
import { html, useMemo } from "../../lib/ui.js";
import { BUCKETS, SIZE, bucketsOf, shares, ticks } from "../ring/shape.js";
import { cost } from "../ring/words.js";
import { dealt } from "./reduce.js";
import { tone } from "./words.js";

const EDGE = 52; // the dial of the ring's own page leaves room for bars around it

/** @param {{state: import("./said.js").State}} props */
export function StageRing({ state }) {
  const { ring } = state.picture;
  const change = state.change;
  const racers =
    state.picture.workers.length > 0 && state.picture.workers.every((each) => each.role !== "hand");
  const owned = useMemo(() => dealt(ring), [ring.owners]);
  const said = change && cost(change.moved.length, change.workers, change.needless);
  if (racers) return null; // they claim whatever is free, and never join the ring
  return html`
    <${Panel}
      title="Ring"
      aside=${ring.workers.length ? `${BUCKETS} buckets` : ""}
      className="drill-ring"
    >
      ${ring.workers.length === 0 ? html`
        <p class="empty">No worker is in the ring.</p>
      ` : html`
        <div class="drill-dial">
          <svg
            viewBox=${`${EDGE} ${EDGE} ${SIZE - 2 * EDGE} ${SIZE - 2 * EDGE}`}
            role="img"
            aria-label=${words(owned)}
          >
            ${owned.workers.map((worker, nth) => html`
              <path
                key=${worker}
                class=${`ring-ticks ${tone(worker)}`}
                d=${ticks(bucketsOf(owned.buckets, nth))}
              />
            `)}
            ${change && html`<path key=${change.at} class="ring-flash" d=${ticks(change.moved)} />`}
          </svg>
          <ul class="drill-shares">
            ${shares(owned).map(({ worker, buckets }) => html`
              <li key=${worker} class=${tone(worker)}>
                <i class="ring-swatch" aria-hidden="true"></i>
                <span class="mono">${worker.at(-1)}</span> <b class="number">${buckets}</b>
              </li>
            `)}
          </ul>
        </div>
      `}
      <p class="drill-moved" role="status">
        ${said}
      </p>
    <//>
  `;
}

/** @param {{workers: string[], buckets: number[]}} owned */
const words = (owned) =>
  `${BUCKETS} buckets: ${shares(owned)
    .map((each) => `${each.worker} owns ${each.buckets}`)
    .join(", ")}`;
