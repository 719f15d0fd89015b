/** What is on show, a live stage or a recording, and its clock. */
import { can } from "../../lib/can.js";
import { ask } from "../../lib/route.js";
import { computed, signal, useEffect } from "../../lib/ui.js";
import { telling_key } from "./reduce.js";
import { advance, moment, recording, replayed, rolling, said_by_now } from "./replay.js";
import { heard, is_open, playing, stage, stage_now, state } from "./store.js";

const FRAME_MS = 60;

export const shown = computed(() => (recording.value ? replayed.value : state.value));
/** Everything said so far. */
export const said = () =>
  recording.value ? recording.value.said.slice(0, said_by_now.value) : (state.value, heard.value);
/** Seconds on the clock of what is on show; a lease runs down between two pictures too. */
export const now = signal(0);
/** The row the reader chose, by its key; null for whichever tells most. */
export const chosen = signal(/** @type {string | null} */ (null));

/** Why no button may be pressed now; empty when they may. */
export const hindrance = computed(() => {
  if (recording.value) return "This is a recording: its buttons were pressed already.";
  if (!can("drill")) return "You need the role admin to act on a stage.";
  if (!stage.value) return "No stage is open yet.";
  if (state.value.closed) return "The stage is closed.";
  return playing.value ? "A scene plays. You can use the buttons when it has ended." : "";
});

/** What the clock of the recording, or of the stage, stands at. */
function moment_shown() {
  if (recording.value) return moment.value;
  return is_open.value ? Math.max(stage_now(), state.value.at) : state.value.at;
}

/** Keeps the clock while a page looks at it. */
export function useClock() {
  useEffect(() => {
    let before = performance.now();
    let frame = requestAnimationFrame(function tick(ms) {
      if (ms - before >= FRAME_MS) {
        if (recording.value && rolling.value) advance((ms - before) / 1000);
        now.value = moment_shown();
        before = ms;
      }
      frame = requestAnimationFrame(tick);
    });
    return () => cancelAnimationFrame(frame);
  }, []);
}

/** The key whose tape is drawn. @param {import("./said.js").State} of */
export const key_of = (of) => telling_key(of, chosen.value);

/** The stage's name goes into the address: a reload finds it again. @param {string | null} id */
export const opened = (id) => ask({ stage: id }, { replace: true });
