/** The period in numbers that pages draw: which part of it has data, failure rates, colours of queues. Pure. */

const LEAST_POINTS = 30;
const COLOURS = ["--w0", "--w1", "--w2", "--w3", "--w4", "--w5", "--w6"];

/**
 * The points from the first in which something happened on, so that a new inbox does not hide at the right edge.
 * @template {Record<string, any>} T
 * @param {T[]} series
 * @param {(point: T) => boolean} happened
 */
export function begun(series, happened) {
  const first = series.findIndex(happened);
  if (first < 0) return series;
  return series.slice(Math.max(0, Math.min(first - 3, series.length - LEAST_POINTS)));
}

/** Did an attempt end in this step? @param {any} point */
export const busy = (point) => ended(point) > 0;

/** @param {any} point */
const ended = ({ completed, retried, released, failed, dead_lettered, cancelled }) =>
  completed + retried + released + failed + dead_lettered + cancelled;

/** The share of attempts that raised, of those that ran to an end; null if none did. @param {any} point */
export function failing({ completed, retried, failed, dead_lettered }) {
  const bad = retried + failed + dead_lettered;
  return bad + completed ? bad / (bad + completed) : null;
}

/** 0 %, 0.3 %, 12 %. @param {number | null | undefined} share */
export function percent(share) {
  if (share === null || share === undefined) return "–";
  const hundred = share * 100;
  if (hundred > 0 && hundred < 0.1) return "<0.1 %";
  return `${hundred >= 10 || hundred === 0 ? hundred.toFixed(0) : hundred.toFixed(1)} %`;
}

/**
 * The lines of the backlog: a queue each, in colours of their own.
 * @param {{queue: string, due: number[]}[]} queues
 */
export const lines = (queues) =>
  queues.map(({ queue, due }, i) => ({
    label: queue || "all others",
    token: queue ? COLOURS[i % COLOURS.length] : "--cancelled",
    values: due,
  }));
