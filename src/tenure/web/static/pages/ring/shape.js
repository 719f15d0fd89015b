/**
 * The ring as geometry: which buckets stand together, where a tick lies, how far a depth bar reaches. Pure.
 */

/** @typedef {{owner: number, from: number, to: number}} Run */
/** @typedef {{buckets: number[], workers: string[]}} Dealt */

export const BUCKETS = 1024;
export const SIZE = 640;
export const NOBODY = -1;

const CENTRE = SIZE / 2;
const INNER = 208;
const OUTER = 258;
/** The radius the depth bars stand on. */
export const FOOT = 266;
const REACH = 52;
const TURN = 2 * Math.PI;

/** Neighbouring buckets of one owner, ascending. @param {number[]} owners @returns {Run[]} */
export function runs(owners) {
  const found = /** @type {Run[]} */ ([]);
  owners.forEach((owner, bucket) => {
    const last = found[found.length - 1];
    if (last && last.owner === owner) last.to = bucket;
    else found.push({ owner, from: bucket, to: bucket });
  });
  return found;
}

/** The run a bucket belongs to. @param {Run[]} found @param {number} bucket */
export const runAt = (found, bucket) => found.find((run) => run.from <= bucket && bucket <= run.to);

/** The buckets of one owner. @param {number[]} owners @param {number} owner */
export const bucketsOf = (owners, owner) =>
  owners.flatMap((each, bucket) => (each === owner ? [bucket] : []));

/**
 * How many buckets each worker owns and what share of the ring that is, the largest first.
 * @param {Dealt} ring
 */
export function shares({ buckets, workers }) {
  const counts = workers.map(() => 0);
  for (const owner of buckets) if (owner !== NOBODY) counts[owner] += 1;
  return workers
    .map((worker, owner) => ({
      worker,
      owner,
      buckets: counts[owner],
      share: counts[owner] / buckets.length,
    }))
    .sort((a, b) => b.buckets - a.buckets || (a.worker < b.worker ? -1 : 1));
}

/**
 * Which buckets have another owner after than before, and how many of them between two workers that both
 * stayed.
 * @param {Dealt} before
 * @param {Dealt} after
 */
export function moves(before, after) {
  const there = new Set(before.workers);
  const here = new Set(after.workers);
  const moved = /** @type {number[]} */ ([]);
  let needless = 0;
  after.buckets.forEach((owner, bucket) => {
    const now = after.workers[owner];
    const then = before.workers[before.buckets[bucket]];
    if (now === then) return;
    moved.push(bucket);
    if (here.has(then) && there.has(now)) needless += 1;
  });
  return { moved, needless };
}

/**
 * Bucket 0 begins at twelve o'clock; they go round with the clock.
 * @param {number} bucket
 * @param {number} radius
 */
function point(bucket, radius) {
  const angle = (bucket / BUCKETS) * TURN - TURN / 4;
  return `${(CENTRE + radius * Math.cos(angle)).toFixed(2)} ${(CENTRE + radius * Math.sin(angle)).toFixed(2)}`;
}

/**
 * A piece of the circle from one place to another, between two radii.
 * @param {number} from
 * @param {number} to
 * @param {number} inner
 * @param {number} outer
 */
function sector(from, to, inner, outer) {
  const last = Math.min(to, from + BUCKETS - 0.001);
  const large = last - from > BUCKETS / 2 ? 1 : 0;
  const back = `L${point(last, inner)}A${inner} ${inner} 0 ${large} 0 ${point(from, inner)}Z`;
  return `M${point(from, outer)}A${outer} ${outer} 0 ${large} 1 ${point(last, outer)}${back}`;
}

/** One path for the ticks of all these buckets. @param {number[]} buckets */
export function ticks(buckets) {
  return buckets
    .map((bucket) => `M${point(bucket + 0.5, INNER)}L${point(bucket + 0.5, OUTER)}`)
    .join("");
}

/** The outline around a run, a little wider than its ticks. @param {Run} run */
export const outline = (run) => sector(run.from - 0.6, run.to + 1.6, INNER - 6, OUTER + 6);

/**
 * The depth bars: one for each equal part of the ring, by the square root of its rows, or one deep part would
 * hide all others.
 * @param {number[]} depth
 */
export function bars(depth) {
  const deepest = Math.sqrt(Math.max(1, ...depth));
  const width = BUCKETS / depth.length;
  return depth.map((rows, nth) => {
    const from = nth * width;
    const tip = FOOT + Math.max(3, (REACH * Math.sqrt(rows)) / deepest);
    return {
      rows,
      from,
      to: from + width - 1,
      path: rows ? sector(from + width * 0.14, from + width * 0.86, FOOT, tip) : "",
    };
  });
}

/**
 * The bucket under a point of the picture, or null in its middle and outside.
 * @param {number} x
 * @param {number} y
 */
export function bucketAt(x, y) {
  const radius = Math.hypot(x - CENTRE, y - CENTRE);
  if (radius < INNER - 14 || radius > FOOT + REACH) return null;
  const turn = (Math.atan2(y - CENTRE, x - CENTRE) / TURN + 1.25) % 1;
  return Math.min(BUCKETS - 1, Math.floor(turn * BUCKETS));
}

/** Where the numbers of the four quarters stand. */
export const MARKS = [0, 256, 512, 768].map((bucket) => {
  const [x, y] = point(bucket, INNER - 22).split(" ");
  return { bucket, x, y };
});
