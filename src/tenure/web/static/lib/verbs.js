/** What can be done with rows, in words. Pure. */
import { number, plural } from "./words.js";

/**
 * @type {Record<string, {label: string, past: string, promise: string, role: "operate" | "admin",
 *   danger?: boolean, from: string[]}>}
 */
export const VERBS = {
  retry: {
    label: "Retry now",
    past: "made due now",
    promise: "Due at once, whatever time they wait for.",
    role: "operate",
    from: ["scheduled"],
  },
  redrive: {
    label: "Redrive",
    past: "redriven",
    promise: "Back to their queue with fresh attempts.",
    role: "operate",
    from: ["failed", "dead_letter"],
  },
  release: {
    label: "Release",
    past: "released",
    promise:
      "Taken from their holders, whose tokens are stale from then on; another worker takes over. " +
      "It costs no attempt.",
    role: "operate",
    from: ["processing"],
  },
  cancel: {
    label: "Cancel",
    past: "cancelled",
    promise: "They will not run. Holders are asked to stop.",
    role: "operate",
    danger: true,
    from: ["runnable", "scheduled", "processing"],
  },
  delete: {
    label: "Delete",
    past: "deleted",
    promise: "Gone for good, with their tape and effects.",
    role: "admin",
    danger: true,
    from: ["runnable", "scheduled", "completed", "failed", "dead_letter", "cancelled"],
  },
};

/** How the count falls on states, where the filter leaves that open. @param {string} verb @param {any} dry */
export function shares(verb, dry) {
  const there = VERBS[verb].from.filter((status) => dry.statuses?.[status]?.n);
  if (/(^|\s)status:/.test(dry.filter) || there.length < 2) return undefined;
  return Object.fromEntries(there.map((status) => [status.replace("_", " "), dry.statuses[status]]));
}

/**
 * What came of an action: so many rows changed, or it is still under way.
 * @param {string} verb
 * @param {{done?: boolean, action?: number, changed: number, skipped?: number}} done
 */
export function done_words(verb, done) {
  if (done.done === false) return `Under way as action ${done.action}; the audit shows its end.`;
  const moved_on = done.skipped ? `, ${number(done.skipped)} had moved on` : "";
  return `${plural(done.changed, "row")} ${VERBS[verb].past}${moved_on}.`;
}
