/** Keeps the pages alive: one event stream, a pulse that pages refresh on, and the reasons to hold still. */
import { computed, effect, signal } from "./ui.js";

const POLL_MS = 5000;
const RETRY_MAX_MS = 30_000;

/** The user pressed pause. */
export const pausedByUser = signal(false);
/** Rows are selected: the page holds still until they are not. */
export const selecting = signal(false);
const hidden = signal(document.hidden);

/** Nothing refreshes while this is true. */
export const paused = computed(() => pausedByUser.value || selecting.value || hidden.value);
/** "open", "opening" or "lost" (then pages poll). */
export const connection = signal("opening");
/** Counts up whenever a page should look again. */
export const pulse = signal(0);
/**
 * The last tick of the server: the six numbers and the fence; or an error, and whether the database is away.
 */
export const tick = signal(/** @type {Record<string, any> | null} */ (null));

/** @type {EventSource | null} */
let stream = null;
let retry_ms = 1000;
let timer = 0;

/**
 * Counts up whenever this reader has changed something: every answer is asked for again at once, also while
 * paused.
 */
export const changes = signal(0);

const beat = () => void (pulse.value = pulse.peek() + 1);
/** Something was changed from here: what is on the page must not be older. */
export const changed = () => void (changes.value = changes.peek() + 1);

function open() {
  clearTimeout(timer);
  stream = new EventSource("api/events");
  stream.onopen = () => {
    connection.value = "open";
    retry_ms = 1000;
  };
  stream.addEventListener("tick", (event) => {
    const failed = Boolean(tick.peek()?.error);
    tick.value = JSON.parse(event.data);
    if (failed !== Boolean(tick.peek()?.error)) changed(); // what is on the page is of the time before
    beat();
  });
  stream.addEventListener("reset", beat);
  stream.onerror = lose;
}

function close() {
  clearTimeout(timer);
  stream?.close();
  stream = null;
}

/** The stream broke: say so, look by polling, and try again ever more rarely. */
function lose() {
  close();
  connection.value = "lost";
  timer = setTimeout(open, retry_ms);
  retry_ms = Math.min(retry_ms * 2, RETRY_MAX_MS);
}

/** Starts once the server knows us. */
export function start() {
  document.addEventListener("visibilitychange", () => (hidden.value = document.hidden));
  effect(() => {
    if (paused.value) return close();
    open();
    beat();
  });
  setInterval(() => !paused.value && connection.value === "lost" && beat(), POLL_MS);
}
