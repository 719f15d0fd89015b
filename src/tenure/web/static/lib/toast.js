/** Short messages at the edge of the screen, announced to screen readers. */
import { html, signal } from "./ui.js";

/** @typedef {{id: number, text: string, tone: string, undo?: () => void}} Toast */
const toasts = signal(/** @type {Toast[]} */ ([]));
let last = 0;

/**
 * Says something for a while: toast("312 rows redriven"), toast(sentence, {tone: "bad"}), {undo: fn, seconds:
 * 10}.
 * @param {string} text
 * @param {{tone?: string, seconds?: number, undo?: () => void}} [options] returns the way to take it away
 */
export function toast(text, { tone = "", seconds = tone === "bad" ? 12 : 5, undo } = {}) {
  const id = ++last;
  const away = () => (toasts.value = toasts.value.filter((each) => each.id !== id));
  toasts.value = [...toasts.value.slice(-3), { id, text, tone, undo }];
  setTimeout(away, seconds * 1000);
  return away;
}

export function Toasts() {
  const away = (/** @type {Toast} */ gone) =>
    (toasts.value = toasts.value.filter((each) => each.id !== gone.id));
  return html`
    <div class="toasts" role="status" aria-live="polite">
      ${toasts.value.map((each) => html`
        <div key=${each.id} class=${`toast ${each.tone}`}>
          <span>${each.text}</span>
          ${each.undo && html`
            <button class="button small" onClick=${() => (each.undo?.(), away(each))}>
              Undo
            </button>
          `}
          <button class="button plain small" aria-label="Dismiss" onClick=${() => away(each)}>
            ×
          </button>
        </div>
      `)}
    </div>
  `;
}
