/** A stage in words: what was said, which commands play the same, who has which colour. Pure. */
import { error_line, quoted } from "../../lib/words.js";

const TONES = ["w0", "w2", "w4", "w3", "w5", "w1", "w6", "w7"];

/** The colour class of worker-A, worker-B, …: neighbours are far apart. @param {string | null} name */
export const tone = (name) =>
  name?.startsWith("worker-") ? (TONES[(name.charCodeAt(7) - 65) % TONES.length] ?? "w7") : "w-none";

/** Routine events, which would hide the others. */
const NOISE = new Set(
  `lease_renewed leases_renewed worker_seen wakeup_changed woken chore_done schema_made claim_answered
   execution_started tuning`.split(/\s+/),
);
export const is_noise = (/** @type {string} */ event) => NOISE.has(event);

/** Fields that are shown elsewhere, or not at all. */
const HIDDEN = new Set(
  `n at who event worker job_id kind queue queues run_seconds wait_seconds checks assertions
   samples`.split(/\s+/),
);

/** Its fields, short: "token 2 · key order:9182". @param {Record<string, any>} said */
export function fields(said) {
  return Object.entries(said)
    .filter(
      ([name, value]) =>
        !HIDDEN.has(name) && value !== null && value !== "" && typeof value !== "object",
    )
    .map(([name, value]) =>
      name === "words" ? value : `${name.replaceAll("_", " ")} ${short(name, value)}`,
    )
    .join(" · ");
}

/** @param {string} name @param {any} value */
function short(name, value) {
  if (name === "error") return error_line(String(value));
  return typeof value === "number" && !Number.isInteger(value) ? value.toFixed(2) : value;
}

/** An event as words: "stale write blocked". @param {string} event */
export const spoken = (event) => event.replaceAll("_", " ");

/** The result of the last press on a producer's button. @param {Record<string, any> | null} said */
export function shop_words(said) {
  if (!said) return "";
  if (said.event === "enqueued") return `${said.key} enqueued: order and row committed together.`;
  if (said.event === "enqueue_deduplicated")
    return `${said.key} was already there: one row, as before.`;
  if (said.event === "order_rolled_back")
    return said.together
      ? `Order ${said.order} rolled back, and its row with it: nothing appeared.`
      : `Order ${said.order} rolled back, but its row stayed.`;
  return `${said.rows} dead letter${said.rows === 1 ? "" : "s"} brought back.`;
}

/**
 * A command with its options: null and false leave an option out, true has no value.
 * @param {string} start
 * @param {Record<string, any>} options
 */
export function cli(start, options) {
  const words = Object.entries(options).flatMap(([name, value]) => {
    const flag = `--${name.replaceAll("_", "-")}`;
    if (value === null || value === undefined || value === false) return [];
    return value === true ? [flag] : [flag, quoted(String(value))];
  });
  return [start, ...words].join(" ");
}

/** "1.2 s", never in other units: a stage lives for minutes. @param {number} seconds */
export const seconds_of = (seconds) =>
  `${Math.abs(seconds) < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;

const CLOSED = /** @type {Record<string, string>} */ ({
  idle: "The stage was closed: nothing was done on it for a while. Open a new one.",
  time: "The stage was closed: its time was up. Open a new one.",
  gone: "The server no longer has this stage. Open a new one.",
});

/**
 * The message about the stage, the most important one; null for none.
 * @param {string | null} trouble @param {boolean} lost @param {Record<string, any> | null} closed
 */
export function notice(trouble, lost, closed) {
  if (trouble !== null) return trouble;
  if (lost) return "The connection to the stage is lost, trying again. What you see may be old.";
  if (!closed) return null;
  if (closed.reason in CLOSED) return CLOSED[closed.reason];
  return closed.error
    ? `The stage was closed: ${closed.error}. Open a new one.`
    : "The stage is closed. Open a new one.";
}

/** How often each word is there. @param {string[]} words */
export function tally(words) {
  const counts = /** @type {Record<string, number>} */ ({});
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}

/** "2 processing · 1 dead letter": how many rows are in which state. @param {Record<string, number>} counts */
export const counts_words = (counts) =>
  Object.entries(counts)
    .map(([status, n]) => `${n} ${status.replace("_", " ")}`)
    .join(" · ");
