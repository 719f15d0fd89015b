/** The marks of a lease tape: how an attempt ended, as a shape at the end of its bar. */
import { html } from "./ui.js";

const TORN = ["expired", "given up", "lost"];
const BAD = ["failed", "dead_lettered", "dead_letter", "dead letter"];

/** @param {{outcome: string, x: number, y: number}} props */
export function EndMark({ outcome, x, y }) {
  if (outcome === "held") return html`<circle class="now" cx=${x} cy=${y} r="4.5" />`;
  if (outcome === "completed")
    return html`
      <g class="end good">
        <circle cx=${x} cy=${y} r="7.5" />
        <path d=${`M${x - 3.2} ${y + 0.3}l2.2 2.4l4.2-4.8`} />
      </g>
    `;
  if (TORN.includes(outcome))
    return html`<path class="end torn" d=${`M${x} ${y - 11}l-3 5.5l6 5.5l-6 5.5l3 5.5`} />`;
  if (BAD.includes(outcome)) return html`<path class="end bad" d=${`M${x - 5} ${y - 5}h10v10h-10z`} />`;
  return html`<path class="end again" d=${`M${x} ${y - 6.5}l6.5 6.5l-6.5 6.5l-6.5-6.5z`} />`;
}
