/** The explorer: which guard stops a stale write, and when; each answer is a run on the real engine. */
import { Choice, Copy, Panel } from "../../lib/parts.js";
import { html, signal, useEffect, useState } from "../../lib/ui.js";
import { PlayEnd, Slider } from "./controls.js";
import { Ledger } from "./board.js";
import { Log } from "./log.js";
import { open, stage } from "./store.js";
import { Captions, Verdict } from "./story.js";
import { Tape } from "./tape.js";
import { key_of, shown } from "./view.js";
import { cli, seconds_of } from "./words.js";

const GUARDS = /** @type {[string, string, string][]} */ ([
  ["none", "none", "Write, then finish the row by its id, whoever holds it."],
  ["owner", "owner", "The row must still bear the writer's name."],
  ["generation", "owner + generation", "Name and token of the row must be the writer's."],
  ["lease_time", "lease time", "The row's lease must not have run out."],
  ["downstream", "downstream fence", "The ledger refuses a token older than the newest it has seen."],
  ["fence", "all (Tenure)", "Name, token and lease at once, in the transaction of the write."],
]);
const NAMES = /** @type {Record<string, string>} */ (
  Object.fromEntries(GUARDS.map(([guard, word]) => [guard, word]))
);

/**
 * @typedef {{guard: string, lease_seconds: number, stall_seconds: number, stall: string, renews: boolean,
 *   taker: string, second: string}} Asked
 */
const START = /** @type {Asked} */ ({
  guard: "fence",
  lease_seconds: 1,
  stall_seconds: 2,
  stall: "frozen",
  renews: false,
  taker: "another",
  second: "busy",
});

/** The runs made in this page, to compare. */
const runs = signal(/** @type {{id: string, asked: Asked, verdict: any}[]} */ ([]));
const asked_of = signal(/** @type {Record<string, Asked>} */ ({}));

/** @param {{pace: number, opened: (id: string | null) => void}} props */
export function Explorer({ pace, opened }) {
  const [asked, setAsked] = useState(START);
  const set = (/** @type {Partial<Asked>} */ change) => setAsked({ ...asked, ...change });
  const state = shown.value;
  useRuns();
  const run = async () => {
    const id = await open({ explore: asked, pace_seconds: pace });
    if (id) asked_of.value = { ...asked_of.value, [id]: asked };
    opened(id);
  };
  const { renews, ...options } = asked;
  return html`
    <${Panel}
      title="Which guard stops the stale write?"
      className="drill-explore"
      aside=${
        html`<${Copy}
          text=${cli("tenure drill explore", options) + (renews ? " --renews" : " --no-renews")}
          label="Copy as CLI"
        />`
      }
    >
      <div class="panel-body">
        <p>
          A worker claims a row, stalls, and comes back to write. Set what it meets, then run it: two
          real processes, one real Postgres.
        </p>
        <${Guard} value=${asked.guard} choose=${(/** @type {string} */ guard) => set({ guard })} />
        <div class="drill-settings">
          <${Slider}
            label="Lease"
            value=${asked.lease_seconds}
            min=${0.2}
            max=${10}
            step=${0.2}
            commit=${(/** @type {number} */ lease_seconds) => set({ lease_seconds })}
          />
          <${Slider}
            label="Stall"
            value=${asked.stall_seconds}
            min=${0}
            max=${15}
            step=${0.2}
            commit=${(/** @type {number} */ stall_seconds) => set({ stall_seconds })}
          />
          <${Pick}
            label="Kind of stall"
            value=${asked.stall}
            options=${[
              ["frozen", "process frozen"],
              ["slow", "slow call"],
            ]}
            choose=${(/** @type {string} */ stall) => set({ stall })}
          />
          <${Pick}
            label="Renewal"
            value=${asked.renews}
            options=${[
              [true, "on"],
              [false, "off"],
            ]}
            choose=${(/** @type {boolean} */ renews) => set({ renews })}
          />
          <${Pick}
            label="Who takes over"
            value=${asked.taker}
            options=${[
              ["another", "another worker"],
              ["same", "the same worker's name"],
            ]}
            choose=${(/** @type {string} */ taker) => set({ taker })}
          />
          <${Pick}
            label="When it comes back, the second"
            value=${asked.second}
            options=${[
              ["busy", "is at work"],
              ["done", "has completed"],
            ]}
            choose=${(/** @type {string} */ second) => set({ second })}
          />
        </div>
        <${PlayEnd} word="Run" play=${run} />
      </div>
    <//>
    ${state.verdict && html`<${Answer} verdict=${state.verdict} />`}
    <div class="drill-wide">
      <${Panel} title="Tape" aside=${key_of(state)}>
        <${Tape} state=${state} of=${key_of(state)} />
      <//>
      <${Ledger} state=${state} />
    </div>
    <div class="columns">
      <div class="stack">
        <${Captions} state=${state} captions=${[]} />
        <${Verdict} verdict=${state.verdict} />
      </div>
      <${Log} />
    </div>
    <${Compared} />
  `;
}

/** Keeps each verdict beside what was asked. */
function useRuns() {
  const [id, verdict] = [stage.value?.id, shown.value.verdict];
  useEffect(() => {
    const asked = id && asked_of.value[id];
    if (id && asked && verdict && !runs.value.some((each) => each.id === id))
      runs.value = [{ id, asked, verdict }, ...runs.value].slice(0, 20);
  }, [id, verdict]);
}

/** @param {any} props */
function Guard({ value, choose }) {
  return html`
    <fieldset class="drill-guards">
      <legend>What is asked before the write counts</legend>
      ${GUARDS.map(([guard, word, meaning]) => html`
        <label key=${guard} class=${guard === value ? "picked" : ""}>
          <input
            type="radio"
            name="guard"
            value=${guard}
            checked=${guard === value}
            onChange=${() => choose(guard)}
          />
          <span>
            <b>${word}</b>
            <small class="quiet">${meaning}</small>
          </span>
        </label>
      `)}
    </fieldset>
  `;
}

/** @param {any} props */
export const Pick = ({ label, value, options, choose }) => html`
  <div class="drill-pick">
    <span>${label}</span>
    <${Choice} label=${label} value=${value} options=${options} choose=${choose} />
  </div>
`;

/** @param {{verdict: any}} props */
function Answer({ verdict }) {
  const written = verdict.written ?? [];
  const word = verdict.stopped_by
    ? `Stopped by: ${NAMES[verdict.stopped_by] ?? verdict.stopped_by}`
    : verdict.shown === "no race"
      ? "There was no race"
      : verdict.trouble
        ? "Not played to its end"
        : "Nothing stopped it";
  return html`
    <section
      class=${`panel drill-answer ${verdict.stopped_by || verdict.shown === "no race" ? "ok" : "not"}`}
      aria-label="What stopped it"
      role="status"
    >
      <b>${word}</b>
      <p>${verdict.explanation ?? verdict.trouble}</p>
      <p class="quiet">
        Written:${" "}
        ${written.length
          ? written
              .map((/** @type {any} */ each) => `${each.worker} with token ${each.token}`)
              .join(", ")
          : "nothing"}
      </p>
    </section>
  `;
}

function Compared() {
  if (!runs.value.length) return null;
  return html`
    <${Panel} title="Runs so far">
      <div class="scroll">
        <table class="table cards drill-runs">
          <thead>
            <tr>
              <th>Guard</th>
              <th class="right">Lease</th>
              <th class="right">Stall</th>
              <th>Kind</th>
              <th>Renewal</th>
              <th>Taken over by</th>
              <th>Second</th>
              <th>Written</th>
              <th>Stopped by</th>
            </tr>
          </thead>
          <tbody>
            ${runs.value.map(({ id, asked, verdict }) => html`
              <tr key=${id}>
                <td class="title">${NAMES[asked.guard]}</td>
                <td class="right" data-label="Lease">
                  ${seconds_of(asked.lease_seconds)}
                </td>
                <td class="right" data-label="Stall">
                  ${seconds_of(asked.stall_seconds)}
                </td>
                <td data-label="Kind">${asked.stall}</td>
                <td data-label="Renewal">${asked.renews ? "on" : "off"}</td>
                <td data-label="Taken over by">${asked.taker === "same" ? "same name" : "another"}</td>
                <td data-label="Second">${asked.second}</td>
                <td data-label="Written">
                  ${(verdict.written ?? [])
                    .map((/** @type {any} */ each) => `token ${each.token}`)
                    .join(", ") || "nothing"}
                </td>
                <td data-label="Stopped by">
                  ${verdict.stopped_by ? html`
                    <span class="tag good">${NAMES[verdict.stopped_by] ?? verdict.stopped_by}</span>
                  ` : verdict.shown === "no race" ? html`
                    <span class="tag">no race</span>
                  ` : html`
                    <span class="tag bad">${verdict.shown ?? "nothing"}</span>
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
