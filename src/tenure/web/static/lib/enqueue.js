/** The dialog that enqueues a row: a new one, or one like another row with its payload edited. */
import { api, me } from "./api.js";
import { inbox } from "./asked.js";
import { body_of, command_of, EMPTY, wrong_with } from "./draft.js";
import { Names, several } from "./inboxes.js";
import { changed } from "./live.js";
import { Copy } from "./parts.js";
import { go } from "./route.js";
import { toast } from "./toast.js";
import { html, signal, useLayoutEffect, useRef, useState } from "./ui.js";
import { brief } from "./words.js";

/** @typedef {import("./draft.js").Draft} Draft */

const writing = signal(/** @type {Draft | null} */ (null));

/** Opens the dialog with this draft. @param {Draft} draft */
export const write = (draft = EMPTY) => (writing.value = draft);

export function Enqueue() {
  return writing.value && html`<${Dialog} draft=${writing.value} />`;
}

const FIELDS = /** @type {[keyof Draft, string, string][]} */ ([
  ["queue", "Queue", "as its handler declared"],
  ["key", "Key", "as its handler declared"],
  ["delay", "Due in", "now; 5m, 2h"],
  ["idempotency_key", "Idempotency key", "none"],
]);

/** @param {{draft: Draft}} props */
function Dialog({ draft }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [now, setNow] = useState(
    /** @type {Draft} */ ({ ...draft, inbox: draft.inbox ?? inbox.peek() }),
  );
  const [fault, setFault] = useState("");
  useLayoutEffect(() => box.current?.showModal(), []); // before the first key press
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) =>
    setNow((/** @type {Draft} */ old) => ({ ...old, [name]: event.target.value }));
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const wrong = wrong_with(now, me.value?.inboxes);
    setFault(wrong || (await sent(now)));
  };
  return html`
    <dialog
      ref=${box}
      class="dialog enqueue"
      aria-labelledby="enqueue-title"
      onClose=${() => (writing.value = null)}
    >
      <form onSubmit=${send}>
        <h2 id="enqueue-title">${draft.of ? `Run ${brief(draft.of.id)} again` : "Enqueue a row"}</h2>
        ${draft.of && html`<p class="quiet">A new row like it; the old one stays as it is.</p>`}
        ${several() && html`<${Where} chosen=${now.inbox} choose=${set("inbox")} />`}
        <label class="field">
          Kind
          <input
            type="text"
            class="mono"
            value=${now.kind}
            maxlength="128"
            autocomplete="off"
            spellcheck="false"
            placeholder="send_receipt"
            onInput=${set("kind")}
          />
        </label>
        <label class="field">
          Payload, as JSON
          <textarea
            class="mono"
            rows="8"
            spellcheck="false"
            value=${now.payload}
            onInput=${set("payload")}
          />
        </label>
        <div class="fields">
          ${FIELDS.map(([name, label, hint]) => html`
            <label key=${name} class="field">
              ${label}
              <input
                type="text"
                value=${now[name]}
                placeholder=${hint}
                autocomplete="off"
                spellcheck="false"
                onInput=${set(name)}
              />
            </label>
          `)}
        </div>
        <p class="wrong" role="alert">
          ${fault}
        </p>
        <footer>
          <${Copy} className="button" label="Copy as command" text=${command_of(now)} />
          <span class="spring"></span>
          <button type="button" class="button" onClick=${() => box.current?.close()}>
            Back
          </button>
          <button class="button primary">Enqueue</button>
        </footer>
      </form>
    </dialog>
  `;
}

/** Of several inboxes, the one into which it goes. @param {{chosen?: string, choose: (event: any) => void}} props */
const Where = ({ chosen, choose }) => html`
  <label class="field">
    Into the inbox
    <select value=${chosen} onChange=${choose}>
      <option value="">choose one</option>
      <${Names} />
    </select>
  </label>
`;

/** Sends it and goes to the row; else the server's sentence. @param {Draft} draft */
async function sent(draft) {
  try {
    const { id, outcome, hint } = await api("api/rows", {
      method: "POST",
      text: body_of(draft),
      at: draft.inbox,
    });
    writing.value = null;
    toast(outcome === "enqueued" ? hint || "Enqueued." : "It was sent before: this is its row.", {
      tone: outcome === "enqueued" && !hint ? "good" : "",
    });
    if (inbox.peek() && draft.inbox) inbox.value = draft.inbox; // else its page would not find it
    changed();
    if (id) go(`rows/${id}`);
    return "";
  } catch (error) {
    return /** @type {Error} */ (error).message;
  }
}
