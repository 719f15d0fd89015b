/** Verbs on rows: count first, ask, act, say what happened. */
import { api } from "./api.js";
import { verb_of } from "./can.js";
import { confirm } from "./confirm.js";
import { changed } from "./live.js";
import { toast } from "./toast.js";
import { done_words, not_made, shares } from "./verbs.js";
import { plural } from "./words.js";

/**
 * Counts on the server, asks, acts over the filter on the server. True when rows have changed.
 * @param {string} name @param {string} filter
 * @param {{reason?: boolean, at?: string}} [options] at: the inbox that has the rows, of several
 */
export async function act(name, filter, { reason = true, at } = {}) {
  const verb = verb_of(name);
  try {
    const dry = await api("api/actions", {
      method: "POST",
      body: { verb: name, filter, dry_run: true },
      at,
    });
    if (!dry.matched) return nothing(verb.past);
    const yes = await confirm({
      title: `${verb.button} ${plural(dry.matched, "row")}?`,
      verb: verb.button.split(" ")[0],
      count: dry.matched,
      filter: dry.filter,
      statuses: shares(verb, dry),
      body: verb.does,
      danger: verb.grave,
      reason,
    });
    if (!yes) return false;
    const done = await api("api/actions", {
      method: "POST",
      body: { verb: name, filter, dry_run: false, expect: dry.matched, reason: yes.reason },
      at,
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

/**
 * Shows the result of an action.
 * @param {import("./verbs.js").Verb} verb
 * @param {any} done as the server answered
 */
export function tell(verb, done) {
  say(done_words(verb, done), done, done.done === false ? "" : "good");
  changed();
  return true;
}

/**
 * Says what was done; of several inboxes also where it was not.
 * @param {string} said @param {any} answer @param {string} tone
 */
function say(said, answer, tone) {
  const missing = not_made(answer);
  toast(missing ? `${said} Not everywhere: ${missing}` : said, { tone: missing ? "bad" : tone });
}

/**
 * One mutation that is not about rows: pause a queue, drain a worker. Where the table says so it asks
 * first: what the verb does, and a note of the page.
 * @param {string} name
 * @param {string} method
 * @param {string} path
 * @param {{body?: any, title?: string, note?: string, said: string | ((answer: any) => string),
 *   at?: string}} options
 */
export async function change(name, method, path, { body, title = "", note = "", said, at }) {
  const verb = verb_of(name);
  const question = {
    title,
    verb: verb.button,
    body: `${verb.does} ${note}`.trim(),
    danger: verb.grave,
    reason: false,
  };
  if (verb.asks !== "never" && !(await confirm(question))) return false;
  try {
    const answer = await api(path, { method, body, at });
    say(typeof said === "string" ? said : said(answer), answer, "good");
    changed();
    return true;
  } catch (error) {
    toast(/** @type {Error} */ (error).message, { tone: "bad" });
    return false;
  }
}
