/** The server's clock on the page, and times relative to it. */
import { skew_ms } from "./api.js";
import { paused } from "./live.js";
import { exact, relative } from "./time.js";
import { html, signal } from "./ui.js";

/** The server's milliseconds since 1970, once a second while the page is alive. */
export const clock = signal(Date.now());
setInterval(() => !paused.value && (clock.value = Date.now() + skew_ms.value), 1000);

/** A moment, relative, with the exact one on hover. @param {{at: string | null, empty?: string}} props */
export function Ago({ at, empty = "–" }) {
  if (!at) return html`<span class="quiet">${empty}</span>`;
  return html`
    <time datetime=${at} title=${exact(at)}>
      ${relative(at, clock.value)}
    </time>
  `;
}
