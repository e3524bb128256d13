/* A definition's charts: fast_p of its solutions, and a map of its workloads. The tables beside them say the same. */
import { colour, draw, load, scaled, show } from "/static/charts.js";
import { fastp, pin } from "/static/fastp.js";

async function curves(element) {
  const { definition, device } = element.dataset;
  const query = new URLSearchParams({ definition, device_model: device, limit: "50" });
  const reply = await load(`/api/v1/leaderboard?${query}`);
  const rows = (reply.boards[0]?.rows ?? []).filter((row) => !row.off_board && !row.is_baseline);
  if (!rows.length) return;
  fastp(
    element,
    "Share of workloads that solutions solve more than p times as fast as the baseline",
    rows.map((row) => ({ name: row.solution, reached: percents(row.fast_p) })),
    { max: 100, axisLabel: { formatter: "{value} %" } },
  );
  pin(document.querySelector(".pin"), 1);
}

function percents(shares) {
  return Object.fromEntries(Object.entries(shares).map(([p, share]) => [p, Math.round(1000 * share) / 10]));
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
