/** What the reader can press and set around a stage: acts, sliders, choices, Play and End. */
import { can } from "../../lib/can.js";
import { Choice } from "../../lib/parts.js";
import { html, useEffect, useState } from "../../lib/ui.js";
import { act, busy, end, is_open, playing } from "./store.js";
import { hindrance, opened } from "./view.js";

/**
 * A slider that shows its value; `commit` is called with it on release.
 * @param {{label: string, value: number, min: number, max: number, step: number, unit?: string,
 *   disabled?: boolean, title?: string, commit: (value: number) => void}} props
 */
export function Slider({ label, value, min, max, step, unit = "s", disabled = false, title, commit }) {
  const [at, setAt] = useState(value);
  useEffect(() => setAt(value), [value]);
  const read = (/** @type {{target: HTMLInputElement}} */ event) => Number(event.target.value);
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
        title=${can("drill") ? "On a new stage" : "You need the role admin."}
        onClick=${play}
      >
        ${busy.value ? "Opening a stage…" : word}
      </button>
      ${is_open.value && html`
        <button class="button" onClick=${finish} title="Ends its processes and drops its schema">
          End
        </button>
      `}
    </div>
  `;
}

/** Ends the stage, also in the address. */
const finish = () => end().finally(() => opened(null));

/**
 * A choice of a few options, with a label.
 * @param {{label: string, value: any, options: [any, string][], choose: (value: any) => void}} props
 */
export function Pick({ label, value, options, choose }) {
  return html`
    <div class="drill-pick">
      <span>${label}</span>
      <${Choice} label=${label} value=${value} options=${options} choose=${choose} />
    </div>
  `;
}

/**
 * A button that does an act; while it is disabled, it says why.
 * @param {{does: Record<string, any>, children: any, danger?: boolean, small?: boolean, title: string}} props
 */
export function Do({ does, children, danger = false, small = false, title }) {
  const why = hindrance.value;
  return html`
    <button
      type="button"
      class=${`button ${danger ? "danger" : ""} ${small ? "small" : ""}`}
      disabled=${why !== ""}
      title=${why || title}
      onClick=${() => act(does)}
    >
      ${children}
    </button>
  `;
}
