/** Requests to the server: one function, one kind of error, and who is logged in. */
import { search } from "./address.js";
import { inbox, note_answering } from "./asked.js";
import { signal } from "./ui.js";

/**
 * @typedef {{actor: string, role: string, verbs: string[], operator_verbs: import("./verbs.js").Verb[],
 *   version: string, schema: string, schema_version: number, database: string, payloads: string,
 *   reveal: boolean, queues: string[] | null, redacted: string[], drills: boolean,
 *   prefix: string, login: boolean, logged_in: boolean, inboxes: string[], citus: boolean}} Me
 */

/** Who is logged in; null until the server has answered. */
export const me = signal(/** @type {Me | null} */ (null));
/** The server's 401: its sentence, and how to log in. */
export const locked = signal(/** @type {Refused | null} */ (null));

/** The server's clock minus ours, if they differ visibly: the page shows server times. */
export const skew_ms = signal(0);

/** @param {string | null} date of the answer, in whole seconds */
function note_clock(date) {
  const skew = date ? Date.parse(date) - Date.now() : 0;
  if (Math.abs(skew - skew_ms.peek()) > 3000) skew_ms.value = Math.abs(skew) > 3000 ? skew : 0;
}

/** An error answer of the server: its sentence, its code, and the whole answer. */
export class Refused extends Error {
  /** @param {number} code @param {Record<string, any>} answer */
  constructor(code, answer) {
    super(answer.error ?? `the server answered ${code}`);
    this.code = code;
    this.answer = answer;
  }
}

/**
 * The JSON answer to a question, or Refused.
 * @param {string} path below the prefix, without a leading slash: "api/workers"
 * @param {{method?: string, body?: any, text?: string, query?: Record<string, any>, at?: string,
 *   signal?: AbortSignal}} [options] text: a body that is JSON already, sent as it is;
 *   at: the inbox that is asked, of several; without it the one that is looked at
 */
export async function api(path, { method = "GET", body, text, query, at, signal: abort } = {}) {
  const where = { ...query, inbox: at ?? inbox.peek() };
  const response = await ask(
    path + search(where),
    method,
    text ?? (body && JSON.stringify(body)),
    abort,
  );
  note_clock(response.headers.get("date"));
  const answer = await response.json().catch(() => ({}));
  if (response.ok) {
    note_answering(answer);
    return answer;
  }
  const refused = new Refused(response.status, answer);
  // A failed login shows its own error, and the way to log in stays the same.
  if (response.status === 401 && path !== "api/login") locked.value = refused;
  throw refused;
}

/** @param {string} url @param {string} method @param {string | undefined} body @param {AbortSignal} [abort] */
async function ask(url, method, body, abort) {
  const headers = /** @type {Record<string, string>} */ ({ accept: "application/json" });
  if (method !== "GET") headers["x-tenure"] = "1";
  if (body !== undefined) headers["content-type"] = "application/json";
  try {
    return await fetch(url, {
      method,
      headers,
      body,
      signal: abort,
    });
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") throw error;
    throw new Refused(0, { error: "The server cannot be reached. Trying again." });
  }
}

/** Asks who is logged in, at the start and after a login. */
export async function introduce() {
  me.value = await api("api/me");
  locked.value = null;
}
