/**
 * Drills: scenes on a real stage, free play, the explorer and the tuner; everything shown is what the stage
 * said.
 */
import { useAnswer } from "../../lib/answer.js";
import { Choice, Copy, Fault, Page, Panel } from "../../lib/parts.js";
import { ask, place, to } from "../../lib/route.js";
import { html, useEffect, useRef, useState } from "../../lib/ui.js";
import { Inbox, Ledger, Mailbox, Producer } from "./board.js";
import { PlayEnd, Slider } from "./controls.js";
import { Explorer } from "./explore.js";
import { Log } from "./log.js";
import { Player, RecordingActions } from "./player.js";
import { recording } from "./replay.js";
import { StageRing } from "./ring.js";
import { RowDrawer } from "./row.js";
import {
  act,
  end,
  find,
  heard,
  is_open,
  leave,
  lost,
  open,
  playing,
  stage,
  state,
  trouble,
} from "./store.js";
import { Captions, Verdict } from "./story.js";
import { Tape } from "./tape.js";
import { Tuner } from "./tune.js";
import { chosen, key_of, shown, useClock } from "./view.js";
import { cli } from "./words.js";
import { Workers } from "./workers.js";

const PACES = /** @type {[number, string][]} */ ([
  [0, "at once"],
  [1, "1 s"],
  [2.5, "2.5 s"],
]);
const PACE = 1;
const FREE = {
  name: "free",
  title: "Free play",
  story:
    "An empty stage. Start workers, enqueue orders, then stop, kill, drain or cut off whatever you like: each button is a real signal or a real statement.",
  guard: "",
  steps: [],
  control: null,
  props: null,
  settable: ["lease_seconds", "handler_seconds"],
  cli: "",
};
const OTHERS = [
  ["free", "Free play"],
  ["explore", "Explorer"],
  ["tune", "Tuner"],
];
const CLOSED = /** @type {Record<string, string>} */ ({
  idle: "The stage was closed: nothing was done on it for a while. Open a fresh one.",
  time: "The stage was closed: its time was up. Open a fresh one.",
  gone: "The server knows this stage no more. Open a fresh one.",
});

export default function Drills() {
  const { answer, fault, reload } = useAnswer("api/drills", { every_seconds: 0 });
  const [sentence, tell] = useState(/** @type {string | null} */ (null));
  useClock();
  useEffect(() => leave, []);
  const drills = answer?.drills ?? [];
  const { scene = drills[0]?.name, control, stage: id } = place.value.query;
  useStage(scene, control === "1", id);
  const drill = scene === "free" ? FREE : drills.find((/** @type {any} */ each) => each.name === scene);
  const saves = state.value.at > 0 && !recording.value ? () => recorded(drill, scene) : null;
  return html`
    <${Page}
      title="Drills"
      note="Real processes, real signals, a real Postgres"
      actions=${html`<${RecordingActions} saves=${saves} tell=${tell} />`}
    >
      <${Fault} fault=${fault} retry=${reload} />
      <${Fault} fault=${sentence ? new Error(sentence) : null} retry=${undefined} />
      ${recording.value ? html`
        <${Player} />
        <${Replay} />
      ` : (
        answer && html`
          <${Scenes} drills=${drills} scene=${scene} />
          <${Notices} />
          ${scene === "explore" ? html`
            <${Explorer} pace=${pace()} opened=${opened} />
          ` : scene === "tune" ? html`
            <${Tuner} opened=${opened} />
          ` : drill ? html`
            <${SceneView}
              key=${scene}
              drill=${drill}
              control=${control === "1" && drill.control !== null}
            />
          ` : html`
            <${Fault} fault=${new Error(`There is no drill ${scene}. Choose one of those above.`)} />
          `}
        `
      )}
    <//>
  `;
}

const pace = () => {
  const asked = Number(place.value.query.pace ?? PACE);
  return asked >= 0 && asked <= 5 ? asked : PACE;
};

/** The stage's name goes into the address: a reload finds it again. @param {string | null} id */
const opened = (id) => ask({ stage: id }, { replace: true });

/**
 * Finds the stage that the address names; another scene has no use for it.
 * @param {string} scene
 * @param {boolean} control
 * @param {string | undefined} id
 */
function useStage(scene, control, id) {
  useEffect(() => {
    if (!scene) return;
    if (id && stage.value?.id !== id)
      find(id, scene).then((there) => there || ask({ stage: null }, { replace: true }));
    else if (!id && stage.value) end();
    chosen.value = null;
  }, [scene, control, id]);
}

/** @param {{drills: any[], scene: string}} props */
function Scenes({ drills, scene }) {
  const link = (/** @type {string} */ name, /** @type {any} */ word) => html`
    <a
      key=${name}
      href=${to("drills", { scene: name, pace: place.value.query.pace })}
      aria-current=${name === scene ? "page" : undefined}
    >
      ${word}
    </a>
  `;
  const row = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const here = /** @type {HTMLElement | null} */ (
      row.current?.querySelector("[aria-current]") ?? null
    );
    if (row.current && here) row.current.scrollLeft = here.offsetLeft - row.current.clientWidth / 3; // on a phone the row is one line
  }, [scene]);
  return html`
    <nav ref=${row} class="drill-scenes" aria-label="Scenes">
      ${drills.map((drill, nth) =>
        link(
          drill.name,
          html`
            <i aria-hidden="true">${nth + 1}</i>
            ${drill.title}
          `,
        ),
      )}
      <span class="drill-gap"></span>
      ${OTHERS.map(([name, word]) => link(name, word))}
    </nav>
  `;
}

/** What stands between the reader and the stage, each in one sentence. */
function Notices() {
  const { closed } = state.value;
  const words =
    trouble.value ??
    (lost.value
      ? "The connection to the stage is lost, trying again. What you see is as old as that."
      : null) ??
    (closed
      ? (CLOSED[closed.reason] ??
        (closed.error
          ? `The stage was closed: ${closed.error}. Open a fresh one.`
          : "The stage is closed. Open a fresh one."))
      : null);
  return html`
    <div class="drill-notice" role="status">
      ${words && html`<p class=${`fault ${closed && !trouble.value ? "calm" : ""}`}>${words}</p>`}
    </div>
  `;
}

/** @param {{drill: any, control: boolean}} props */
function SceneView({ drill, control }) {
  const scene = control ? drill.control : drill;
  return html`
    <div class="drill-top">
      <${Setting} drill=${drill} control=${control} />
      ${drill.name !== "free" && html`<${Captions} state=${shown.value} captions=${scene.steps} />`}
    </div>
    <${Verdict} verdict=${shown.value.verdict} without=${control ? drill.guard : ""} />
    <${Board} recorded=${false} />
  `;
}

/**
 * The scene's own props; a lease that may be set is long enough not to run out while the reader reads.
 * @param {any} drill
 */
function unhurried({ props, settable }) {
  if (!props) return { lease_seconds: 3, handler_seconds: 0.5 };
  return pace() && settable.includes("lease_seconds")
    ? { ...props, lease_seconds: Math.max(props.lease_seconds, pace() + 2) }
    : props;
}

/** The scene's story, its switch and sliders, and Play. @param {{drill: any, control: boolean}} props */
function Setting({ drill, control }) {
  const free = drill.name === "free";
  const [set, setSet] = useState(/** @type {Record<string, any>} */ ({}));
  const live = free && is_open.value && state.value.picture.props;
  const props = { ...unhurried(drill), ...set, ...(live || {}) };
  const otherwise = Object.fromEntries(
    drill.settable
      .filter((/** @type {string} */ name) => props[name] !== drill.props?.[name])
      .map((/** @type {string} */ name) => [name, props[name]]),
  );
  const change = (/** @type {Record<string, any>} */ to) =>
    live ? act({ verb: "set", ...to }) : setSet({ ...set, ...to });
  const play = async () =>
    opened(
      await open({
        drill: free ? null : drill.name,
        control,
        pace_seconds: pace(),
        props: free ? set : otherwise,
      }),
    );
  const fixed = (/** @type {string} */ name) =>
    !drill.settable.includes(name)
      ? "This scene rests on it."
      : playing.value || (is_open.value && !free)
        ? "It is set before a scene begins."
        : "";
  return html`
    <${Panel} className="drill-setting">
      <div class="panel-body">
        <h2>${drill.title}</h2>
        <p>${drill.story}</p>
        ${drill.control && html`
          <${Choice}
            label="Guard"
            value=${control}
            options=${[
              [false, `with ${drill.guard}`],
              [true, "without it"],
            ]}
            choose=${(/** @type {boolean} */ without) =>
              ask({ control: without ? 1 : null, stage: null })
            }
          />
        `}
        <div class="drill-settings">
          <${Slider}
            label="Lease"
            value=${props.lease_seconds}
            min=${1}
            max=${Math.max(10, props.lease_seconds)}
            step=${0.5}
            disabled=${fixed("lease_seconds") !== ""}
            title=${
              fixed("lease_seconds") ||
              (live ? "Counts for workers that are started from now on" : undefined)
            }
            commit=${(/** @type {number} */ lease_seconds) => change({ lease_seconds })}
          />
          <${Slider}
            label="Handler time"
            value=${props.handler_seconds}
            min=${0}
            max=${5}
            step=${0.1}
            disabled=${fixed("handler_seconds") !== ""}
            title=${fixed("handler_seconds") || undefined}
            commit=${(/** @type {number} */ handler_seconds) => change({ handler_seconds })}
          />
          ${!free && html`
            <div class="drill-pick">
              <span>Rest between steps</span>
              <${Choice}
                label="Rest between steps"
                value=${pace()}
                options=${PACES}
                choose=${(/** @type {number} */ to) =>
                  ask({ pace: to === PACE ? null : to }, { replace: true })
                }
              />
            </div>
          `}
        </div>
        <div class="drill-foot">
          <${PlayEnd}
            word=${
              free
                ? is_open.value
                  ? "Fresh stage"
                  : "Open a stage"
                : state.value.verdict
                  ? "Play again"
                  : "Play"
            }
            play=${play}
          />
          ${drill.cli && html`
            <${Copy}
              className="button"
              text=${cli(drill.cli, { control, ...otherwise })}
              label="Copy as CLI"
            />
          `}
        </div>
      </div>
    <//>
  `;
}

/** @param {{recorded: boolean}} props */
function Board({ recorded }) {
  const of = shown.value;
  const [row, setRow] = useState(/** @type {any} */ (null));
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

/** A recording, drawn by the same parts. */
function Replay() {
  const found = recording.value;
  return (
    found && html`
      <${Captions} state=${shown.value} captions=${found.steps} />
      <${Verdict} verdict=${shown.value.verdict} without=${found.control ? "its guard" : ""} />
      <${Board} recorded=${true} />
    `
  );
}

/** What "Save recording" writes. @param {any} drill @param {string} scene */
function recorded(drill, scene) {
  const control = Boolean(stage.value?.control);
  const of = control ? drill?.control : drill;
  return {
    drill: scene,
    control,
    title: drill?.title ?? (scene === "tune" ? "Tuner" : "Explorer"),
    story: drill?.story ?? "",
    steps: of?.steps ?? [],
    said: heard.value,
  };
}
