/** One flow, live: where it stands, its graph, and what may be done. */
import { change } from "../../lib/act.js";
import { useAnswer } from "../../lib/answer.js";
import { can } from "../../lib/can.js";
import { Empty, Fault, Page, Panel, Status } from "../../lib/parts.js";
import { toast } from "../../lib/toast.js";
import { html, useState } from "../../lib/ui.js";
import { plural } from "../../lib/words.js";
import { Lane } from "./graph.js";
import { graph, has_left, is_undo, recorded } from "./nodes.js";

/** @param {{id: string}} props */
export function Flow({ id }) {
  const path = `api/flows/${encodeURIComponent(id)}`;
  const { answer: flow, fault, reload } = useAnswer(path, { every_seconds: 1 });
  if (!flow)
    return html`
      <${Page} title="Flow">
        <${Fault} fault=${fault} retry=${reload} />
      <//>
    `;
  const lives = ["pending", "processing"].includes(flow.status);
  const nodes = graph(flow.steps);
  const note = `version ${flow.version}${flow.run > 1 ? `, run ${flow.run}` : ""}`;
  return html`
    <${Page}
      title=${flow.workflow}
      note=${note}
      actions=${
        (has_left(flow) || (lives && flow.cancel === null)) && html`<${Stop} flow=${flow} path=${path} />`
      }
    >
      <${Fault} fault=${fault} retry=${reload} />
      <p class="flow-head">
        <${Status} status=${flow.status} cancel_asked=${lives && flow.cancel !== null} />
        ${flow.inbox && html`<span class="tag">${flow.inbox}</span>`}
        <a class="mono" href=${`rows/${flow.id}`}>
          ${flow.id}
        </a>
        ${flow.name && html`<span>${flow.name.replace(`flow:${flow.workflow}:`, "")}</span>`}
      </p>
      ${flow.last_error && html`
        <p class="fault">
          <span>${flow.last_error}</span>
        </p>
      `}
      <${Panel} title="Steps" aside=${plural(recorded(flow.steps), "record")}>
        ${nodes.length || flow.status === "processing" ? html`
          <${Lane} nodes=${nodes} after=${flow.status === "processing" && html`<${AtWork} flow=${flow} />`} />
        ` : html`
          <${Empty}>No step is recorded yet.<//>
        `}
      <//>
      ${flow.signals.length > 0 && html`
        <${Panel} title="Signals that nobody has asked for">
          <p class="panel-body">${flow.signals.join(", ")}</p>
        <//>
      `}
      ${flow.shown && html`
        <${Panel} title="What it shows">
          <pre class="text" tabindex="0">
            ${flow.shown}
          </pre>
        <//>
      `}
      ${lives && can("signal_flow") && html`<${Signal} path=${path} inbox=${flow.inbox} />`}
    <//>
  `;
}

/** @param {{flow: any}} props */
function AtWork({ flow }) {
  const undoing = flow.steps.some(is_undo);
  return html`
    <div class="flow-node is-running is-current">
      <i aria-hidden="true"></i>
      <span class="flow-name">${undoing ? "undoing" : "at work"}</span>
      <span class="flow-state">attempt ${flow.attempts}</span>
      <span class="quiet clip">${flow.worker}</span>
    </div>
  `;
}

/** @param {{flow: any, path: string}} props */
function Stop({ flow, path }) {
  if (!can("cancel_flow")) return null;
  const stop = () =>
    change("cancel_flow", "POST", `${path}/cancel`, {
      body: {},
      title: `Cancel this ${flow.workflow}?`,
      said: "It was asked to stop.",
      at: flow.inbox,
    });
  return html`
    <button class="button danger" onClick=${stop}>
      Cancel
    </button>
  `;
}

/** @param {{path: string, inbox?: string}} props */
function Signal({ path, inbox }) {
  const [name, setName] = useState("");
  const [text, setText] = useState("");
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    let payload = null;
    try {
      payload = text.trim() ? JSON.parse(text) : null;
    } catch {
      toast("The payload is not JSON: put quotes around a text.", { tone: "bad" });
      return;
    }
    const sent = { body: { name, payload }, said: `${name} was sent.`, at: inbox };
    if (await change("signal_flow", "POST", `${path}/signal`, sent)) setText("");
  };
  const typed = (/** @type {(text: string) => void} */ set) => (/** @type {any} */ event) =>
    set(event.target.value);
  return html`
    <${Panel} title="Send a signal">
      <form class="panel-body flow-signal" onSubmit=${send}>
        <label class="field">
          <span>Name</span>
          <input required maxlength="128" value=${name} onInput=${typed(setName)} />
        </label>
        <label class="field">
          <span>Payload, as JSON</span>
          <input value=${text} onInput=${typed(setText)} />
        </label>
        <button class="button" type="submit">
          Send
        </button>
      </form>
    <//>
  `;
}
