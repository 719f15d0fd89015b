/** Verbs on rows: count first, ask, act, say what happened. */
import { api, may } from "./api.js";
import { confirm } from "./confirm.js";
import { changed } from "./live.js";
import { toast } from "./toast.js";
import { VERBS, done_words, shares } from "./verbs.js";
import { plural } from "./words.js";

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
    return tell(verb, done);
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

/** Says what came of an action. @param {string} verb @param {any} done as the server answered */
export function tell(verb, done) {
  toast(done_words(verb, done), done.done === false ? {} : { tone: "good" });
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
