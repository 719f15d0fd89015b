/**
 * The tuner: workers, slots, poll and backlog set by hand; throughput, lag and bottleneck measured by running
 * it.
 */
import { Chart } from "../../lib/chart.js";
import { Copy, Empty, Panel } from "../../lib/parts.js";
import { duration } from "../../lib/time.js";
import { html, signal, useEffect, useMemo, useState } from "../../lib/ui.js";
import { number } from "../../lib/words.js";
import { PlayEnd, Slider } from "./controls.js";
import { Pick } from "./explore.js";
import { open, stage } from "./store.js";
import { shown } from "./view.js";
import { cli } from "./words.js";

/**
 * @typedef {{workers: number, slots: number, handler_seconds: number, poll_seconds: number, listen: boolean,
 *   backlog: number, arrivals_per_second: number, seconds: number}} Asked
 */
const START = /** @type {Asked} */ ({
  workers: 2,
  slots: 8,
  handler_seconds: 0.02,
  poll_seconds: 1,
  listen: true,
  backlog: 1000,
  arrivals_per_second: 0,
  seconds: 5,
});
const SLIDERS = /** @type {[keyof Asked, string, number, number, number, string][]} */ ([
  ["workers", "Workers", 1, 4, 1, ""],
  ["slots", "Slots each", 1, 100, 1, ""],
  ["handler_seconds", "Handler time", 0, 1, 0.01, "s"],
  ["poll_seconds", "Poll interval", 0.05, 5, 0.05, "s"],
  ["backlog", "Backlog", 1, 5000, 1, "rows"],
  ["arrivals_per_second", "Arrivals", 0, 500, 10, "a second"],
  ["seconds", "Run for", 2, 20, 1, "s"],
]);

const runs = signal(/** @type {{id: string, asked: Asked, tuned: any}[]} */ ([]));
const asked_of = signal(/** @type {Record<string, Asked>} */ ({}));

/** @param {{opened: (id: string | null) => void}} props */
export function Tuner({ opened }) {
  const [asked, setAsked] = useState(START);
  const state = shown.value;
  useRuns();
  const run = async () => {
    const id = await open({ tune: asked });
    if (id) asked_of.value = { ...asked_of.value, [id]: asked };
    opened(id);
  };
  const { listen, ...options } = asked;
  return html`
    <${Panel}
      title="What holds a queue back?"
      className="drill-explore"
      aside=${
        html`<${Copy}
          text=${cli("tenure drill tune", options) + (listen ? " --listen" : " --no-listen")}
          label="Copy as CLI"
        />`
      }
    >
      <div class="panel-body">
        <p>
          Real workers take a real backlog from this database. What is measured here holds for this
          machine, as busy as it is now.
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
              commit=${(/** @type {number} */ to) => setAsked({ ...asked, [name]: to })}
            />
          `)}
          <${Pick}
            label="NOTIFY"
            value=${asked.listen}
            options=${[
              [true, "on"],
              [false, "off"],
            ]}
            choose=${(/** @type {boolean} */ to) => setAsked({ ...asked, listen: to })}
          />
        </div>
        <${PlayEnd} word="Run" play=${run} />
      </div>
    <//>
    <div class="drill-wide">
      <${Done} state=${state} />
      <${Measured} tuned=${state.tuned} />
    </div>
    <${Compared} />
  `;
}

function useRuns() {
  const [id, tuned] = [stage.value?.id, shown.value.tuned];
  useEffect(() => {
    const asked = id && asked_of.value[id];
    if (id && asked && tuned && !runs.value.some((each) => each.id === id))
      runs.value = [{ id, asked, tuned }, ...runs.value].slice(0, 20);
  }, [id, tuned]);
}

/** Rows done over time, while it runs and after. @param {{state: import("./reduce.js").State}} props */
function Done({ state }) {
  const samples = /** @type {number[][]} */ (state.tuned?.samples ?? state.samples);
  const at = useMemo(() => samples.map(([t]) => new Date(t * 1000).toISOString()), [samples]);
  const series = useMemo(
    () => [{ label: "rows done", token: "--completed", values: samples.map(([, done]) => done) }],
    [samples],
  );
  return html`
    <${Panel} title="Rows done">
      ${samples.length < 2 ? html`
        <${Empty}>${stage.value ? "The workers start…" : "Press Run."}<//>
      ` : html`
        <${Chart}
          at=${at}
          series=${series}
          format=${number}
          across=${(/** @type {number} */ seconds) => `${+seconds.toFixed(1)} s`}
          label="Rows done since the start"
          height=${220}
        />
      `}
    <//>
  `;
}

/** @param {{tuned: any}} props */
function Measured({ tuned }) {
  if (!tuned)
    return html`
      <${Panel} title="Measured">
        <${Empty}>Throughput, lag and the bottleneck come when the run has ended.<//>
      <//>
    `;
  if (tuned.trouble)
    return html`
      <${Panel} title="Measured">
        <p class="panel-body wrong" role="alert">
          ${tuned.trouble}
        </p>
      <//>
    `;
  return html`
    <${Panel} title="Measured" className="drill-measured">
      <dl class="drill-figures">
        <div>
          <dd>${number(Math.round(tuned.rows_per_second))}</dd>
          <dt>rows a second</dt>
        </div>
        <div>
          <dd>${duration(tuned.lag_p50_seconds)}</dd>
          <dt>lag p50</dt>
        </div>
        <div>
          <dd>${duration(tuned.lag_p95_seconds)}</dd>
          <dt>lag p95</dt>
        </div>
      </dl>
      <div class="panel-body" role="status">
        <p>
          Bottleneck: <b class="drill-neck">${tuned.bottleneck}</b>
        </p>
        <p>${tuned.explanation}</p>
        <p class="quiet">
          ${number(tuned.rows)} rows in ${duration(tuned.seconds)}
        </p>
      </div>
    <//>
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
              <th class="right">Workers</th>
              <th class="right">Slots</th>
              <th class="right">Handler</th>
              <th class="right">Poll</th>
              <th>NOTIFY</th>
              <th class="right">Backlog</th>
              <th class="right">Arrivals</th>
              <th class="right">Rows a second</th>
              <th class="right">Lag p95</th>
              <th>Bottleneck</th>
            </tr>
          </thead>
          <tbody>
            ${runs.value.map(({ id, asked, tuned }) => html`
              <tr key=${id}>
                <td class="right" data-label="Workers">
                  ${asked.workers}
                </td>
                <td class="right" data-label="Slots">
                  ${asked.slots}
                </td>
                <td class="right" data-label="Handler">
                  ${duration(asked.handler_seconds)}
                </td>
                <td class="right" data-label="Poll">
                  ${duration(asked.poll_seconds)}
                </td>
                <td data-label="NOTIFY">${asked.listen ? "on" : "off"}</td>
                <td class="right" data-label="Backlog">
                  ${number(asked.backlog)}
                </td>
                <td class="right" data-label="Arrivals">
                  ${asked.arrivals_per_second || "at once"}
                </td>
                <td class="right" data-label="Rows a second">
                  <b>${tuned.trouble ? "–" : number(Math.round(tuned.rows_per_second))}</b>
                </td>
                <td class="right" data-label="Lag p95">
                  ${duration(tuned.lag_p95_seconds)}
                </td>
                <td data-label="Bottleneck">${tuned.bottleneck ?? "trouble"}</td>
              </tr>
            `)}
          </tbody>
        </table>
      </div>
    <//>
  `;
}
