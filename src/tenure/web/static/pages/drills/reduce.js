/**
 * What a stage looks like after everything it said: reduce(state, said), pure, the same for a live stage and
 * for a recording.
 */
import { moves } from "../ring/shape.js";

/** @typedef {{at: number, who: string, event: string, [field: string]: any}} Said */
/**
 * @typedef {{at: number, ok: boolean, token: number, current: number | null,
 *   reason: string}} Late a write by a holder that was none any more
 */
/**
 * @typedef {{job: string, worker: string, token: number, from: number, to: number | null, outcome: string,
 *   lease_until: number | null, lease_whole: number, gone_at: number | null, told: boolean,
 *   late: Late[]}} Run one worker's hold on one row, from claim to end
 */
/** @typedef {{n: number, of: number, caption: string, at: number}} Step */
/** @typedef {{moved: number[], needless: number, workers: number, at: number}} Change */
/**
 * @typedef {{at: number, picture: any, pictured_at: number, runs: Run[], keys: Record<string, string>,
 *   stops: {worker: string, from: number, to: number | null}[], steps: Step[], verdict: any, tuned: any,
 *   samples: number[][], shop: Said | null, cut: boolean, change: Change | null, closed: Said | null}} State
 */

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

const ENDS = /** @type {Record<string, string>} */ ({
  job_completed: "completed",
  job_retried: "retried",
  job_released: "released",
  job_failed: "failed",
  job_dead_lettered: "dead letter",
  job_cancelled: "cancelled",
});

/** @type {Record<string, (state: State, said: Said) => Partial<State>>} */
const HEARD = {
  picture: look,
  step: (state, said) => ({
    steps: [...state.steps, { n: said.step, of: said.of, caption: said.caption, at: said.at }],
  }),
  verdict: (_, said) => ({ verdict: said }),
  tuning: (state, said) => ({ samples: [...state.samples, [said.t, said.done]] }),
  tuned: (_, said) => ({ tuned: said }),
  stage_closed: (_, said) => ({ closed: said }),
  enqueued: (state, said) => ({ keys: { ...state.keys, [said.job_id]: said.key }, shop: said }),
  enqueue_deduplicated: (_, said) => ({ shop: said }),
  order_rolled_back: (_, said) => ({ shop: said }),
  redriven: (_, said) => ({ shop: said }),
  database_cut: () => ({ cut: true }),
  database_healed: () => ({ cut: false }),
  lease_acquired: claim,
  lease_lost: (state, said) => ({
    runs: change_run(state.runs, said, said.token, (run) => ({
      ...run,
      told: true,
      ...(run.to === null && { to: said.at, outcome: "given up" }),
    })),
  }),
  stale_write_blocked: (state, said) => ({ runs: late(state.runs, said, false) }),
  ledger_written: (state, said) =>
    is_stale(state.runs, said) ? { runs: late(state.runs, said, true) } : {},
  worker_paused: (state, said) => ({
    stops: [...state.stops, { worker: said.worker, from: said.at, to: null }],
  }),
  worker_resumed: (state, said) => ({
    stops: state.stops.map((stop) =>
      stop.worker === said.worker && stop.to === null ? { ...stop, to: said.at } : stop,
    ),
  }),
  worker_killed: leave,
  worker_gone: leave,
};

/** The next state. @param {State} state @param {Said} said @returns {State} */
export function reduce(state, said) {
  const change =
    said.event in ENDS ? { runs: end(state.runs, said) } : (HEARD[said.event]?.(state, said) ?? {});
  return { ...state, at: Math.max(state.at, said.at), ...change };
}

/** worker-A of worker-A-8120-3fa9c2d1, of the field or of whoever says it. @param {Said} said */
export const speaker = (said) =>
  (said.who.startsWith("worker-") ? said.who : String(said.worker ?? said.who))
    .split("-")
    .slice(0, 2)
    .join("-");

/** @param {State} state @param {Said} said */
function claim(state, said) {
  const run = {
    job: said.job_id,
    worker: speaker(said),
    token: said.token,
    from: said.at,
    to: null,
    outcome: "held",
    lease_until: null,
    lease_whole: 0,
    gone_at: null,
    told: false,
    late: [],
  };
  return {
    runs: [
      ...state.runs.map((old) =>
        old.job === run.job && old.to === null ? expired(old, said.at) : old,
      ),
      run,
    ],
  };
}

/**
 * It ended when its lease did, or at the latest when somebody else was let in.
 * @param {Run} run
 * @param {number} at
 * @returns {Run}
 */
const expired = (run, at) => ({
  ...run,
  to: Math.max(run.from, Math.min(run.lease_until ?? at, at)),
  outcome: "expired",
});

/** @param {Run[]} runs @param {Said} said @param {number} token @param {(run: Run) => Run} change */
const change_run = (runs, said, token, change) =>
  runs.map((run) => (run.job === said.job_id && run.token === token ? change(run) : run));

/** Has the row a later holder than the one who speaks? @param {Run[]} runs @param {Said} said */
const is_stale = (runs, said) => runs.some((run) => run.job === said.job_id && run.token > said.token);

/** @param {Run[]} runs @param {Said} said */
function end(runs, said) {
  if (is_stale(runs, said))
    return runs.some((run) => run.token === said.token && run.job === said.job_id && run.late.length)
      ? runs
      : late(runs, said, true);
  const open = (/** @type {Run} */ run) =>
    run.to === null || (run.outcome === "expired" && !run.late.length); // a picture may be quicker than the event
  return change_run(runs, said, said.token, (run) =>
    open(run) ? { ...run, to: said.at, outcome: ENDS[said.event], told: true } : run,
  );
}

/** @param {Run[]} runs @param {Said} said @param {boolean} ok @returns {Run[]} */
function late(runs, said, ok) {
  const token = said.stale_token ?? said.token;
  const newest = Math.max(...runs.filter((run) => run.job === said.job_id).map((run) => run.token));
  const write = {
    at: said.at,
    ok,
    token,
    current: said.current_token ?? (newest > token ? newest : null),
    reason: said.reason ?? "",
  };
  return change_run(runs, said, token, (run) => ({
    ...(run.to === null ? { ...run, to: said.at, outcome: "lost" } : run),
    told: true,
    late: [...run.late, write],
  }));
}

/** The process is gone; its leases are not. @param {State} state @param {Said} said */
function leave(state, said) {
  const gone = (/** @type {Run} */ run) =>
    run.worker === said.worker && run.gone_at === null && !run.told;
  return {
    runs: state.runs.map((run) => (gone(run) ? { ...run, gone_at: said.at } : run)),
    stops: state.stops.map((stop) =>
      stop.worker === said.worker && stop.to === null ? { ...stop, to: said.at } : stop,
    ),
  };
}

/** @param {State} state @param {Said} picture */
function look(state, picture) {
  const rows = new Map(picture.rows.map((/** @type {any} */ row) => [row.id, row]));
  const keys = { ...state.keys };
  for (const row of picture.rows) keys[row.id] = row.key;
  return {
    picture,
    pictured_at: picture.at,
    keys,
    runs: state.runs.map((run) => seen(run, rows.get(run.job), picture.at)),
    change: ring_change(state, picture),
  };
}

/**
 * A run as the row in the picture has it: how long its lease is, or that it was taken back.
 * @param {Run} run
 * @param {any} row
 * @param {number} at
 * @returns {Run}
 */
function seen(run, row, at) {
  if (!row || run.to !== null) return run;
  if (row.status === "processing" && row.token === run.token && row.lease_left !== null)
    return {
      ...run,
      lease_until: at + row.lease_left,
      lease_whole: Math.max(run.lease_whole, row.lease_left),
    };
  return row.token > run.token || row.status === "pending" || row.status === "scheduled"
    ? expired(run, at)
    : run;
}

/** @param {State} state @param {any} picture @returns {Change | null} */
function ring_change(state, { ring, at }) {
  const before = state.picture.ring;
  if (before.owners === ring.owners) return state.change;
  if (!before.workers.length || !ring.workers.length) return null;
  return {
    ...moves(dealt(before), dealt(ring)),
    workers: Math.max(before.workers.length, ring.workers.length),
    at,
  };
}

/**
 * The ring of a picture, which names owners by letter, as ring/shape.js has it.
 * @param {{workers: string[], owners: string}} ring
 */
export function dealt({ workers, owners }) {
  const nth = new Map(workers.map((worker, n) => [worker.at(-1), n]));
  return { workers, buckets: [...owners].map((letter) => nth.get(letter) ?? -1) };
}
