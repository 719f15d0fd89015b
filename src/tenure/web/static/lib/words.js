/** Numbers, names and commands as people read them. Pure. */

const grouped = new Intl.NumberFormat("en-US");

/** 12,345 @param {number} n */
export const number = (n) => grouped.format(n);

/** 10k, 1.2M: for counts that are not exact anyway. @param {number} n */
export function short(n) {
  if (n >= 1_000_000) return `${+(n / 1_000_000).toFixed(1)}M`;
  return n >= 10_000 ? `${Math.floor(n / 1000)}k` : number(n);
}

/** "1 row", "12,345 rows" @param {number} n @param {string} word */
export const plural = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

// Control and format characters, and ends of lines of their own; but tabs, line feeds and what joins letters or emoji.
const UNSEEN = /(?![\t\n\r\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** How one of them is written: \\u202e, \\U000e0041. @param {string} each */
function written(each) {
  const code = (each.codePointAt(0) ?? 0).toString(16);
  return code.length > 4 ? `\\U${code.padStart(8, "0")}` : `\\u${code.padStart(4, "0")}`;
}

/**
 * The same text with what nobody would see written out, such as \u202e: it could turn a name round.
 * @param {string} text
 */
export const seen = (text) => text.replace(UNSEEN, written);

/** One of eight colour classes, the same for the same worker everywhere. @param {string | null} id */
export function worker_colour(id) {
  if (!id) return "w-none";
  let hash = 7;
  for (const letter of id) hash = (hash * 31 + /** @type {number} */ (letter.codePointAt(0))) >>> 0;
  return `w${((hash ^ (hash >>> 13)) >>> 0) % 8}`;
}

/** The last eight letters of an id: its first ones are its time. @param {string} id */
export const brief = (id) => id.slice(-8);

/**
 * The line of an error that says what went wrong: the first after the frames of a traceback, else the first.
 * @param {string} error
 */
export function error_line(error) {
  const text = `\n${error.trim()}`;
  const after = text
    .slice(text.lastIndexOf('\n  File "') + 1)
    .split("\n")
    .slice(1);
  return (after.find((line) => /^\S/.test(line)) ?? text.split("\n")[1]).trimEnd();
}

/** A text as one word of a POSIX shell. @param {string} text */
export const quoted = (text) =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

/** A value as the filter language wants it; a star at its end is a plain star. @param {string} text */
export function filter_word(text) {
  const meant = text.endsWith("*") ? `${text.slice(0, -1)}\\*` : text;
  return /[\s",\\]/.test(meant) ? `"${meant.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"` : meant;
}

/** The same as a command: command("rows", filter) is "tenure rows '...'". @param {...string} words */
export const command = (...words) => ["tenure", ...words.filter(Boolean).map(quoted)].join(" ");

/**
 * Why a write was refused, as the middle of a sentence. The token may be current still: then the lease was over.
 * @param {{stale_token: string | number, current_token: string | number | null, reason: string}} refusal
 * @param {"is" | "was"} is
 */
export function why_refused({ stale_token, current_token, reason }, is = "is") {
  if (reason === "lease_expired") return "after its lease had ended";
  if (current_token === null || current_token === undefined) return "the row has ended";
  if (String(current_token) !== String(stale_token)) return `the row ${is} at token ${current_token}`;
  return reason.replaceAll("_", " ");
}
