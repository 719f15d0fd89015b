/** Reads and builds addresses of the dashboard. Pure. */

/** @typedef {{path: string, parts: string[], query: Record<string, string>}} Place */

/**
 * The place below the root for a path and a query.
 * @param {string} root where the dashboard is mounted, with its last slash
 * @param {string} pathname
 * @param {string} search
 * @returns {Place}
 */
export function place_of(root, pathname, search) {
  const path = pathname.startsWith(root) ? pathname.slice(root.length) : "";
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { path, parts, query: Object.fromEntries(new URLSearchParams(search)) };
}

/** A part of a path, decoded; unchanged if it cannot be decoded. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** "?a=1&b=2" from the values that are neither null nor empty. @param {Record<string, any>} [query] */
export function search(query = {}) {
  const kept = Object.entries(query).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  return kept.length
    ? "?" + new URLSearchParams(kept.map(([name, value]) => [name, String(value)]))
    : "";
}

/**
 * A path with its query: to("rows", {filter: "kind:a"}).
 * @param {string} path
 * @param {Record<string, any>} [query]
 */
export const to = (path, query) => path + search(query);

/** Is this path below the root a page? The browser fetches everything else. @param {string} path */
export const is_page = (path) =>
  !path.startsWith("api/") && !path.startsWith("static/") && path !== "metrics";
