/** What an operator's verb takes, and what came of it, in words. Pure. */
import { number, plural } from "./words.js";

/**
 * An entry of the server's table.
 * @typedef {{name: string, on: "rows" | "queue" | "key" | "worker" | "schedule", role: string, does: string,
 *   past: string, button: string, asks: "never" | "on a click" | "always", grave: boolean,
 *   statuses: string[], audited: string}} Verb
 */

/** A state as rows show it: pending has two halves. @param {string} status */
export const halves = (status) => (status === "pending" ? ["runnable", "scheduled"] : [status]);

/** The states of the rows a verb takes. @param {Pick<Verb, "statuses">} verb */
export const takes = (verb) => verb.statuses.flatMap(halves);

/**
 * How the count falls on states, where the filter leaves that open.
 * @param {Pick<Verb, "statuses">} verb
 * @param {any} dry
 */
export function shares(verb, dry) {
  const there = takes(verb).filter((status) => dry.statuses?.[status]?.n);
  if (/(^|\s)status:/.test(dry.filter) || there.length < 2) return undefined;
  return Object.fromEntries(there.map((status) => [status.replace("_", " "), dry.statuses[status]]));
}

/**
 * What came of an action: so many rows changed, or it is still under way.
 * @param {Pick<Verb, "past">} verb
 * @param {{done?: boolean, action?: number, changed: number, skipped?: number}} done
 */
export function done_words(verb, done) {
  if (done.done === false) return `Under way as action ${done.action}; the audit shows its end.`;
  const moved_on = done.skipped ? `, ${number(done.skipped)} had moved on` : "";
  return `${plural(done.changed, "row")} ${verb.past}${moved_on}.`;
}
