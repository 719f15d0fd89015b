/** Runs made in this page, to compare: what was asked, beside what came of it. */
import { signal, useEffect } from "../../lib/ui.js";

const KEPT_MAX = 20;

/**
 * A memory of runs, the newest first.
 * @template Asked, Result
 */
export function memory() {
  const runs = signal(/** @type {{id: string, asked: Asked, result: Result}[]} */ ([]));
  const asked_of = new Map(/** @type {[string, Asked][]} */ ([]));
  return {
    runs,
    /** What a stage was opened for. @param {string | null} id @param {Asked} asked */
    begin(id, asked) {
      if (id) asked_of.set(id, asked);
    },
    /**
     * Keeps the result of the stage on show, once.
     * @param {string | undefined} id
     * @param {Result | null} result
     */
    useResult(id, result) {
      useEffect(() => {
        const asked = id && asked_of.get(id);
        if (!id || !asked || !result || runs.value.some((each) => each.id === id)) return;
        runs.value = [{ id, asked, result }, ...runs.value].slice(0, KEPT_MAX);
      }, [id, result]);
    },
  };
}
