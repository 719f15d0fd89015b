/** Beside the dial: who owns how much, the chosen bucket, and how the ring has changed. */
import { to } from "../../lib/address.js";
import { Ago } from "../../lib/clock.js";
import { Bar, Empty, Panel } from "../../lib/parts.js";
import { ask, place } from "../../lib/route.js";
import { html, useMemo } from "../../lib/ui.js";
import { BUCKETS, runAt, runs, shares } from "./shape.js";
import { colours, costOf, named, range } from "./words.js";

/** @typedef {import("./words.js").Ring} RingAnswer */

/**
 * Who owns how much; a name that is pointed at or pressed shows its ticks alone.
 * @param {{ring: RingAnswer, kept: string | null, keep: (worker: string | null) => void,
 *   see: (worker: string | null) => void}} props
 */
export function Legend({ ring, kept, keep, see }) {
  const tones = useMemo(() => colours(ring.workers), [ring.workers.join()]);
  if (!ring.workers.length) return null;
  const dealt = shares(ring);
  return html`
    <${Panel} title="Owners">
      <ul class="ring-legend">
        ${dealt.map(({ worker, owner, buckets, share }) => html`
          <li key=${worker} class=${tones[owner]}>
            <button
              type="button"
              aria-pressed=${kept === worker ? "true" : "false"}
              title=${`${worker}: press to show only its ticks`}
              onPointerEnter=${() => see(worker)}
              onPointerLeave=${() => see(null)}
              onClick=${() => keep(kept === worker ? null : worker)}
            >
              <i class="ring-swatch" aria-hidden="true"></i>
              <span class="mono clip">${worker}</span>
              <span class="number">
                ${buckets} <span class="quiet">${(share * 100).toFixed(1)} %</span>
              </span>
              <${Bar}
                part=${buckets}
                whole=${dealt[0].buckets}
                label=${`${buckets} of ${BUCKETS} buckets`}
              />
            </button>
          </li>
        `)}
      </ul>
    <//>
  `;
}

/** The bucket the address names. @param {{ring: RingAnswer}} props */
export function Bucket({ ring }) {
  const bucket = Number(place.value.query.bucket ?? NaN);
  const run = ring.workers.length > 0 && Number.isInteger(bucket) && runAt(runs(ring.buckets), bucket);
  if (!run) return null;
  return html`
    <${Panel}
      title=${`Bucket ${bucket}`}
      aside=${
        html`<button class="button plain small" onClick=${() => ask({ bucket: null }, { replace: true })}>
          Clear
        </button>`
      }
    >
      <dl class="pairs panel-body">
        <div>
          <dt>Owner</dt>
          <dd class="mono">${named(ring, run.owner)}</dd>
        </div>
        <div>
          <dt>Arc</dt>
          <dd>${range(run)}</dd>
        </div>
        <div>
          <dt>Rows</dt>
          <dd>
            <a href=${to("rows", { filter: `status:pending bucket:${bucket}` })}>pending in it</a>,${" "}
            <a href=${to("rows", { filter: `status:processing bucket:${bucket}` })}>processing</a>
          </dd>
        </div>
      </dl>
    <//>
  `;
}

/** What joined, left or died, and what that moved. @param {{ring: RingAnswer}} props */
export function History({ ring }) {
  const tones = useMemo(() => colours(ring.workers), [ring.workers.join()]);
  const tone = (/** @type {string} */ worker) => tones[ring.workers.indexOf(worker)] ?? "w-none";
  return html`
    <${Panel} title="Changes">
      ${ring.history.length === 0 && html`<${Empty}>No worker has joined or left recently.<//>`}
      <ol class="ring-history" tabindex="0" aria-label="Changes of the ring">
        ${ring.history.map((change) => html`
          <li key=${change.at + change.worker} class=${tone(change.worker)}>
            <i class="ring-swatch" aria-hidden="true"></i>
            <span>
              <span class="mono">${change.worker}</span>${" "}
              <b class=${`what is-${change.what}`}>${change.what}</b>
              <br />
              <span class="quiet">${costOf(change)}</span>
            </span>
            <${Ago} at=${change.at} />
          </li>
        `)}
      </ol>
    <//>
  `;
}
