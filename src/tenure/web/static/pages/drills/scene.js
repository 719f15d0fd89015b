/** A scene on show, live or recorded: captions, verdict and board, drawn by the same parts. */
import { Panel } from "../../lib/parts.js";
import { html, useState } from "../../lib/ui.js";
import { Ledger, Mailbox } from "./books.js";
import { Inbox } from "./inbox.js";
import { Log } from "./log.js";
import { Producer } from "./producer.js";
import { recording } from "./replay.js";
import { StageRing } from "./ring.js";
import { RowDrawer } from "./row.js";
import { Setting } from "./setting.js";
import { Captions, Verdict } from "./story.js";
import { Tape } from "./tape.js";
import { key_of, shown } from "./view.js";
import { Workers } from "./workers.js";

/** @param {{drill: import("./said.js").Drill, control: boolean}} props */
export function SceneView({ drill, control }) {
  const scene = control ? drill.control : drill;
  return html`
    <div class="drill-top">
      <${Setting} drill=${drill} control=${control} />
      ${drill.name !== "free" && html`<${Captions} state=${shown.value} captions=${scene?.steps} />`}
    </div>
    <${Verdict} verdict=${shown.value.verdict} without=${control ? drill.guard : ""} />
    <${Board} recorded=${false} />
  `;
}

/** A recording. */
export function Replay() {
  const found = recording.value;
  return (
    found && html`
      <${Captions} state=${shown.value} captions=${found.steps} />
      <${Verdict} verdict=${shown.value.verdict} without=${found.control ? "its guard" : ""} />
      <${Board} recorded=${true} />
    `
  );
}

/** @param {{recorded: boolean}} props */
function Board({ recorded }) {
  const of = shown.value;
  const [row, setRow] = useState(/** @type {import("./said.js").Row | null} */ (null));
  const key = key_of(of);
  return html`
    <div class="drill-board">
      <${Producer} state=${of} />
      <div class="drill-column">
        <${Inbox} state=${of} of=${key} show=${setRow} />
        <${Panel} title="Tape" aside=${html`<span class="mono">${key}</span>`}>
          <${Tape} state=${of} of=${key} />
        <//>
        <div class="drill-books">
          <${Ledger} state=${of} />
          <${Mailbox} state=${of} />
        </div>
      </div>
      <div class="drill-column">
        <${Workers} state=${of} />
        <${StageRing} state=${of} />
      </div>
    </div>
    <${Log} />
    ${row && html`<${RowDrawer} row=${row} recorded=${recorded} close=${() => setRow(null)} />`}
  `;
}
