/** The overview: six numbers, two charts, and the fence. */
import { to } from "../../lib/address.js";
import { useAnswer } from "../../lib/answer.js";
import { Chart } from "../../lib/chart.js";
import { tick } from "../../lib/live.js";
import { Choice, Count, Fault, Page, Panel } from "../../lib/parts.js";
import { ask, place } from "../../lib/route.js";
import { duration, exact } from "../../lib/time.js";
import { html } from "../../lib/ui.js";
import { Fence } from "./fence.js";

const PERIODS = /** @type {[number, string][]} */ ([
  [900, "15 min"],
  [3600, "1 h"],
  [21_600, "6 h"],
  [86_400, "24 h"],
]);
const OUTCOMES = [
  ["completed", "--completed"],
  ["retried", "--failed"],
  ["released", "--pending"],
  ["failed", "--scheduled"],
  ["dead_lettered", "--dead"],
  ["cancelled", "--cancelled"],
];

export default function Overview() {
  const seconds = Number(place.value.query.seconds) || 3600;
  const { answer, fault, reload } = useAnswer("api/overview", {
    query: { seconds },
    every_seconds: 10,
  });
  const period = html`
    <${Choice}
      label="Period"
      value=${seconds}
      options=${PERIODS}
      choose=${(/** @type {number} */ each) => ask({ seconds: each === 3600 ? null : each })}
    />
  `;
  const old = answer && tick.value?.error && `as of ${exact(answer.at).slice(11, 19)}`;
  return html`
    <${Page} title="Overview" note=${old} actions=${period}>
      <${Fault} fault=${fault} retry=${reload} />
      ${answer && html`
        <${Numbers} now=${newest(answer, tick.value)} />
        <${Fence} fence=${answer.fence} refusals=${answer.recent_refusals ?? []} />
        <${Charts} series=${answer.series} step_seconds=${answer.step_seconds} />
      `}
    <//>
  `;
}

/** @param {any} answer @param {any} told */
const newest = (answer, told) =>
  told?.runnable && Date.parse(told.at) > Date.parse(answer.at) ? told : answer;

/** @param {{now: any}} props */
function Numbers({ now }) {
  const rows = (/** @type {string} */ filter) => to("rows", { filter });
  const { alive, draining, dead } = now.workers;
  return html`
    <nav class="numbers" aria-label="Now">
      <${Figure} label="Due" href=${rows("status:runnable")} mark="pending">
        <${Count} count=${now.runnable} />
      <//>
      <${Figure} label="Processing" href=${rows("status:processing")} mark="processing">
        <${Count} count=${now.held} />
      <//>
      <${Figure} label="Scheduled" href=${rows("status:scheduled")} mark="scheduled">
        <${Count} count=${now.scheduled} />
      <//>
      <${Figure}
        label="Failed, dead letters"
        href=${rows("status:failed,dead_letter")}
        mark="dead_letter"
      >
        <${Count} count=${now.dead} />
      <//>
      <${Figure} label="Oldest runnable" href=${rows("status:runnable")}>
        ${duration(now.oldest_runnable_seconds)}
      <//>
      <${Figure}
        label="Workers alive"
        href="workers"
        note=${[draining && `${draining} draining`, dead && `${dead} dead`].filter(Boolean).join(", ")}
      >
        ${alive}
      <//>
    </nav>
  `;
}

/** @param {{label: string, href: string, mark?: string, note?: string, children: any}} props */
const Figure = ({ label, href, mark, note, children }) => html`
  <a class="figure" href=${href}>
    <b>${children}</b>
    <span class=${mark ? `status is-${mark}` : "status"}>
      ${mark && html`<i aria-hidden="true"></i>`}
      ${label}
      ${note && html`
        ${" "}
        <em class="tag warn">${note}</em>
      `}
    </span>
  </a>
`;

/** @param {{series: any[], step_seconds: number}} props */
function Charts({ series, step_seconds }) {
  const at = series.map((point) => point.at);
  const seen = OUTCOMES.filter(
    ([name]) => name === "completed" || series.some((point) => point[name] > 0),
  );
  const settled = seen.map(([name, token]) => ({
    label: name.replace("_", " "),
    token,
    values: series.map((point) => point[name] / step_seconds),
  }));
  const times = [
    ["wait", "--accent"],
    ["run", "--held"],
  ].flatMap(([name, token]) => [
    { label: `${name} p50`, token, values: series.map((point) => point[`${name}_p50`]) },
    { label: `${name} p95`, token, pale: true, values: series.map((point) => point[`${name}_p95`]) },
  ]);
  return html`
    <div class="columns">
      <${Panel} title="Settled per second">
        <${Chart}
          at=${at}
          series=${settled}
          stacked
          format=${rate}
          label="Settled rows per second by outcome"
        />
      <//>
      <${Panel} title="Time to start, time to run">
        <${Chart}
          at=${at}
          series=${times}
          format=${duration}
          label="Wait and run time, median and 95th percentile"
        />
      <//>
    </div>
  `;
}

/** @param {number} value */
const rate = (value) =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : String(+value.toFixed(2));
