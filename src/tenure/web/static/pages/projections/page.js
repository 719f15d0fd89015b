/** Projections: how far each shard has read, what stopped it; pause, resume, rebuild, skip. */
import { useAnswer } from "../../lib/answer.js";
import { can, verb_of } from "../../lib/can.js";
import { Ago } from "../../lib/clock.js";
import { Empty, Fault, Page, Panel } from "../../lib/parts.js";
import { Switch } from "../../lib/switch.js";
import { duration } from "../../lib/time.js";
import { html } from "../../lib/ui.js";
import { number, plural } from "../../lib/words.js";
import { pause, rebuild, resume, skip } from "./acts.js";
import { journals, read_up_to } from "./journals.js";

/**
 * @typedef {{shard: number, position: number, behind: number, lag_seconds: number, state: string,
 *   stopped_at: number | null, error: string | null, skipped: number, updated_at: string}} Shard
 * @typedef {import("./journals.js").Journal} Journal
 * @typedef {{projection: string, paused: boolean, shards: Shard[], inbox?: string}} Projection
 */

export default function Projections() {
  const { answer, fault, reload } = useAnswer("api/projections", { every_seconds: 2 });
  const every = /** @type {Projection[]} */ (answer?.projections ?? []);
  return html`
    <${Page}
      title="Projections"
      note=${
        answer
          ? `the journal can be read up to ${read_up_to(journals(answer))}`
          : "tables made of the journal"
      }
    >
      <${Fault} fault=${fault} retry=${reload} />
      ${answer && journals(answer).map((each) => html`<${Held} key=${each.inbox} journal=${each} />`)}
      ${answer && !every.length && html`
        <${Panel}>
          <${Empty}>
            No worker has declared a projection. Code does:${" "}
            <code>@journal.projection("order_totals", of=["order.*"])</code>
          <//>
        <//>
      `}
      ${every.map((each) => html`
        <${One} key=${`${each.inbox ?? ""} ${each.projection}`} each=${each} />
      `)}
    <//>
  `;
}

/** @param {{journal: Journal}} props */
function Held({ journal: { inbox, horizon, last } }) {
  if (last <= horizon) return null;
  return html`
    <p class="fault">
      <span>
        An open transaction that appends${inbox && ` in ${inbox}`} holds back${" "}
        ${plural(last - horizon, "number")} above it; <code>tenure doctor</code> names its session.
      </span>
    </p>
  `;
}

/** @param {{each: Projection}} props */
function One({ each }) {
  const { projection, paused, shards } = each;
  const stopped = shards.filter((shard) => shard.stopped_at !== null);
  const failing = shards.filter((shard) => shard.stopped_at === null && shard.error);
  const gone = shards.some((shard) => shard.shard >= 0 && GONE.has(shard.state));
  return html`
    <${Panel}
      title=${projection}
      tag=${each.inbox}
      aside=${html`<${Acts} each=${each} stopped=${stopped.length > 0} gone=${gone} />`}
    >
      <div class="scroll">
        <table class="table cards">
          <thead>
            <tr>
              <th>Shard</th>
              <th>State</th>
              <th class="right">Position</th>
              <th class="right">Behind</th>
              <th>Lag</th>
              <th class="right">Skipped</th>
              <th>Last moved</th>
            </tr>
          </thead>
          <tbody>
            ${shards.map((shard) => html`
              <${Line} key=${shard.shard} shard=${shard} paused=${paused} />
            `)}
          </tbody>
        </table>
      </div>
      ${stopped.map((shard) => html`
        <p key=${shard.shard} class="fault">
          <span>
            ${called(shard)} has stopped at event ${number(shard.stopped_at ?? 0)}: ${shard.error}. Try
            again applies it once more, Skip passes over it.
          </span>
        </p>
      `)}
      ${failing.map((shard) => html`
        <p key=${shard.shard} class="fault">
          <span>
            ${called(shard)} does not get on: ${shard.error}
          </span>
        </p>
      `)}
    <//>
  `;
}

const GONE = new Set(["no_row", "failed", "dead_letter", "cancelled"]);
/** @type {Record<string, string>} */
const WORDS = { no_worker: "no worker serves it" };

/** @param {Shard} shard */
const called = ({ shard }) => (shard < 0 ? "The rebuild" : `Shard ${shard}`);

/** @param {{shard: Shard, paused: boolean}} props */
function Line({ shard, paused }) {
  const gone = GONE.has(shard.state);
  const bad = gone || (!paused && (shard.state === "no_worker" || shard.error));
  const state = paused && !gone ? "paused" : (WORDS[shard.state] ?? shard.state.replace("_", " "));
  return html`
    <tr class=${paused ? "is-paused" : ""}>
      <td class="title">${shard.shard < 0 ? "rebuild" : `shard ${shard.shard}`}</td>
      <td data-label="State">
        <span class=${`tag ${bad ? "bad" : ""}`}>${state}</span>
      </td>
      <td class="right" data-label="Position">
        ${number(shard.position)}
      </td>
      <td class="right" data-label="Behind">
        ${number(shard.behind)}
      </td>
      <td data-label="Lag">${shard.behind ? duration(shard.lag_seconds) : "none"}</td>
      <td class="right" data-label="Skipped">
        ${number(shard.skipped)}
      </td>
      <td data-label="Last moved">
        <${Ago} at=${shard.updated_at} />
      </td>
    </tr>
  `;
}

/** @param {{each: Projection, stopped: boolean, gone: boolean}} props */
function Acts({ each, stopped, gone }) {
  const { projection, paused } = each;
  return html`
    <div class="acts">
      ${stopped && can("skip_projection") && html`
        <button
          class="button danger small"
          aria-label=${`Skip the event that stopped ${projection}`}
          onClick=${() => skip(each)}
        >
          ${verb_of("skip_projection").button}
        </button>
      `}
      ${stopped && !paused && !gone && can("resume_projection") && html`
        <button
          class="button small"
          aria-label=${`Try again: ${projection}`}
          onClick=${() => resume(each)}
        >
          Try again
        </button>
      `}
      ${gone && can("resume_projection") && html`
        <button
          class="button small"
          aria-label=${`Bring back: ${projection}`}
          onClick=${() => resume(each)}
        >
          Bring back
        </button>
      `}
      ${can("rebuild_projection") && html`
        <button class="button small" aria-label=${`Rebuild ${projection}`} onClick=${() => rebuild(each)}>
          ${verb_of("rebuild_projection").button}
        </button>
      `}
      <${Switch}
        on=${!paused}
        label=${`Projection ${projection}`}
        may=${can(paused ? "resume_projection" : "pause_projection")}
        flip=${() => (paused ? resume(each) : pause(each))}
      />
    </div>
  `;
}
