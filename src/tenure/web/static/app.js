/** The dashboard: finds out who is logged in, starts the event stream, draws the shell. */
import { introduce, me } from "./lib/api.js";
import { start } from "./lib/live.js";
import { Shell } from "./lib/shell.js";
import { effect, html, render } from "./lib/ui.js";

/** Pages by the first part of their path; each module's default export is its component. */
const WAYS = [
  { name: "", title: "Overview", load: () => import("./pages/overview/page.js") },
  { name: "rows", title: "Rows", load: () => import("./pages/rows/page.js") },
  { name: "workers", title: "Workers", load: () => import("./pages/workers/page.js") },
  { name: "ring", title: "Ring", load: () => import("./pages/ring/page.js") },
  { name: "dead", title: "Dead letters", load: () => import("./pages/dead/page.js") },
  { name: "queues", title: "Queues", load: () => import("./pages/queues/page.js") },
  { name: "schedules", title: "Schedules", load: () => import("./pages/schedules/page.js") },
  { name: "flows", title: "Flows", load: () => import("./pages/flows/page.js") },
  { name: "outbox", title: "Outbox", load: () => import("./pages/outbox.js") },
  { name: "hooks", title: "Webhooks", load: () => import("./pages/hooks/page.js") },
  { name: "projections", title: "Projections", load: () => import("./pages/projections/page.js") },
  { name: "batches", title: "Batches", load: () => import("./pages/batches.js") },
  { name: "audit", title: "Audit", load: () => import("./pages/audit.js") },
  { name: "shards", title: "Shards", load: () => import("./pages/shards.js") },
  { name: "drills", title: "Drills", load: () => import("./pages/drills/page.js") },
];

/** Asks until the server answers; a request to log in counts as an answer. */
async function meet() {
  try {
    await introduce();
  } catch (error) {
    if (/** @type {any} */ (error).code !== 401) setTimeout(meet, 2000);
  }
}

const stop = effect(() => {
  if (me.value) queueMicrotask(() => (stop(), start()));
});
render(html`<${Shell} ways=${WAYS} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
meet();
