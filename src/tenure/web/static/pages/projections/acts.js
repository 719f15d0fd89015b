/** What can be done to a projection. */
import { change } from "../../lib/act.js";

/** @typedef {{projection: string, inbox?: string}} Which */

/** @param {string} name @param {string} verb */
const path = (name, verb) => `api/projections/${encodeURIComponent(name)}/${verb}`;

/** @param {Which} each */
export const pause = ({ projection, inbox }) =>
  change("pause_projection", "POST", path(projection, "pause"), {
    said: `${projection} is paused.`,
    at: inbox,
  });

/** @param {Which} each */
export const resume = ({ projection, inbox }) =>
  change("resume_projection", "POST", path(projection, "resume"), {
    said: (answer) => `${projection}: ${answer.said}.`,
    at: inbox,
  });

/** @param {Which} each */
export const rebuild = ({ projection, inbox }) =>
  change("rebuild_projection", "POST", path(projection, "rebuild"), {
    title: `Rebuild the projection ${projection}?`,
    said: `${projection} will be rebuilt.`,
    at: inbox,
  });

/** @param {Which} each */
export const skip = ({ projection, inbox }) =>
  change("skip_projection", "POST", path(projection, "skip"), {
    title: `Skip the event that stopped ${projection}?`,
    said: `${projection} goes on after the event.`,
    at: inbox,
  });
