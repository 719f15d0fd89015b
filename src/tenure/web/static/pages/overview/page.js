/** The overview: six numbers, what waits and fails by queue and by kind, and the fence where it held. */
import { to } from "../../lib/address.js";
import { useAnswer } from "../../lib/answer.js";
import { tick } from "../../lib/live.js";
import { Choice, Count, Fault, Page } from "../../lib/parts.js";
import { ask, place } from "../../lib/route.js";
import { duration, exact } from "../../lib/time.js";
import { html } from "../../lib/ui.js";
import { Charts } from "./charts.js";
import { Fence, lately_refused, QuietFence } from "./fence.js";
import { Tables } from "./tables.js";

const PERIODS = /** @type {[number, string][]} */ ([
  [900, "15 min"],
  [3600, "1 h"],
  [21_600, "6 h"],
  [86_400, "24 h"],
]);

export default function Overview() {
  const seconds = Number(place.value.query.seconds) || 3600;
  const { answer, fault, reload } = useAnswer("api/overview", {
    query: { seconds },
    every_seconds: 10,
  });
  const lately = useAnswer("api/lately", { query: { seconds }, every_seconds: 10 });
  const refusals = answer?.recent_refusals ?? [];
  const held = answer && (answer.fence.stale_writes_blocked > 0 || lately_refused(refusals, seconds));
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
        ${held && html`<${Fence} fence=${answer.fence} refusals=${refusals} />`}
        <${Fault} fault=${fault ? null : lately.fault} retry=${lately.reload} />
        <${Charts} series=${answer.series} step_seconds=${answer.step_seconds} lately=${lately.answer} />
        ${lately.answer && html`<${Tables} lately=${lately.answer} />`}
        ${!held && html`<${QuietFence} fence=${answer.fence} />`}
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
