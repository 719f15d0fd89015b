/** The URL is the state: one signal to read it, two functions to write it. */
import { signal } from "./ui.js";

const root = new URL(document.baseURI).pathname;

/** @typedef {{path: string, parts: string[], query: Record<string, string>}} Place */

/** @returns {Place} */
function here() {
  const path = location.pathname.startsWith(root) ? location.pathname.slice(root.length) : "";
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { path, parts, query: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** A part of a path as it is meant; one that means nothing stands as it is. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Where we are, below the prefix. */
export const place = signal(here());

/** Goes to a path below the prefix: go("rows?filter=status:failed"). @param {string} path */
export function go(path, { replace = false } = {}) {
  const url = root + path.replace(/^\//, "");
  if (url === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  place.value = here();
}

/**
 * A path with its question: to("rows", {filter: "kind:a"}).
 * @param {string} path
 * @param {Record<string, any>} [query]
 */
export function to(path, query = {}) {
  const kept = Object.entries(query).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  return kept.length
    ? `${path}?${new URLSearchParams(kept.map(([name, value]) => [name, String(value)]))}`
    : path;
}

/**
 * Changes part of the question and keeps the rest; null takes a name away.
 * @param {Record<string, any>} changes
 */
export function ask(changes, { replace = false } = {}) {
  go(to(place.value.path, { ...place.value.query, ...changes }), { replace });
}

/**
 * Links inside the prefix are ours; all others, and those with a modifier key, are the browser's.
 * @param {MouseEvent} event
 */
function follow(event) {
  if (
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  )
    return;
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
  if (link.origin !== location.origin || !link.pathname.startsWith(root)) return;
  const path = link.pathname.slice(root.length);
  if (path.startsWith("api/") || path.startsWith("static/") || path === "metrics") return;
  event.preventDefault();
  go(path + link.search);
}

addEventListener("popstate", () => (place.value = here()));
document.addEventListener("click", follow);
