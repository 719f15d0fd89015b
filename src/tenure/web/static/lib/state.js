/** The state of a row as people speak of it. */
import { clock } from "./clock.js";

/**
 * Pending has two halves, runnable and scheduled, and the difference is what people look for.
 * @param {any} row
 */
export const state = (row) =>
  row.status !== "pending"
    ? row.status
    : Date.parse(row.available_at) > clock.value
      ? "scheduled"
      : "runnable";
