/**
 * The board: what the shop can do, the rows of the inbox with their leases, what was written and what was
 * sent.
 */
import { Panel, Status } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { plural } from "../../lib/words.js";
import { act } from "./store.js";
import { chosen, hindrance, now } from "./view.js";
import { seconds_of, shop_words, tone } from "./words.js";
import { Switch } from "../../lib/switch.js";

const POISON_FROM = 9900;
const CHANGES_ITS_MIND = 9600;
const ROWS_SHOWN = 12;
const ENTRIES_SHOWN = 14;

/** @typedef {import("./reduce.js").State} State */

/** A button that does an act; while it may not, it says why. @param {any} props */
export function Do({ does, children, danger = false, small = false, title }) {
  const why = hindrance.value;
  return html`
    <button
      type="button"
      class=${`button ${danger ? "danger" : ""} ${small ? "small" : ""}`}
      disabled=${why !== ""}
      title=${why || title}
      onClick=${() => act(does)}
    >
      ${children}
    </button>
  `;
}

/** @param {{state: State}} props */
export function Producer({ state }) {
  const { rows, counts } = state.picture;
  const poison = POISON_FROM + rows.filter((/** @type {any} */ row) => row.kind === "poison").length;
  return html`
    <${Panel} title="Producer" className="drill-producer">
      <div class="panel-body">
        <${Do} does=${{ verb: "enqueue" }} title="An order and its row, in one transaction">
          Enqueue order:9182
        <//>
        <${Do} does=${{ verb: "enqueue" }} title="The identical call, with the same idempotency key">
          Same again
        <//>
        <${Do}
          does=${{ verb: "enqueue", kind: "poison", order: poison }}
          title="A row that no attempt can do anything with"
        >
          Poison row
        <//>
        <${Do} does=${{ verb: "orders", n: 10 }} title="Ten orders, each in a transaction of its own">
          10 orders
        <//>
        <${Do}
          does=${{ verb: "rollback", order: CHANGES_ITS_MIND }}
          title="Enqueues, then rolls the transaction back"
        >
          Rollback after enqueue
        <//>
        ${counts.dead_letter > 0 && html`
          <${Do} does=${{ verb: "redrive" }} title="Back to the inbox, with fresh attempts">
            Redrive dead letters
          <//>
        `}
        ${rows.some((/** @type {any} */ row) => row.wait_left > 0 && row.status === "pending") && html`
          <${Do} does=${{ verb: "skip_backoff" }} title="Rows that wait for their next attempt run now">
            Skip the wait
          <//>
        `}
        <p class="drill-why quiet">${hindrance.value}</p>
        <p class="drill-shop" role="status">
          ${shop_words(state.shop)}
        </p>
      </div>
    <//>
  `;
}

/** @param {{state: State, of: string | null, show: (row: any) => void}} props */
export function Inbox({ state, of, show }) {
  const { rows, counts } = state.picture;
  const words = Object.entries(counts)
    .map(([status, n]) => `${n} ${status === "processing" ? "held" : status.replace("_", " ")}`)
    .join(" · ");
  return html`
    <${Panel} title="Inbox" aside=${words || "real rows"} className="drill-inbox">
      ${rows.length === 0 ? html`
        <p class="empty">No row yet.</p>
      ` : html`
        <ul class="drill-rows" tabindex="0" aria-label="Rows, newest first">
          ${rows.slice(0, ROWS_SHOWN).map((/** @type {any} */ row) => html`
            <${Row} key=${row.id} row=${row} state=${state} picked=${row.key === of} show=${show} />
          `)}
        </ul>
      `}
      ${rows.length > ROWS_SHOWN && html`
        <p class="drill-more quiet">and ${plural(rows.length - ROWS_SHOWN, "older row")}</p>
      `}
    <//>
  `;
}

/** @param {any} props */
function Row({ row, state, picked, show }) {
  const pick = () => (chosen.value = row.key);
  return html`
    <li class=${`drill-row ${picked ? "picked" : ""}`}>
      <button
        type="button"
        class="drill-key mono"
        aria-pressed=${picked ? "true" : "false"}
        title="Draw the tape of this key"
        onClick=${pick}
      >
        ${row.key}
      </button>
      <${Status} status=${row.status === "pending" && row.wait_left > 0 ? "scheduled" : row.status} />
      <span class="number" title="token · attempts">
        <span class="quiet">token</span> <b>${row.token}</b>${" "}
        <span class="quiet">
          try ${row.attempts}/${row.max_attempts}
        </span>
      </span>
      <${Lease} row=${row} state=${state} />
      <button
        type="button"
        class="button plain small"
        title="The row itself, and the SQL that shows it"
        onClick=${() => show(row)}
      >
        Show the row
      </button>
      ${row.error && row.status !== "completed" && html`
        <span class="drill-error clip" title=${row.error}>
          ${row.error}
        </span>
      `}
    </li>
  `;
}

/**
 * The lease as it runs down: the picture says how much was left, the clock goes on from there.
 * @param {any} props
 */
function Lease({ row, state }) {
  if (row.status === "pending" && row.wait_left > 0)
    return html`
      <span class="drill-lease quiet">
        next try in ${seconds_of(Math.max(0, row.wait_left - (now.value - state.pictured_at)))}
      </span>
    `;
  if (row.status !== "processing" || row.lease_left === null) return html`<span class="drill-lease"></span>`;
  const left = row.lease_left - Math.max(0, now.value - state.pictured_at);
  const run = state.runs.find(
    (/** @type {any} */ each) => each.job === row.id && each.token === row.token,
  );
  const whole = Math.max(run?.lease_whole ?? 0, row.lease_left, 0.1);
  const share = Math.max(0, Math.min(1, left / whole));
  const words =
    left > 0 ? `${seconds_of(left)} of its lease left` : `lease ran out ${seconds_of(-left)} ago`;
  return html`
    <span
      class=${`drill-lease ${tone(row.worker)} ${left > 0 ? "" : "out"}`}
      title=${`${row.worker}: ${words}`}
    >
      <span class="drill-lease-who mono">${row.worker?.at(-1)}</span>
      <span class="bar" role="img" aria-label=${words}>
        <i style=${{ width: `${(share * 100).toFixed(1)}%` }}></i>
      </span>
      <span class="number">${left > 0 ? seconds_of(left) : "ran out"}</span>
    </span>
  `;
}

/** Inside the fence: one entry an order and step, or somebody wrote twice. @param {{state: State}} props */
export function Ledger({ state }) {
  const entries = state.picture.ledger;
  const of = (/** @type {any} */ entry) => `${entry.order}/${entry.step}`;
  const counts = tally(entries.map(of));
  const twice = Object.values(counts).some((n) => n > 1);
  return html`
    <${Panel}
      title="Ledger"
      aside=${html`<span>inside the fence</span>`}
      className=${`drill-ledger ${twice ? "drill-harm" : ""}`}
    >
      ${entries.length === 0 && html`<p class="empty">Nothing written.</p>`}
      <ul class="drill-entries">
        ${entries.slice(0, ENTRIES_SHOWN).map((/** @type {any} */ entry, /** @type {number} */ nth) => html`
          <li key=${entries.length - nth} class=${tone(entry.worker)}>
            <b>${entry.order}</b>
            ${entry.step > 0 && html`
              ${" "}
              <span class="quiet">step ${entry.step}</span>
            `}
            <span class="drill-by">
              <i class="swatch" aria-hidden="true"></i>
              ${entry.worker?.at(-1)}, token ${entry.token}
            </span>
            ${counts[of(entry)] > 1 && html`<strong class="drill-loud">duplicate!</strong>`}
          </li>
        `)}
      </ul>
    <//>
  `;
}

/** Outside the fence: an e-mail cannot be taken back. @param {{state: State}} props */
export function Mailbox({ state }) {
  const letters = state.picture.mailbox;
  const orders = [...new Set(letters.map((/** @type {any} */ letter) => letter.order))];
  const dedupe = state.picture.props?.dedupe ?? true;
  return html`
    <${Panel}
      title="Mailbox"
      aside=${html`<span>outside it</span>`}
      className=${`drill-mailbox ${letters.length > orders.length ? "drill-harm" : ""}`}
    >
      <div class="drill-dedupe">
        <span class="quiet">Handler dedupe</span>
        <${Switch}
          on=${dedupe}
          label="Handler dedupe"
          words=${["on", "off"]}
          may=${hindrance.value === ""}
          flip=${() => act({ verb: "set", dedupe: !dedupe })}
        />
      </div>
      ${letters.length === 0 && html`<p class="empty">Nothing sent.</p>`}
      <ul class="drill-entries">
        ${orders.slice(0, ENTRIES_SHOWN).map((order) => {
          const sent = letters.filter((/** @type {any} */ letter) => letter.order === order);
          return html`
            <li key=${order}>
              <b>${order}</b>
              <span class="drill-by">
                ${sent.map((/** @type {any} */ letter, /** @type {number} */ nth) => html`
                  <span
                    key=${nth}
                    class=${`drill-letter ${tone(letter.worker)}`}
                    title=${`sent by ${letter.worker}, token ${letter.token}`}
                  >
                    <span aria-hidden="true">✉</span>
                  </span>
                `)}
                <span class="unseen">${plural(sent.length, "e-mail")}</span>
              </span>
              ${sent.length > 1 && html`<strong class="drill-loud">duplicate!</strong>`}
            </li>
          `;
        })}
      </ul>
    <//>
  `;
}

/** @param {string[]} words */
function tally(words) {
  const counts = /** @type {Record<string, number>} */ ({});
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}
