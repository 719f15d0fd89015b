/** A switch between running and paused. */
import { html, useState } from "./ui.js";

/**
 * @param {{on: boolean, label: string, words?: [string, string], may: boolean,
 *   flip: () => Promise<any>}} props words: when on, when off
 */
export function Switch({ on, label, words = ["runs", "paused"], may, flip }) {
  const [busy, setBusy] = useState(false);
  const word = words[on ? 0 : 1];
  if (!may) return html`<span class=${`tag ${on ? "" : "warn"}`}>${word}</span>`;
  const press = () => {
    setBusy(true);
    flip().finally(() => setBusy(false));
  };
  return html`
    <button
      type="button"
      class="switch"
      role="switch"
      aria-checked=${on ? "true" : "false"}
      aria-label=${`${label}: ${word}`}
      disabled=${busy}
      onClick=${press}
    >
      <i aria-hidden="true"></i>
      <span>${word}</span>
    </button>
  `;
}
