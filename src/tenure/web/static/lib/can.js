/**
 * What this reader may do. A button that cannot be used is not there; whether it may be used, the server
 * decides.
 */
import { me } from "./api.js";

/** @param {string} verb one of the server's: "drain_worker", "redrive" */
export const can = (verb) => me.value?.verbs.includes(verb) ?? false;
