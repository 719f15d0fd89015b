/**
 * The filter box: it completes fields and values, and shows the server's error and hint.
 */
import { html, useEffect, useRef, useState } from "../../lib/ui.js";
import { complete, finished } from "./filter.js";

const DEBOUNCE_MS = 350;
const EXAMPLE = 'status:dead_letter kind:send_receipt error:"time out"';

/**
 * @param {{filter: string, fault: string, hint: string, known: Record<string, string[]>, focus: boolean,
 *   change: (filter: string, options: {replace: boolean}) => void}} props
 */
export function FilterBox({ filter, fault, hint, known, focus, change }) {
  const box = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [draft, setDraft] = useState(filter);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const timer = useRef(0);
  const written = useRef(filter);

  useEffect(() => {
    if (filter !== written.current) setDraft((written.current = filter));
  }, [filter]);
  useEffect(() => void (focus && box.current?.focus()), [focus]);
  useEffect(() => () => clearTimeout(timer.current), []);

  const caret = box.current?.selectionStart ?? draft.length;
  const { from, to, choices } = open ? complete(draft, caret, known) : { from: 0, to: 0, choices: [] };
  const write = (/** @type {string} */ text, replace = true) => {
    clearTimeout(timer.current);
    written.current = text.trim();
    change(text.trim(), { replace });
  };
  const type = (/** @type {string} */ text) => {
    setDraft(text);
    setOpen(true);
    setAt(-1);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => write(finished(text)), DEBOUNCE_MS);
  };
  const choose = (/** @type {string} */ choice) => {
    const after = choice.endsWith(":") || choice.endsWith(".") ? "" : " ";
    type(draft.slice(0, from) + choice + after + draft.slice(to).trimStart());
    const end = from + choice.length + after.length;
    requestAnimationFrame(() => (box.current?.focus(), box.current?.setSelectionRange(end, end)));
  };
  const clear = () => {
    setDraft("");
    write("", false);
    box.current?.focus();
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && choices.length)
      (event.preventDefault(),
        setAt((at + step + choices.length + (at < 0 && step < 0 ? 1 : 0)) % choices.length));
    else if (event.key === "Enter")
      (event.preventDefault(),
        at >= 0 && choices[at] ? choose(choices[at].text) : (setOpen(false), write(draft, false)));
    else if (event.key === "Tab" && choices.length && at >= 0)
      (event.preventDefault(), choose(choices[at].text));
    else if (event.key === "Escape")
      (event.stopPropagation(), open && choices.length ? setOpen(false) : box.current?.blur());
  };
  return html`
    <div class="filter">
      <input
        ref=${box}
        data-filter
        class="box mono"
        type="text"
        role="combobox"
        aria-label="Filter rows"
        aria-autocomplete="list"
        aria-expanded=${choices.length ? "true" : "false"}
        aria-controls="filter-choices"
        aria-activedescendant=${at >= 0 ? `choice-${at}` : undefined}
        aria-invalid=${fault ? "true" : undefined}
        aria-describedby="filter-fault filter-hint"
        placeholder=${EXAMPLE}
        spellcheck="false"
        autocomplete="off"
        autocapitalize="off"
        value=${draft}
        onInput=${(/** @type {any} */ event) => type(event.target.value)}
        onKeyDown=${press}
        onFocus=${() => setOpen(true)}
        onBlur=${() => (setOpen(false), draft.trim() !== written.current && write(draft))}
      />
      ${draft ? html`
        <button class="button plain small clear" aria-label="Clear the filter" onClick=${clear}>
          ×
        </button>
      ` : html`
        <kbd class="hint" aria-hidden="true">
          /
        </kbd>
      `}
      <ul id="filter-choices" role="listbox" aria-label="Completions" hidden=${!choices.length}>
        ${choices.map(({ text, note }, i) => html`
          <li
            key=${text}
            id=${`choice-${i}`}
            role="option"
            aria-selected=${i === at ? "true" : "false"}
            onMouseDown=${(/** @type {Event} */ event) => (event.preventDefault(), choose(text))}
          >
            <span class="mono">${text}</span>
            <span class="quiet">${note}</span>
          </li>
        `)}
      </ul>
      <p id="filter-fault" class="wrong" role="alert">
        ${fault}
      </p>
      <p id="filter-hint" class="renamed quiet" role="status">
        ${hint}
      </p>
    </div>
  `;
}
