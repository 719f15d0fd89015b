/** What can be done with the chosen rows: a page's worth by their ids, or all that match by the filter. */
import { act } from "../../lib/act.js";
import { on_rows } from "../../lib/can.js";
import { Copy } from "../../lib/parts.js";
import { state } from "../../lib/state.js";
import { html } from "../../lib/ui.js";
import { halves, takes } from "../../lib/verbs.js";
import { command, number, plural, short } from "../../lib/words.js";
import { statuses_of } from "./filter.js";

/** @typedef {{ids: Set<string>, all: boolean}} Chosen */

/** The filter of the rows chosen. @param {Chosen} chosen @param {string} filter */
const filter_of = (chosen, filter) => (chosen.all ? filter : `id:${[...chosen.ids].join(",")}`);

/** The states a filter asks for, none if it asks for any. @param {string} filter */
const asked = (filter) => statuses_of(filter).flatMap(halves);

/**
 * @param {{chosen: Chosen, rows: import("../../lib/state.js").Row[], filter: string, total: {n: number,
 *   more: boolean} | null, choose: (chosen: Chosen) => void}} props
 */
export function Bulk({ chosen, rows, filter, total, choose }) {
  if (!chosen.all && !chosen.ids.size) return null;
  const target = filter_of(chosen, filter);
  const there = chosen.all ? asked(filter) : rows.filter((row) => chosen.ids.has(row.id)).map(state);
  const fits = (/** @type {import("../../lib/verbs.js").Verb} */ verb) =>
    !there.length || takes(verb).some((status) => there.includes(status));
  const run = async (/** @type {string} */ verb) =>
    (await act(verb, target)) && choose({ ids: new Set(), all: false });
  const matching = total && (total.more ? `${short(total.n)}+` : number(total.n));
  return html`
    <div class="bulk" role="region" aria-label="Chosen rows">
      <b>
        ${chosen.all ? `All ${matching ?? ""} matching` : `${plural(chosen.ids.size, "row")} chosen`}
      </b>
      ${!chosen.all &&
        chosen.ids.size === rows.length &&
        total &&
        (total.more || total.n > rows.length) && html`
          <button class="button small" onClick=${() => choose({ ids: chosen.ids, all: true })}>
            Choose all ${matching} matching
          </button>
        `}
      <span class="bulk-verbs">
        ${on_rows().map((verb) => html`
          <button
            key=${verb.name}
            class=${`button small ${verb.grave ? "danger" : ""}`}
            disabled=${!fits(verb)}
            onClick=${() => run(verb.name)}
          >
            ${verb.button}…
          </button>
        `)}
        <${Copy} label="Copy command" text=${command("rows", target)} />
        <button class="button plain small" onClick=${() => choose({ ids: new Set(), all: false })}>
          Clear
        </button>
      </span>
    </div>
  `;
}
