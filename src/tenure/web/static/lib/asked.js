/** Of several inboxes, the one that is asked, and who answered last. */
import { signal } from "./ui.js";

/** The name of the inbox that is looked at; empty for all. */
export const inbox = signal("");

/** Who answers, by name, as the last answer had it; null where there is one inbox. */
export const answering = signal(
  /** @type {Record<string, {answers: boolean, error?: string}> | null} */ (null),
);

/** Notes who answered. @param {any} answer */
export function note_answering(answer) {
  const found = answer?.inboxes;
  if (!found || Array.isArray(found)) return;
  if (JSON.stringify(found) !== JSON.stringify(answering.peek())) answering.value = found;
}
