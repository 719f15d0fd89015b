/** The guards that the explorer can put before a write, and what came of each, in words. Pure. */

/**
 * @typedef {{guard: string, lease_seconds: number, stall_seconds: number, stall: string, renews: boolean,
 *   taker: string, second: string}} Asked
 */
/** @typedef {import("./said.js").Verdict} Verdict */

/** Name, word and meaning of each. */
export const GUARDS = /** @type {[string, string, string][]} */ ([
  ["none", "none", "Write, then finish the row by its id, whoever holds it."],
  ["owner", "owner", "The row must still be claimed by the writer."],
  ["generation", "owner + generation", "The row's holder and token must be the writer's."],
  ["lease_time", "lease time", "The row's lease must not have run out."],
  ["downstream", "downstream fence", "The ledger refuses a fence older than the newest it has seen."],
  ["fence", "all (Tenure)", "Holder, token and lease together, in the transaction of the write."],
]);

/** A guard as the page calls it. @param {string} guard */
export const guard_name = (guard) => GUARDS.find(([name]) => name === guard)?.[1] ?? guard;

/** What stopped the stale write, if anything did. @param {Verdict} verdict */
export function answer(verdict) {
  if (verdict.stopped_by) return `Stopped by: ${guard_name(verdict.stopped_by)}`;
  if (verdict.shown === "no race") return "There was no race";
  return verdict.trouble ? "Not finished" : "Nothing stopped it";
}

/** The same as a tag for a table. @param {Verdict} verdict @returns {{word: string, tone: string}} */
export function answer_tag(verdict) {
  if (verdict.stopped_by) return { word: guard_name(verdict.stopped_by), tone: " good" };
  if (verdict.shown === "no race") return { word: "no race", tone: "" };
  return { word: verdict.shown ?? "nothing", tone: " bad" };
}
