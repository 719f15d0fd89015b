/** The workers of a stage: real processes with their pids, and what can be done to each. */
import { Panel } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { Do } from "./board.js";
import { now } from "./view.js";
import { tone } from "./words.js";

const STATES = /** @type {Record<string, string>} */ ({
  running: "runs",
  paused: "stands still",
  draining: "drains",
  gone: "gone",
});
const GONE_SHOWN = 4;

/** @typedef {import("./reduce.js").State} State */

/** @param {{state: State}} props */
export function Workers({ state }) {
  const { workers } = state.picture;
  const here = workers.filter((/** @type {any} */ each) => each.state !== "gone");
  const gone = workers.filter((/** @type {any} */ each) => each.state === "gone").slice(-GONE_SHOWN);
  return html`
    <${Panel} title="Workers" aside="real processes" className="drill-workers">
      <div class="panel-body">
        ${workers.length === 0 && html`<p class="quiet">Nobody works here yet.</p>`}
        ${[...here, ...gone].map((/** @type {any} */ worker) => html`
          <${Card} key=${worker.name} worker=${worker} state=${state} />
        `)}
        <div class="drill-acts">
          <${Do} does=${{ verb: "start" }} title="Starts a process of the real worker">
            + Add worker
          <//>
          ${state.cut ? html`
            <${Do} does=${{ verb: "heal" }} title="Lets the workers reach the database again">
              Heal database
            <//>
          ` : html`
            <${Do}
              does=${{ verb: "cut" }}
              danger
              title="Cuts the line between the workers and the database"
            >
              Cut database
            <//>
          `}
        </div>
        ${state.cut && html`
          <p class="drill-cut" role="status">
            The line to the database is cut: no worker reaches it.
          </p>
        `}
      </div>
    <//>
  `;
}

/** @param {{worker: any, state: State}} props */
function Card({ worker, state }) {
  const { name, pid, state: is, role } = worker;
  return html`
    <section class=${`drill-card ${tone(name)} is-${is}`} aria-label=${name}>
      <header>
        <b class="mono">${name}</b>
        <span class="quiet number">pid ${pid}</span>
        <span class="drill-state">${STATES[is] ?? is}</span>
      </header>
      <${Holds} name=${name} gone=${is === "gone"} state=${state} />
      ${is !== "gone" && html`
        <div class="drill-acts">
          ${is === "paused" ? html`
            <${Do} small does=${{ verb: "resume", worker: name }} title="SIGCONT">
              Resume
            <//>
          ` : html`
            <${Do}
              small
              does=${{ verb: "pause", worker: name }}
              title="SIGSTOP: it stands still in the middle of whatever it does"
            >
              Pause
            <//>
          `}
          <${Do}
            small
            danger
            does=${{ verb: "kill", worker: name }}
            title="SIGKILL: gone without a word"
          >
            Kill -9
          <//>
          ${is === "running" && role !== "racer" && html`
            <${Do}
              small
              does=${{ verb: "drain", worker: name }}
              title="SIGTERM: finishes what it holds and leaves"
            >
              Drain
            <//>
          `}
        </div>
      `}
    </section>
  `;
}

/** What it holds, and what it believes to hold. @param {{name: string, gone: boolean, state: State}} props */
function Holds({ name, gone, state }) {
  const own = state.runs.filter((run) => run.worker === name);
  const open = own.filter((run) => run.to === null);
  const ran_out = (/** @type {any} */ run) => run.lease_until !== null && run.lease_until < now.value;
  const held = open.filter((run) => !ran_out(run) && (gone || run.gone_at === null)); // what a namesake left is not its own
  const believed = own.filter(
    (run) => (run.to !== null || ran_out(run)) && !run.told && run.gone_at === null,
  );
  const blocked = own.flatMap((run) => run.late);
  const list = (/** @type {any[]} */ runs) =>
    runs
      .slice(-2)
      .map((run) => `${state.keys[run.job]} with token ${run.token}`)
      .join(", ") + (runs.length > 2 ? ` and ${runs.length - 2} more` : "");
  return html`
    <div class="drill-holds">
      ${held.length > 0 && html`
        <p>
          ${gone ? "held" : "holds"} ${list(held)}
        </p>
      `}
      ${!gone && believed.length > 0 && html`<p class="drill-believes">believes it holds ${list(believed)}</p>`}
      ${blocked.map((write) => html`
        <p key=${write.at} class=${write.ok ? "drill-loud" : "drill-blocked"}>
          ${write.ok
            ? `wrote with stale token ${write.token}`
            : `✗ write with token ${write.token} blocked`}
        </p>
      `)}
      ${!gone && held.length + believed.length + blocked.length === 0 && html`
        <p class="quiet">holds nothing</p>
      `}
    </div>
  `;
}
