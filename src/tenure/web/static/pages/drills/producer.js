/** What the shop can do: each button is one real transaction of a producer. */
import { Panel } from "../../lib/parts.js";
import { html } from "../../lib/ui.js";
import { Do } from "./controls.js";
import { hindrance } from "./view.js";
import { shop_words } from "./words.js";

const POISON_FROM = 9900;
const CHANGES_ITS_MIND = 9600;

/** @param {{state: import("./said.js").State}} props */
export function Producer({ state }) {
  const { rows, counts } = state.picture;
  const poison = POISON_FROM + rows.filter((row) => row.kind === "poison").length;
  const waits = rows.some((row) => row.wait_left > 0 && row.status === "pending");
  return html`
    <${Panel} title="Producer" className="drill-producer">
      <div class="panel-body">
        <${Do} does=${{ verb: "enqueue" }} title="An order and its row, in one transaction">
          Enqueue order:9182
        <//>
        <${Do} does=${{ verb: "enqueue" }} title="The same call, with the same idempotency key">
          Same again
        <//>
        <${Do}
          does=${{ verb: "enqueue", kind: "poison", order: poison }}
          title="A row that fails in every attempt"
        >
          Poison row
        <//>
        <${Do} does=${{ verb: "orders", n: 10 }} title="Ten orders, each in a transaction of its own">
          10 orders
        <//>
        <${Do}
          does=${{ verb: "rollback", order: CHANGES_ITS_MIND }}
          title="Enqueues, then rolls the transaction back"
        >
          Rollback after enqueue
        <//>
        ${counts.dead_letter > 0 && html`
          <${Do} does=${{ verb: "redrive" }} title="Redrives every dead letter, with fresh attempts">
            Redrive dead letters
          <//>
        `}
        ${waits && html`
          <${Do} does=${{ verb: "skip_backoff" }} title="Makes scheduled rows due now">
            Skip the backoff
          <//>
        `}
        <p class="drill-why quiet">${hindrance.value}</p>
        <p class="drill-shop" role="status">
          ${shop_words(state.shop)}
        </p>
      </div>
    <//>
  `;
}
