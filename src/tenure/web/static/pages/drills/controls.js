/** Sliders and the play button: what is set before a scene begins. */
import { ask } from "../../lib/route.js";
import { html, useEffect, useState } from "../../lib/ui.js";
import { can } from "../../lib/can.js";
import { busy, end, is_open, playing } from "./store.js";

/**
 * A slider that shows what it stands at; `commit` hears where it was let go.
 * @param {{label: string, value: number, min: number, max: number, step: number, unit?: string,
 *   disabled?: boolean, title?: string, commit: (value: number) => void}} props
 */
export function Slider({ label, value, min, max, step, unit = "s", disabled = false, title, commit }) {
  const [at, setAt] = useState(value);
  useEffect(() => setAt(value), [value]);
  const read = (/** @type {any} */ event) => Number(event.target.value);
  return html`
    <label class="drill-slider" title=${title}>
      <span>
        ${label}${" "}
        <b class="number">
          ${at}
          ${unit && ` ${unit}`}
        </b>
      </span>
      <input
        type="range"
        min=${min}
        max=${max}
        step=${step}
        value=${at}
        disabled=${disabled}
        aria-valuetext=${`${at} ${unit}`}
        onInput=${(/** @type {any} */ event) => setAt(read(event))}
        onChange=${(/** @type {any} */ event) => commit(read(event))}
      />
    </label>
  `;
}

/** Play, and End while there is something to end. @param {{word: string, play: () => void}} props */
export function PlayEnd({ word, play }) {
  return html`
    <div class="drill-play">
      <button
        class="button primary"
        disabled=${busy.value || playing.value || !can("drill")}
        title=${can("drill") ? "On a fresh stage" : "This takes the role admin."}
        onClick=${play}
      >
        ${busy.value ? "Opening a stage…" : word}
      </button>
      ${is_open.value && html`
        <button class="button" onClick=${finish} title="Ends its processes and removes its schema">
          End
        </button>
      `}
    </div>
  `;
}

/** Ends the stage, also in the address. */
const finish = () => end().finally(() => ask({ stage: null }, { replace: true }));
