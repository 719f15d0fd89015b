/**
 * What this reader may do, of the server's table of operator verbs. A button that cannot be used is not
 * there; whether it may be used, the server decides.
 */
import { me } from "./api.js";

/** @typedef {import("./verbs.js").Verb} Verb */

/** May this reader use it? @param {string} name one of the server's: "drain_worker", "redrive" */
export const can = (name) => me.value?.verbs.includes(name) ?? false;

const table = () => me.value?.operator_verbs ?? [];

/** An entry by its name. @param {string} name */
export const verb_of = (name) => /** @type {Verb} */ (table().find((verb) => verb.name === name));

/** An entry by its name in the audit, which has other verbs too. @param {string} name */
export const audited_as = (name) => table().find((verb) => verb.audited === name);

/** The verbs on rows that this reader may use. */
export const on_rows = () => table().filter((verb) => verb.on === "rows" && can(verb.name));
