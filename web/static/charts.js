/* Charts share one way to be made: colours from the style sheet, a description for who cannot see them, and their size. */
import "/static/vendor/echarts.common-6.1.0.min.js";

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/* The library's own axis colours are for light paper only. */
function dressed(axis) {
  const muted = { color: colour("muted") };
  const line = { lineStyle: { color: colour("one") } };
  return { axisLine: line, axisTick: line, nameTextStyle: muted, ...axis, axisLabel: { ...muted, ...axis.axisLabel } };
}

export function draw(element, description, option) {
  const echarts = globalThis.echarts;
  const chart = echarts.init(element, null, { renderer: "svg" });
  const text = { color: colour("muted"), fontFamily: getComputedStyle(document.body).fontFamily };
  chart.setOption({
    animation: false,
    aria: { enabled: true, label: { description } },
    textStyle: text,
    color: [0, 1, 2, 3, 4, 5].map((number) => colour(`series${number}`)),
    grid: { left: 56, right: 16, top: 24, bottom: 44 },
    ...option,
    tooltip: { renderMode: "richText", confine: true, ...option.tooltip },
    xAxis: dressed(option.xAxis),
    yAxis: dressed(option.yAxis),
  });
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", description);
  new ResizeObserver(() => chart.resize()).observe(element);
  return chart;
}

export async function load(path) {
  const reply = await fetch(path, { headers: { Accept: "application/json" } });
  if (!reply.ok) throw new Error(`${path}: ${reply.status}`);
  return reply.json();
}

/* A chart is extra: where it can't be drawn, its place says so, and the table is still there. */
export function show(id, make) {
  const element = document.getElementById(id);
  if (!element) return;
  make(element).catch((error) => element.replaceChildren(`The chart could not be drawn (${error.message}); the table has its numbers.`));
}

export function legend(rest) {
  const muted = colour("muted");
  return { bottom: 0, type: "scroll", itemGap: 16, textStyle: { color: muted }, pageIconColor: muted, pageTextStyle: { color: muted }, ...rest };
}

/* A log axis needs some width, also around a single value. */
export function around(values) {
  return { min: Math.min(...values) / 1.5, max: Math.max(...values) * 1.5 };
}

export const LOOKS = ["circle", "diamond", "triangle", "rect", "pin", "arrow"];

export function logarithmic(name, rest) {
  return { type: "log", name, nameLocation: "middle", splitLine: { lineStyle: { color: colour("grid") } }, ...rest };
}

const PREFIXES = ["", "k", "M", "G", "T", "P"];

export function scaled(value, unit) {
  const power = Math.min(5, Math.max(0, Math.floor(Math.log10(value) / 3 + 1e-9)));
  return `${Number((value / 1000 ** power).toPrecision(3))} ${PREFIXES[power]}${unit}`;
}
