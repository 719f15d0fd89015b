/** Time in words: relative for reading, exact on hover. Pure. */

const STEPS = /** @type {[number, string][]} */ ([
  [86_400, "d"],
  [3600, "h"],
  [60, "m"],
  [1, "s"],
]);

/**
 * "1.2 s", "42 s", "3 m 20 s", "5 h 12 m", "3 d 4 h"; "–" for nothing.
 * @param {number | null | undefined} seconds
 */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const size = Math.abs(seconds);
  if (size < 0.0005) return "0 s";
  if (size < 1) return `${Math.round(seconds * 1000)} ms`;
  if (size < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(size);
  const first = STEPS.findIndex(([step]) => whole >= step);
  const [step, unit] = STEPS[first];
  const head = `${Math.floor(whole / step)} ${unit}`;
  const [next, next_unit] = STEPS[first + 1] ?? [1, ""];
  const rest = Math.floor((whole % step) / next);
  return next_unit && rest ? `${head} ${rest} ${next_unit}` : head;
}

/** "3 m 20 s ago", "in 5 m", "just now". @param {string} at @param {number} now_ms */
export function relative(at, now_ms) {
  const seconds = (now_ms - Date.parse(at)) / 1000;
  if (Math.abs(seconds) < 2) return "just now";
  return seconds > 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`;
}

/** "2026-11-15 10:22:49.123" in the reader's own zone. @param {string} at */
export function exact(at) {
  const moment = new Date(at);
  const local = new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000);
  return local.toISOString().replace("T", " ").replace("Z", "");
}
