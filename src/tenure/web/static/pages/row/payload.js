/** Payload and headers of a row; where they are hidden, whoever has the right reveals them, and the audit has it. */
import { api, me } from "../../lib/api.js";
import { Copy, Empty, Fault, Panel } from "../../lib/parts.js";
import { html, useState } from "../../lib/ui.js";
import { Json } from "./json.js";

/** @param {{row: import("../../lib/state.js").Row & {headers: string | null}}} props */
export function Payload({ row }) {
  const [seen, see] = useState(
    /** @type {{id: string, payload: string | null, headers: string | null} | null} */ (null),
  );
  const [fault, fail] = useState(/** @type {Error | null} */ (null));
  const shown = seen?.id === row.id ? seen : row;
  const hidden = row.payload_hidden && shown === row;
  async function reveal() {
    try {
      see(await api(`api/rows/${encodeURIComponent(row.id)}/reveal`, { method: "POST" }));
      fail(null);
    } catch (error) {
      fail(/** @type {Error} */ (error));
    }
  }
  const button = html`
    <button class="button" title="The audit will say that you looked" onClick=${reveal}>
      Reveal
    </button>
  `;
  return html`
    <${Fault} fault=${fault} retry=${reveal} />
    <${Text}
      title="Payload"
      text=${shown.payload}
      hidden=${hidden}
      button=${hidden && me.value?.reveal && button}
    />
    ${shown.headers && html`<${Text} title="Headers" text=${shown.headers} />`}
  `;
}

/** @param {{title: string, text: string | null, hidden?: boolean, button?: any}} props */
function Text({ title, text, hidden = false, button = null }) {
  const copy = text !== null && html`<${Copy} text=${text} title="Copy the exact text of the row" />`;
  return html`
    <${Panel} title=${title} aside=${button || copy}>
      ${text === null ? html`
        <${Empty}>${hidden ? "Hidden by this server." : "None."}<//>
      ` : html`
        <${Json} text=${text} />
      `}
    <//>
  `;
}
