/** The page for the current address, loaded when first needed. */
import { Fault, Page } from "./parts.js";
import { place } from "./route.js";
import { html, useEffect, useErrorBoundary, useRef, useSignalEffect, useState } from "./ui.js";
import { way_of } from "./ways.js";

/** @typedef {import("./ways.js").Way} Way */

/** The page of the place, fetched when first needed. @param {{ways: Way[]}} props */
export function View({ ways }) {
  const { parts } = place.value;
  const way = way_of(ways, parts);
  const name = !way ? "nowhere" : parts[1] && way.name === "rows" ? "row" : way.name;
  const [page, setPage] = useState(/** @type {any} */ (null));
  const [fault, forget] = useErrorBoundary();
  useEffect(() => {
    forget();
    let left = false; // a page that loads after the reader left is not shown
    const show = (/** @type {any} */ Page) => left || setPage({ name, Page });
    const load =
      name === "row"
        ? () => import("../pages/row/page.js")
        : (way?.load ?? (async () => ({ default: Nowhere })));
    load().then(
      (module) => show(module.default),
      (error) => show(() => html`<${Fault} fault=${error} />`),
    );
    return () => void (left = true);
  }, [name]);
  useArrival(way?.title ?? "No such page");
  if (fault)
    return html`
      <div class="page">
        <${Fault} fault=${new Error(`This page has a bug: ${fault.message}`)} retry=${forget} />
      </div>
    `;
  return page && page.name === name ? html`
    <${page.Page} key=${parts[1] ?? name} parts=${parts} />
  ` : html`
    <div class="page" aria-busy="true"></div>
  `;
}

/** A new page starts at its top, with its own title, and is where the keyboard is. @param {string} title */
function useArrival(title) {
  const before = useRef(place.value.path);
  useSignalEffect(() => {
    const { path } = place.value;
    if (path === before.current) return;
    before.current = path;
    scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  });
  useEffect(() => void (document.title = `${title} · Tenure`), [title]);
}

const Nowhere = () => html`
  <${Page} title="There is no such page">
    <p>
      There is nothing at <code>/${place.value.parts.join("/")}</code>. The menu lists every page.
    </p>
    <div class="back">
      <a class="button primary" href="">
        Overview
      </a>
      <a class="button" href="rows">
        Rows
      </a>
    </div>
  <//>
`;
