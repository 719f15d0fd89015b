/** The stage this page has open: everything it said, what that comes to, and the ways to act on it. */
import { api } from "../../lib/api.js";
import { batch, computed, signal } from "../../lib/ui.js";
import { EMPTY, reduce } from "./reduce.js";

/** @typedef {{id: string, drill: string | null, control: boolean}} Stage */
const KEPT = "tenure.stage";

export const stage = signal(/** @type {Stage | null} */ (null));
/** Everything the stage said, in order. */
export const heard = signal(/** @type {import("./said.js").Said[]} */ ([]));
export const state = signal(EMPTY);
/** What went wrong, in a sentence; null while nothing did. */
export const trouble = signal(/** @type {string | null} */ (null));
export const lost = signal(false);
export const busy = signal(false);

/** Seconds between this page's clock and the stage's. */
let offset = -Infinity;
let last = -1;
let live = /** @type {EventSource | null} */ (null);

/** The stage's clock now. */
export const stage_now = () => (offset === -Infinity ? 0 : performance.now() / 1000 + offset);

/** Does a scene play? Acts wait until it has ended. */
export const playing = computed(
  () =>
    Boolean(stage.value?.drill) && !state.value.verdict && !state.value.tuned && !state.value.closed,
);
export const is_open = computed(() => Boolean(stage.value) && !state.value.closed);

/** Ends what was open, opens a stage as asked, listens to it. @param {Record<string, any>} wanted */
export async function open(wanted) {
  busy.value = true;
  try {
    await end();
    const made = await api("api/stage", { method: "POST", body: wanted });
    attach({
      id: made.id,
      drill: made.drill ?? (wanted.explore ? "explore" : wanted.tune ? "tune" : null),
      control: made.control ?? false,
    });
    return made.id;
  } catch (error) {
    trouble.value = /** @type {Error} */ (error).message;
    return null;
  } finally {
    busy.value = false;
  }
}

/**
 * Listens to a stage that is there; true when it was.
 * @param {string} id
 * @param {string} scene of the address, for a stage that tells no drill
 */
export async function find(id, scene) {
  try {
    const found = await api(`api/stage/${encodeURIComponent(id)}`);
    attach({
      id,
      drill: found.drill ?? (scene === "explore" || scene === "tune" ? scene : null),
      control: found.control,
    });
    return true;
  } catch (error) {
    const { code, message } = /** @type {any} */ (error);
    trouble.value = code === 404 ? "That stage was closed. Open a new one." : message;
    return false;
  }
}

/** @param {Stage} opened */
function attach(opened) {
  leave();
  keep(opened.id);
  batch(() => {
    stage.value = opened;
    heard.value = [];
    state.value = EMPTY;
    trouble.value = null;
    lost.value = false;
  });
  offset = -Infinity;
  last = -1;
  live = new EventSource(`api/stage/${opened.id}/events`);
  live.addEventListener("said", (event) => hear(event, opened.id));
  live.onopen = () => (lost.value = false);
  live.onerror = () => (live?.readyState === EventSource.CLOSED ? gone() : (lost.value = true));
}

/** @param {MessageEvent} event @param {string} id */
function hear(event, id) {
  const n = Number(event.lastEventId);
  if (n <= last || stage.peek()?.id !== id) return;
  last = n;
  const said = JSON.parse(event.data);
  offset = Math.max(offset, said.at - performance.now() / 1000);
  batch(() => {
    heard.value.push(said);
    state.value = reduce(state.value, said);
  });
  if (said.event === "stage_closed") leave();
}

/** The server knows the stage no more. */
function gone() {
  leave();
  if (!state.peek().closed)
    state.value = reduce(state.peek(), {
      at: state.peek().at,
      who: "stage",
      event: "stage_closed",
      reason: "gone",
    });
}

/** Stops listening; the stage itself goes on. */
export function leave() {
  live?.close();
  live = null;
  lost.value = false;
}

/** Does an act; a refusal is one sentence. @param {Record<string, any>} act */
export async function act(act) {
  try {
    await api(`api/stage/${stage.value?.id}/do`, { method: "POST", body: act });
    trouble.value = null;
    return true;
  } catch (error) {
    trouble.value = /** @type {Error} */ (error).message;
    return false;
  }
}

/** Ends the stage that this browser opened last, if it is still there. */
export async function end() {
  leave();
  const id = stage.value?.id ?? kept();
  const there = id && !state.value.closed;
  batch(() => {
    stage.value = null;
    heard.value = [];
    state.value = EMPTY;
    trouble.value = null;
  });
  keep(null);
  if (!there) return;
  const ended = api(`api/stage/${encodeURIComponent(id)}`, { method: "DELETE" });
  await ended.catch(() => null); // it may have ended by itself
}

function kept() {
  try {
    return sessionStorage.getItem(KEPT);
  } catch {
    return null;
  }
}

/** @param {string | null} id */
function keep(id) {
  try {
    if (id) sessionStorage.setItem(KEPT, id);
    else sessionStorage.removeItem(KEPT);
  } catch {} // a browser that keeps nothing leaves the stage to its idle end
}
