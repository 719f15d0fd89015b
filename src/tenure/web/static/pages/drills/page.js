/** Drills: scenes on a real stage, free play, the explorer and the tuner; all of it drawn from events. */
import { useAnswer } from "../../lib/answer.js";
import { Fault, Page } from "../../lib/parts.js";
import { place } from "../../lib/route.js";
import { html, useEffect, useState } from "../../lib/ui.js";
import { Explorer } from "./explore.js";
import { Player, RecordingActions } from "./player.js";
import { FREE, pace_of } from "./props.js";
import { recording } from "./replay.js";
import { Replay, SceneView } from "./scene.js";
import { Notices, Scenes } from "./scenes.js";
import { end, find, heard, leave, stage, state } from "./store.js";
import { Tuner } from "./tune.js";
import { chosen, opened, useClock } from "./view.js";

/** @typedef {import("./said.js").Drill} Drill */

export default function Drills() {
  const { answer, fault, reload } = useAnswer("api/drills", { every_seconds: 0 });
  const [sentence, tell] = useState(/** @type {string | null} */ (null));
  useClock();
  useEffect(() => leave, []);
  const drills = /** @type {Drill[]} */ (answer?.drills ?? []);
  const { scene = drills[0]?.name, control, stage: id } = place.value.query;
  useStage(scene, control === "1", id);
  const drill = scene === "free" ? FREE : drills.find((each) => each.name === scene);
  const saves = state.value.at > 0 && !recording.value ? () => recorded(drill, scene) : null;
  const actions = html`<${RecordingActions} saves=${saves} tell=${tell} />`;
  return html`
    <${Page} title="Drills" note="Real processes, real signals, a real Postgres" actions=${actions}>
      <${Fault} fault=${fault} retry=${reload} />
      <${Fault} fault=${sentence ? new Error(sentence) : null} retry=${undefined} />
      ${recording.value && html`
        <${Player} />
        <${Replay} />
      `}
      ${!recording.value && answer && html`
        <${Scenes} drills=${drills} scene=${scene} />
        <${Notices} />
        <${Scene} scene=${scene} drill=${drill} control=${control === "1"} />
      `}
    <//>
  `;
}

/** What the address asks for. @param {{scene: string, drill: Drill | undefined, control: boolean}} props */
function Scene({ scene, drill, control }) {
  if (scene === "explore")
    return html`<${Explorer} pace=${pace_of(place.value.query.pace)} opened=${opened} />`;
  if (scene === "tune") return html`<${Tuner} opened=${opened} />`;
  if (drill)
    return html`<${SceneView} key=${scene} drill=${drill} control=${control && drill.control !== null} />`;
  return html`<${Fault} fault=${new Error(`There is no drill ${scene}. Choose one of those above.`)} />`;
}

/**
 * Finds the stage that the address names; another scene has no use for it.
 * @param {string} scene @param {boolean} control @param {string | undefined} id
 */
function useStage(scene, control, id) {
  useEffect(() => {
    if (!scene) return;
    if (id && stage.value?.id !== id) find(id, scene).then((there) => there || opened(null));
    else if (!id && stage.value) end();
    chosen.value = null;
  }, [scene, control, id]);
}

/** What "Save recording" writes. @param {Drill | undefined} drill @param {string} scene */
function recorded(drill, scene) {
  const control = Boolean(stage.value?.control);
  const of = control ? drill?.control : drill;
  const title = drill?.title ?? (scene === "tune" ? "Tuner" : "Explorer");
  return {
    drill: scene,
    control,
    title,
    story: drill?.story ?? "",
    steps: of?.steps ?? [],
    said: heard.value,
  };
}
