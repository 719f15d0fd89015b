/** Keys that work everywhere: / filters, g then a letter jumps, p pauses, ? helps, Ctrl-K opens the palette. */
import { pausedByUser } from "./live.js";
import { go } from "./route.js";
import { signal } from "./ui.js";
import { JUMPS } from "./ways.js";

/** The help dialog is open. */
export const helping = signal(false);
/** The command palette is open. */
export const palette_open = signal(false);

const PATIENCE_MS = 1200;
let jump_until = 0;

/** Is this key for the page? Not while somebody types or a dialog is open. @param {KeyboardEvent} event */
export function for_page(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return false;
  const typing =
    event.target instanceof Element &&
    event.target.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");
  return !typing && !document.querySelector("dialog[open]");
}

/** @param {KeyboardEvent} event */
function press(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") return open_palette(event);
  if (!for_page(event)) return;
  if (event.key in JUMPS && performance.now() < jump_until) {
    jump_until = 0;
    event.preventDefault();
    go(JUMPS[event.key]);
  } else if (event.key === "/") focus_filter(event);
  else if (event.key === "?") helping.value = true;
  else if (event.key === "p") pausedByUser.value = !pausedByUser.value;
  else if (event.key === "g") jump_until = performance.now() + PATIENCE_MS;
}

/** @param {KeyboardEvent} event */
function open_palette(event) {
  event.preventDefault();
  if (!document.querySelector("dialog[open]")) palette_open.value = true;
}

/** @param {KeyboardEvent} event */
function focus_filter(event) {
  event.preventDefault();
  const box = document.querySelector("[data-filter]");
  if (box instanceof HTMLInputElement) (box.focus(), box.select());
  else go("rows?focus=1");
}

document.addEventListener("keydown", press);
