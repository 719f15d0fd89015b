/** The results of the work: the ledger inside the fence, the mailbox outside of it. */
import { Panel } from "../../lib/parts.js";
import { Switch } from "../../lib/switch.js";
import { html } from "../../lib/ui.js";
import { plural } from "../../lib/words.js";
import { act } from "./store.js";
import { hindrance } from "./view.js";
import { tally, tone } from "./words.js";

const ENTRIES_SHOWN = 14;

/** @typedef {import("./said.js").Entry} Entry */
/** @typedef {import("./said.js").Letter} Letter */
/** @typedef {import("./said.js").State} State */

/** Inside the fence: one entry an order and step, or somebody wrote twice. @param {{state: State}} props */
export function Ledger({ state }) {
  const entries = state.picture.ledger;
  const of = (/** @type {Entry} */ entry) => `${entry.order}/${entry.step}`;
  const counts = tally(entries.map(of));
  const harm = Object.values(counts).some((n) => n > 1) ? "drill-harm" : "";
  return html`
    <${Panel} title="Ledger" aside=${html`<span>inside the fence</span>`} className=${`drill-ledger ${harm}`}>
      ${entries.length === 0 && html`<p class="empty">Nothing written.</p>`}
      <ul class="drill-entries">
        ${entries.slice(0, ENTRIES_SHOWN).map((entry, nth) => html`
          <${Written} key=${entries.length - nth} entry=${entry} twice=${counts[of(entry)] > 1} />
        `)}
      </ul>
    <//>
  `;
}

/** @param {{entry: Entry, twice: boolean}} props */
function Written({ entry, twice }) {
  return html`
    <li class=${tone(entry.worker)}>
      <b>${entry.order}</b>
      ${entry.step > 0 && html`
        ${" "}
        <span class="quiet">step ${entry.step}</span>
      `}
      <span class="drill-by">
        <i class="swatch" aria-hidden="true"></i>
        ${entry.worker?.at(-1)}, token ${entry.token}
      </span>
      ${twice && html`<strong class="drill-loud">duplicate!</strong>`}
    </li>
  `;
}

/** Outside the fence: an e-mail cannot be taken back. @param {{state: State}} props */
export function Mailbox({ state }) {
  const letters = state.picture.mailbox;
  const orders = [...new Set(letters.map((letter) => letter.order))];
  const harm = letters.length > orders.length ? "drill-harm" : "";
  const sent = (/** @type {number} */ order) => letters.filter((letter) => letter.order === order);
  return html`
    <${Panel} title="Mailbox" aside=${html`<span>outside it</span>`} className=${`drill-mailbox ${harm}`}>
      <${Dedupe} on=${state.picture.props?.dedupe ?? true} />
      ${letters.length === 0 && html`<p class="empty">Nothing sent.</p>`}
      <ul class="drill-entries">
        ${orders.slice(0, ENTRIES_SHOWN).map((order) => html`
          <${Sent} key=${order} order=${order} letters=${sent(order)} />
        `)}
      </ul>
    <//>
  `;
}

/** Does the handler ask whether it has sent already? @param {{on: boolean}} props */
function Dedupe({ on }) {
  const flip = () => act({ verb: "set", dedupe: !on });
  return html`
    <div class="drill-dedupe">
      <span class="quiet">Handler dedupe</span>
      <${Switch}
        on=${on}
        label="Handler dedupe"
        words=${["on", "off"]}
        may=${hindrance.value === ""}
        flip=${flip}
      />
    </div>
  `;
}

/** @param {{order: number, letters: Letter[]}} props */
function Sent({ order, letters }) {
  return html`
    <li>
      <b>${order}</b>
      <span class="drill-by">
        ${letters.map((letter, nth) => html`
          <${Envelope} key=${nth} letter=${letter} />
        `)}
        <span class="unseen">${plural(letters.length, "e-mail")}</span>
      </span>
      ${letters.length > 1 && html`<strong class="drill-loud">duplicate!</strong>`}
    </li>
  `;
}

/** @param {{letter: Letter}} props */
function Envelope({ letter: { worker, token } }) {
  return html`
    <span class=${`drill-letter ${tone(worker)}`} title=${`sent by ${worker}, token ${token}`}>
      <span aria-hidden="true">✉</span>
    </span>
  `;
}
