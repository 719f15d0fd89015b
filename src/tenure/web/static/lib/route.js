/** The URL is the state: one signal to read it, two functions to write it. */
import { is_page, place_of, to } from "./address.js";
import { signal } from "./ui.js";

const root = new URL(document.baseURI).pathname;

const here = () => place_of(root, location.pathname, location.search);

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
 * Changes part of the query and keeps the rest; null removes a name.
 * @param {Record<string, any>} changes
 */
export function ask(changes, { replace = false } = {}) {
  go(to(place.value.path, { ...place.value.query, ...changes }), { replace });
}

/** Is it an unhandled click without a modifier key? @param {MouseEvent} event */
function is_plain(event) {
  const modified = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
  return !event.defaultPrevented && !event.button && !modified;
}

/**
 * Follows links inside the prefix; the browser follows all others, and clicks with a modifier key.
 * @param {MouseEvent} event
 */
function follow(event) {
  if (!is_plain(event)) return;
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
  if (link.origin !== location.origin || !link.pathname.startsWith(root)) return;
  const path = link.pathname.slice(root.length);
  if (!is_page(path)) return;
  event.preventDefault();
  go(path + link.search);
}

addEventListener("popstate", () => (place.value = here()));
document.addEventListener("click", follow);
