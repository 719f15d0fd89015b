/** The row of scenes above a stage, and what stands between the reader and the stage. */
import { to } from "../../lib/address.js";
import { place } from "../../lib/route.js";
import { html, useEffect, useRef } from "../../lib/ui.js";
import { lost, state, trouble } from "./store.js";
import { notice } from "./words.js";

const OTHERS = [
  ["free", "Free play"],
  ["explore", "Explorer"],
  ["tune", "Tuner"],
];

/** @param {{drills: import("./said.js").Drill[], scene: string}} props */
export function Scenes({ drills, scene }) {
  const row = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    // On a phone the row is one line: the scene of the page is to be seen in it.
    const here = /** @type {HTMLElement | null} */ (
      row.current?.querySelector("[aria-current]") ?? null
    );
    if (row.current && here) row.current.scrollLeft = here.offsetLeft - row.current.clientWidth / 3;
  }, [scene]);
  const link = (/** @type {string} */ name, /** @type {any} */ word) => html`
    <a
      key=${name}
      href=${to("drills", { scene: name, pace: place.value.query.pace })}
      aria-current=${name === scene ? "page" : undefined}
    >
      ${word}
    </a>
  `;
  return html`
    <nav ref=${row} class="drill-scenes" aria-label="Scenes">
      ${drills.map((drill, nth) =>
        link(
          drill.name,
          html`
            <i aria-hidden="true">${nth + 1}</i>
            ${drill.title}
          `,
        ),
      )}
      <span class="drill-gap"></span>
      ${OTHERS.map(([name, word]) => link(name, word))}
    </nav>
  `;
}

/** What is wrong with the stage, in one sentence. */
export function Notices() {
  const { closed } = state.value;
  const words = notice(trouble.value, lost.value, closed);
  return html`
    <div class="drill-notice" role="status">
      ${words && html`<p class=${`fault ${closed && !trouble.value ? "calm" : ""}`}>${words}</p>`}
    </div>
  `;
}
