/** Workers in words. Pure. */
import { to } from "../../lib/address.js";
import { filter_word, number, plural } from "../../lib/words.js";

/**
 * @typedef {{id: string, status: string, seen_seconds: number, up_seconds: number, present: boolean | null,
 *   slots: number | null, slots_used: number | null,
 *   slots_stuck: number | null, host: string | null, pid: number | null,
 *   version: string | null, wakeup: string | null, queues: string[], kinds: string[] | null,
 *   held: number | null, buckets: number, inbox?: string}} Member
 */

/** A worker that was not seen for so long is declared dead; a heartbeat comes every third of it. */
export const TTL_SECONDS = 30;

/** @type {Record<string, {word: string, tone: string}>} */
export const STATUS = {
  alive: { word: "alive", tone: "good" },
  draining: { word: "draining", tone: "warn" },
  dead: { word: "dead", tone: "bad" },
};

/** @type {Record<string, string>} */
export const WAKEUP = { notify: "notifications", poll: "polling (it hears no notifications)" };

/** @type {Record<string, string>} */
export const PRESENCE = {
  here: "its session is open; if it breaks, other workers run its rows after a short grace period",
  gone: "its session is broken; other workers run its rows after a short grace period",
  none: "no session is visible, as behind a pooler; its rows run elsewhere when their leases end",
};

/** @param {boolean | null} present */
export const presence = (present) =>
  present === null || present === undefined ? "none" : present ? "here" : "gone";

/**
 * How much time is left until the worker counts as dead, and how that looks.
 * @param {number} seconds
 * @param {number} whole
 */
export function freshness(seconds, whole = TTL_SECONDS) {
  const left = Math.max(0, whole - seconds);
  if (left === 0) return { left, whole, tone: "bad", word: "silent" };
  return seconds > whole / 2
    ? { left, whole, tone: "warn", word: "fading" }
    : { left, whole, tone: "fresh", word: "fresh" };
}

/** The version most of them run. @param {Member[]} workers */
export function usual_version(workers) {
  const count = (/** @type {string | null} */ version) =>
    workers.filter((each) => each.version === version).length;
  return workers.map((each) => each.version).sort((a, b) => count(b) - count(a))[0] ?? null;
}

/** "3 alive · 1 draining · 1 dead · 27 of 80 slots taken". @param {Member[]} workers */
export function summary(workers) {
  const living = workers.filter((each) => each.status !== "dead");
  const sum = (/** @type {"slots" | "slots_used"} */ name) =>
    living.reduce((so_far, each) => so_far + (each[name] ?? 0), 0);
  const counts = Object.keys(STATUS).map((status) => [
    workers.filter((each) => each.status === status).length,
    STATUS[status].word,
  ]);
  const said = counts.filter(([n, word]) => n || word === "alive").map(([n, word]) => `${n} ${word}`);
  if (living.length) said.push(`${number(sum("slots_used"))} of ${number(sum("slots"))} slots taken`);
  return said.join(" · ");
}

/** The rows it holds, as a link. @param {Member} worker */
export const held_by = (worker) =>
  to("rows", { filter: `status:processing worker:${filter_word(worker.id)}` });

/** How many of its rows wait for their turn, of ordered keys or ahead of the slots. @param {Member} worker */
export const in_turn = ({ held, slots_used, slots_stuck }) =>
  Math.max(0, (held ?? 0) - (slots_used ?? 0) + (slots_stuck ?? 0));

/** "3 rows", or "rows" where nobody counted. @param {Member} worker */
export const rows_held = ({ held }) => (held === null ? "rows" : plural(held, "row"));
