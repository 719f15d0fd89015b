/** Recordings: the events of a stage as a file, replayed at any speed without a server. */
import { batch, computed, signal } from "../../lib/ui.js";
import { EMPTY, reduce } from "./reduce.js";

/**
 * @typedef {{recording: 1, drill: string, control: boolean, title: string, story: string, steps: string[],
 *   said: import("./said.js").Said[]}} Recording
 */
export const SPEEDS = /** @type {[number, string][]} */ ([
  [0.25, "¼×"],
  [0.5, "½×"],
  [1, "1×"],
  [2, "2×"],
  [4, "4×"],
]);

export const recording = signal(/** @type {Recording | null} */ (null));
/** Seconds into it. */
export const moment = signal(0);
export const rolling = signal(false);
export const speed = signal(1);

/** When each was said at the latest: what one process says may overtake what another said before. */
const times = computed(() => {
  let latest = 0;
  return recording.value?.said.map((said) => (latest = Math.max(latest, said.at))) ?? [];
});
/** Its seconds, rounded up so that a step of the scrubber reaches its end. */
export const length = computed(() => Math.ceil((times.value.at(-1) ?? 0) * 100) / 100);
/** How many of its words are said by now. */
export const said_by_now = computed(() => {
  const after = times.value.findIndex((at) => at > moment.value);
  return after < 0 ? times.value.length : after;
});

let folded = { of: /** @type {Recording | null} */ (null), n: 0, state: EMPTY };
export const replayed = computed(() => {
  const [of, n] = [recording.value, said_by_now.value];
  if (!of) return EMPTY;
  if (folded.of !== of || folded.n > n) folded = { of, n: 0, state: EMPTY };
  folded = { of, n, state: of.said.slice(folded.n, n).reduce(reduce, folded.state) };
  return folded.state;
});

/**
 * A recording of a text, or a sentence why it is none.
 * @param {string} text
 * @param {string} name
 * @returns {Recording}
 */
export function parse(text, name) {
  const wrong = (/** @type {string} */ why) =>
    new Error(`${name} is not a recording: ${why}. Choose a file made by "Save recording".`);
  let read;
  try {
    read = JSON.parse(text);
  } catch {
    throw wrong("it is not JSON");
  }
  const said = Array.isArray(read) ? read : read?.said;
  if (!Array.isArray(said) || said.length === 0) throw wrong("it has no list of events");
  const odd = said.findIndex((each) => !whole(each));
  if (odd >= 0)
    throw wrong(`entry ${odd + 1} lacks at, who or event, or is a picture with parts missing`);
  const of = Array.isArray(read) ? {} : read;
  return {
    recording: 1,
    drill: String(of.drill ?? ""),
    control: Boolean(of.control),
    title: String(of.title ?? name),
    story: String(of.story ?? ""),
    steps: (Array.isArray(of.steps) ? of.steps : []).map(String),
    said,
  };
}

/** @param {any} said */
function whole(said) {
  if (!Number.isFinite(said?.at) || typeof said.who !== "string" || typeof said.event !== "string")
    return false;
  if (said.event === "verdict") return Array.isArray(said.checks);
  if (said.event === "tuned") return "trouble" in said || Array.isArray(said.samples);
  return (
    said.event !== "picture" ||
    (["rows", "ledger", "mailbox", "workers"].every((part) => Array.isArray(said[part])) &&
      Array.isArray(said.ring?.workers) &&
      typeof said.ring?.owners === "string")
  );
}

/** Shows a recording from its beginning. @param {Recording} found */
export function show(found) {
  batch(() => {
    recording.value = found;
    moment.value = 0;
    rolling.value = true;
  });
}

export function put_away() {
  batch(() => {
    recording.value = null;
    rolling.value = false;
  });
}

/** Goes on, from the beginning if it had come to its end. */
export function roll() {
  if (moment.value >= length.value) moment.value = 0;
  rolling.value = !rolling.value;
}

/** So many seconds have gone by. @param {number} seconds */
export function advance(seconds) {
  moment.value = Math.min(length.value, moment.value + seconds * speed.value);
  if (moment.value >= length.value) rolling.value = false;
}

/** Hands a recording out as a file. @param {Omit<Recording, "recording">} made */
export function save(made) {
  const url = URL.createObjectURL(
    new Blob([JSON.stringify({ recording: 1, ...made })], { type: "application/json" }),
  );
  const link = document.createElement("a");
  link.href = url;
  link.download = `tenure-${made.drill || "free-play"}${made.control ? "-control" : ""}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
