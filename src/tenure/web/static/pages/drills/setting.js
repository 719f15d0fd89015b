/** The scene's story, its switch and sliders, and Play. */
import { Choice, Copy, Panel } from "../../lib/parts.js";
import { ask, place } from "../../lib/route.js";
import { html, useState } from "../../lib/ui.js";
import { Pick, PlayEnd, Slider } from "./controls.js";
import { PACE, PACES, otherwise, pace_of, unhurried } from "./props.js";
import { act, is_open, open, playing, state } from "./store.js";
import { opened } from "./view.js";
import { cli } from "./words.js";

/** @typedef {import("./said.js").Drill} Drill */

/** @param {{drill: Drill, control: boolean}} props */
export function Setting({ drill, control }) {
  const free = drill.name === "free";
  const pace = pace_of(place.value.query.pace);
  const [set, setSet] = useState(/** @type {Record<string, any>} */ ({}));
  const live = (free && is_open.value && state.value.picture.props) || null;
  const props = { ...unhurried(drill, pace), ...set, ...live };
  const other = otherwise(drill, props);
  const change = (/** @type {Record<string, any>} */ to) =>
    live ? act({ verb: "set", ...to }) : setSet({ ...set, ...to });
  const play = async () =>
    opened(
      await open({
        drill: free ? null : drill.name,
        control,
        pace_seconds: pace,
        props: free ? set : other,
      }),
    );
  return html`
    <${Panel} className="drill-setting">
      <div class="panel-body">
        <h2>${drill.title}</h2>
        <p>${drill.story}</p>
        ${drill.control && html`<${GuardChoice} guard=${drill.guard} control=${control} />`}
        <div class="drill-settings">
          <${Sliders} drill=${drill} props=${props} live=${live !== null} change=${change} />
          ${!free && html`<${Pick} label="Pause between steps" value=${pace} options=${PACES} choose=${rest} />`}
        </div>
        <div class="drill-foot">
          <${PlayEnd} word=${play_word(free)} play=${play} />
          ${drill.cli && html`
            <${Copy}
              className="button"
              text=${cli(drill.cli, { control, ...other })}
              label="Copy as CLI"
            />
          `}
        </div>
      </div>
    <//>
  `;
}

/** What the button that begins it says. @param {boolean} free */
function play_word(free) {
  if (free) return is_open.value ? "New stage" : "Open a stage";
  return state.value.verdict ? "Play again" : "Play";
}

/** With the scene's guard or without. @param {{guard: string, control: boolean}} props */
function GuardChoice({ guard, control }) {
  const options = [
    [false, `with ${guard}`],
    [true, "without it"],
  ];
  const choose = (/** @type {boolean} */ without) => ask({ control: without ? 1 : null, stage: null });
  return html`<${Choice} label="Guard" value=${control} options=${options} choose=${choose} />`;
}

/** @param {number} seconds */
const rest = (seconds) => ask({ pace: seconds === PACE ? null : seconds }, { replace: true });

/**
 * How long a lease and a handler take; one that may not be set now says why.
 * @param {{drill: Drill, props: Record<string, any>, live: boolean,
 *   change: (to: Record<string, any>) => void}} props
 */
function Sliders({ drill, props, live, change }) {
  const { lease_seconds, handler_seconds } = props;
  const later = live ? "For workers that start from now on" : undefined;
  const fixed = {
    lease: fixed_why(drill, "lease_seconds"),
    handler: fixed_why(drill, "handler_seconds"),
  };
  return html`
    <${Slider}
      label="Lease"
      value=${lease_seconds}
      min=${1}
      max=${Math.max(10, lease_seconds)}
      step=${0.5}
      disabled=${fixed.lease !== ""}
      title=${fixed.lease || later}
      commit=${(/** @type {number} */ to) => change({ lease_seconds: to })}
    />
    <${Slider}
      label="Handler time"
      value=${handler_seconds}
      min=${0}
      max=${5}
      step=${0.1}
      disabled=${fixed.handler !== ""}
      title=${fixed.handler || undefined}
      commit=${(/** @type {number} */ to) => change({ handler_seconds: to })}
    />
  `;
}

/** Why a prop cannot be set now; empty when it can. @param {Drill} drill @param {string} name */
function fixed_why(drill, name) {
  if (!drill.settable.includes(name)) return "This scene depends on it.";
  const begun = playing.value || (is_open.value && drill.name !== "free");
  return begun ? "Set it before the scene starts." : "";
}
