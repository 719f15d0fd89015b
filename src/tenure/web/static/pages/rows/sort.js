/** The order of the rows of a page: the server finds the newest first, a column's head sorts what is shown. Pure. */

/** @typedef {import("../../lib/state.js").Row} Row */

/** What each column sorts by. @type {Record<string, (row: Row) => string | number>} */
const BY = {
  status: (row) => row.status,
  kind: (row) => row.kind,
  key: (row) => row.key,
  queue: (row) => row.queue,
  attempts: (row) => row.attempts,
  when: (row) => Date.parse(row.finished_at ?? row.claimed_at ?? row.available_at),
};

/**
 * The rows in the order that an address asks for: "attempts" ascending, "-attempts" descending, "" as they came.
 * @param {Row[]} rows @param {string} sort
 */
export function sorted(rows, sort) {
  const of = BY[sort.replace("-", "")];
  if (!of) return rows;
  const way = sort.startsWith("-") ? -1 : 1;
  return [...rows].sort((a, b) => way * compare(of(a), of(b)));
}

/** @param {string | number} a @param {string | number} b */
const compare = (a, b) =>
  typeof a === "string" && typeof b === "string"
    ? a.localeCompare(b, "en", { numeric: true })
    : Number(a) - Number(b);

/** What a press on a head asks for: up, down, as they came. @param {string} column @param {string} sort */
export const next_sort = (column, sort) =>
  sort === column ? `-${column}` : sort === `-${column}` ? "" : column;

/** For aria-sort. @param {string} column @param {string} sort */
export const direction = (column, sort) =>
  sort === column ? "ascending" : sort === `-${column}` ? "descending" : "none";
