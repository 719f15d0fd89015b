/** The fleet: who lives, how fresh its heartbeat is, how much of it is taken, and what it holds. */
import { change } from "../../lib/act.js";
import { useAnswer } from "../../lib/answer.js";
import { Bar, Empty, Fault, Page, Panel } from "../../lib/parts.js";
import { to } from "../../lib/route.js";
import { duration } from "../../lib/time.js";
import { html } from "../../lib/ui.js";
import { filter_word, number, plural, worker_colour } from "../../lib/words.js";
import { can } from "../../lib/can.js";
import { PRESENCE, STATUS, WAKEUP, freshness, presence, summary, usual_version } from "./words.js";

const KINDS_SHOWN = 6;
const CELLS_MAX = 40;

/** @typedef {import("./words.js").Member} Member */

export default function Workers() {
  const { answer, fault, reload } = useAnswer("api/workers");
  const all = /** @type {Member[]} */ (answer?.workers ?? []);
  const living = all.filter((each) => each.status !== "dead");
  const dead = all.filter((each) => each.status === "dead");
  const usual = usual_version(living);
  return html`
    <${Page} title="Workers" note=${answer && summary(all)}>
      <${Fault} fault=${fault} retry=${reload} />
      ${answer && !living.length && html`
        <${Panel}>
          <${Empty}>
            No worker is alive: nothing runs. Start one: <code>tenure worker app:inbox</code>
          <//>
        <//>
      `}
      <ul class="fleet" aria-label="Living workers">
        ${living.map((each) => html`
          <${Living} key=${each.id} worker=${each} usual=${usual} />
        `)}
      </ul>
      ${dead.length > 0 && html`<${Graveyard} dead=${dead} />`}
    <//>
  `;
}

/** @param {{worker: Member, usual: string | null}} props */
function Living({ worker, usual }) {
  const { word, tone } = STATUS[worker.status] ?? { word: worker.status, tone: "" };
  return html`
    <li class=${`panel fleet-card ${worker_colour(worker.id)}`}>
      <header>
        <h2 class="mono clip" title=${worker.id}>
          ${worker.id}
        </h2>
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
        <a href=${held(worker)}>${rows(worker)} held</a>
        ${worker.buckets > 0 && html`
          <a href=${to("ring", { queues: worker.queues.join(",") })}>
            ${plural(worker.buckets, "bucket")}
          </a>
        `}
        <span class="quiet">up ${duration(worker.up_seconds)}</span>
      </p>
      <dl class="pairs">
        <div>
          <dt>Process</dt>
          <dd class="mono">
            ${worker.host ?? "?"} : ${worker.pid ?? "?"}
          </dd>
        </div>
        <div>
          <dt>Version</dt>
          <dd>
            ${worker.version ?? "unknown"}
            ${worker.version !== usual && html`
              ${" "}
              <span class="tag warn">most run ${usual}</span>
            `}
          </dd>
        </div>
        <div>
          <dt>Queues</dt>
          <dd class="tags">
            ${worker.queues.map((queue) => html`
              <span key=${queue} class="tag">
                ${queue}
              </span>
            `)}
          </dd>
        </div>
        <div>
          <dt>Kinds</dt>
          <dd class="tags">
            <${Kinds} kinds=${worker.kinds} />
          </dd>
        </div>
        <div>
          <dt>Woken by</dt>
          <dd>${WAKEUP[worker.wakeup ?? ""] ?? "unknown"}</dd>
        </div>
        <div>
          <dt>Session</dt>
          <dd>
            <b class=${`presence is-${presence(worker.present)}`}>${presence(worker.present)}</b>${" "}
            <span class="quiet">${PRESENCE[presence(worker.present)]}</span>
          </dd>
        </div>
      </dl>
    </li>
  `;
}

/** The rows it holds, as a filter. @param {Member} worker */
const held = (worker) => to("rows", { filter: `status:processing worker:${filter_word(worker.id)}` });

/** @param {Member} worker */
const rows = ({ held: n }) => (n === null ? "rows" : plural(n, "row"));

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
 * One cell for each slot, as long as they can be told apart.
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
  if (!kinds?.length) return html`<span class="quiet">it does not say</span>`;
  if (kinds.length <= KINDS_SHOWN) return kinds.map(tag);
  return html`
    ${kinds.slice(0, KINDS_SHOWN).map(tag)}
    <details>
      <summary>${kinds.length - KINDS_SHOWN} more</summary>
      <div class="tags">${kinds.slice(KINDS_SHOWN).map(tag)}</div>
    </details>
  `;
}

/** @param {{dead: Member[]}} props */
function Graveyard({ dead }) {
  return html`
    <${Panel}
      title="Dead"
      className="fleet-dead"
      aside="silent past 30 s, or their session was gone for too long; their rows run elsewhere"
    >
      <div class="scroll">
        <table class="table cards">
          <thead>
            <tr>
              <th>Worker</th>
              <th>Last seen</th>
              <th>Process</th>
              <th>Version</th>
              <th>Queues</th>
              <th class="right">Rows left</th>
            </tr>
          </thead>
          <tbody>
            ${dead.map((each) => html`
              <tr key=${each.id}>
                <td class="title mono">${each.id}</td>
                <td data-label="Last seen">${duration(each.seen_seconds)} ago</td>
                <td data-label="Process" class="mono">
                  ${each.host ?? "?"} : ${each.pid ?? "?"}
                </td>
                <td data-label="Version">${each.version ?? "?"}</td>
                <td data-label="Queues">${each.queues.join(", ")}</td>
                <td data-label="Rows left" class="right">
                  ${each.held === 0 ? (
                    "0"
                  ) : html`
                    <a href=${held(each)}>${each.held === null ? "look" : number(each.held)}</a>
                  `}
                </td>
              </tr>
            `)}
          </tbody>
        </table>
      </div>
    <//>
  `;
}

/** @param {Member} worker */
function drain(worker) {
  const left =
    worker.held === 0 ? "has nothing to finish" : `finishes or gives back its ${rows(worker)}`;
  return change("POST", `api/workers/${encodeURIComponent(worker.id)}/drain`, {
    ask: {
      title: `Drain ${worker.id}?`,
      verb: "Drain",
      body: `It claims nothing more, ${left}, and exits. Whatever starts workers may start another.`,
    },
    said: `${worker.id} drains.`,
  });
}
