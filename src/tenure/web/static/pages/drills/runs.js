/** Who held which row from when to when: how each thing a stage says changes that. Pure. */

/** @typedef {import("./said.js").Run} Run */
/** @typedef {import("./said.js").Row} Row */
/** @typedef {import("./said.js").Said} Said */

/** The outcome of a hold, by the event that ends it. */
export const ENDS = /** @type {Record<string, string>} */ ({
  job_completed: "completed",
  job_retried: "retried",
  job_released: "released",
  job_failed: "failed",
  job_dead_lettered: "dead letter",
  job_cancelled: "cancelled",
});

/** worker-A of worker-A-8120-3fa9c2d1, of the field or of whoever says it. @param {Said} said */
export function speaker(said) {
  const name = said.who.startsWith("worker-") ? said.who : String(said.worker ?? said.who);
  return name.split("-").slice(0, 2).join("-");
}

/**
 * Somebody claimed a row; whoever held it holds it no more.
 * @param {Run[]} runs
 * @param {Said} said
 * @returns {Run[]}
 */
export function claimed(runs, said) {
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
  const before = runs.map((old) =>
    old.job === run.job && old.to === null ? expired(old, said.at) : old,
  );
  return [...before, run];
}

/**
 * It ended when its lease did, or at the latest when somebody else was let in.
 * @param {Run} run
 * @param {number} at
 * @returns {Run}
 */
function expired(run, at) {
  return { ...run, to: Math.max(run.from, Math.min(run.lease_until ?? at, at)), outcome: "expired" };
}

/** @param {Run[]} runs @param {Said} said @param {number} token @param {(run: Run) => Run} change */
const change_run = (runs, said, token, change) =>
  runs.map((run) => (run.job === said.job_id && run.token === token ? change(run) : run));

/** Has the row a later holder than the one who speaks? @param {Run[]} runs @param {Said} said */
const is_stale = (runs, said) => runs.some((run) => run.job === said.job_id && run.token > said.token);

/** A worker settled its row, or believes so. @param {Run[]} runs @param {Said} said @returns {Run[]} */
export function ended(runs, said) {
  if (is_stale(runs, said)) {
    const noted = runs.some(
      (run) => run.token === said.token && run.job === said.job_id && run.late.length,
    );
    return noted ? runs : late(runs, said, true);
  }
  // A picture may be quicker than the event: it has then let the hold expire.
  const open = (/** @type {Run} */ run) =>
    run.to === null || (run.outcome === "expired" && !run.late.length);
  return change_run(runs, said, said.token, (run) =>
    open(run) ? { ...run, to: said.at, outcome: ENDS[said.event], told: true } : run,
  );
}

/** A worker noticed that its lease is lost. @param {Run[]} runs @param {Said} said @returns {Run[]} */
export const lost = (runs, said) =>
  change_run(runs, said, said.token, (run) => ({
    ...run,
    told: true,
    ...(run.to === null && { to: said.at, outcome: "given up" }),
  }));

/**
 * A write that came too late, refused or not.
 * @param {Run[]} runs
 * @param {Said} said
 * @param {boolean} ok
 * @returns {Run[]}
 */
export function late(runs, said, ok) {
  const token = said.stale_token ?? said.token;
  const newest = Math.max(...runs.filter((run) => run.job === said.job_id).map((run) => run.token));
  const current = said.current_token ?? (newest > token ? newest : null);
  const write = { at: said.at, ok, token, current, reason: said.reason ?? "" };
  return change_run(runs, said, token, (run) => ({
    ...(run.to === null ? { ...run, to: said.at, outcome: "lost" } : run),
    told: true,
    late: [...run.late, write],
  }));
}

/** The ledger took a write; a stale one went through. @param {Run[]} runs @param {Said} said */
export const written = (runs, said) => (is_stale(runs, said) ? late(runs, said, true) : runs);

/** The process is gone; its leases are not. @param {Run[]} runs @param {Said} said @returns {Run[]} */
export const left = (runs, said) =>
  runs.map((run) =>
    run.worker === said.worker && run.gone_at === null && !run.told
      ? { ...run, gone_at: said.at }
      : run,
  );

/**
 * A run as the row in a picture has it: how long its lease is, or that it was taken back.
 * @param {Run} run
 * @param {Row | undefined} row
 * @param {number} at
 * @returns {Run}
 */
export function seen(run, row, at) {
  if (!row || run.to !== null) return run;
  if (row.status === "processing" && row.token === run.token && row.lease_left !== null) {
    const lease_whole = Math.max(run.lease_whole, row.lease_left);
    return { ...run, lease_until: at + row.lease_left, lease_whole };
  }
  const taken_back = row.token > run.token || row.status === "pending" || row.status === "scheduled";
  return taken_back ? expired(run, at) : run;
}
