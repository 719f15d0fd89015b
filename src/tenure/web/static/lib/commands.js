/** What the palette finds: pages and commands by their letters, a row by its id, else rows by a filter. Pure. */

/** @typedef {{label: string, note: string, run: () => void}} Entry */

const ID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

/**
 * How well a text answers what was typed: its beginning, that of a word, its letters in order; 0: not at all.
 * @param {string} label @param {string} typed
 */
export function score(label, typed) {
  const [text, wanted] = [label.toLowerCase(), typed.trim().toLowerCase()];
  if (!wanted) return 1;
  if (text.startsWith(wanted)) return 4;
  if (text.includes(` ${wanted}`)) return 3;
  if (text.includes(wanted)) return 2;
  let at = -1;
  for (const letter of wanted) if ((at = text.indexOf(letter, at + 1)) < 0) return 0;
  return 1;
}

/**
 * The entries that answer, the best first; a typed id or filter is an entry too.
 * @param {Entry[]} entries
 * @param {string} typed
 * @param {(path: string) => void} go
 * @returns {Entry[]}
 */
export function answers(entries, typed, go) {
  const text = typed.trim();
  if (ID.test(text))
    return [{ label: `Row ${text}`, note: "open", run: () => go(`rows/${text.toLowerCase()}`) }];
  const found = entries
    .map((entry) => ({ entry, of: score(entry.label, text) }))
    .filter(({ of }) => of > 0)
    .sort((a, b) => b.of - a.of)
    .map(({ entry }) => entry);
  const filter = text.includes(":") ? text : text && `kind:${text}*`;
  if (!filter) return found;
  const rows = {
    label: `Rows with ${filter}`,
    note: "filter",
    run: () => go(`rows?${new URLSearchParams({ filter })}`),
  };
  return text.includes(":") ? [rows, ...found] : [...found, rows];
}
