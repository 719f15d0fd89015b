/** The tuner: workers, slots, poll and backlog set by hand; throughput, lag and bottleneck measured. */
import { Copy, Panel } from "../../lib/parts.js";
import { html, useState } from "../../lib/ui.js";
import { memory } from "./compared.js";
import { Pick, PlayEnd, Slider } from "./controls.js";
import { open, stage } from "./store.js";
import { Compared, Done, Measured } from "./tuned.js";
import { shown } from "./view.js";
import { cli } from "./words.js";

/** @typedef {import("./tuned.js").Asked} Asked */

/** @type {Asked} */
const START = {
  workers: 2,
  slots: 8,
  handler_seconds: 0.02,
  poll_seconds: 1,
  listen: true,
  backlog: 1000,
  arrivals_per_second: 0,
  seconds: 5,
};
/** Name, label, from, to, step, unit. */
const SLIDERS = /** @type {[keyof Asked, string, number, number, number, string][]} */ ([
  ["workers", "Workers", 1, 4, 1, ""],
  ["slots", "Slots each", 1, 100, 1, ""],
  ["handler_seconds", "Handler time", 0, 1, 0.01, "s"],
  ["poll_seconds", "Poll interval", 0.05, 5, 0.05, "s"],
  ["backlog", "Backlog", 1, 5000, 1, "rows"],
  ["arrivals_per_second", "Arrivals", 0, 500, 10, "a second"],
  ["seconds", "Run for", 2, 20, 1, "s"],
]);

/** @type {ReturnType<typeof memory<Asked, import("./said.js").Tuned>>} */
const { runs, begin, useResult } = memory();

/** @param {{opened: (id: string | null) => void}} props */
export function Tuner({ opened }) {
  const [asked, setAsked] = useState(START);
  const state = shown.value;
  useResult(stage.value?.id, state.tuned);
  const run = async () => {
    const id = await open({ tune: asked });
    begin(id, asked);
    opened(id);
  };
  return html`
    <${Question}
      asked=${asked}
      set=${(/** @type {Partial<Asked>} */ change) => setAsked({ ...asked, ...change })}
      run=${run}
    />
    <div class="drill-wide">
      <${Done} state=${state} />
      <${Measured} tuned=${state.tuned} />
    </div>
    <${Compared} runs=${runs.value} />
  `;
}

/** @param {{asked: Asked, set: (change: Partial<Asked>) => void, run: () => void}} props */
function Question({ asked, set, run }) {
  const { listen, ...options } = asked;
  const command = cli("tenure drill tune", options) + (listen ? " --listen" : " --no-listen");
  return html`
    <${Panel}
      title="Where is the bottleneck?"
      className="drill-explore"
      aside=${html`<${Copy} text=${command} label="Copy as CLI" />`}
    >
      <div class="panel-body">
        <p>
          Real workers process a real backlog in this database. The numbers hold for this machine, as
          busy as it is now.
        </p>
        <div class="drill-settings">
          ${SLIDERS.map(([name, label, min, max, step, unit]) => html`
            <${Slider}
              key=${name}
              label=${label}
              value=${asked[name]}
              min=${min}
              max=${max}
              step=${step}
              unit=${unit}
              title=${
                name === "arrivals_per_second" ? "0: the whole backlog is there at once" : undefined
              }
              commit=${(/** @type {number} */ to) => set({ [name]: to })}
            />
          `)}
          <${Pick}
            label="NOTIFY"
            value=${listen}
            options=${[
              [true, "on"],
              [false, "off"],
            ]}
            choose=${(/** @type {boolean} */ to) => set({ listen: to })}
          />
        </div>
        <${PlayEnd} word="Run" play=${run} />
      </div>
    <//>
  `;
}
