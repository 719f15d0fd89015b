/** The holds of one key as a tape has them: where each ends, how far it reaches, and its words. Pure. */
import { seconds_of } from "./words.js";

/** @typedef {import("./said.js").Run} Run */
/** @typedef {import("./said.js").Stop} Stop */

/** How wide a letter of the tape is, and how far it keeps from its edges. */
export const LETTER = 6.1;
export const SIDE = 10;

/** Does it still move? Then it is drawn up to now. @param {Run} run */
export const moves = (run) => run.to === null || believes(run);

/** Its process lives and knows of no end. @param {Run} run */
const believes = (run) => !run.told && run.gone_at === null;

/**
 * Where its hold ends: when it ended, or when its lease did, though nobody has taken it yet.
 * @param {Run} run
 * @param {number} at
 */
export const end_of = (run, at) => run.to ?? Math.max(run.from, Math.min(at, run.lease_until ?? at));

/**
 * How far a run reaches: to its end, to its last late write, or to now while its holder knows of no end.
 * @param {Run} run
 * @param {number} at
 */
export function reach(run, at) {
  const end = run.to ?? at;
  return Math.max(end, believes(run) ? at : end, ...run.late.map((write) => write.at));
}

/**
 * When its process stood still meanwhile, as [from, to].
 * @param {Run} run
 * @param {Stop[]} stops
 * @param {number} at
 */
export function still(run, stops, at) {
  const within = stops.map(({ from, to }) => [
    Math.max(from, run.from),
    Math.min(to ?? at, reach(run, at)),
  ]);
  return within.filter(([from, to]) => to > from);
}

/** What is written above its bar. @param {Run} run @param {number} at */
export function run_words(run, at) {
  const ran = seconds_of(end_of(run, at) - run.from);
  return `token ${run.token}, ${ending(run, at, ran)}`;
}

/** @param {Run} run @param {number} at @param {string} ran */
function ending(run, at, ran) {
  if (run.to === null && end_of(run, at) < at) return `its lease ran out after ${ran}`;
  if (run.outcome === "held")
    return run.gone_at === null ? "held" : "its process is gone, the lease runs on";
  if (run.outcome === "given up") return "given up by its holder's own clock";
  return run.outcome === "expired" ? `expired after ${ran}` : run.outcome;
}

/** What is written at a late write. @param {import("./said.js").Late} write */
export function late_words({ ok, token, current }) {
  const against =
    current !== null && current > token ? `token ${token} < ${current}` : `token ${token}`;
  return ok ? `stale write went through, ${against}` : `✗ stale write blocked, ${against}`;
}

/**
 * Words above a bar, where they fit; null where they do not.
 * @param {string} text @param {number} start @param {number} width @param {number} free where words may begin
 */
export function placed(text, start, width, free) {
  const long = text.length * LETTER;
  const x = Math.max(Math.min(start, width - SIDE - long), SIDE);
  return x < free ? null : { text, x, end: x + long };
}

/** The whole tape, for those who do not see it. @param {Run[]} runs */
export function summary(runs) {
  const late = (/** @type {Run} */ run) =>
    run.late.map(({ ok }) => `, then a stale write ${ok ? "went through" : "blocked"}`);
  const parts = runs.map(
    (run) => `${run.worker} with token ${run.token}: ${run.outcome}${late(run).join("")}`,
  );
  return `Tape: ${parts.join("; ")}`;
}

/**
 * What a worker holds, what it only believes to hold, and what it wrote too late.
 * @param {Run[]} runs
 * @param {string} name
 * @param {boolean} gone its process is
 * @param {number} at
 */
export function holdings(runs, name, gone, at) {
  const own = runs.filter((run) => run.worker === name);
  const ran_out = (/** @type {Run} */ run) => run.lease_until !== null && run.lease_until < at;
  // What a namesake left is not its own.
  const held = own.filter((run) => run.to === null && !ran_out(run) && (gone || run.gone_at === null));
  const believed = own.filter((run) => (run.to !== null || ran_out(run)) && believes(run));
  return { held, believed, late: own.flatMap((run) => run.late) };
}
