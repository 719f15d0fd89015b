/**
 * A line or stacked chart over time, in the colours of the theme, with a legend that reads what the pointer
 * is at.
 */
import uPlot from "../vendor/uplot.js";
import { colour, dark } from "./theme.js";
import { exact } from "./time.js";
import { html, useEffect, useRef, useState } from "./ui.js";

/** @typedef {{label: string, token: string, values: (number | null)[], pale?: boolean}} Series */

/**
 * @param {{at: string[], series: Series[], format: (value: number) => string, label: string,
 *   stacked?: boolean, height?: number,
 *   across?: (seconds: number) => string}} props `token` is a colour's name,
 *   as in "--held". `across` names a moment where it is not a time of day.
 */
export function Chart({ at, series, format, label, stacked = false, height = 190, across }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const [pointed, setPointed] = useState(/** @type {number | null} */ (null));
  const columns = [
    at.map((each) => Date.parse(each) / 1000),
    ...(stacked ? stack(series).reverse() : series.map((each) => each.values)),
  ];
  const shape = `${dark.value} ${series.map((each) => each.label).join()}`;

  useEffect(() => {
    const box = /** @type {HTMLDivElement} */ (place.current);
    plot.current = new /** @type {any} */ (uPlot)(
      options({
        series: stacked ? series.toReversed() : series,
        format,
        stacked,
        height,
        across,
        width: box.clientWidth,
        point: setPointed,
      }),
      columns,
      box,
    );
    const watch = new ResizeObserver(() => plot.current.setSize({ width: box.clientWidth, height }));
    watch.observe(box);
    return () => (watch.disconnect(), plot.current.destroy());
  }, [shape]);
  useEffect(() => plot.current.setData(columns), [at.at(-1), at.length, at[0], series]);

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

/**
 * Each series on top of those before it; drawn from the tallest down, so that all stay visible.
 * @param {Series[]} series
 */
function stack(series) {
  let below = /** @type {number[]} */ ([]);
  return series.map(({ values }) => (below = values.map((value, i) => (value ?? 0) + (below[i] ?? 0))));
}

/** @param {any} wanted */
function options({ series, format, stacked, height, across, width, point }) {
  const quiet = colour("--quiet");
  const axis = {
    stroke: quiet,
    font: "11px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  const lines = series.map((/** @type {Series} */ each) => ({
    stroke: colour(each.token, each.pale ? 48 : 100),
    width: each.pale ? 1 : 1.5,
    points: { show: false },
    fill: stacked ? colour(each.token, 34) : undefined,
    spanGaps: false,
  }));
  return {
    width,
    height,
    padding: [10, 6, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      points: { size: 6 },
      ...(!across && { sync: { key: "overview" } }),
      drag: { x: false, y: false },
    },
    scales: {
      y: {
        range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ high) => [
          0,
          (high || 1) * 1.12,
        ],
      },
    },
    axes: [
      {
        ...axis,
        space: 70,
        size: 28,
        grid: { show: false },
        values: across
          ? (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map(across)
          : "{HH}:{mm}",
      },
      {
        ...axis,
        size: 56,
        space: 36,
        values: (/** @type {any} */ _, /** @type {number[]} */ ticks) => ticks.map(format),
      },
    ],
    series: [{}, ...lines],
    hooks: {
      setCursor: [(/** @type {any} */ u) => point(u.cursor.idx ?? null)],
      drawOrder: ["axes", "series"],
    },
  };
}
