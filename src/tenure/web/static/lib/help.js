/** What the keys do, and what the filter understands. */
import { helping } from "./keys.js";
import { html, useLayoutEffect, useRef } from "./ui.js";

const KEYS = [
  ["Ctrl K", "commands"],
  ["/", "filter rows"],
  ["g o", "overview"],
  ["g r", "rows"],
  ["g w", "workers"],
  ["g i", "ring"],
  ["g d", "dead letters"],
  ["g q", "queues"],
  ["g s", "schedules"],
  ["g b", "batches"],
  ["g p", "projections"],
  ["g a", "audit"],
  ["g l", "drills"],
  ["j k ↑ ↓", "next and previous row"],
  ["Enter", "open the row"],
  ["x", "select the row"],
  ["Esc", "clear the selection, close"],
  ["p", "pause and go on"],
  ["?", "this help"],
];
const WORDS = [
  ["status:dead_letter,failed", "any of these"],
  ["kind:send_receipt", "exact; send_* for a beginning"],
  ["key:order:9182", "rows of one key"],
  ['error:"time out"', "part of the last error"],
  ["payload.order_id:9182", "a field of the payload"],
  ["attempts:>3", "also 2..5, <3"],
  ["age:>1h", "older than"],
  ["worker:w1", "held or ended by"],
];

export function Help() {
  return helping.value && html`<${Dialog} />`;
}

function Dialog() {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useLayoutEffect(() => box.current?.showModal(), []); // before the first key press
  return html`
    <dialog
      ref=${box}
      class="dialog help"
      aria-labelledby="help-title"
      onClose=${() => (helping.value = false)}
    >
      <form method="dialog">
        <h2 id="help-title">Keys and words</h2>
        <div class="help-columns">
          <${List} pairs=${KEYS} tag="kbd" />
          <${List} pairs=${WORDS} tag="code" />
        </div>
        <footer>
          <button class="button primary" autofocus>
            Close
          </button>
        </footer>
      </form>
    </dialog>
  `;
}

/** @param {{pairs: string[][], tag: string}} props */
const List = ({ pairs, tag }) => html`
  <dl class="pairs">
    ${pairs.map(([sign, what]) => html`
      <div key=${sign}>
        <dt>
          <${tag}>${sign}<//>
        </dt>
        <dd>${what}</dd>
      </div>
    `)}
  </dl>
`;
