// Charts by uPlot. Each has a legend as text, since a canvas says nothing to a screen reader.

import { drawn, duration, element, percent, short } from "./format.js";

const HEIGHT = 220;
const MOST_POINTS = 2000;

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export class Chart {
  // `lines`: [{name, color, dash?, points?, fill?}], of which those without a note are not in the legend; `x`: "seconds" or "environment_steps".
  constructor(place, title, lines, { share = false, zero = false, gaps = false, format = short } = {}) {
    this.title = title;
    this.lines = lines;
    this.share = share;
    this.zero = zero;
    this.gaps = gaps; // points without a value are not joined over
    this.format = format;
    this.legend = element("ul", { class: "legend" });
    this.holder = element("div", { class: "chart", role: "img", "aria-label": title });
    place.replaceChildren(this.legend, this.holder);
    this.x = "seconds";
    this.data = null;
    this.resizes = new ResizeObserver(() => {
      if (this.plot && this.holder.clientWidth) this.plot.setSize({ width: this.holder.clientWidth, height: HEIGHT });
    });
    this.resizes.observe(this.holder);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.recolor = () => this.rebuild();
    this.scheme.addEventListener("change", this.recolor);
  }

  // `data`: [x values, values of each line]; `notes`: text of each line's legend.
  show(data, notes, x = "seconds") {
    const changed = x !== this.x;
    this.x = x;
    this.data = data;
    if (!this.plot || changed) this.rebuild();
    else this.plot.setData(data);
    this.legend.replaceChildren(...this.lines.flatMap((line, index) => {
      if (!notes[index]) return [];
      const mark = drawn("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" });
      mark.append(drawn("rect", { width: 10, height: 10, rx: 2, fill: `var(--${line.color})` }));
      return element("li", {}, mark, line.name, " ", element("b", {}, notes[index]));
    }));
    const said = this.lines.map((line, index) => notes[index] && `${line.name} ${notes[index]}`).filter(Boolean).join(", ");
    this.holder.setAttribute("aria-label", `${this.title}: ${said}`);
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    if (!this.data || !this.holder.clientWidth) return;
    const axis = { stroke: color("soft"), grid: { stroke: color("faint"), width: 0.5 }, ticks: { stroke: color("faint"), width: 0.5 } };
    const time = this.x === "seconds";
    this.plot = new uPlot({
      width: this.holder.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: { drag: { x: true, y: false } },
      scales: {
        x: { time: false },
        y: this.share ? { range: [0, 1] } : { range: (_, low, high) => this.range(low, high) },
      },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((tick) => (time ? duration(tick) : short(tick))), space: 70 },
        { ...axis, values: (_, ticks) => ticks.map((tick) => (this.share ? percent(tick) : this.format(tick))), size: this.format === short ? 58 : 70 },
      ],
      series: [{}, ...this.lines.map((line) => ({
        label: line.name,
        stroke: color(line.color),
        width: line.fill ? 0 : 1.5,
        dash: line.dash,
        fill: line.fill ? color(line.color) : undefined,
        points: { show: (plot, index) => Boolean(line.points) || single(plot.data[index]), size: 7, fill: color(line.color) },
        spanGaps: !this.gaps,
      }))],
    }, this.data, this.holder);
  }

  range(low, high) {
    if (low == null) return [0, 1];
    if (this.zero) return [0, high > 0 ? high * 1.1 : 1];
    const room = (high - low || Math.abs(high) || 1) * 0.08;
    return [low - room, high + room];
  }

  destroy() {
    this.resizes.disconnect();
    this.scheme.removeEventListener("change", this.recolor);
    this.plot?.destroy();
  }
}

// Whether there is one value, which has no line.
function single(values) {
  return values.filter((value) => value != null).length === 1;
}

// Sorted x values, and for each of the curves [[x], [y]] its values at them; null where it has none.
export function join(curves) {
  const merged = new Map();
  curves.forEach(([xs, ys], index) => xs.forEach((x, place) => {
    if (x == null || ys[place] == null) return;
    if (!merged.has(x)) merged.set(x, Array(curves.length).fill(null));
    merged.get(x)[index] = ys[place];
  }));
  const xs = [...merged.keys()].sort((one, other) => one - other);
  return [xs, ...curves.map((_, index) => xs.map((x) => merged.get(x)[index]))];
}

// Appends rows to columns. Of more than MOST_POINTS, the newer half stays, and of the older one every other row.
export function extend(series, more) {
  for (const [name, values] of Object.entries(more)) series[name].push(...values);
  if (series.seconds.length <= MOST_POINTS) return;
  const half = series.seconds.length >> 1;
  for (const name of Object.keys(series)) series[name] = series[name].filter((_, index) => index >= half || index % 2 === 0);
}
