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
 * Where a change that went to several inboxes was not made, and why: "us: …". That what was meant is not there (404)
 * is no failure: it is in another one.
 * @param {any} answer
 */
export function not_made(answer) {
  const told = answer?.inboxes;
  if (!told || Array.isArray(told)) return "";
  return Object.entries(told)
    .filter(([, { answers, error, status }]) => !answers || (error && status && status !== 404))
    .map(([inbox, { error }]) => `${inbox}: ${error ?? "no answer"}`)
    .join("; ");
}

/**
 * The result of an action: how many rows changed, or that it still runs.
 * @param {Pick<Verb, "past">} verb
 * @param {{done?: boolean, action?: number, changed: number, skipped?: number, inboxes?: any}} done
 */
export function done_words(verb, done) {
  const several = Object.keys(done.inboxes ?? {}).length > 1; // each counts its actions
  if (done.done === false)
    return `Still running${several ? "" : ` as action ${done.action}`}; the audit shows its end.`;
  const left = "were left: changed meanwhile, or flows that have begun";
  const why = verb.past === "deleted" ? left : "had changed meanwhile";
  const moved_on = done.skipped ? `, ${number(done.skipped)} ${why}` : "";
  return `${plural(done.changed, "row")} ${verb.past}${moved_on}.`;
}
