/** The captions of a scene, each reached when the stage reports it, and what the scene proved. */
import { Panel } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { seconds_of } from "./words.js";

/** @typedef {import("./said.js").State} State */

/** @param {{state: State, captions: string[]}} props */
export function Captions({ state, captions }) {
  const { steps, verdict } = state;
  const all = Array.from(
    { length: Math.max(captions.length, steps.at(-1)?.of ?? 0) },
    (_, nth) => steps[nth]?.caption ?? captions[nth] ?? "…",
  );
  if (!all.length) return null;
  const here = verdict && !verdict.trouble ? all.length : steps.length - 1;
  const aside =
    here < 0
      ? `${all.length} steps`
      : here >= all.length
        ? "played"
        : `step ${here + 1} of ${all.length}`;
  return html`
    <${Panel}
      title="What to look at"
      aside=${html`<span class="drill-step">${aside}</span>`}
      className="drill-captions"
    >
      <ol class="drill-steps">
        ${all.map((caption, nth) => html`
          <li
            key=${nth}
            class=${nth < here ? "done" : nth === here ? "here" : ""}
            aria-current=${nth === here ? "step" : undefined}
          >
            <i aria-hidden="true">${nth < here ? "✓" : nth + 1}</i>
            <span>${caption}</span>
          </li>
        `)}
      </ol>
      <p class="unseen" role="status">
        ${here >= 0 && here < all.length ? all[here] : ""}
      </p>
    <//>
  `;
}

/**
 * The assertions, green or red; `without` names the guard that a control went without.
 * @param {{verdict: any, without?: string}} props
 */
export function Verdict({ verdict, without = "" }) {
  if (!verdict) return null;
  const words = verdict.ok
    ? `${without ? `Without ${without}` : "Shown"}: ${verdict.shown}`
    : verdict.trouble
      ? "Not finished"
      : "Not shown";
  return html`
    <section
      class=${`panel drill-verdict ${verdict.ok ? "ok" : "not"}`}
      aria-label="Verdict"
      role="status"
    >
      <header>
        <b>${words}</b>
        <span class="quiet">
          ${verdict.checks.filter((/** @type {any} */ check) => check.ok).length} of${" "}
          ${verdict.checks.length} assertions hold · ${seconds_of(verdict.seconds)}
        </span>
      </header>
      ${verdict.trouble && html`<p class="wrong">${verdict.trouble}</p>`}
      <ul>
        ${verdict.checks.map((/** @type {any} */ check) => html`
          <li key=${check.name} class=${check.ok ? "ok" : "not"}>
            <i aria-hidden="true">${check.ok ? "✓" : "✗"}</i>
            <span>${check.sentence}</span>
            <span class="unseen">${check.ok ? ": holds" : ": does not hold"}</span>
          </li>
        `)}
      </ul>
    </section>
  `;
}
