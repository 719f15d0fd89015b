// @ts-check
/** Keys that work everywhere: / filters, g then a letter jumps, ? helps. */
import { go } from "./route.js";
import { signal } from "./ui.js";

/** The help dialog is open. */
export const helping = signal(false);

/** @type {Record<string, string>} */
export const JUMPS = { o: "", r: "rows", w: "workers", i: "ring", d: "dead", q: "queues", a: "audit" };
const PATIENCE_MS = 1200;
let jump_until = 0;

/** Is the reader typing? Then keys are letters. @param {EventTarget | null} target */
export const typing = (target) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** @param {KeyboardEvent} event */
function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (typing(event.target) || document.querySelector("dialog[open]")) return;
  if (event.key === "/") focus_filter(event);
  else if (event.key === "?") helping.value = true;
  else if (event.key === "g") jump_until = performance.now() + PATIENCE_MS;
  else if (event.key in JUMPS && performance.now() < jump_until) {
    jump_until = 0;
    event.preventDefault();
    go(JUMPS[event.key]);
  }
}

/** @param {KeyboardEvent} event */
function focus_filter(event) {
  event.preventDefault();
  const box = document.querySelector("[data-filter]");
  if (box instanceof HTMLInputElement) box.focus(), box.select();
  else go("rows?focus=1");
}

document.addEventListener("keydown", press);
