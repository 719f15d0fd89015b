/** The words of a filter, as far as the box needs them; the server checks them. Pure. */

export const STATUSES = [
  "runnable",
  "scheduled",
  "processing",
  "completed",
  "failed",
  "dead_letter",
  "cancelled",
];

/** Every field, with how its value looks. @type {[string, string][]} */
export const FIELDS = [
  ["status:", "dead_letter,failed"],
  ["kind:", "send_receipt or send_*"],
  ["queue:", "mail"],
  ["key:", "order:9182 or order:*"],
  ["worker:", "host-7 or host-*"],
  ["error:", '"time out"'],
  ["payload.", "order_id:9182"],
  ["attempts:", ">3 or 2..5"],
  ["age:", ">1h, <5m"],
  ["id:", "a row's id"],
  ["idempotency:", "receipt-9182"],
  ["fingerprint:", "of a group of errors"],
  ["ordered:", "yes"],
  ["bucket:", "17"],
];
const VALUES = /** @type {Record<string, string[]>} */ ({
  status: STATUSES,
  ordered: ["yes", "no"],
  age: [">5m", ">1h", ">1d", "<5m", "<1h"],
  attempts: [">1", ">3", "0"],
});

/** Words at blanks, quoted parts whole. @param {string} text */
export const words = (text) => text.match(/(?:"(?:\\.|[^"\\])*"?|[^\s"])+/g) ?? [];

/** The statuses a filter asks for. @param {string} text */
export const statuses_of = (text) =>
  words(text)
    .find((word) => word.startsWith("status:"))
    ?.slice(7)
    .split(",") ?? [];

/** The same filter for another status; "" for any. @param {string} text @param {string} status */
export function with_status(text, status) {
  const others = words(text).filter((word) => !word.startsWith("status:"));
  return [...(status ? [`status:${status}`] : []), ...others].join(" ");
}

/** Ranges of time to choose from, as words of the filter. @type {[string, string][]} */
export const RANGES = [
  ["", "at any time"],
  ["age:<5m", "in the last 5 min"],
  ["age:<15m", "in the last 15 min"],
  ["age:<1h", "in the last hour"],
  ["age:<6h", "in the last 6 h"],
  ["age:<1d", "in the last day"],
  ["age:<7d", "in the last 7 days"],
  ["age:>1h age:<1d", "1 h to a day ago"],
  ["age:>1d age:<7d", "1 to 7 days ago"],
  ["age:>1h", "over an hour ago"],
  ["age:>1d", "over a day ago"],
];

/** The words of a filter about time. @param {string} text */
export const range_of = (text) =>
  words(text)
    .filter((word) => word.startsWith("age:"))
    .sort((a, b) => (a[4] < b[4] ? 1 : -1))
    .join(" ");

/** The same filter for another range. @param {string} text @param {string} range */
export const with_range = (text, range) =>
  [...words(text).filter((word) => !word.startsWith("age:")), range].filter(Boolean).join(" ");

/**
 * The filter without an unfinished last word: the server is not asked about it yet.
 * @param {string} text
 */
export function finished(text) {
  const last = /\s$/.test(text) ? "" : (words(text).at(-1) ?? "");
  return (begun(last) ? text.slice(0, text.length - last.length) : text).trim();
}

/** @param {string} word */
function begun(word) {
  if (word.startsWith("status:"))
    return !["pending", ...STATUSES].includes(word.slice(word.search(/[:,][^,]*$/) + 1));
  return (
    (!word.includes(":") && word.length < 36) || word.endsWith(":") || word.split('"').length % 2 === 0
  );
}

/**
 * What the word at the caret could become.
 * @param {string} text
 * @param {number} caret
 * @param {Record<string, string[]>} known values seen on the page, by field
 * @returns {{from: number, to: number, choices: {text: string, note: string}[]}}
 */
export function complete(text, caret, known) {
  const from = text.slice(0, caret).search(/(?:"(?:\\.|[^"\\])*"?|[^\s"])*$/);
  const word = text.slice(from, caret);
  const colon = word.indexOf(":");
  if (colon < 0) {
    const choices = FIELDS.filter(([name]) => name.startsWith(word)).map(([name, note]) => ({
      text: name,
      note,
    }));
    return { from, to: caret, choices };
  }
  const start =
    word.lastIndexOf(",") > colon && word.startsWith("status:") ? word.lastIndexOf(",") + 1 : colon + 1;
  const begun = word.slice(start).toLowerCase();
  const values = VALUES[word.slice(0, colon)] ?? known[word.slice(0, colon)] ?? [];
  const choices = values
    .filter((value) => value.toLowerCase().startsWith(begun) && value !== begun)
    .map((value) => ({ text: value, note: "" }));
  return { from: from + start, to: caret, choices: choices.slice(0, 10) };
}
