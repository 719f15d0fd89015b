/** The attempts of a row as lanes of its tape: their moments, their late writes, and their words. Pure. */
import { duration, exact } from "../../lib/time.js";
import { why_refused } from "../../lib/words.js";

/**
 * @typedef {{generation: number, fence: string, worker: string, claimed_at: string, ended_at: string | null,
 *   outcome: string, error: string | null}} Attempt
 */
/**
 * @typedef {{at: string, worker: string, verb: string, stale_token: string, current_token: string | null,
 *   reason: string}} Refusal
 */
/** @typedef {ReturnType<typeof lane>} Lane */

const GAVE_UP = ["retried", "released"];

/**
 * An attempt with its moments in milliseconds, and the writes it tried after it had lost the row.
 * @param {Attempt} attempt
 * @param {Refusal[]} refusals
 * @param {string | null} lease_expires_at
 * @param {number} now
 */
export function lane(attempt, refusals, lease_expires_at, now) {
  const from = Date.parse(attempt.claimed_at);
  const held = !attempt.ended_at;
  const lease_end = held && lease_expires_at ? Date.parse(lease_expires_at) : null;
  const to = attempt.ended_at ? Date.parse(attempt.ended_at) : Math.max(from, now);
  // By the token alone: a worker that was declared dead comes back under another name.
  const late = refusals
    .filter((each) => String(each.stale_token) === String(attempt.generation))
    .map((each) => ({ ...each, ms: Date.parse(each.at) }));
  return {
    attempt,
    from,
    to,
    held,
    lease_end,
    late,
    last: Math.max(to, ...late.map((each) => each.ms)),
  };
}

/** How long it was held. @param {Lane} lane */
const ran = ({ from, to }) => duration((to - from) / 1000);

/** What stands beside its bar. @param {Lane} lane */
export function label(lane) {
  const { attempt, held, late } = lane;
  const ending = held
    ? `held for ${ran(lane)}`
    : `${attempt.outcome.replace("_", " ")} after ${ran(lane)}`;
  return late.length ? `${ending}, ${late[0].verb} refused` : ending;
}

/** All there is to say about it, on hover. @param {Lane} lane */
export function lane_words(lane) {
  const { generation, worker, claimed_at, outcome, fence } = lane.attempt;
  const ending = lane.held ? `held for ${ran(lane)} so far` : `${outcome} after ${ran(lane)}`;
  const numbers = `Token ${generation}, fence ${fence}.`;
  return `${worker}: claimed ${exact(claimed_at)}, ${ending}. ${numbers}`;
}

/** A write that came too late, on hover. @param {Refusal} late */
export function late_words(late) {
  const { at, worker, verb, stale_token, reason } = late;
  const tried = `${exact(at)}: ${worker} tried to ${verb} with token ${stale_token}`;
  return `${tried}, ${why_refused(late, "was")}: refused (${reason})`;
}

/** The whole tape, for those who do not see it. @param {Lane[]} lanes */
export function summary(lanes) {
  const parts = lanes.map((each) => {
    const { generation, worker, outcome } = each.attempt;
    const writes = each.late.length > 1 ? "writes" : "write";
    const late = each.late.length ? `, then ${each.late.length} late ${writes} refused` : "";
    return `attempt ${generation} by ${worker} ${each.held ? "holds" : outcome} after ${ran(each)}${late}`;
  });
  return `Lease tape: ${parts.join("; ")}`;
}

/**
 * The attempts, the one that ended the row with the row's own ending: a last retry makes a dead letter.
 * @param {Attempt[]} attempts
 * @param {{status: string, finished_at: string | null}} row
 */
export const as_ended = (attempts, row) =>
  attempts.map((each) => {
    const last = each.ended_at && each.ended_at === row.finished_at;
    return last && GAVE_UP.includes(each.outcome) ? { ...each, outcome: row.status } : each;
  });
