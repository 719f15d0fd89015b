/** The one dialog that asks before something changes: what, how many, which filter, why. */
import { html, signal, useLayoutEffect, useRef, useState } from "./ui.js";
import { number, plural } from "./words.js";

const TYPED_ABOVE = 1000;

/**
 * @typedef {{title: string, verb: string, count?: number, filter?: string,
 *   statuses?: Record<string, {n: number, more: boolean}>, body?: any, danger?: boolean,
 *   reason?: boolean}} Question
 */
const asked = signal(
  /** @type {(Question & {answer: (said: {reason: string} | null) => void}) | null} */ (null),
);

/**
 * Asks; the answer is null for no, {reason} for yes.
 * @param {Question} question
 * @returns {Promise<{reason: string} | null>}
 */
export const confirm = (question) => new Promise((answer) => (asked.value = { ...question, answer }));

export function Confirm() {
  const question = asked.value;
  return question && html`<${Dialog} key=${question.title} question=${question} />`;
}

/** @param {[string, any]} entry */
const share = ([status, { n, more }]) => `${number(n)}${more ? "+" : ""} ${status}`;

/** @param {{question: any}} props */
function Dialog({ question }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [typed, setTyped] = useState("");
  const [reason, setReason] = useState("");
  const must_type = (question.count ?? 0) > TYPED_ABOVE;
  const ready = !must_type || typed.replace(/[\s,.]/g, "") === String(question.count);
  useLayoutEffect(() => box.current?.showModal(), []); // before the first key press

  const end = (/** @type {boolean} */ yes) => {
    asked.value = null;
    question.answer(yes ? { reason } : null);
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (ready) end(true);
  };
  return html`
    <dialog
      ref=${box}
      class="dialog"
      aria-labelledby="confirm-title"
      onClose=${() => asked.value && end(false)}
    >
      <form onSubmit=${submit}>
        <h2 id="confirm-title">${question.title}</h2>
        ${question.body && html`<p>${question.body}</p>`}
        ${question.filter !== undefined && html`
          <p class="dialog-filter">
            <span class="quiet">The rows that match now</span>
            <code>${question.filter || "(every row)"}</code>
          </p>
        `}
        ${question.statuses && html`
          <p class="quiet">${Object.entries(question.statuses).map(share).join(" · ")}</p>
        `}
        ${question.reason !== false && html`
          <label class="field">
            Reason, for the audit
            <input
              type="text"
              name="reason"
              value=${reason}
              maxlength="500"
              autocomplete="off"
              placeholder="optional"
              onInput=${(/** @type {any} */ e) => setReason(e.target.value)}
            />
          </label>
        `}
        ${must_type && html`
          <label class="field">
            Type ${number(question.count)} to go on
            <input
              type="text"
              name="typed"
              inputmode="numeric"
              autocomplete="off"
              value=${typed}
              onInput=${(/** @type {any} */ e) => setTyped(e.target.value)}
            />
          </label>
        `}
        <footer>
          <button type="button" class="button" onClick=${() => end(false)}>
            Back
          </button>
          <button
            type="submit"
            class=${`button ${question.danger ? "danger" : "primary"}`}
            disabled=${!ready}
          >
            ${question.verb}
            ${question.count === undefined ? "" : ` ${plural(question.count, "row")}`}
          </button>
        </footer>
      </form>
    </dialog>
  `;
}
