/** Auto, light or dark; the choice stays in this browser. */
import { effect, html, signal } from "./ui.js";

const NAMES = ["auto", "light", "dark"];
const SIGNS = { auto: "◐", light: "○", dark: "●" };

/** @returns {string} */
function kept() {
  try {
    return localStorage.getItem("tenure.theme") ?? "auto";
  } catch {
    return "auto";
  }
}

export const theme = signal(NAMES.includes(kept()) ? kept() : "auto");
const dark_outside = matchMedia("(prefers-color-scheme: dark)");
/** Changes whenever the colours on screen do: charts draw again on it. */
export const dark = signal(false);

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  dark.value = theme.value === "dark" || (theme.value === "auto" && dark_outside.matches);
  try {
    localStorage.setItem("tenure.theme", theme.value);
  } catch {} // without storage the page still works
});
dark_outside.addEventListener(
  "change",
  () => (dark.value = theme.value === "dark" || (theme.value === "auto" && dark_outside.matches)),
);

/**
 * The colour a custom property stands for on screen now: colour("--held"), or with some paper in it:
 * colour("--held", 30).
 * @param {string} name
 * @param {number} [percent]
 */
export function colour(name, percent = 100) {
  const probe = document.createElement("i");
  probe.hidden = true;
  probe.style.color = `color-mix(in srgb, var(${name}) ${percent}%, var(--raised))`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

export function ThemeSwitch() {
  const next = NAMES[(NAMES.indexOf(theme.value) + 1) % NAMES.length];
  return html`
    <button
      class="button plain"
      title=${`Theme: ${theme.value}. Press for ${next}.`}
      onClick=${() => (theme.value = next)}
    >
      <span aria-hidden="true">${SIGNS[/** @type {"auto"} */ (theme.value)]}</span>
      <span class="unseen">Theme: ${theme.value}</span>
    </button>
  `;
}
