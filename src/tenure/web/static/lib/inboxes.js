/** Several inboxes: which of them is looked at, and who answers. */
import { me } from "./api.js";
import { answering, inbox } from "./asked.js";
import { changed } from "./live.js";
import { html } from "./ui.js";

/** Are there several, and are all looked at? Then lines have a column with the name. */
export const several = () => (me.value?.inboxes.length ?? 0) > 1;

/** The name of each inbox, and one for all. */
export function Inboxes() {
  if (!several()) return null;
  const choose = (/** @type {any} */ event) => {
    inbox.value = event.target.value;
    changed();
  };
  return html`
    <select class="inboxes" aria-label="Inbox" value=${inbox.value} onChange=${choose}>
      <option value="">All inboxes</option>
      <${Names} />
    </select>
  `;
}

/** An option for each inbox, of a list to choose from. */
export const Names = () =>
  me.value?.inboxes.map((name) => html`
    <option key=${name} value=${name}>
      ${name}
    </option>
  `);

/** "1 of 2 inboxes answers: us is away", while that is so. */
export function Away() {
  const known = Object.entries(answering.value ?? {});
  const away = known.filter(([, { answers }]) => !answers);
  if (!away.length || inbox.value) return null;
  const n = known.length - away.length;
  const who = away.map(([name]) => name).join(", ");
  const why = away.map(([name, { error }]) => `${name}: ${error ?? "no answer"}`).join("\n");
  return html`
    <p class="away" role="status" title=${why}>
      ${n} of ${known.length} inboxes ${n === 1 ? "answers" : "answer"}: ${who}${" "}
      ${away.length === 1 ? "is" : "are"} away, and nothing of it is shown.
    </p>
  `;
}
