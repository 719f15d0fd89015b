/** The time in which an action can be undone. */

const FRAME_MS = 100;
export const UNDO_SECONDS = 10;

/**
 * Calls `send` when the time is over; `tell` hears how much is left, and null at the end. `undo()` is true
 * when it came in time; nothing is sent then, ever.
 * @param {() => void} send
 * @param {(time: {left: number, share: number} | null) => void} tell
 */
export function countdown(send, tell, seconds = UNDO_SECONDS) {
  const ends_ms = performance.now() + seconds * 1000;
  let over = false;
  const close = () => {
    if (over) return false;
    over = true;
    clearInterval(timer);
    tell(null);
    return true;
  };
  const timer = setInterval(() => {
    const left_ms = ends_ms - performance.now();
    if (left_ms > 0) tell({ left: Math.ceil(left_ms / 1000), share: left_ms / (seconds * 1000) });
    else if (close()) send();
  }, FRAME_MS);
  return { undo: close };
}
