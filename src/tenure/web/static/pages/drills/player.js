/** A recording on show: play, pause, speed, a scrubber, and the way back. */
import { Choice } from "../../lib/parts.js";
import { html, useRef } from "../../lib/ui.js";
import {
  SPEEDS,
  length,
  moment,
  parse,
  put_away,
  recording,
  roll,
  rolling,
  save,
  show,
  speed,
} from "./replay.js";

export function Player() {
  const found = recording.value;
  if (!found) return null;
  const slide = (/** @type {any} */ event) => (
    (rolling.value = false),
    (moment.value = Number(event.target.value))
  );
  return html`
    <section class="panel drill-player" aria-label="Recording">
      <header>
        <span class="tag">recording</span>
        <b>${found.title}</b>
        ${found.control && html`<span class="tag warn">without its guard</span>`}
        <button class="button small" onClick=${put_away}>
          Close the recording
        </button>
      </header>
      ${found.story && html`<p class="quiet">${found.story}</p>`}
      <div class="drill-scrub">
        <button class="button primary" onClick=${roll}>
          ${rolling.value ? "Pause" : "Play"}
        </button>
        <input
          type="range"
          min="0"
          max=${length.value}
          step="0.01"
          value=${moment.value}
          aria-label="Moment"
          aria-valuetext=${`${moment.value.toFixed(1)} of ${length.value.toFixed(1)} seconds`}
          onInput=${slide}
        />
        <span class="number">
          ${moment.value.toFixed(1)} / ${length.value.toFixed(1)} s
        </span>
        <${Choice}
          label="Speed"
          value=${speed.value}
          options=${SPEEDS}
          choose=${(/** @type {number} */ to) => (speed.value = to)}
        />
      </div>
    </section>
  `;
}

/** Save, open, watch. @param {{saves: null | (() => any), tell: (sentence: string | null) => void}} props */
export function RecordingActions({ saves, tell }) {
  const file = useRef(/** @type {HTMLInputElement | null} */ (null));
  const take = async (/** @type {string} */ name, /** @type {() => Promise<string>} */ read) => {
    try {
      show(parse(await read(), name));
      tell(null);
    } catch (error) {
      tell(/** @type {Error} */ (error).message);
    }
  };
  const opened = () => {
    const chosen = file.current?.files?.[0];
    if (chosen) take(chosen.name, () => chosen.text());
    if (file.current) file.current.value = "";
  };
  const watch = () =>
    take("The recording", async () => {
      const answer = await fetch("static/recordings/lease-race.json").catch(() => null);
      if (!answer?.ok) throw new Error("The recording cannot be fetched: the server does not answer.");
      return answer.text();
    });
  return html`
    <button class="button" onClick=${watch}>
      Watch a recording
    </button>
    <button class="button" onClick=${() => file.current?.click()}>
      Open recording
    </button>
    <input
      ref=${file}
      type="file"
      accept="application/json,.json"
      hidden
      aria-label="Recording to open"
      onChange=${opened}
    />
    ${saves && html`
      <button class="button" onClick=${() => save(saves())}>
        Save recording
      </button>
    `}
  `;
}
