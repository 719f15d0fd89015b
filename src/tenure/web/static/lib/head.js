/** The head of every page: name, links to pages, connection state, and who is logged in. */
import { api, me } from "./api.js";
import { Inboxes } from "./inboxes.js";
import { helping, palette_open } from "./keys.js";
import { connection, paused, pausedByUser, selecting, tick } from "./live.js";
import { place } from "./route.js";
import { ThemeSwitch } from "./theme.js";
import { html, signal } from "./ui.js";
import { jump, way_of } from "./ways.js";

/** @typedef {import("./ways.js").Way} Way */

const menu_open = signal(false);

/** @param {{ways: Way[]}} props */
export function Head({ ways }) {
  return html`
    <header class="head">
      <${Brand} />
      <button
        class="button plain menu"
        aria-expanded=${menu_open.value ? "true" : "false"}
        aria-controls="ways"
        onClick=${() => (menu_open.value = !menu_open.value)}
      >
        Menu
      </button>
      <${Ways} ways=${ways} />
      <div class="head-end">
        <${Inboxes} />
        <${Life} />
        <${ThemeSwitch} />
        <button
          class="button plain commands"
          title="Commands (Ctrl-K)"
          onClick=${() => (palette_open.value = true)}
        >
          <span aria-hidden="true">⌘</span>
          <span class="unseen">Commands</span>
        </button>
        <button class="button plain" title="Keys and words (?)" onClick=${() => (helping.value = true)}>
          <span aria-hidden="true">?</span>
          <span class="unseen">Help</span>
        </button>
        <${Who} />
      </div>
    </header>
  `;
}

const Brand = () => html`
  <a class="brand" href="">
    <svg viewBox="0 0 16 16" aria-hidden="true">
      <rect class="was" x="0" y="3" width="10" height="4" rx="1.5" />
      <rect class="is" x="6" y="9" width="10" height="4" rx="1.5" />
    </svg>
    Tenure
  </a>
`;

/** @param {{ways: Way[]}} props */
function Ways({ ways }) {
  const here = way_of(ways, place.value.parts);
  const close = () => (menu_open.value = false);
  return html`
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
  `;
}

/** How fresh the page is, and in which colour. */
function life() {
  if (paused.value) return ["paused", selecting.value ? "Paused, rows selected" : "Paused"];
  if (connection.value === "lost") return ["lost", "Connection lost, retrying"];
  if (tick.value?.error) return ["lost", tick.value.away ? "Database unreachable" : "Numbers are old"];
  return tick.value ? ["live", "Live"] : ["opening", "Connecting"];
}

function Life() {
  const [state, words] = life();
  const press = pausedByUser.value ? "Resume updates (p)" : "Pause updates (p)";
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

/** Deletes the cookie and forgets everything the page knew. */
async function leave() {
  await api("api/logout", { method: "POST" }).catch(() => null);
  location.reload();
}
