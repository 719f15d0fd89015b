/** A time by the clock of its zone, as it is written there. Pure. */

/**
 * "Sun 25 Oct 02:30 +02:00 Europe/Berlin", from a time that the server wrote with the offset of the zone.
 * @param {string} at @param {string} zone
 */
export function in_zone(at, zone) {
  const found = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?(?:\.\d+)?(Z|[+-]\d\d:\d\d)$/.exec(at);
  if (!found) return `${at} ${zone}`;
  const [, day, time, seconds = "", offset] = found;
  const date = new Date(`${day}T00:00:00Z`).toUTCString();
  const tail = zone === "UTC" ? "UTC" : `${offset === "Z" ? "+00:00" : offset} ${zone}`;
  return `${date.slice(0, 3)} ${date.slice(5, 11)} ${time}${seconds === ":00" ? "" : seconds} ${tail}`;
}
