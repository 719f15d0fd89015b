/** How wide an element is, for what is drawn to fit it. */
import { useEffect, useRef, useState } from "./ui.js";

/**
 * A ref for an element, and its width in pixels; 0 until it is known.
 * @returns {[{current: HTMLDivElement | null}, number]}
 */
export function useWidth() {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(() => box.current && setWidth(box.current.clientWidth));
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return [box, width];
}
