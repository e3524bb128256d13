/* An author's deployed speedup over time: a step for each kernel that became their best on a definition. */
import { colour, draw, load, show } from "/static/charts.js";

show("progress", async (element) => {
  const { author, device } = element.dataset;
  const reply = await load(`/api/v1/authors/${encodeURIComponent(author)}/progress?${new URLSearchParams({ device_model: device })}`);
  if (!reply.items.length) return;
  const steps = reply.items.map((step) => ({ value: [step.at, Number(step.deployed.ratio)], step }));
  const low = Math.min(1, ...steps.map((each) => each.value[1]));
  draw(element, `Deployed speedup of ${author} on ${device} over time, in ${steps.length} steps`, {
    grid: { left: 64, right: 24, top: 24, bottom: 36 },
    tooltip: { formatter: ({ data }) => `${data.step.at.slice(0, 10)}\n${data.step.solution}\n${data.value[1].toFixed(3)}×` },
    xAxis: { type: "time", splitLine: { show: false }, axisLabel: { hideOverlap: true } },
    yAxis: { type: "value", min: low, scale: true, axisLabel: { formatter: (value) => `${Number(value.toFixed(3))}×` }, splitLine: { lineStyle: { color: colour("grid") } } },
    series: [{ type: "line", step: "end", symbolSize: 7, lineStyle: { width: 2.5 }, areaStyle: { opacity: 0.08, origin: "start" }, data: steps }],
  });
});
