/** What a scene is played with: its own props, what the reader set, and the pace of its steps. Pure. */

/** @typedef {import("./said.js").Drill} Drill */

/** Seconds between two steps, as the reader may choose them. */
export const PACES = /** @type {[number, string][]} */ ([
  [0, "at once"],
  [1, "1 s"],
  [2.5, "2.5 s"],
]);
export const PACE = 1;
const PACE_MAX = 5;

/** @type {Drill} */
export const FREE = {
  name: "free",
  title: "Free play",
  story:
    "An empty stage. Start workers, enqueue orders, then stop, kill, drain them or cut the database: " +
    "each button is a real signal or a real statement.",
  guard: "",
  steps: [],
  control: null,
  props: null,
  settable: ["lease_seconds", "handler_seconds"],
  cli: "",
};

/**
 * The pace that an address asks for; the default for a bad value.
 * @param {string | undefined} asked
 */
export function pace_of(asked) {
  const seconds = Number(asked ?? PACE);
  return seconds >= 0 && seconds <= PACE_MAX ? seconds : PACE;
}

/**
 * The scene's own props; a lease that may be set is long enough not to run out while the reader reads.
 * @param {Drill} drill @param {number} pace @returns {Record<string, any>}
 */
export function unhurried({ props, settable }, pace) {
  if (!props) return { lease_seconds: 3, handler_seconds: 0.5 };
  if (!pace || !settable.includes("lease_seconds")) return props;
  return { ...props, lease_seconds: Math.max(props.lease_seconds, pace + 2) };
}

/** The props that differ from the scene's own. @param {Drill} drill @param {Record<string, any>} props */
export function otherwise({ props: own, settable }, props) {
  const changed = settable.filter((name) => props[name] !== own?.[name]);
  return Object.fromEntries(changed.map((name) => [name, props[name]]));
}
