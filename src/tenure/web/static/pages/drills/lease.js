/** How a lease runs down between two pictures of a stage. Pure. */
import { seconds_of } from "./words.js";

/** @typedef {import("./said.js").Row} Row */
/** @typedef {import("./said.js").State} State */

/** Seconds until a waiting row is tried again. @param {Row} row @param {State} state @param {number} now */
export const wait_left = (row, state, now) => Math.max(0, row.wait_left - (now - state.pictured_at));

/**
 * What is left of a held row's lease: the picture says how much there was, the clock goes on from there.
 * @param {Row} row @param {State} state @param {number} now
 * @returns {{left: number, share: number, words: string} | null} null for a row that nobody holds
 */
export function lease_left(row, state, now) {
  if (row.status !== "processing" || row.lease_left === null) return null;
  const left = row.lease_left - Math.max(0, now - state.pictured_at);
  const run = state.runs.find((each) => each.job === row.id && each.token === row.token);
  const whole = Math.max(run?.lease_whole ?? 0, row.lease_left, 0.1);
  const words =
    left > 0 ? `${seconds_of(left)} of its lease left` : `lease ran out ${seconds_of(-left)} ago`;
  return { left, share: Math.max(0, Math.min(1, left / whole)), words };
}
