/** What a stage says and what that comes to, as types; nothing runs here. */

/**
 * @typedef {{at: number, who: string, event: string, [field: string]: any}} Said one line of a stage's tale
 */

/**
 * @typedef {{id: string, key: string, kind: string, status: string, token: number, attempts: number,
 *   max_attempts: number, wait_left: number, lease_left: number | null, worker: string | null,
 *   error: string | null}} Row
 */
/** @typedef {{order: number, step: number, worker: string | null, token: number}} Entry in the ledger */
/** @typedef {{order: number, worker: string, token: number}} Letter in the mailbox */
/** @typedef {{name: string, pid: number, state: string, role: string}} Hand a worker's process */
/** @typedef {{workers: string[], owners: string}} Ring owners by letter, one for each bucket */
/**
 * @typedef {{rows: Row[], counts: Record<string, number>, ledger: Entry[], mailbox: Letter[],
 *   workers: Hand[], ring: Ring, props: Record<string, any> | null}} Picture the stage at one moment
 */

/** @typedef {{name: string, ok: boolean, sentence: string}} Check */
/**
 * @typedef {{ok: boolean, shown: string, seconds: number, checks: Check[], trouble?: string | null,
 *   stopped_by?: string | null, explanation?: string, written?: {worker: string, token: number}[]}} Verdict
 */
/**
 * @typedef {{trouble?: string, samples: number[][], rows: number, seconds: number, rows_per_second: number,
 *   lag_p50_seconds: number, lag_p95_seconds: number, bottleneck: string, explanation: string}} Tuned
 */

/**
 * @typedef {{at: number, ok: boolean, token: number, current: number | null, reason: string}} Late
 *   a write by a holder that was none any more
 */
/**
 * @typedef {{job: string, worker: string, token: number, from: number, to: number | null, outcome: string,
 *   lease_until: number | null, lease_whole: number, gone_at: number | null, told: boolean,
 *   late: Late[]}} Run one worker's hold on one row, from claim to end
 */
/** @typedef {{worker: string, from: number, to: number | null}} Stop while its process stood still */
/** @typedef {{n: number, of: number, caption: string, at: number}} Step */
/** @typedef {{moved: number[], needless: number, workers: number, at: number}} Change of the ring */

/**
 * @typedef {{at: number, picture: Picture, pictured_at: number, runs: Run[], keys: Record<string, string>,
 *   stops: Stop[], steps: Step[], verdict: Verdict | null, tuned: Tuned | null, samples: number[][],
 *   shop: Said | null, cut: boolean, change: Change | null, closed: Said | null}} State
 */

/**
 * @typedef {{name: string, title: string, story: string, guard: string, steps: string[],
 *   control: {steps: string[]} | null, props: Record<string, any> | null, settable: string[],
 *   cli: string}} Drill a scene as the server lists it
 */

export {};
