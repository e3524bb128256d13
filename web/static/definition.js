/* A definition's charts: fast_p of its solutions, and a map of its workloads. The tables beside them say the same. */
import { colour, draw, legend, load, scaled, show } from "/static/charts.js";

const MOST_CURVES = 6;
const DASHES = ["solid", [7, 3], [2, 3], [10, 3, 2, 3], [5, 5], [1, 4]];

async function curves(element) {
  const { definition, device } = element.dataset;
  const query = new URLSearchParams({ definition, device_model: device, limit: "50" });
  const reply = await load(`/api/v1/leaderboard?${query}`);
  const rows = (reply.boards[0]?.rows ?? []).filter((row) => !row.off_board && !row.is_baseline).slice(0, MOST_CURVES);
  if (!rows.length) return;
  const grades = Object.keys(rows[0].fast_p).map(Number).sort((one, other) => one - other);
  draw(element, `Share of workloads that ${rows.length} solutions solve at least p times as fast as the baseline`, {
    legend: legend(),
    grid: { left: 56, right: 16, top: 24, bottom: 72 },
    tooltip: { trigger: "axis" },
    xAxis: { type: "category", data: grades.map((p) => `${p}×`), name: "p", axisLine: { lineStyle: { color: colour("one") } } },
    yAxis: { type: "value", min: 0, max: 100, axisLabel: { formatter: "{value} %" }, splitLine: { lineStyle: { color: colour("grid") } } },
    series: rows.map((row, place) => ({
      name: row.solution,
      type: "line",
      step: "end",
      symbol: "none",
      lineStyle: { width: place ? 2 : 3, type: DASHES[place] },
      data: grades.map((p) => Math.round(1000 * row.fast_p[String(p)]) / 10),
    })),
  });
  pin(grades);
}

function pin(grades) {
  const form = document.querySelector(".pin");
  const slider = form.querySelector("input");
  const shown = form.querySelector("output");
  slider.max = String(grades.length - 1);
  const follow = () => {
    const p = grades[Number(slider.value)];
    shown.textContent = `p = ${p}`;
    for (const cell of document.querySelectorAll("[data-p]")) cell.classList.toggle("pinned", Number(cell.dataset.p) === p);
  };
  slider.addEventListener("input", follow);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  follow();
}

async function map(element) {
  const reply = await load(`/api/v1/definitions/${encodeURIComponent(element.dataset.definition)}/workloads?limit=500`);
  const axes = [...new Set(reply.items.flatMap((item) => Object.keys(item.axes)))];
  if (!axes.length || reply.items.length < 2) return;
  const [x, y] = axes;
  const heaviest = Math.max(...reply.items.map((item) => item.weight ?? 1));
  draw(element, `Workloads by ${axes.slice(0, 2).join(" and ")}; larger dots stand for more calls`, {
    tooltip: { formatter: (point) => `${x} ${point.value[0]}${y ? `\n${y} ${point.value[1]}` : ""}\n${point.value[2].toLocaleString("en")} calls` },
    xAxis: { type: "log", name: x, nameLocation: "middle", nameGap: 28, splitLine: { lineStyle: { color: colour("grid") } } },
    yAxis: { type: y ? "log" : "value", name: y ?? "calls", axisLabel: { formatter: (value) => scaled(value, "") }, splitLine: { lineStyle: { color: colour("grid") } } },
    series: [
      {
        type: "scatter",
        symbolSize: (value) => 6 + 26 * Math.sqrt(value[2] / heaviest),
        itemStyle: { color: colour("gain"), opacity: 0.65 },
        data: reply.items.map((item) => [item.axes[x], y ? item.axes[y] : (item.weight ?? 1), item.weight ?? 1]),
      },
    ],
  });
}

show("curves", curves);
show("workloads", map);
