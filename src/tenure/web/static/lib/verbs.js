/** Which rows an operator's verb takes, and its result in words. Pure. */
import { number, plural } from "./words.js";

/**
 * An entry of the server's table.
 * @typedef {{name: string,
 *   on: "rows" | "queue" | "key" | "worker" | "schedule" | "projection" | "flow" | "endpoint",
 *   role: string, does: string, past: string, button: string, asks: "never" | "on a click" | "always", grave: boolean,
 *   statuses: string[], audited: string}} Verb
 */

/** A state as rows show it: pending has two halves. @param {string} status */
export const halves = (status) => (status === "pending" ? ["runnable", "scheduled"] : [status]);

/** The states of the rows a verb takes. @param {Pick<Verb, "statuses">} verb */
export const takes = (verb) => verb.statuses.flatMap(halves);

/**
 * The count by state, if the filter names no state.
 * @param {Pick<Verb, "statuses">} verb
 * @param {any} dry
 */
export function shares(verb, dry) {
  const there = takes(verb).filter((status) => dry.statuses?.[status]?.n);
  if (/(^|\s)status:/.test(dry.filter) || there.length < 2) return undefined;
  return Object.fromEntries(there.map((status) => [status.replace("_", " "), dry.statuses[status]]));
}

/**
 * The result of an action: how many rows changed, or that it still runs.
 * @param {Pick<Verb, "past">} verb
 * @param {{done?: boolean, action?: number, changed: number, skipped?: number}} done
 */
export function done_words(verb, done) {
  if (done.done === false) return `Still running as action ${done.action}; the audit shows its end.`;
  const moved_on = done.skipped ? `, ${number(done.skipped)} had changed meanwhile` : "";
  return `${plural(done.changed, "row")} ${verb.past}${moved_on}.`;
}
