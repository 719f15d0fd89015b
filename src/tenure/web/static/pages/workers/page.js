/** The fleet: workers that are alive, and those that are dead. */
import { useAnswer } from "../../lib/answer.js";
import { Empty, Fault, Page, Panel } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { Living } from "./card.js";
import { Graveyard } from "./graveyard.js";
import { summary, usual_version } from "./words.js";

/** @typedef {import("./words.js").Member} Member */

export default function Workers() {
  const { answer, fault, reload } = useAnswer("api/workers");
  const all = /** @type {Member[]} */ (answer?.workers ?? []);
  const living = all.filter((each) => each.status !== "dead");
  const dead = all.filter((each) => each.status === "dead");
  const usual = usual_version(living);
  return html`
    <${Page} title="Workers" note=${answer && summary(all)}>
      <${Fault} fault=${fault} retry=${reload} />
      ${answer && !living.length && html`
        <${Panel}>
          <${Empty}>
            No worker is alive, so nothing runs. Start one: <code>tenure worker app:inbox</code>
          <//>
        <//>
      `}
      <ul class="fleet" aria-label="Living workers">
        ${living.map((each) => html`
          <${Living} key=${`${each.inbox ?? ""} ${each.id}`} worker=${each} usual=${usual} />
        `)}
      </ul>
      ${dead.length > 0 && html`<${Graveyard} dead=${dead} />`}
    <//>
  `;
}
