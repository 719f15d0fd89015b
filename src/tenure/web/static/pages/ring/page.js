/** The ring: who owns which of the 1,024 buckets, how many rows are pending there, and what moved last. */
import { useAnswer } from "../../lib/answer.js";
import { me } from "../../lib/api.js";
import { inbox } from "../../lib/asked.js";
import { several } from "../../lib/inboxes.js";
import { Choice, Empty, Fault, Page, Panel } from "../../lib/parts.js";
import { ask, place } from "../../lib/route.js";
import { html, useEffect, useRef, useState } from "../../lib/ui.js";
import { number, plural } from "../../lib/words.js";
import { Dial } from "./dial.js";
import { BUCKETS, moves } from "./shape.js";
import { Bucket, History, Legend } from "./side.js";
import { cost, described } from "./words.js";

const FLASH_MS = 6000;

/** @typedef {import("./words.js").Ring} RingAnswer */

/** Each inbox has a ring of its own: of several, one is chosen first. */
export default function Ring() {
  return several() && !inbox.value ? html`<${Which} />` : html`<${One} />`;
}

function Which() {
  return html`
    <${Page} title="Ring" note="each inbox has a ring of its own">
      <${Panel}>
        <p class="empty">
          Choose an inbox:
          ${me.value?.inboxes.map((name) => html`
            ${" "}
            <button key=${name} class="button small" onClick=${() => (inbox.value = name)}>
              ${name}
            </button>
          `)}
        </p>
      <//>
    <//>
  `;
}

function One() {
  const { answer, fault, reload } = useAnswer("api/ring", {
    query: { queues: place.value.query.queues },
    every_seconds: 4,
  });
  const [kept, setKept] = useState(/** @type {string | null} */ (null));
  const [seen, setSeen] = useState(/** @type {string | null} */ (null));
  const note =
    answer &&
    (answer.workers.length
      ? `${number(BUCKETS)} buckets · ${plural(answer.workers.length, "worker")}`
      : "nobody is in the ring");
  return html`
    <${Page} title="Ring" note=${note} actions=${answer && html`<${Sets} ring=${answer} />`}>
      <${Fault}
        fault=${fault}
        retry=${() => (fault.code === 404 ? ask({ queues: null }, { replace: true }) : reload())}
      />
      ${answer && html`
        <div class="ring-page">
          <${Picture} key=${answer.queues.join(",")} ring=${answer} only=${seen ?? kept} />
          <div class="ring-side">
            <${Legend} ring=${answer} kept=${kept} keep=${setKept} see=${setSeen} />
            <${Bucket} ring=${answer} />
            <${History} ring=${answer} />
          </div>
        </div>
      `}
    <//>
  `;
}

/** The sets of queues that have a ring of their own. @param {{ring: RingAnswer}} props */
function Sets({ ring }) {
  if (ring.sets.length < 2)
    return ring.queues.length ? html`<span class="quiet">of ${ring.queues.join(", ")}</span>` : null;
  const options = /** @type {[string, string][]} */ (
    ring.sets.map((set) => [set.join(","), set.join(", ") || "every queue"])
  );
  return html`
    <${Choice}
      label="Ring of these queues"
      value=${ring.queues.join(",")}
      options=${options}
      choose=${(/** @type {string} */ queues) => ask({ queues, bucket: null }, { replace: true })}
    />
  `;
}

/** The dial and what just moved in it. @param {{ring: RingAnswer, only: string | null}} props */
function Picture({ ring, only }) {
  const change = useChange(ring);
  const said = change && `Just now: ${cost(change.moved.length, change.workers, change.needless)}`;
  return html`
    <${Panel} className="ring-panel">
      <p class="unseen" id="ring-words">
        ${described(ring)} Arrow keys walk the buckets, Enter keeps one.
      </p>
      ${ring.workers.length ? html`
        <${Dial} ring=${ring} only=${only} flash=${change?.moved ?? []} />
      ` : html`
        <${Empty}>
          No worker is alive: nobody owns a bucket. Start one: <code>tenure worker app:inbox</code>
        <//>
      `}
      <p class="ring-now" role="status">
        ${said}
      </p>
      ${ring.workers.length > 0 && html`
        <p class="ring-scale quiet">
          Ticks: buckets by owner. Bars: pending rows in ${BUCKETS / ring.depth.length} buckets each, by
          square root; the deepest has ${number(Math.max(0, ...ring.depth))}. Of unordered rows, those
          due first are counted.
        </p>
      `}
    <//>
  `;
}

/**
 * What moved between the last two answers, for as long as it is worth looking at.
 * @param {RingAnswer} ring
 */
function useChange(ring) {
  const before = useRef(ring);
  const [change, setChange] = useState(
    /** @type {{moved: number[], needless: number, workers: number} | null} */ (null),
  );
  useEffect(() => {
    const found = moves(before.current, ring);
    const workers = Math.max(before.current.workers.length, ring.workers.length);
    before.current = ring;
    if (found.moved.length) setChange({ ...found, workers });
  }, [ring]);
  useEffect(() => {
    const timer = change && setTimeout(() => setChange(null), FLASH_MS);
    return () => void (timer && clearTimeout(timer));
  }, [change]);
  return change;
}
