/** A row of a list, and its state as people call it. */
import { clock } from "./clock.js";

/**
 * @typedef {{id: string, kind: string, key: string, queue: string, status: string, attempts: number,
 *   max_attempts: number, available_at: string, created_at: string, claimed_at: string | null,
 *   finished_at: string | null, finished_by: string | null, worker: string | null,
 *   lease_seconds_left: number | null, cancel_asked: boolean, last_error: string | null,
 *   inbox?: string, idempotency_key: string | null, payload: string | null, payload_hidden: boolean}} Row
 */

/**
 * Pending has two halves, runnable and scheduled, and the difference is what people look for.
 * @param {{status: string, available_at: string}} row
 */
export function state({ status, available_at }) {
  if (status !== "pending") return status;
  return Date.parse(available_at) > clock.value ? "scheduled" : "runnable";
}
