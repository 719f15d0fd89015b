/** The small parts every page is made of. */
import { to } from "./address.js";
import { copy } from "./copy.js";
import { html, useState } from "./ui.js";
import { filter_word, number, short, worker_colour } from "./words.js";

/**
 * A page: its headline, what stands beside it, its body.
 * @param {{title: string, note?: string, actions?: any, children?: any, wide?: boolean}} props
 */
export function Page({ title, note, actions, children, wide = false }) {
  return html`
    <div class=${`page ${wide ? "wide" : ""}`}>
      <header class="page-head">
        <h1>${title}</h1>
        ${note && html`<p class="note">${note}</p>`}
        <div class="page-actions">${actions}</div>
      </header>
      ${children}
    </div>
  `;
}

/**
 * A box with a small headline; of several inboxes, the tag names its own.
 * @param {{title?: string, tag?: string, aside?: any, children?: any, className?: string}} props
 */
export function Panel({ title, tag, aside, children, className = "" }) {
  return html`
    <section class=${`panel ${className}`}>
      ${(title || aside) && html`
        <header class="panel-head">
          <h2>
            ${title}
            ${tag && html`
              ${" "}
              <span class="tag">${tag}</span>
            `}
          </h2>
          ${aside && html`<div class="panel-aside">${aside}</div>`}
        </header>
      `}
      ${children}
    </section>
  `;
}

/** A row's status as a mark and a word. @param {{status: string, cancel_asked?: boolean}} props */
export function Status({ status, cancel_asked = false }) {
  const word = status.replace("_", " ");
  return html`
    <span class=${`status is-${status}`}>
      <i aria-hidden="true"></i>
      ${word}
      ${cancel_asked && html`<span class="quiet"> · cancel asked</span>`}
    </span>
  `;
}

/** A capped count: 9,214 or 10k+. @param {{count: {n: number, more: boolean} | null | undefined}} props */
export function Count({ count }) {
  if (!count) return html`<span class="quiet">–</span>`;
  return html`
    <span class="number" title=${count.more ? "counting stopped here" : undefined}>
      ${count.more ? short(count.n) + "+" : number(count.n)}
    </span>
  `;
}

/**
 * A worker by its colour and short name; the whole id on hover.
 * @param {{id: string | null, link?: boolean}} props
 */
export function Worker({ id, link = false }) {
  if (!id) return html`<span class="quiet">–</span>`;
  const inside = html`
    <i class=${`swatch ${worker_colour(id)}`} aria-hidden="true"></i>
    <span class="mono clip">${id}</span>
  `;
  return link ? html`
    <a class="worker" title=${id} href=${to("rows", { filter: `worker:${filter_word(id)}` })}>
      ${inside}
    </a>
  ` : html`
    <span class="worker" title=${id}>
      ${inside}
    </span>
  `;
}

/**
 * A share as a thin bar; tone is "", "held", "warn" or "bad".
 * @param {{part: number, whole: number, label: string, tone?: string}} props
 */
export function Bar({ part, whole, label, tone = "" }) {
  const share = whole > 0 ? Math.max(0, Math.min(1, part / whole)) : 0;
  return html`
    <span class=${`bar ${tone}`} role="img" aria-label=${label} title=${label}>
      <i style=${{ width: `${(share * 100).toFixed(1)}%` }}></i>
    </span>
  `;
}

/**
 * Copies a text; says so on the button.
 * @param {{text: string, label?: string, title?: string, className?: string}} props
 */
export function Copy({ text, label = "Copy", title, className = "button small" }) {
  const [said, setSaid] = useState("");
  const press = async () => {
    setSaid((await copy(text)) ? "Copied" : "Could not copy");
    setTimeout(() => setSaid(""), 1500);
  };
  return html`
    <button type="button" class=${className} title=${title ?? text} onClick=${press}>
      <span aria-live="polite">${said || label}</span>
    </button>
  `;
}

/** What to say where there is nothing to show. @param {{children: any}} props */
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

/**
 * An error of the server, and a button to try again.
 * @param {{fault: Error | null, retry?: () => void}} props
 */
export function Fault({ fault, retry }) {
  if (!fault) return null;
  return html`
    <div class="fault" role="alert">
      <span>${fault.message}</span>
      ${retry && html`
        <button class="button small" onClick=${retry}>
          Try again
        </button>
      `}
    </div>
  `;
}

/**
 * A choice of a few options: [value, label].
 * @param {{value: any, options: [any, string][], label: string, choose: (value: any) => void}} props
 */
export function Choice({ value, options, label, choose }) {
  return html`
    <div class="choice" role="group" aria-label=${label}>
      ${options.map(([each, word]) => html`
        <button
          type="button"
          key=${each}
          aria-pressed=${each === value ? "true" : "false"}
          onClick=${() => choose(each)}
        >
          ${word}
        </button>
      `)}
    </div>
  `;
}
