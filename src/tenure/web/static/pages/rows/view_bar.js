/** Below the filter: how old the rows may be, and the views that this browser has saved. */
import { to } from "../../lib/address.js";
import { ask } from "../../lib/route.js";
import { html, useState } from "../../lib/ui.js";
import { RANGES, range_of, with_range } from "./filter.js";
import { kept, same, store, stored, with_view } from "./views.js";

/** @param {{filter: string, query: Record<string, string>}} props */
export function ViewBar({ filter, query }) {
  const [views, setViews] = useState(stored);
  const [naming, setNaming] = useState(false);
  const change = (/** @type {import("./views.js").View[]} */ next) => (store(next), setViews(next));
  const save = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const name = String(new FormData(form).get("name")).trim();
    if (name) change(with_view(views, { name, query: kept(query) }));
    setNaming(false);
  };
  return html`
    <div class="view-bar">
      <${Range} filter=${filter} />
      ${views.length > 0 && html`
        <ul class="views" aria-label="Saved views">
          ${views.map(({ name, query: saved }) => html`
            <li key=${name} class=${same(saved, query) ? "view here" : "view"}>
              <a href=${to("rows", saved)} aria-current=${same(saved, query) ? "true" : undefined}>
                ${name}
              </a>
              <button
                class="button plain small"
                aria-label=${`Forget the view ${name}`}
                onClick=${() => change(views.filter((each) => each.name !== name))}
              >
                ×
              </button>
            </li>
          `)}
        </ul>
      `}
      ${naming ? html`
        <form class="view-name" onSubmit=${save}>
          <input
            class="box"
            name="name"
            aria-label="Name of the view"
            placeholder="Name of the view"
            maxlength="40"
            autocomplete="off"
            ref=${(/** @type {any} */ box) => box?.focus()}
          />
          <button class="button small primary">Save</button>
          <button type="button" class="button small" onClick=${() => setNaming(false)}>
            Back
          </button>
        </form>
      ` : html`
        <button
          class="button small"
          title="Kept in this browser: the filter, the order and the columns"
          onClick=${() => setNaming(true)}
        >
          Save this view
        </button>
      `}
    </div>
  `;
}

/** @param {{filter: string}} props */
function Range({ filter }) {
  const now = range_of(filter);
  const custom = !RANGES.some(([words]) => words === now);
  return html`
    <label class="range">
      Created
      <select
        class="box"
        value=${now}
        onChange=${(/** @type {any} */ event) =>
          ask({ filter: with_range(filter, event.target.value), before: null })
        }
      >
        ${RANGES.map(([words, label]) => html`
          <option key=${words} value=${words}>
            ${label}
          </option>
        `)}
        ${custom && html`<option value=${now}>${now}</option>`}
      </select>
    </label>
  `;
}
