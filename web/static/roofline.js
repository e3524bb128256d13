/* What solutions reach of the device's measured peaks: bytes a second, and operations a second by intensity. */
import { LOOKS, around, colour, draw, legend, load, logarithmic, scaled, show } from "/static/charts.js";

const MOST_SOLUTIONS = 6;

function middle(values) {
  const ordered = [...values].sort((one, other) => one - other);
  return ordered[Math.floor(ordered.length / 2)];
}

/* One workload's least time: what stood beside each solution's own times, so one of the middle. */
function least(heat, place) {
  const times = heat.rows.map((row) => row.cells[place]?.roofline_ms).filter((time) => time > 0);
  return times.length ? middle(times) / 1e3 : null;
}

function series(heat, x, work) {
  const roof = heat.workloads
    .map((workload, place) => [x(workload), work(workload) / least(heat, place)])
    .filter(([, y]) => Number.isFinite(y))
    .sort((one, other) => one[0] - other[0]);
  const dots = heat.rows.map((row, number) => ({
    name: row.solution,
    type: "scatter",
    symbol: LOOKS[number % LOOKS.length],
    symbolSize: 9,
    itemStyle: { opacity: 0.8 },
    data: heat.workloads
      .map((workload, place) => [x(workload), work(workload) / (row.cells[place]?.solution_ms / 1e3)])
      .filter(([, y]) => Number.isFinite(y)),
  }));
  const line = { name: "measured peaks", type: "line", data: roof, symbol: "circle", symbolSize: 4, lineStyle: { width: 2 } };
  return [{ ...line, color: colour("muted"), itemStyle: { color: colour("muted") } }, ...dots.filter((each) => each.data.length)];
}

function plot(element, description, heat, x, y) {
  const found = series(heat, x.of, y.of);
  const points = found.flatMap((each) => each.data);
  draw(element, description, {
    legend: legend({ type: "plain", orient: "vertical", left: 0, itemGap: 5 }),
    grid: { left: 84, right: 20, top: 24, bottom: 56 + 19 * found.length },
    tooltip: { formatter: (at) => `${at.seriesName}\n${x.tell(at.value[0])}\n${scaled(at.value[1], y.unit)}` },
    xAxis: logarithmic(x.name, { nameGap: 28, ...around(points.map((each) => each[0])), axisLabel: { formatter: x.tell, hideOverlap: true, showMinLabel: false, showMaxLabel: false } }),
    yAxis: logarithmic("", { ...around(points.map((each) => each[1])), axisLabel: { formatter: (value) => scaled(value, y.unit), showMinLabel: false, showMaxLabel: false } }),
    series: found,
  });
}

show("roofline-bytes", async (element) => {
  const { definition, device } = element.dataset;
  const query = new URLSearchParams({ device_model: device, limit: String(MOST_SOLUTIONS) });
  const heat = await load(`/api/v1/definitions/${encodeURIComponent(definition)}/ratios?${query}`);
  if (!heat.rows.some((row) => row.cells.some((cell) => cell?.solution_ms && cell.roofline_ms))) return;
  const workloads = heat.workloads;
  const hasFlops = workloads.every((workload) => workload.flops && workload.bytes);
  const intensities = hasFlops ? workloads.map((workload) => workload.flops / workload.bytes) : [1];
  const varies = Math.max(...intensities) > 1.3 * Math.min(...intensities);
  const bytes = { name: "bytes of a call", of: (workload) => workload.bytes, tell: (value) => scaled(value, "B"), unit: "B/s" };
  const flops = { name: "operations of a call", of: (workload) => workload.flops, tell: (value) => scaled(value, "FLOP"), unit: "FLOP/s" };
  const intensity = { name: "operations for each byte", of: (workload) => workload.flops / workload.bytes, tell: (value) => `${Number(value.toPrecision(3))} FLOP/B` };
  const many = heat.rows.length;
  plot(element, `Bytes a second that ${many} solutions reach, beside the measured peaks`, heat, varies ? intensity : bytes, bytes);
  if (!hasFlops) return;
  plot(document.getElementById("roofline-flops"), `Operations a second that ${many} solutions reach, beside the measured peaks`, heat, varies ? intensity : flops, flops);
});
