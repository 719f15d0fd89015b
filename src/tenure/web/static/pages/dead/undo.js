/**
 * Actions that are sent after ten seconds. Undo, or leaving the page before that, sends nothing.
 */
import { tell } from "../../lib/act.js";
import { api } from "../../lib/api.js";
import { verb_of } from "../../lib/can.js";
import { confirm } from "../../lib/confirm.js";
import { changed } from "../../lib/live.js";
import { toast } from "../../lib/toast.js";
import { html, signal, useEffect, useRef } from "../../lib/ui.js";
import { plural } from "../../lib/words.js";
import { UNDO_SECONDS, countdown } from "./countdown.js";

/**
 * @typedef {{key: string, verb: string, filter: string, rows: number, reason: string, said: string,
 *   left: number, share: number, undo: () => boolean}} Planned
 */

const planned = signal(/** @type {Planned[]} */ ([]));

/** Is something about to happen to these rows? @param {string} filter */
export const isPlanned = (filter) => planned.value.some((each) => each.filter === filter);

/**
 * Counts on the server, asks, and sends in ten seconds unless somebody presses Undo.
 * @param {string} verb
 * @param {string} filter
 */
export async function plan(verb, filter) {
  const { button: label, does, past, grave } = verb_of(verb);
  try {
    const dry = await api("api/actions", { method: "POST", body: { verb, filter, dry_run: true } });
    if (!dry.matched) return void toast(`No row here can be ${past} any more.`);
    const yes = await confirm({
      title: `${label} ${plural(dry.matched, "row")}?`,
      verb: label,
      count: dry.matched,
      filter: dry.filter,
      body: `${does} You can undo this for ten seconds.`,
      danger: grave,
    });
    if (yes) wait({ verb, filter, rows: dry.matched, reason: yes.reason, said: label });
  } catch (error) {
    toast(/** @type {Error} */ (error).message, { tone: "bad" });
  }
}

/** @param {{verb: string, filter: string, rows: number, reason: string, said: string}} action */
function wait(action) {
  const key = `${action.verb} ${action.filter}`;
  const put = (/** @type {{left: number, share: number} | null} */ time) => {
    const now = time && { ...action, ...time, key, undo: () => clock.undo() };
    planned.value = planned.value.flatMap((each) => (each.key !== key ? [each] : now ? [now] : []));
  };
  planned.value = [
    ...planned.value,
    { ...action, key, left: UNDO_SECONDS, share: 1, undo: () => clock.undo() },
  ];
  const clock = countdown(() => send(action), put);
}

/** @param {{verb: string, filter: string, rows: number, reason: string}} action */
async function send({ verb, filter, rows, reason }) {
  try {
    const done = await api("api/actions", {
      method: "POST",
      body: { verb, filter, dry_run: false, expect: rows, reason },
    });
    tell(verb_of(verb), done);
  } catch (error) {
    toast(failed(/** @type {any} */ (error)), { tone: "bad" });
    changed();
  }
}

/**
 * A refusal changed nothing; an action that broke off may have changed some rows.
 * @param {{code?: number, message: string}} error
 */
const failed = ({ code = 0, message }) =>
  code >= 400 && code < 500
    ? `Nothing was changed: ${message}`
    : `${message}. The audit shows the rows changed.`;

/**
 * What is about to be sent, with the time that is left. The page that shows it forgets it all when it is
 * left.
 */
export function Tray() {
  useEffect(() => {
    addEventListener("beforeunload", hold);
    return () => (removeEventListener("beforeunload", hold), forget());
  }, []);
  return html`
    <div class="tray" aria-label="Actions to be sent" role="region" hidden=${!planned.value.length}>
      ${planned.value.map((each) => html`
        <${Waiting} key=${each.key} action=${each} />
      `)}
      <p class="quiet">Nothing has been sent yet. Leaving this page sends nothing.</p>
    </div>
  `;
}

/** @param {{action: Planned}} props */
function Waiting({ action }) {
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useEffect(() => button.current?.focus(), []);
  const what = `${action.said} ${plural(action.rows, "row")}`;
  return html`
    <div class="tray-entry">
      <p>
        <b>
          ${what} in <span class="number">${action.left} s</span>
        </b>
        <code class="clip" title=${action.filter}>
          ${action.filter}
        </code>
      </p>
      <button
        ref=${button}
        class="button"
        aria-label=${`Undo: ${what}`}
        onClick=${() => action.undo() && toast("Undone: nothing was sent.")}
      >
        Undo
      </button>
      <svg class="tray-time" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
        <rect width=${(action.share * 100).toFixed(1)} height="1" />
      </svg>
    </div>
  `;
}

/** The browser asks before a tab with unsent actions closes. @param {BeforeUnloadEvent} event */
function hold(event) {
  if (planned.value.length) event.preventDefault();
}

function forget() {
  const dropped = planned.value.filter((each) => each.undo());
  const words = dropped.map((each) => `${each.said.toLowerCase()} ${plural(each.rows, "row")}`);
  if (dropped.length)
    toast(`You left the page: nothing was sent (${words.join(", ")}).`, { seconds: 10 });
}
