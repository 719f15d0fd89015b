/** Where one endpoint of webhooks is asked for something. */

/** @param {string} id @param {string} verb */
export const path = (id, verb) => `api/hooks/${encodeURIComponent(id)}/${verb}`;
