/** Saved views: names for questions of this page, kept by the browser. Pure but for its storage. */

/** @typedef {{name: string, query: Record<string, string>}} View */

const KEY = "tenure-views";
const VIEWS_MAX = 20;
const KEPT = ["filter", "sort", "payload"];

/** What of an address a view keeps. @param {Record<string, string>} query */
export const kept = (query) =>
  Object.fromEntries(KEPT.flatMap((name) => (query[name] ? [[name, query[name]]] : [])));

/** @param {Record<string, string>} one @param {Record<string, string>} other */
export const same = (one, other) => KEPT.every((name) => (one[name] ?? "") === (other[name] ?? ""));

/** The views with one more, in place of one of that name. @param {View[]} views @param {View} view */
export const with_view = (views, view) =>
  [...views.filter(({ name }) => name !== view.name), view].slice(-VIEWS_MAX);

/** The views that a text holds; none if it was written by somebody else. @param {string | null} text */
export function read(text) {
  try {
    const found = JSON.parse(text ?? "[]");
    return /** @type {View[]} */ (
      found.filter((/** @type {any} */ each) => typeof each?.name === "string" && each.query)
    );
  } catch {
    return [];
  }
}

/** What this browser has. */
export function stored() {
  try {
    return read(localStorage.getItem(KEY));
  } catch {
    return []; // a browser that stores nothing
  }
}

/** @param {View[]} views */
export function store(views) {
  try {
    localStorage.setItem(KEY, JSON.stringify(views));
  } catch {
    // kept until the page is closed
  }
}
