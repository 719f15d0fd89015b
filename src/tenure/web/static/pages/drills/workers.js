/** The workers of a stage: real processes with their pids, and what can be done to each. */
import { Panel } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { Do } from "./controls.js";
import { holdings } from "./holds.js";
import { now } from "./view.js";
import { tone } from "./words.js";

const STATES = /** @type {Record<string, string>} */ ({
  running: "runs",
  paused: "stopped",
  draining: "drains",
  gone: "gone",
});
const GONE_SHOWN = 4;
const NAMED_MAX = 2;

/** @typedef {import("./said.js").Hand} Hand */
/** @typedef {import("./said.js").Run} Run */
/** @typedef {import("./said.js").State} State */

/** @param {{state: State}} props */
export function Workers({ state }) {
  const { workers } = state.picture;
  const here = workers.filter((each) => each.state !== "gone");
  const gone = workers.filter((each) => each.state === "gone").slice(-GONE_SHOWN);
  return html`
    <${Panel} title="Workers" aside="real processes" className="drill-workers">
      <div class="panel-body">
        ${workers.length === 0 && html`<p class="quiet">No worker yet.</p>`}
        ${[...here, ...gone].map((worker) => html`
          <${Card} key=${worker.name} worker=${worker} state=${state} />
        `)}
        <div class="drill-acts">
          <${Do} does=${{ verb: "start" }} title="Starts a real worker in its own process">
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
            The line to the database is cut: workers cannot reach it.
          </p>
        `}
      </div>
    <//>
  `;
}

/** @param {{worker: Hand, state: State}} props */
function Card({ worker, state }) {
  const { name, pid, state: is } = worker;
  return html`
    <section class=${`drill-card ${tone(name)} is-${is}`} aria-label=${name}>
      <header>
        <b class="mono">${name}</b>
        <span class="quiet number">pid ${pid}</span>
        <span class="drill-state">${STATES[is] ?? is}</span>
      </header>
      <${Holds} name=${name} gone=${is === "gone"} state=${state} />
      ${is !== "gone" && html`<${Signals} worker=${worker} />`}
    </section>
  `;
}

/** The signals that can be sent to it. @param {{worker: Hand}} props */
function Signals({ worker: { name, state: is, role } }) {
  return html`
    <div class="drill-acts">
      ${is === "paused" ? html`
        <${Do} small does=${{ verb: "resume", worker: name }} title="SIGCONT">
          Resume
        <//>
      ` : html`
        <${Do}
          small
          does=${{ verb: "pause", worker: name }}
          title="SIGSTOP: stops it in the middle of its work"
        >
          Pause
        <//>
      `}
      <${Do}
        small
        danger
        does=${{ verb: "kill", worker: name }}
        title="SIGKILL: ends it without warning"
      >
        Kill -9
      <//>
      ${is === "running" && role !== "racer" && html`
        <${Do}
          small
          does=${{ verb: "drain", worker: name }}
          title="SIGTERM: it finishes what it holds and exits"
        >
          Drain
        <//>
      `}
    </div>
  `;
}

/** What it holds, and what it believes to hold. @param {{name: string, gone: boolean, state: State}} props */
function Holds({ name, gone, state }) {
  const { held, believed, late } = holdings(state.runs, name, gone, now.value);
  const nothing = held.length + believed.length + late.length === 0;
  return html`
    <div class="drill-holds">
      ${held.length > 0 && html`
        <p>
          ${gone ? "held" : "holds"} ${listed(held, state.keys)}
        </p>
      `}
      ${!gone && believed.length > 0 && html`
        <p class="drill-believes">believes it holds ${listed(believed, state.keys)}</p>
      `}
      ${late.map((write) => html`
        <p key=${write.at} class=${write.ok ? "drill-loud" : "drill-blocked"}>
          ${late_line(write)}
        </p>
      `)}
      ${!gone && nothing && html`<p class="quiet">holds nothing</p>`}
    </div>
  `;
}

/**
 * "order:1 with token 2, order:2 with token 1 and 3 more".
 * @param {Run[]} runs
 * @param {Record<string, string>} keys
 */
function listed(runs, keys) {
  const last = runs.slice(-NAMED_MAX).map((run) => `${keys[run.job]} with token ${run.token}`);
  const more = runs.length - last.length;
  return last.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** @param {import("./said.js").Late} write */
const late_line = ({ ok, token }) =>
  ok ? `wrote with stale token ${token}` : `✗ write with token ${token} blocked`;
