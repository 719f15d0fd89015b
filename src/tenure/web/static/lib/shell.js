/** What stands around every page: name, ways, life, and who is looking. */
import { api, locked, me } from "./api.js";
import { Confirm } from "./confirm.js";
import { Help } from "./help.js";
import { JUMPS, helping } from "./keys.js";
import { connection, paused, pausedByUser, selecting, tick } from "./live.js";
import { Login } from "./login.js";
import { Fault, Page } from "./parts.js";
import { place } from "./route.js";
import { ThemeSwitch } from "./theme.js";
import { Toasts } from "./toast.js";
import { html, signal, useEffect, useErrorBoundary, useRef, useSignalEffect, useState } from "./ui.js";

/** @typedef {{name: string, title: string, load: () => Promise<any>}} Way */
const menu_open = signal(false);

/** @param {{ways: Way[]}} props */
export function Shell({ ways }) {
  if (locked.value)
    return html`
      <${Login} />
      <${Toasts} />
    `;
  if (!me.value) return null;
  const shown = ways.filter((way) => way.name !== "drills" || me.value?.drills);
  return html`
    <a class="skip" href="" onClick=${skip}>
      Skip to the page
    </a>
    <${Head} ways=${shown} />
    <main id="main" tabindex="-1">
      <${View} ways=${shown} />
    </main>
    <${Foot} />
    <${Toasts} />
    <${Confirm} />
    <${Help} />
  `;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** @param {{ways: Way[]}} props */
function Head({ ways }) {
  const here = way_of(ways, place.value.parts);
  const close = () => (menu_open.value = false);
  return html`
    <header class="head">
      <a class="brand" href="">
        <svg viewBox="0 0 16 16" aria-hidden="true">
          <rect class="was" x="0" y="3" width="10" height="4" rx="1.5" />
          <rect class="is" x="6" y="9" width="10" height="4" rx="1.5" />
        </svg>
        Tenure
      </a>
      <button
        class="button plain menu"
        aria-expanded=${menu_open.value ? "true" : "false"}
        aria-controls="ways"
        onClick=${() => (menu_open.value = !menu_open.value)}
      >
        Menu
      </button>
      <nav id="ways" class=${menu_open.value ? "open" : ""} aria-label="Pages">
        ${ways.map((way) => html`
          <a
            key=${way.name}
            href=${way.name}
            aria-current=${way === here ? "page" : undefined}
            onClick=${close}
            title=${jump(way.name)}
          >
            ${way.title}
          </a>
        `)}
      </nav>
      <div class="head-end">
        <${Life} />
        <${ThemeSwitch} />
        <button class="button plain" title="Keys and words (?)" onClick=${() => (helping.value = true)}>
          <span aria-hidden="true">?</span>
          <span class="unseen">Help</span>
        </button>
        <${Who} />
      </div>
    </header>
  `;
}

/** @param {string} name */
const jump = (name) => {
  const key = Object.keys(JUMPS).find((each) => JUMPS[each] === name);
  return key && `g ${key}`;
};

/** How fresh the page is, and in which colour. */
function life() {
  if (paused.value) return ["paused", selecting.value ? "Paused, rows selected" : "Paused"];
  if (connection.value === "lost") return ["lost", "Connection lost, retrying"];
  if (tick.value?.error) return ["lost", tick.value.away ? "Database away" : "No fresh numbers"];
  return tick.value ? ["live", "Live"] : ["opening", "Connecting"];
}

function Life() {
  const [state, words] = life();
  const press = pausedByUser.value ? "Go on (p)" : "Hold the page still (p)";
  const title = state === "lost" && tick.value?.error ? `${tick.value.error}\n${press}` : press;
  return html`
    <button
      class=${`life is-${state}`}
      aria-pressed=${pausedByUser.value ? "true" : "false"}
      title=${title}
      onClick=${() => (pausedByUser.value = !pausedByUser.value)}
    >
      <i aria-hidden="true"></i>
      <span role="status">${words}</span>
    </button>
  `;
}

function Who() {
  const mine = me.value;
  return (
    mine && html`
      <span class="who" title=${`${mine.actor}, may ${mine.role}`}>
        <b>${mine.actor}</b>
        <span class="quiet">${mine.role}</span>
      </span>
      ${mine.logged_in && html`
        <button class="button plain" onClick=${leave}>
          Log out
        </button>
      `}
    `
  );
}

/** Gives the cookie back; whatever the page knew is forgotten with it. */
async function leave() {
  await api("api/logout", { method: "POST" }).catch(() => null);
  location.reload();
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
        <span class="mono clip">${mine.database}</span>
      </footer>
    `
  );
}

/**
 * The way that leads to a place, if one does; only rows have places below them.
 * @param {Way[]} ways
 * @param {string[]} parts
 */
const way_of = (ways, parts) =>
  parts.length < 2 || (parts[0] === "rows" && parts.length === 2)
    ? ways.find((way) => way.name === (parts[0] ?? ""))
    : undefined;

/** The page of the place, fetched when first needed. @param {{ways: Way[]}} props */
function View({ ways }) {
  const { parts } = place.value;
  const way = way_of(ways, parts);
  const name = !way ? "nowhere" : parts[1] ? "row" : way.name;
  const [page, setPage] = useState(/** @type {any} */ (null));
  const [fault, forget] = useErrorBoundary();
  useEffect(() => {
    forget();
    let left = false; // a page that arrives when the reader has gone on is not shown
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
        <${Fault} fault=${new Error(`This page stumbled: ${fault.message}`)} retry=${forget} />
      </div>
    `;
  return page && page.name === name ? html`
    <${page.Page} key=${name === "row" ? parts[1] : name} parts=${parts} />
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
      Nothing is at <code>/${place.value.parts.join("/")}</code>. The menu has every page that there is.
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
