/* How much reaches p, for each p: it falls as p grows, over a log axis; and a p that is pinned in the table. */
import { colour, draw, legend, logarithmic } from "/static/charts.js";

const MOST_CURVES = 6;
const DASHES = ["solid", [7, 3], [2, 3], [10, 3, 2, 3], [5, 5], [1, 4]];

/* `rows` have a name and their number for each p by its text; p = 0 has no place on a log axis and stands in the table. */
export function fastp(element, description, rows, vertical) {
  const shown = rows.slice(0, MOST_CURVES);
  const grades = Object.keys(shown[0].reached).map(Number).filter((p) => p > 0).sort((one, other) => one - other);
  draw(element, description, {
    legend: legend(),
    grid: { left: 56, right: 24, top: 24, bottom: 84 },
    tooltip: { trigger: "axis", axisPointer: { snap: true }, formatter: hovered },
    xAxis: logarithmic("p", {
      logBase: 2,
      nameGap: 28,
      min: grades[0],
      max: 1.2 * grades[grades.length - 1],
      axisLabel: { formatter: "{value}×", showMaxLabel: false },
    }),
    yAxis: { type: "value", min: 0, splitLine: { lineStyle: { color: colour("grid") } }, ...vertical },
    series: shown.map((row, place) => ({
      name: row.name,
      type: "line",
      step: "end",
      symbol: "none",
      lineStyle: { width: place ? 2 : 3, type: DASHES[place] },
      data: grades.map((p) => [p, row.reached[String(p)]]),
    })),
  });
}

function hovered(points) {
  return [`p = ${points[0].value[0]}`, ...points.map((point) => `${point.seriesName}: ${point.value[1]}`)].join("\n");
}

/* A slider over the grades that the table has; the pinned one's cells are marked. */
export function pin(form, start) {
  const grades = [...new Set([...document.querySelectorAll("th[data-p]")].map((cell) => Number(cell.dataset.p)))];
  const slider = form.querySelector("input");
  const shown = form.querySelector("output");
  const follow = () => {
    const p = grades[Number(slider.value)];
    shown.textContent = `p = ${p}`;
    for (const cell of document.querySelectorAll("[data-p]")) cell.classList.toggle("pinned", Number(cell.dataset.p) === p);
  };
  slider.max = String(grades.length - 1);
  slider.value = String(Math.max(0, grades.indexOf(start)));
  slider.addEventListener("input", follow);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  follow();
}
