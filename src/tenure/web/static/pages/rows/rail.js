/** The state rail: how many rows match in each state, and a link to just those. */
import { to } from "../../lib/address.js";
import { Count, Status } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { STATUSES, statuses_of, with_status } from "./filter.js";

/**
 * @param {{filter: string, counts: Record<string, {n: number, more: boolean}> | null,
 *   query: Record<string, string>}} props
 */
export function Rail({ filter, counts, query }) {
  const chosen = statuses_of(filter);
  const href = (/** @type {string} */ status) =>
    to("rows", { ...query, filter: with_status(filter, status), before: null });
  return html`
    <nav class="rail" aria-label="States">
      <a href=${href("")} aria-current=${chosen.length ? undefined : "true"}>
        <span class="status">All</span>
      </a>
      ${STATUSES.map((status) => html`
        <a key=${status} href=${href(status)} aria-current=${chosen.includes(status) ? "true" : undefined}>
          <${Status} status=${status} />
          <${Count} count=${counts?.[status]} />
        </a>
      `)}
    </nav>
  `;
}
