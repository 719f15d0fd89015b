/** A living worker: its heartbeat, its slots, what it holds, and what it is. */
import { change } from "../../lib/act.js";
import { to } from "../../lib/address.js";
import { can } from "../../lib/can.js";
import { Bar } from "../../lib/parts.js";
import { duration } from "../../lib/time.js";
import { html } from "../../lib/ui.js";
import { filter_word, number, plural, worker_colour } from "../../lib/words.js";
import { PRESENCE, STATUS, WAKEUP, freshness, held_by, in_turn, presence, rows_held } from "./words.js";

const KINDS_SHOWN = 6;
const CELLS_MAX = 40;

/** @typedef {import("./words.js").Member} Member */

/** @param {{worker: Member, usual: string | null}} props */
export function Living({ worker, usual }) {
  const { word, tone } = STATUS[worker.status] ?? { word: worker.status, tone: "" };
  return html`
    <li class=${`panel fleet-card ${worker_colour(worker.id)}`}>
      <header>
        <h2 class="mono clip" title=${worker.id}>
          ${worker.id}
        </h2>
        ${worker.inbox && html`<span class="tag">${worker.inbox}</span>`}
        <span class=${`tag ${tone}`}>${word}</span>
        ${can("drain_worker") && worker.status === "alive" && html`
          <button class="button small" aria-label=${`Drain ${worker.id}`} onClick=${() => drain(worker)}>
            Drain
          </button>
        `}
      </header>
      <${Heartbeat} seconds=${worker.seen_seconds} />
      <${Slots} used=${worker.slots_used} all=${worker.slots} />
      <p class="fleet-holds">
        <a href=${held_by(worker)}>${rows_held(worker)} held</a>
        ${in_turn(worker) > 0 && html`
          <span class="quiet" title="Rows of an ordered key run one after the other, in one slot.">
            ${number(in_turn(worker))} wait for their turn
          </span>
        `}
        ${(worker.slots_stuck ?? 0) > 0 && html`
          <span
            class="tag warn"
            title="Their time is up and their rows are settled: nothing ends a thread."
          >
            ${plural(worker.slots_stuck ?? 0, "handler")} did not stop
          </span>
        `}
        ${worker.buckets > 0 && html`
          <a href=${to("ring", { queues: worker.queues.join(",") })}>
            ${plural(worker.buckets, "bucket")}
          </a>
        `}
        <span class="quiet">up ${duration(worker.up_seconds)}</span>
      </p>
      <${Facts} worker=${worker} usual=${usual} />
    </li>
  `;
}

/** @param {{worker: Member, usual: string | null}} props */
function Facts({ worker, usual }) {
  const { host, pid, version, queues, kinds, wakeup } = worker;
  const session = presence(worker.present);
  return html`
    <dl class="pairs">
      <div>
        <dt>Process</dt>
        <dd class="mono">
          ${host ?? "?"} : ${pid ?? "?"}
        </dd>
      </div>
      <div>
        <dt>Version</dt>
        <dd>
          ${version ?? "unknown"}
          ${version !== usual && html`
            ${" "}
            <span class="tag warn">most run ${usual}</span>
          `}
        </dd>
      </div>
      <div>
        <dt>Queues</dt>
        <dd class="tags">
          ${queues.map((queue) => html`
            <span key=${queue} class="tag">
              ${queue}
            </span>
          `)}
        </dd>
      </div>
      <div>
        <dt>Kinds</dt>
        <dd class="tags">
          <${Kinds} kinds=${kinds} />
        </dd>
      </div>
      <div>
        <dt>Woken by</dt>
        <dd>${WAKEUP[wakeup ?? ""] ?? "unknown"}</dd>
      </div>
      <div>
        <dt>Session</dt>
        <dd>
          <b class=${`presence is-${session}`}>${session}</b>${" "}
          <span class="quiet">${PRESENCE[session]}</span>
        </dd>
      </div>
    </dl>
  `;
}

/** The time until it counts as dead, running out. @param {{seconds: number}} props */
function Heartbeat({ seconds }) {
  const { left, whole, tone, word } = freshness(seconds);
  return html`
    <div class="gauge">
      <span>Heartbeat</span>
      <${Bar}
        part=${left}
        whole=${whole}
        tone=${tone}
        label=${`${word}: seen ${duration(seconds)} ago, dead after ${whole} s`}
      />
      <span class="number">${duration(seconds)} ago</span>
    </div>
  `;
}

/**
 * One cell for each slot, if there are not too many.
 * @param {{used: number | null, all: number | null}} props
 */
function Slots({ used, all }) {
  const taken = used ?? 0;
  const whole = all ?? 0;
  const label = `${taken} of ${whole} slots taken`;
  return html`
    <div class="gauge">
      <span>Slots</span>
      ${whole > 0 && whole <= CELLS_MAX ? html`
        <span class="cells" role="img" aria-label=${label} title=${label}>
          ${Array.from({ length: whole }, (_, nth) => html`
            <i key=${nth} class=${nth < taken ? "taken" : ""}></i>
          `)}
        </span>
      ` : html`
        <${Bar} part=${taken} whole=${whole} tone="held" label=${label} />
      `}
      <span class="number">
        ${number(taken)} of ${number(whole)}
      </span>
    </div>
  `;
}

/** @param {{kinds: string[] | null}} props */
function Kinds({ kinds }) {
  const tag = (/** @type {string} */ kind) => html`
    <a key=${kind} class="tag mono" href=${to("rows", { filter: `kind:${filter_word(kind)}` })}>
      ${kind}
    </a>
  `;
  if (!kinds?.length) return html`<span class="quiet">unknown</span>`;
  if (kinds.length <= KINDS_SHOWN) return kinds.map(tag);
  return html`
    ${kinds.slice(0, KINDS_SHOWN).map(tag)}
    <details>
      <summary>${kinds.length - KINDS_SHOWN} more</summary>
      <div class="tags">${kinds.slice(KINDS_SHOWN).map(tag)}</div>
    </details>
  `;
}

/** @param {Member} worker */
const drain = (worker) =>
  change("drain_worker", "POST", `api/workers/${encodeURIComponent(worker.id)}/drain`, {
    title: `Drain ${worker.id}?`,
    note: worker.held === 0 ? "It holds nothing." : `It holds ${rows_held(worker)} now.`,
    said: `${worker.id} is asked to drain.`,
  });
