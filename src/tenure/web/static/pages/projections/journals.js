/** How far the journal can be read; of several inboxes, each has one. Pure. */
import { number } from "../../lib/words.js";

/** @typedef {{inbox: string, horizon: number, last: number}} Journal last: the last number that was given out */

/**
 * The journals of an answer. Where inboxes differ, each says its own; one that is away says nothing.
 * @param {any} answer @returns {Journal[]}
 */
export function journals({ inboxes, horizon, last }) {
  const here = Object.entries(inboxes ?? {}).filter(([, { answers }]) => answers);
  if (here.length < 2) return [{ inbox: "", horizon, last }];
  return here.map(([inbox, own]) => ({
    inbox,
    horizon: own.horizon ?? horizon,
    last: own.last ?? last,
  }));
}

/** "40", or of several "40 in eu, 12 in us". @param {Journal[]} every */
export const read_up_to = (every) =>
  every.map(({ inbox, horizon }) => number(horizon) + (inbox && ` in ${inbox}`)).join(", ");
