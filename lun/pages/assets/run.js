// Curves and samples of a run's page. Everything it shows lies in the page; a page that a server made is asked for again.
"use strict";
(() => {
  const COLOURS = ["#4f7ccf", "#d2574f", "#2f9467", "#b27a12", "#8a63c9", "#1f9aa8", "#c2559d", "#7d8a2e", "#64748b", "#e0762c"];
  const REDUCE = 0.28; // of a curve's colour, where the smoothed one lies over it
  const DENSE = 30; // points from which on a curve is smoothed
  const EVERY = 5000; // milliseconds between two looks at a live page
  const state = { log: false, smooth: 0.6, step: null, films: false };
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const find = (id) => document.getElementById(id);
  let plots = [];
  let data = {};

  // An exponential mean that corrects its beginning; gaps stay gaps, and curves of few points stay as they are.
  function smoothed(values, weight) {
    let mean = 0, total = 0;
    if (values.length < DENSE) return values;
    return values.map((value) => {
      if (value === null || value === undefined) return value;
      mean = weight * mean + (1 - weight) * value;
      total = weight * total + (1 - weight);
      return mean / total;
    });
  }

  const drawable = (values) => (state.log ? values.map((value) => (value > 0 ? value : null)) : values);

  const weight = (chart) => (chart.exact ? 0 : state.smooth);

  function table(chart) {
    const tables = [];
    for (const line of chart.lines) {
      const values = drawable(line.values);
      tables.push([line.steps, values]);
      tables.push([line.steps, drawable(smoothed(line.values, weight(chart)))]);
    }
    return uPlot.join(tables, tables.map((one) => one.slice(1).map(() => 2)));
  }

  function short(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  }

  function series(chart, line, place) {
    const colour = line.colour || COLOURS[place % COLOURS.length];
    const faint = colour + Math.round(255 * (weight(chart) > 0 ? REDUCE : 1)).toString(16).padStart(2, "0");
    const dash = line.dash || [];
    const alone = line.values.filter((value) => value !== null).length < 2;
    return [
      { label: line.label + " (as logged)", stroke: faint, width: 1, spanGaps: true, dash, points: { show: alone, size: 6 }, value: (_, v) => short(v) },
      { label: line.label, stroke: colour, width: 2, spanGaps: true, dash, points: { show: alone, size: 6 }, value: (_, v) => short(v) },
    ];
  }

  function draw(chart, box) {
    const axis = () => ({ stroke: style("--soft"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line"), width: 1 } });
    const options = {
      width: Math.max(200, box.clientWidth),
      height: Math.min(340, Math.max(220, Math.round(box.clientWidth * 0.42))),
      cursor: { drag: { x: true, y: false } },
      scales: { x: { time: false }, y: { distr: state.log ? 3 : 1 } },
      axes: [{ ...axis(), values: (_, ticks) => ticks.map((tick) => tick.toLocaleString("en")) }, { ...axis(), size: 64, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : short(tick))) }],
      series: [{ label: "step", value: (_, v) => (v === null ? "–" : v.toLocaleString("en")) }, ...chart.lines.flatMap((line, place) => series(chart, line, place))],
      legend: { live: true },
    };
    const columns = table(chart);
    const any = columns.slice(1).some((column) => column.some((value) => value !== null && value !== undefined));
    if (!any) {
      box.append(Object.assign(document.createElement("p"), { className: "soft", textContent: "nothing here can be drawn on this scale" }));
      return;
    }
    const plot = new uPlot(options, columns, box);
    // One line of the legend stands for both: what was logged and its mean.
    plot.root.querySelectorAll(".u-legend tr").forEach((row, place) => { if (place > 0 && place % 2 === 1) row.style.display = "none"; });
    plots.push({ plot, box });
  }

  function drawAll() {
    const place = find("charts");
    if (!place) return;
    plots.forEach((one) => one.plot.destroy());
    plots = [];
    place.replaceChildren();
    for (const chart of data.charts) {
      const box = Object.assign(document.createElement("div"), { className: "plot" });
      box.append(Object.assign(document.createElement("h3"), { textContent: chart.title }));
      place.append(box);
      draw(chart, box);
    }
    find("smooth-out").textContent = state.smooth > 0 ? state.smooth.toFixed(2) : "none";
  }

  function show(image, url) {
    image.style.visibility = url ? "" : "hidden";
    if (!url) return;
    image.onload = () => image.classList.toggle("pixels", image.naturalWidth <= 96);
    image.src = url;
  }

  function showStep() {
    const { steps, tiles, urls } = data.samples;
    const slider = find("step");
    if (!slider) return;
    const place = state.step === null ? steps.length - 1 : Math.min(state.step, steps.length - 1);
    slider.value = place;
    find("step-out").textContent = steps[place].toLocaleString("en");
    document.querySelectorAll(".prompt").forEach((figure) => {
      figure.querySelectorAll(".pair img").forEach((image) => show(image, urls[tiles[steps[place]][image.dataset.weights][figure.dataset.prompt]]));
      figure.querySelectorAll(".film span").forEach((one, at) => one.classList.toggle("now", at === place));
    });
  }

  function showFilms() {
    const { steps, tiles, weights, urls } = data.samples;
    document.querySelectorAll(".prompt").forEach((figure) => {
      const film = figure.querySelector(".film");
      film.hidden = !state.films;
      if (!state.films || film.childElementCount) return;
      steps.forEach((step, place) => {
        const one = document.createElement("span");
        for (const name of weights) {
          const image = document.createElement("img");
          image.alt = "";
          show(image, urls[tiles[step][name][figure.dataset.prompt]]);
          one.append(image);
        }
        one.append(document.createTextNode(step.toLocaleString("en")));
        one.addEventListener("click", () => { state.step = place; showStep(); });
        film.append(one);
      });
    });
    showStep();
  }

  const listen = (id, event, act) => { const box = find(id); if (box) box.addEventListener(event, () => act(box)); };

  function begin() {
    data = JSON.parse(find("data").textContent);
    listen("log", "change", (box) => { state.log = box.checked; drawAll(); });
    listen("smooth", "input", (box) => { state.smooth = Number(box.value); drawAll(); });
    listen("step", "input", (box) => { state.step = Number(box.value) === data.samples.steps.length - 1 ? null : Number(box.value); showStep(); });
    listen("films", "change", (box) => { state.films = box.checked; showFilms(); });
    if (find("log")) { find("log").checked = state.log; find("smooth").value = state.smooth; }
    if (find("films")) { find("films").checked = state.films; showFilms(); }
    drawAll();
    showStep();
  }

  // The server's page as it is now, in place of this one's main part; sliders stay where they are.
  async function renew() {
    try {
      const chosen = document.querySelector("main input[name=run]:checked"); // somebody is about to compare runs
      const answer = chosen ? null : await fetch(location.href, { headers: { "If-None-Match": renew.known || "" } });
      if (answer && answer.status === 200) {
        renew.known = answer.headers.get("ETag") || "";
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const open = [...document.querySelectorAll("details")].map((one) => one.open);
        document.querySelector("main").replaceWith(page.querySelector("main"));
        document.querySelectorAll("details").forEach((one, place) => { one.open = Boolean(open[place]); });
        if (find("data")) begin();
      }
    } catch (error) { /* the server is gone: what is shown stays */ }
    setTimeout(renew, EVERY);
  }

  document.documentElement.classList.add("scripted");
  if (find("data")) begin();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  new ResizeObserver(() => {
    for (const { plot, box } of plots) if (box.clientWidth && Math.abs(box.clientWidth - plot.width) > 1) plot.setSize({ width: box.clientWidth, height: plot.height });
  }).observe(document.body);
  if (document.body.dataset.live) setTimeout(renew, EVERY);
})();
