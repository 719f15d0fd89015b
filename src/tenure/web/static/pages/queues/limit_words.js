/** The limits of a queue in words, and typed limits as the server wants them. Pure. */

/**
 * @typedef {{queue: string, inbox?: string, pending: number, scheduled: number, processing: number, failed: number,
 *   dead_letter: number, cancelled: number, more: string[], oldest_runnable_seconds: number | null,
 *   paused: boolean, running: number, max_running: number | null, max_per_key: number | null,
 *   rate_per_second: number | null, burst: number | null, retention_seconds: number | null}} Queue
 */

/** "4 of 8 run · 1 per key · 10 per second, burst 10 · kept 7 d". @param {Queue} queue */
export function limit_words(queue) {
  const said = [];
  if (queue.max_running != null) said.push(`${queue.running} of ${queue.max_running} run`);
  if (queue.max_per_key) said.push(`${queue.max_per_key} per key`);
  if (queue.rate_per_second) said.push(`${queue.rate_per_second} per second, burst ${queue.burst}`);
  if (queue.retention_seconds) said.push(`kept ${+(queue.retention_seconds / 86_400).toFixed(2)} d`);
  return said.join(" · ");
}

/** Typed days as the server wants them: seconds, null for nothing. @param {string} days */
export function kept_seconds(days) {
  const read_days = read(days);
  return typeof read_days === "number" ? read_days * 86_400 : read_days;
}

/**
 * What was typed as the server wants it: numbers, null for nothing, and what is no number as it is, for the
 * server to name.
 * @param {Record<string, string>} texts
 */
export function asked(texts) {
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, read(text)]));
}

/** @param {string} text */
function read(text) {
  if (text.trim() === "") return null;
  return Number.isFinite(Number(text)) ? Number(text) : text;
}
