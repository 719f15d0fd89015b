/**
 * Time to pixels, with long waits between attempts folded: what happened stays readable whether retries are
 * seconds or days apart.
 */

const FOLD_SHARE = 0.08;

/**
 * @typedef {{at: (ms: number) => number, folds: {x: number, seconds: number}[], from: number,
 *   to: number}} Scale
 */

/** Intervals that touch or overlap, joined. @param {[number, number][]} stretches */
function joined(stretches) {
  const result = /** @type {[number, number][]} */ ([]);
  for (const [from, to] of [...stretches].sort((a, b) => a[0] - b[0])) {
    const last = result.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else result.push([from, Math.max(from, to)]);
  }
  return result;
}

/**
 * Where each moment lies between 0 and width. Waits longer than a share of all busy time take that share and
 * are marked.
 * @param {[number, number][]} stretches busy stretches in milliseconds
 * @param {number} width
 * @returns {Scale}
 */
export function folded(stretches, width) {
  const busy = joined(stretches);
  const from = busy[0][0];
  const to = /** @type {[number, number]} */ (busy.at(-1))[1];
  const total = busy.reduce((sum, [start, end]) => sum + end - start, 0) || 1000;
  const fold = total * FOLD_SHARE;
  const knots = /** @type {[number, number][]} */ ([]); // moment, length of the tape up to it
  const folds = /** @type {{length: number, seconds: number}[]} */ ([]);
  let length = 0;
  busy.forEach(([start, end], i) => {
    const gap = i ? start - busy[i - 1][1] : 0;
    if (gap > fold) folds.push({ length: length + fold / 2, seconds: gap / 1000 });
    length += Math.min(gap, fold);
    knots.push([start, length]);
    length += end - start;
    knots.push([end, length]);
  });
  const unit = width / (length || 1);
  return {
    at: (ms) => between(knots, ms) * unit,
    folds: folds.map((each) => ({ x: each.length * unit, seconds: each.seconds })),
    from,
    to,
  };
}

/**
 * Words along a line, none upon another: each over its x or, where that is taken, to the right of it; without
 * room for either it is left out.
 * @param {{x: number, words: string}[]} labels
 * @param {[number, number][]} taken from x to x
 * @param {number} letter how wide one is
 */
export function spread(labels, taken, letter) {
  const full = [...taken];
  return labels.flatMap(({ x, words }) => {
    const long = words.length * letter;
    const from = [x - long / 2, x + 4].find((start) =>
      full.every(([a, b]) => start + long + letter < a || b + letter < start),
    );
    if (from === undefined) return [];
    full.push([from, from + long]);
    return [{ x: from + long / 2, words }];
  });
}

/** @param {[number, number][]} knots @param {number} ms */
function between(knots, ms) {
  const after = knots.findIndex(([moment]) => moment >= ms);
  if (after === 0) return knots[0][1];
  if (after < 0) return /** @type {[number, number]} */ (knots.at(-1))[1];
  const [[a, low], [b, high]] = [knots[after - 1], knots[after]];
  return b === a ? high : low + ((ms - a) / (b - a)) * (high - low);
}
