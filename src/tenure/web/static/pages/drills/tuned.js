/** What the tuner measured: rows over time, the figures of the last run, and all runs side by side. */
import { Chart } from "../../lib/chart.js";
import { Empty, Panel } from "../../lib/parts.js";
import { duration } from "../../lib/time.js";
import { html, useMemo } from "../../lib/ui.js";
import { number } from "../../lib/words.js";
import { stage } from "./store.js";

/**
 * @typedef {{workers: number, slots: number, handler_seconds: number, poll_seconds: number, listen: boolean,
 *   backlog: number, arrivals_per_second: number, seconds: number}} Asked
 */
/** @typedef {import("./said.js").Tuned} Tuned */

/** Rows done over time, while it runs and after. @param {{state: import("./said.js").State}} props */
export function Done({ state }) {
  const samples = state.tuned?.samples ?? state.samples;
  const at = useMemo(() => samples.map(([t]) => new Date(t * 1000).toISOString()), [samples]);
  const series = useMemo(
    () => [{ label: "rows done", token: "--completed", values: samples.map(([, done]) => done) }],
    [samples],
  );
  const across = (/** @type {number} */ seconds) => `${+seconds.toFixed(1)} s`;
  return html`
    <${Panel} title="Rows done">
      ${samples.length < 2 ? html`
        <${Empty}>${stage.value ? "The workers start…" : "Press Run."}<//>
      ` : html`
        <${Chart}
          at=${at}
          series=${series}
          format=${number}
          across=${across}
          label="Rows done since the start"
          height=${220}
        />
      `}
    <//>
  `;
}

/** @param {{tuned: Tuned | null}} props */
export function Measured({ tuned }) {
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

/** @param {{runs: {id: string, asked: Asked, result: Tuned}[]}} props */
export function Compared({ runs }) {
  if (!runs.length) return null;
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
            ${runs.map(({ id, asked, result }) => html`
              <${Line} key=${id} asked=${asked} tuned=${result} />
            `)}
          </tbody>
        </table>
      </div>
    <//>
  `;
}

/** @param {{asked: Asked, tuned: Tuned}} props */
function Line({ asked, tuned }) {
  return html`
    <tr>
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
  `;
}
