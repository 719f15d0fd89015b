/** Keeps pages fresh: one event stream, a pulse on which pages refresh, and the reasons to pause. */
import { computed, effect, signal } from "./ui.js";

const POLL_MS = 5000;
const RETRY_MAX_MS = 30_000;

/** The user pressed pause. */
export const pausedByUser = signal(false);
/** Rows are selected: the page does not refresh meanwhile. */
export const selecting = signal(false);
const hidden = signal(document.hidden);

/** Nothing refreshes while this is true. */
export const paused = computed(() => pausedByUser.value || selecting.value || hidden.value);
/** "open", "opening" or "lost" (then pages poll). */
export const connection = signal("opening");
/** Counts up whenever a page should refresh. */
export const pulse = signal(0);
/**
 * The last tick of the server: the numbers of the overview; or an error, and whether the database is away.
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
/** This reader changed something: the page must show it. */
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
    if (failed !== Boolean(tick.peek()?.error)) changed(); // the page shows older answers
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

/** The stream broke: show that, poll instead, and reconnect at growing intervals. */
function lose() {
  close();
  connection.value = "lost";
  timer = setTimeout(open, retry_ms);
  retry_ms = Math.min(retry_ms * 2, RETRY_MAX_MS);
}

/** Starts after the login. */
export function start() {
  document.addEventListener("visibilitychange", () => (hidden.value = document.hidden));
  effect(() => {
    if (paused.value) return close();
    open();
    beat();
  });
  setInterval(() => !paused.value && connection.value === "lost" && beat(), POLL_MS);
}
