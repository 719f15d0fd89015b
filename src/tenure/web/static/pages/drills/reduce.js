/**
 * What a stage looks like after everything it said: reduce(state, said). Pure, the same live and recorded.
 */
import { moves } from "../ring/shape.js";
import { ENDS, claimed, ended, late, left, lost, seen, written } from "./runs.js";

/** @typedef {import("./said.js").Said} Said */
/** @typedef {import("./said.js").State} State */

const NOTHING = {
  rows: [],
  counts: {},
  ledger: [],
  mailbox: [],
  workers: [],
  ring: { workers: [], owners: "" },
  props: null,
};

/** @type {State} */
export const EMPTY = {
  at: 0,
  picture: NOTHING,
  pictured_at: 0,
  runs: [],
  keys: {},
  stops: [],
  steps: [],
  verdict: null,
  tuned: null,
  samples: [],
  shop: null,
  cut: false,
  change: null,
  closed: null,
};

/** What each event changes. @type {Record<string, (state: State, said: any) => Partial<State>>} */
const HEARD = {
  picture: look,
  step: ({ steps }, { step, of, caption, at }) => ({ steps: [...steps, { n: step, of, caption, at }] }),
  verdict: (_, said) => ({ verdict: said }),
  tuning: ({ samples }, said) => ({ samples: [...samples, [said.t, said.done]] }),
  tuned: (_, said) => ({ tuned: said }),
  stage_closed: (_, said) => ({ closed: said }),
  enqueued: ({ keys }, said) => ({ keys: { ...keys, [said.job_id]: said.key }, shop: said }),
  enqueue_deduplicated: (_, said) => ({ shop: said }),
  order_rolled_back: (_, said) => ({ shop: said }),
  redriven: (_, said) => ({ shop: said }),
  database_cut: () => ({ cut: true }),
  database_healed: () => ({ cut: false }),
  lease_acquired: ({ runs }, said) => ({ runs: claimed(runs, said) }),
  lease_lost: ({ runs }, said) => ({ runs: lost(runs, said) }),
  stale_write_blocked: ({ runs }, said) => ({ runs: late(runs, said, false) }),
  ledger_written: ({ runs }, said) => ({ runs: written(runs, said) }),
  worker_paused: ({ stops }, { worker, at }) => ({ stops: [...stops, { worker, from: at, to: null }] }),
  worker_resumed: ({ stops }, said) => ({ stops: resumed(stops, said) }),
  worker_killed: leave,
  worker_gone: leave,
};

/** The next state. @param {State} state @param {Said} said @returns {State} */
export function reduce(state, said) {
  const change =
    said.event in ENDS ? { runs: ended(state.runs, said) } : (HEARD[said.event]?.(state, said) ?? {});
  return { ...state, at: Math.max(state.at, said.at), ...change };
}

/** @param {State["stops"]} stops @param {Said} said */
const resumed = (stops, said) =>
  stops.map((stop) =>
    stop.worker === said.worker && stop.to === null ? { ...stop, to: said.at } : stop,
  );

/** @param {State} state @param {Said} said */
function leave({ runs, stops }, said) {
  return { runs: left(runs, said), stops: resumed(stops, said) };
}

/** @param {State} state @param {Said & import("./said.js").Picture} picture */
function look(state, picture) {
  const rows = new Map(picture.rows.map((row) => [row.id, row]));
  const keys = { ...state.keys };
  for (const row of picture.rows) keys[row.id] = row.key;
  const runs = state.runs.map((run) => seen(run, rows.get(run.job), picture.at));
  return { picture, pictured_at: picture.at, keys, runs, change: ring_change(state, picture) };
}

/**
 * What the last change of the ring moved.
 * @param {State} state
 * @param {Said & import("./said.js").Picture} picture
 */
function ring_change(state, { ring, at }) {
  const before = state.picture.ring;
  if (before.owners === ring.owners) return state.change;
  if (!before.workers.length || !ring.workers.length) return null;
  const workers = Math.max(before.workers.length, ring.workers.length);
  return { ...moves(dealt(before), dealt(ring)), workers, at };
}

/**
 * The ring of a picture, which names owners by letter, as ring/shape.js has it.
 * @param {import("./said.js").Ring} ring
 */
export function dealt({ workers, owners }) {
  const nth = new Map(workers.map((worker, n) => [worker.at(-1), n]));
  return { workers, buckets: [...owners].map((letter) => nth.get(letter) ?? -1) };
}

/**
 * The key whose tape to show: the chosen one, else the one with the most holders, else the newest.
 * @param {State} state @param {string | null} chosen
 */
export function telling_key({ keys, runs }, chosen) {
  const all = Object.values(keys);
  if (chosen && all.includes(chosen)) return chosen;
  const held = /** @type {Record<string, number>} */ ({});
  for (const { job, token, late } of runs) {
    const key = keys[job];
    held[key] = Math.max(held[key] ?? 0, token + 10 * late.length);
  }
  const most = Object.entries(held).sort((a, b) => b[1] - a[1])[0];
  return most?.[0] ?? all.at(-1) ?? null;
}
