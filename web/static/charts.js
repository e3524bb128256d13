/* Charts share one way to be made: colours from the style sheet, a description for who cannot see them, and their size. */
import "/static/vendor/echarts.common-6.1.0.min.js";

const made = [];

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function draw(element, description, option) {
  const echarts = globalThis.echarts;
  const chart = echarts.init(element, null, { renderer: "svg" });
  const text = { color: colour("muted"), fontFamily: "inherit" };
  chart.setOption({
    animation: false,
    aria: { enabled: true, label: { description } },
    textStyle: text,
    tooltip: { renderMode: "richText", confine: true, ...option.tooltip },
    grid: { left: 56, right: 16, top: 24, bottom: 44 },
    ...option,
  });
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", description);
  made.push(chart);
  return chart;
}

addEventListener("resize", () => made.forEach((chart) => chart.resize()));

export async function load(path) {
  const reply = await fetch(path, { headers: { Accept: "application/json" } });
  if (!reply.ok) throw new Error(`${path}: ${reply.status}`);
  return reply.json();
}
