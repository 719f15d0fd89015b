/** The form that sets the limits of a queue. */
import { api } from "../../lib/api.js";
import { changed } from "../../lib/live.js";
import { toast } from "../../lib/toast.js";
import { html, useState } from "../../lib/ui.js";
import { asked } from "./limit_words.js";

/** @typedef {import("./limit_words.js").Queue} Queue */

const FIELDS = /** @type {const} */ ([
  ["max_running", "Run at once", "rows of the queue"],
  ["max_per_key", "Run at once per key", "rows of one key"],
  ["rate_per_second", "Start per second", "rows"],
  ["burst", "Burst", "a second's worth"],
]);

/** @param {{queue: Queue, close: () => void}} props */
export function Limits({ queue, close }) {
  const [texts, setTexts] = useState(
    /** @type {Record<string, string>} */ (
      Object.fromEntries(FIELDS.map(([name]) => [name, String(queue[name] ?? "")]))
    ),
  );
  const [wrong, setWrong] = useState("");
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await api(`api/queues/${encodeURIComponent(queue.queue)}/limits`, {
        method: "PUT",
        body: asked(texts),
        at: queue.inbox,
      });
    } catch (error) {
      return setWrong(/** @type {Error} */ (error).message);
    }
    toast(`The limits of ${queue.queue} are set.`, { tone: "good" });
    changed();
    close();
  };
  return html`
    <form class="limits-form" aria-label=${`Limits of ${queue.queue}`} onSubmit=${save}>
      ${FIELDS.map(([name, label, hint]) => html`
        <label key=${name} class="field">
          ${label}
          <input
            type="text"
            inputmode="decimal"
            name=${name}
            value=${texts[name]}
            placeholder=${name === "burst" ? hint : "no limit"}
            title=${hint}
            autocomplete="off"
            aria-invalid=${wrong.includes(name) ? "true" : undefined}
            onInput=${(/** @type {any} */ e) => setTexts({ ...texts, [name]: e.target.value })}
          />
        </label>
      `)}
      <div class="acts">
        <button type="submit" class="button primary">
          Save
        </button>
        <button type="button" class="button" onClick=${close}>
          Back
        </button>
      </div>
      <p class="wrong" role="alert">
        ${wrong}
      </p>
      <p class="quiet">
        Limits count across all workers. An empty field removes a limit; a lower limit stops no row that
        has started.
      </p>
    </form>
  `;
}
