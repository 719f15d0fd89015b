/** The list of pages: which one an address opens, and with which key. Pure. */

/** @typedef {{name: string, title: string, load: () => Promise<any>}} Way */

/** Which letter goes where after g. @type {Record<string, string>} */
export const JUMPS = {
  o: "",
  r: "rows",
  w: "workers",
  i: "ring",
  d: "dead",
  q: "queues",
  s: "schedules",
  b: "batches",
  p: "projections",
  f: "flows",
  h: "hooks",
  a: "audit",
  l: "drills",
};

/**
 * The way that leads to a place, if one does; only rows, flows, batches and hooks have places below.
 * @param {Way[]} ways @param {string[]} parts
 */
export function way_of(ways, parts) {
  const below = ["rows", "flows", "batches", "hooks"].includes(parts[0]) ? 2 : 1;
  return parts.length <= below ? ways.find((way) => way.name === (parts[0] ?? "")) : undefined;
}

/** The keys that jump to a way: "g r". @param {string} name */
export function jump(name) {
  const key = Object.keys(JUMPS).find((each) => JUMPS[each] === name);
  return key && `g ${key}`;
}
