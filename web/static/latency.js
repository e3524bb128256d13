/* A solution's times by workload: from the 10th to the 90th percentile, the median, and the baseline's median beside it. */
import { around, colour, draw, legend, load, logarithmic, show } from "/static/charts.js";

const MOST = "500";

function told(ms) {
  const [value, unit] = ms >= 1000 ? [ms / 1000, "s"] : ms >= 1 ? [ms, "ms"] : [ms * 1000, "µs"];
  return `${Number(value.toPrecision(3))} ${unit}`;
}

function axes(trace) {
  return Object.entries(trace.workload.axes).map(([name, size]) => `${name} ${size}`).join("\n");
}

/* Small workloads first, axis by axis. */
function bySize(one, other) {
  const [sizes, others] = [one, other].map((trace) => Object.values(trace.workload.axes));
  const place = sizes.findIndex((size, at) => size !== others[at]);
  return place < 0 ? 0 : sizes[place] - others[place];
}

show("latency", async (element) => {
  const { solution, device } = element.dataset;
  const reply = await load(`/api/v1/traces?${new URLSearchParams({ solution, device_model: device, limit: MOST })}`);
  const timed = reply.items.filter((trace) => trace.evaluation.statistics?.median_ms > 0).sort(bySize);
  if (!timed.length) return;
  const names = [...new Set(timed.map(axes))];
  const at = (trace, name) => [axes(trace), trace.evaluation.statistics[name]];
  const all = timed.flatMap(({ evaluation: { statistics: times } }) => [times.p10_ms, times.p90_ms, times.baseline_median_ms ?? times.median_ms]);
  const own = colour("series0");
  const baseline = { name: "baseline's median", type: "scatter", symbol: "rect", symbolSize: 8, itemStyle: { color: colour("series1") } };
  draw(element, `Time of a call on ${names.length} workloads: 10th percentile, median and 90th percentile, and the baseline's median`, {
    legend: legend(),
    grid: { left: 68, right: 16, top: 24, bottom: 84 },
    tooltip: { formatter: (point) => `${point.seriesName}\n${point.name || point.value[0]}\n${told(point.value[1])}` },
    xAxis: { type: "category", data: names, axisLabel: { hideOverlap: true, formatter: (name) => name.split("\n").slice(0, 3).join("\n") } },
    yAxis: logarithmic("", { ...around(all), axisLabel: { formatter: told, showMinLabel: false, showMaxLabel: false } }),
    series: [
      {
        name: "10 % to 90 %, and median",
        type: "scatter",
        symbolSize: 10,
        itemStyle: { color: own },
        data: timed.map((trace) => at(trace, "median_ms")),
        markLine: {
          silent: true,
          symbol: "none",
          label: { show: false },
          lineStyle: { color: own, width: 4, type: "solid", opacity: 0.45 },
          data: timed.map((trace) => [{ coord: at(trace, "p10_ms") }, { coord: at(trace, "p90_ms") }]),
        },
      },
      { ...baseline, data: timed.map((trace) => at(trace, "baseline_median_ms")).filter(([, ms]) => ms > 0) },
    ],
  });
});
