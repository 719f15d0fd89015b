/** The ring in words: for its centre, for its history, and for those who do not see the picture. Pure. */
import { number, plural, worker_colour } from "../../lib/words.js";
import { BUCKETS, NOBODY, shares } from "./shape.js";

/**
 * @typedef {{buckets: number[], workers: string[], depth: number[], queues: string[], sets: string[][],
 *   history: Change[]}} Ring
 */
/**
 * @typedef {{at: string, what: string, worker: string, moved: number, of: number, workers: number,
 *   needless?: number}} Change
 */

const TINTS = ["", " tint1", " tint2"];

/** "bucket 17" or "buckets 17 to 19". @param {{from: number, to: number}} run */
export const range = ({ from, to }) => (from === to ? `bucket ${from}` : `buckets ${from} to ${to}`);

/** Who owns it. @param {Ring} ring @param {number} owner */
export const named = (ring, owner) => (owner === NOBODY ? "nobody" : ring.workers[owner]);

/**
 * "moved 252 of 1024 (0.98/N), 0 needless", where N workers share the ring.
 * @param {number} moved
 * @param {number} n
 * @param {number} [needless]
 * @param {number} [of]
 */
export function cost(moved, n, needless, of = BUCKETS) {
  const wasted = typeof needless === "number" ? `, ${needless} needless` : "";
  return `moved ${moved} of ${of} (${((moved * n) / of).toFixed(2)}/N)${wasted}`;
}

/**
 * What a change of the membership cost; whoever left or died is still counted in N.
 * @param {Change} change
 */
export function costOf({ what, workers, moved, needless, of }) {
  const n = what === "joined" ? workers : workers + 1;
  return `${cost(moved, n, needless, of)} · N = ${n}`;
}

/** The whole ring in one sentence. @param {Ring} ring */
export function described(ring) {
  if (!ring.workers.length) return "No worker is alive: nobody owns a bucket.";
  const said = shares(ring).map((each) => `${each.worker} owns ${each.buckets}`);
  const among = `${number(BUCKETS)} buckets among ${plural(ring.workers.length, "worker")}`;
  return `${among}: ${said.join(", ")}. ${pending(ring)}.`;
}

/** "412 rows pending". @param {Ring} ring */
export const pending = (ring) =>
  `${plural(
    ring.depth.reduce((sum, rows) => sum + rows, 0),
    "row",
  )} pending`;

/**
 * The colour class of every worker, as elsewhere; who shares a colour gets a tint of it.
 * @param {string[]} workers
 */
export function colours(workers) {
  const used = /** @type {Record<string, number>} */ ({});
  return workers.map((worker) => {
    const colour = worker_colour(worker);
    const nth = (used[colour] = (used[colour] ?? -1) + 1);
    return colour + TINTS[nth % TINTS.length];
  });
}
