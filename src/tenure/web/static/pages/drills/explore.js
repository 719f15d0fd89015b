/** The explorer: which guard stops a stale write, and when; each answer is a run on the real engine. */
import { Copy, Panel } from "../../lib/parts.js";
import { html, useState } from "../../lib/ui.js";
import { Ledger } from "./books.js";
import { memory } from "./compared.js";
import { Pick, PlayEnd, Slider } from "./controls.js";
import { Answer, Compared } from "./explored.js";
import { GUARDS } from "./guards.js";
import { Log } from "./log.js";
import { open, stage } from "./store.js";
import { Captions, Verdict } from "./story.js";
import { Tape } from "./tape.js";
import { key_of, shown } from "./view.js";
import { cli } from "./words.js";

/** @typedef {import("./guards.js").Asked} Asked */

/** @type {Asked} */
const START = {
  guard: "fence",
  lease_seconds: 1,
  stall_seconds: 2,
  stall: "frozen",
  renews: false,
  taker: "another",
  second: "busy",
};
const PICKS = /** @type {[keyof Asked, string, [any, string][]][]} */ ([
  [
    "stall",
    "Kind of stall",
    [
      ["frozen", "process frozen"],
      ["slow", "slow call"],
    ],
  ],
  [
    "renews",
    "Renewal",
    [
      [true, "on"],
      [false, "off"],
    ],
  ],
  [
    "taker",
    "Who takes over",
    [
      ["another", "another worker"],
      ["same", "the same worker's name"],
    ],
  ],
  [
    "second",
    "When it comes back, the second",
    [
      ["busy", "is at work"],
      ["done", "has completed"],
    ],
  ],
]);

/** @type {ReturnType<typeof memory<Asked, import("./said.js").Verdict>>} */
const { runs, begin, useResult } = memory();

/** @param {{pace: number, opened: (id: string | null) => void}} props */
export function Explorer({ pace, opened }) {
  const [asked, setAsked] = useState(START);
  const state = shown.value;
  const key = key_of(state);
  useResult(stage.value?.id, state.verdict);
  const run = async () => {
    const id = await open({ explore: asked, pace_seconds: pace });
    begin(id, asked);
    opened(id);
  };
  return html`
    <${Question}
      asked=${asked}
      set=${(/** @type {Partial<Asked>} */ change) => setAsked({ ...asked, ...change })}
      run=${run}
    />
    ${state.verdict && html`<${Answer} verdict=${state.verdict} />`}
    <div class="drill-wide">
      <${Panel} title="Tape" aside=${key}>
        <${Tape} state=${state} of=${key} />
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
    <${Compared} runs=${runs.value} />
  `;
}

/**
 * The settings of the explorer.
 * @param {{asked: Asked, set: (change: Partial<Asked>) => void, run: () => void}} props
 */
function Question({ asked, set, run }) {
  const { renews, ...options } = asked;
  const command = cli("tenure drill explore", options) + (renews ? " --renews" : " --no-renews");
  const to = (/** @type {keyof Asked} */ name) => (/** @type {any} */ value) => set({ [name]: value });
  return html`
    <${Panel}
      title="Which guard stops the stale write?"
      className="drill-explore"
      aside=${html`<${Copy} text=${command} label="Copy as CLI" />`}
    >
      <div class="panel-body">
        <p>
          A worker claims a row, stalls, and comes back to write. Set what it meets, then run it: two
          real processes, one real Postgres.
        </p>
        <${GuardList} value=${asked.guard} choose=${to("guard")} />
        <div class="drill-settings">
          <${Slider}
            label="Lease"
            value=${asked.lease_seconds}
            min=${0.2}
            max=${10}
            step=${0.2}
            commit=${to("lease_seconds")}
          />
          <${Slider}
            label="Stall"
            value=${asked.stall_seconds}
            min=${0}
            max=${15}
            step=${0.2}
            commit=${to("stall_seconds")}
          />
          ${PICKS.map(([name, label, choices]) => html`
            <${Pick} key=${name} label=${label} value=${asked[name]} options=${choices} choose=${to(name)} />
          `)}
        </div>
        <${PlayEnd} word="Run" play=${run} />
      </div>
    <//>
  `;
}

/** @param {{value: string, choose: (guard: string) => void}} props */
function GuardList({ value, choose }) {
  return html`
    <fieldset class="drill-guards">
      <legend>What is checked before the write counts</legend>
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
