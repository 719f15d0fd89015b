/** Verbs on rows: count first, ask, act, say what happened. */
import { api, may } from "./api.js";
import { confirm } from "./confirm.js";
import { changed } from "./live.js";
import { toast } from "./toast.js";
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
      "Taken from their holders, whose tokens are stale from then on; another worker takes over. It costs no attempt.",
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

/** The verbs this reader may use. */
export const allowed = () => Object.keys(VERBS).filter((verb) => may(VERBS[verb].role));

/**
 * Counts on the server, asks, acts over the filter on the server. True when rows have changed.
 * @param {string} verb @param {string} filter @param {{reason?: boolean}} [options]
 */
export async function act(verb, filter, { reason = true } = {}) {
  const words = VERBS[verb];
  try {
    const dry = await api("api/actions", { method: "POST", body: { verb, filter, dry_run: true } });
    if (!dry.matched) return nothing(words.past);
    const yes = await confirm({
      title: `${words.label} ${plural(dry.matched, "row")}?`,
      verb: words.label.split(" ")[0],
      count: dry.matched,
      filter: dry.filter,
      statuses: shares(verb, dry),
      body: words.promise,
      danger: words.danger,
      reason,
    });
    if (!yes) return false;
    const done = await api("api/actions", {
      method: "POST",
      body: { verb, filter, dry_run: false, expect: dry.matched, reason: yes.reason },
    });
    return tell(words, done);
  } catch (error) {
    toast(/** @type {Error} */ (error).message, { tone: "bad" });
    return false;
  }
}

/** @param {string} past */
function nothing(past) {
  toast(`No row here can be ${past}.`);
  return false;
}

/** How the count falls on states, where the filter leaves that open. @param {string} verb @param {any} dry */
function shares(verb, dry) {
  const there = VERBS[verb].from.filter((status) => dry.statuses?.[status]?.n);
  if (/(^|\s)status:/.test(dry.filter) || there.length < 2) return undefined;
  return Object.fromEntries(there.map((status) => [status.replace("_", " "), dry.statuses[status]]));
}

/** @param {{past: string}} words @param {any} done */
function tell(words, done) {
  if (done.done === false) toast(`Under way as action ${done.action}; the audit shows its end.`);
  else
    toast(
      `${plural(done.changed, "row")} ${words.past}${done.skipped ? `, ${number(done.skipped)} had moved on` : ""}.`,
      { tone: "good" },
    );
  changed();
  return true;
}

/**
 * One mutation that is not about rows: pause a queue, drain a worker. Asks first when told what to ask.
 * @param {string} method @param {string} path @param {{body?: any, ask?: any, said: string}} options
 */
export async function change(method, path, { body, ask, said }) {
  if (ask && !(await confirm({ reason: false, ...ask }))) return false;
  try {
    await api(path, { method, body });
    toast(said, { tone: "good" });
    changed();
    return true;
  } catch (error) {
    toast(/** @type {Error} */ (error).message, { tone: "bad" });
    return false;
  }
}
