/** A line or stacked chart over time, with a legend that shows the values at the pointer. */
import uPlot from "../vendor/uplot.js";
import { options, stack } from "./chart_options.js";
import { dark } from "./theme.js";
import { exact } from "./time.js";
import { html, useEffect, useRef, useState } from "./ui.js";

/** @typedef {import("./chart_options.js").Series} Series */

/**
 * `across` names a moment where it is not a time of day.
 * @param {{at: string[], series: Series[], format: (value: number) => string, label: string,
 *   stacked?: boolean, height?: number, across?: (seconds: number) => string}} props
 */
export function Chart({ at, series, format, label, stacked = false, height = 190, across }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {uPlot | null} */ (null));
  const [pointed, setPointed] = useState(/** @type {number | null} */ (null));
  const times = at.map((each) => Date.parse(each) / 1000);
  const values = stacked ? stack(series).reverse() : series.map((each) => each.values);
  const columns = /** @type {uPlot.AlignedData} */ ([times, ...values]);
  const shape = `${dark.value} ${series.map((each) => each.label).join()}`;

  useEffect(() => {
    const box = /** @type {HTMLDivElement} */ (place.current);
    const drawn = stacked ? [...series].reverse() : series;
    const look = { format, stacked, across, width: box.clientWidth, height };
    const made = new uPlot(options(drawn, look, setPointed), columns, box);
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: box.clientWidth, height }));
    watch.observe(box);
    return () => (watch.disconnect(), made.destroy());
  }, [shape]);
  useEffect(() => plot.current?.setData(columns), [at.at(-1), at.length, at[0], series]);

  const index = pointed !== null && pointed < at.length ? pointed : at.length - 1;
  return html`
    <div class="chart">
      <div ref=${place} role="img" aria-label=${label}></div>
      <${Legend}
        at=${pointed === null ? null : at[index]}
        series=${series}
        index=${index}
        format=${format}
        across=${across}
      />
    </div>
  `;
}

/**
 * @param {{at: string | null, series: Series[], index: number, format: (value: number) => string,
 *   across?: (seconds: number) => string}} props
 */
function Legend({ at, series, index, format, across }) {
  return html`
    <ul class="legend">
      ${series.map(({ label, token, values, pale }) => html`
        <li key=${label}>
          <i class=${pale ? "pale" : ""} style=${{ borderColor: `var(${token})` }} aria-hidden="true"></i>
          ${label} <b>${said(values[index], format)}</b>
        </li>
      `)}
      <li class="quiet legend-at">
        ${!at ? "latest" : across ? across(Date.parse(at) / 1000) : exact(at).slice(11, 19)}
      </li>
    </ul>
  `;
}

/** @param {number | null | undefined} value @param {(value: number) => string} format */
const said = (value, format) => (value === null || value === undefined ? "–" : format(value));
