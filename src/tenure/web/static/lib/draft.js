/** A row written by hand: what is sent, what is wrong with it, and the command that sends the same. Pure. */
import { quoted } from "./words.js";

/**
 * @typedef {{kind: string, payload: string, queue: string, key: string, delay: string, idempotency_key: string,
 *   ordered?: boolean, priority?: number, max_attempts?: number, headers?: Record<string, string>,
 *   of?: {id: string, queue: string, key: string}, inbox?: string}} Draft of: the row it began as;
 *   inbox: of several, the one into which it goes
 */

const UNITS = /** @type {Record<string, number>} */ ({ s: 1, m: 60, h: 3600, d: 86_400 });
const STARS = "***";
const HIDDEN = `"${STARS}"`;
const ENCRYPTED = /"\$encrypted"\s*:\s*"/; // what is shown in place of the envelope, which is an object

/** @type {Draft} */
export const EMPTY = { kind: "", payload: "{}", queue: "", key: "", delay: "", idempotency_key: "" };

/** Does it show an encrypted payload, by the name of its key? @param {string | null} payload */
export const is_encrypted = (payload) => ENCRYPTED.test(payload ?? "");

/**
 * A draft like a row, to be changed and run again in the same inbox.
 * @param {any} row @param {string} [inbox] @returns {Draft}
 */
export const draft_of = (row, inbox) => ({
  ...EMPTY,
  kind: row.kind,
  payload: row.payload ?? "",
  queue: row.queue,
  key: row.key === row.id ? "" : row.key,
  ordered: row.ordered,
  priority: row.priority,
  max_attempts: row.max_attempts,
  headers: known_headers(row.headers),
  of: { id: row.id, queue: row.queue, key: row.key },
  inbox,
});

/** The headers of a row whose values are not hidden, if there are any. @param {string | null} [text] */
function known_headers(text) {
  const every = Object.entries(/** @type {Record<string, string>} */ (JSON.parse(text || "{}") ?? {}));
  const known = every.filter(([, value]) => typeof value === "string" && value !== STARS);
  return known.length ? Object.fromEntries(known) : undefined;
}

/** What the row had, letter for letter; what was typed, without blanks around it. @param {Draft} draft */
const lane = ({ queue, key, of }) => ({
  queue: (queue === of?.queue ? queue : queue.trim()) || undefined,
  key: (key === of?.key ? key : key.trim()) || undefined,
});

/** Seconds of "90", "5m", "2h"; null if it is neither. @param {string} text */
export function seconds_of(text) {
  const found = /^\+?(\d+(?:\.\d+)?)\s*([smhd]?)$/.exec(text.trim());
  return found ? Number(found[1]) * UNITS[found[2] || "s"] : null;
}

/**
 * Why it cannot be sent, or "".
 * @param {Draft} draft @param {string[]} [inboxes] the names of all, where there are several
 */
export function wrong_with({ kind, payload, delay, inbox }, inboxes = []) {
  if (inboxes.length > 1 && !inbox) return "Choose the inbox into which the row goes.";
  if (!kind.trim()) return "Name the kind of the row, as in send_receipt.";
  if (payload.includes(HIDDEN)) return 'The payload has hidden values: write what "***" stands for.';
  if (is_encrypted(payload))
    return "The payload is encrypted, and this page has no key: send the row from Python, with the codec.";
  try {
    JSON.parse(payload);
  } catch (error) {
    return `The payload must be JSON: ${/** @type {Error} */ (error).message}.`;
  }
  if (delay.trim() && seconds_of(delay) === null) return "Due in must be a time, as in 90s, 5m or 2h.";
  return "";
}

/** The request's body; the payload goes as it was written, with every digit. @param {Draft} draft */
export function body_of(draft) {
  const { kind, payload, delay, idempotency_key, ...rest } = draft;
  const given = {
    kind: kind.trim(),
    ...lane(draft),
    idempotency_key: idempotency_key.trim() || undefined,
    delay_seconds: delay.trim() ? seconds_of(delay) : undefined,
    ordered: rest.ordered,
    priority: rest.ordered ? undefined : rest.priority,
    max_attempts: rest.max_attempts,
    headers: rest.headers,
  };
  return `${JSON.stringify(given).slice(0, -1)},"payload":${payload}}`;
}

/** The same for a terminal, where a row has no headers. @param {Draft} draft */
export function command_of(draft) {
  const { kind, payload, delay, idempotency_key, ordered, priority, max_attempts, inbox } = draft;
  const { queue, key } = lane(draft);
  const options = [
    queue && ["--queue", queue],
    key && ["--key", key],
    ordered !== undefined && [ordered ? "--ordered" : "--not-ordered"],
    !ordered && priority !== undefined && ["--priority", String(priority)],
    max_attempts !== undefined && ["--max-attempts", String(max_attempts)],
    delay && ["--at", `+${seconds_of(delay) ?? 0}s`],
    idempotency_key && ["--idempotency-key", idempotency_key],
    inbox && ["--inbox", inbox],
  ];
  const words = ["enqueue", kind.trim() || "KIND", payload, ...options.flatMap((each) => each || [])];
  return ["tenure", ...words.map(quoted)].join(" ");
}
