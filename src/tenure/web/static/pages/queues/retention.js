/** The form that says how long the ended rows of a queue are kept. */
import { change } from "../../lib/act.js";
import { html, useState } from "../../lib/ui.js";
import { kept_seconds } from "./limit_words.js";

/** @typedef {import("./limit_words.js").Queue} Queue */

const DAY_SECONDS = 86_400;

/** @param {{queue: Queue, close: () => void}} props */
export function Retention({ queue, close }) {
  const seconds = queue.retention_seconds;
  const [days, setDays] = useState(seconds === null ? "" : String(seconds / DAY_SECONDS));
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const body = { retention_seconds: kept_seconds(days) };
    const done = await change(
      "retain_queue",
      "PUT",
      `api/queues/${encodeURIComponent(queue.queue)}/retention`,
      {
        body,
        at: queue.inbox,
        said:
          days.trim() === ""
            ? `${queue.queue} is kept as the workers say.`
            : `${queue.queue} is kept for ${days} d.`,
      },
    );
    if (done) close();
  };
  return html`
    <form class="limits-form one" aria-label=${`Retention of ${queue.queue}`} onSubmit=${save}>
      <label class="field">
        Days to keep completed and cancelled rows
        <input
          type="text"
          inputmode="decimal"
          name="retention"
          value=${days}
          placeholder="as the workers say"
          title="days"
          autocomplete="off"
          onInput=${(/** @type {any} */ e) => setDays(e.target.value)}
        />
      </label>
      <div class="acts">
        <button type="submit" class="button">
          Save retention
        </button>
      </div>
      <p class="quiet">Failed rows and dead letters stay until somebody deletes them.</p>
    </form>
  `;
}
