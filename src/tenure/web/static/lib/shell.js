/** The frame of every page: the head, the page itself, and the foot. */
import { locked, me } from "./api.js";
import { Confirm } from "./confirm.js";
import { Enqueue } from "./enqueue.js";
import { Head } from "./head.js";
import { Help } from "./help.js";
import { Away, several } from "./inboxes.js";
import { Login } from "./login.js";
import { Palette } from "./palette.js";
import { Toasts } from "./toast.js";
import { html } from "./ui.js";
import { View } from "./view.js";

/** @typedef {import("./ways.js").Way} Way */

/** @param {{ways: Way[]}} props */
export function Shell({ ways }) {
  if (locked.value)
    return html`
      <${Login} />
      <${Toasts} />
    `;
  if (!me.value) return null;
  const { drills, citus } = me.value;
  const shown = ways.filter(
    ({ name }) => (name !== "drills" || drills) && (name !== "shards" || citus),
  );
  return html`
    <a class="skip" href="" onClick=${skip}>
      Skip to the page
    </a>
    <${Head} ways=${shown} />
    <main id="main" tabindex="-1">
      <${Away} />
      <${View} ways=${shown} />
    </main>
    <${Foot} />
    <${Toasts} />
    <${Confirm} />
    <${Help} />
    <${Enqueue} />
    <${Palette} ways=${shown} />
  `;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Foot() {
  const mine = me.value;
  return (
    mine && html`
      <footer class="foot">
        <span>Tenure ${mine.version}</span>
        <span>
          schema ${mine.schema}, migration ${mine.schema_version}
        </span>
        <span class="mono clip">
          ${several() ? `inboxes ${mine.inboxes.join(", ")}` : mine.database}
        </span>
      </footer>
    `
  );
}
