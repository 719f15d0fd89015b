/** A page's question to the server, asked again at intervals. */
import { api, skew_ms } from "./api.js";
import { inbox } from "./asked.js";
import { changes, paused, pulse } from "./live.js";
import { useCallback, useEffect, useRef, useSignalEffect, useState } from "./ui.js";

/**
 * The latest answer to a question. A new question forgets the old answer only when the new one has arrived,
 * so nothing flickers.
 * @param {string | null} path null asks nothing
 * @param {{query?: Record<string, any>, at?: string,
 *   every_seconds?: number}} [options] every_seconds 0: once arrived_ms is on the same clock as time.js;
 *   at: the inbox that is asked, of several; without it the one that is looked at
 * @returns {{answer: any, fault: any, loading: boolean, arrived_ms: number, reload: () => Promise<void>}}
 */
export function useAnswer(path, { query = {}, at, every_seconds = 2 } = {}) {
  const [state, setState] = useState(/** @type {any} */ ({ answer: null, fault: null, of: null }));
  const question = path === null ? null : path + "?" + JSON.stringify(query) + (at ?? inbox.value);
  const asked = useRef({ at: 0, abort: /** @type {AbortController | null} */ (null), question });

  const reload = useCallback(async () => {
    if (path === null) return;
    asked.current.abort?.abort();
    const abort = new AbortController();
    asked.current = { at: performance.now(), abort, question };
    try {
      const answer = await api(path, { query, at, signal: abort.signal });
      if (!abort.signal.aborted)
        setState({ answer, fault: null, of: question, arrived_ms: Date.now() + skew_ms.peek() });
    } catch (fault) {
      if (!abort.signal.aborted)
        setState((/** @type {any} */ old) => ({ ...old, fault, of: question }));
    } finally {
      if (asked.current.abort === abort) asked.current.abort = null;
    }
  }, [question]);

  useEffect(() => void reload(), [question]);
  useEffect(() => () => asked.current.abort?.abort(), []);
  const again = useRef(reload);
  again.current = reload;
  useSignalEffect(() => {
    if (pulse.value === 0 || paused.peek() || !every_seconds || asked.current.abort) return;
    if (performance.now() - asked.current.at >= every_seconds * 1000 - 250) again.current();
  });
  const known = useRef(changes.peek());
  useSignalEffect(() => {
    if (changes.value === known.current || !every_seconds) return;
    known.current = changes.value;
    again.current();
  });
  return {
    answer: state.answer,
    fault: state.fault,
    loading: state.of !== question,
    arrived_ms: state.arrived_ms ?? 0,
    reload,
  };
}
