/** The charts of the overview: what waited, what ended, how much of it badly, and how long it took. */
import { Chart } from "../../lib/chart.js";
import { Empty, Panel } from "../../lib/parts.js";
import { duration } from "../../lib/time.js";
import { html } from "../../lib/ui.js";
import { number, short } from "../../lib/words.js";
import { begun, busy, failing, lines, percent } from "./lately.js";

const OUTCOMES = [
  ["completed", "--completed"],
  ["retried", "--scheduled"],
  ["released", "--pending"],
  ["failed", "--failed"],
  ["dead_lettered", "--dead"],
  ["cancelled", "--cancelled"],
];

/** @param {{series: any[], step_seconds: number, lately: any}} props */
export function Charts({ series, step_seconds, lately }) {
  const shown = begun(series, busy);
  const at = shown.map((point) => point.at);
  return html`
    <div class="columns">
      <${Backlog} backlog=${lately?.backlog} />
      <${Settled} at=${at} series=${shown} step_seconds=${step_seconds} />
      <${Panel} title="Failure rate">
        <${Chart}
          at=${at}
          series=${[{ label: "of attempts", token: "--dead", values: shown.map(failing) }]}
          format=${percent}
          label="Share of attempts that raised"
        />
      <//>
      <${Times} at=${at} series=${shown} />
    </div>
  `;
}

/** @param {{backlog: any}} props */
function Backlog({ backlog }) {
  const waiting = backlog?.queues ?? [];
  return html`
    <${Panel} title="Backlog, due rows by queue">
      ${waiting.length > 0 && html`
        <${Chart}
          at=${backlog.at}
          series=${lines(waiting)}
          stacked
          format=${(/** @type {number} */ n) => (n >= 10_000 ? short(n) : number(Math.round(n)))}
          label="Due rows by queue over time"
        />
      `}
      ${backlog && !waiting.length && html`
        <${Empty}>
          ${backlog.at.length ? html`
            Nothing waited in this period: every row was claimed within ten seconds of being due.
          ` : html`
            Nobody counted yet. A worker does, every ten seconds: <code>tenure worker app:inbox</code>
          `}
        <//>
      `}
    <//>
  `;
}

/** @param {{at: string[], series: any[], step_seconds: number}} props */
function Settled({ at, series, step_seconds }) {
  const seen = OUTCOMES.filter(
    ([name]) => name === "completed" || series.some((point) => point[name] > 0),
  );
  const settled = seen.map(([name, token]) => ({
    label: name.replace("_", " "),
    token,
    values: series.map((point) => point[name] / step_seconds),
  }));
  return html`
    <${Panel} title="Settled per second">
      <${Chart}
        at=${at}
        series=${settled}
        stacked
        format=${rate}
        label="Settled rows per second by outcome"
      />
    <//>
  `;
}

/** @param {{at: string[], series: any[]}} props */
function Times({ at, series }) {
  const times = [
    ["wait", "--accent"],
    ["run", "--held"],
  ].flatMap(([name, token]) => [
    { label: `${name} p50`, token, values: series.map((point) => point[`${name}_p50`]) },
    { label: `${name} p95`, token, pale: true, values: series.map((point) => point[`${name}_p95`]) },
  ]);
  return html`
    <${Panel} title="Time to start, time to run">
      <${Chart}
        at=${at}
        series=${times}
        format=${duration}
        label="Wait and run time, median and 95th percentile"
      />
    <//>
  `;
}

/** @param {number} value */
const rate = (value) =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : String(+value.toFixed(2));
