// Charts as SVG. A stretch in which nothing is known is a gap, never a zero; times between two looks are drawn through.
const LEFT = 62;
const RIGHT = 14;
// As wide as there is room when a group is opened: letters keep their size on a narrow screen.
let WIDTH = 960;
const inner = () => WIDTH - LEFT - RIGHT;
const HEAT_LEVELS = 6;
const tip = byId("tip");

// Looks may be further apart than the points of a chart: a line goes on over about two of them.
const BRIDGE = Math.max(1, Math.ceil((2.5 * (report.look_ms || report.step_ms)) / report.step_ms));

const across = (point) => LEFT + (inner() * (point + 0.5)) / report.points;
const acrossTime = (ms) =>
  LEFT + inner() * Math.min(1, Math.max(0, (ms - report.from_ms) / (report.step_ms * report.points)));

function stretches(values) {
  const found = [];
  let run = [];
  let last = -Infinity;
  values.forEach((value, point) => {
    if (value === null) return;
    if (run.length && point - last > BRIDGE) {
      found.push(run);
      run = [];
    }
    run.push([point, value]);
    last = point;
  });
  if (run.length) found.push(run);
  return found;
}

function roundUp(number) {
  for (let size = 1; ; size *= 10) {
    for (const factor of [1, 2, 5]) if (number <= factor * size) return factor * size;
  }
}

function curve(values, x, y) {
  return stretches(values)
    .map((run) => {
      const points = run.map(([point, value]) => `${x(point).toFixed(1)},${y(value).toFixed(1)}`);
      return `M${points.join("L")}${points.length === 1 ? "h0.01" : ""}`;
    })
    .join("");
}

function sparkline(values) {
  if (!values) return "";
  const top = most(values) || 1;
  const x = (point) => (120 * (point + 0.5)) / values.length;
  const path = curve(values, x, (value) => 20 - (18 * value) / top);
  return draw("svg", { class: "small", viewBox: "0 0 120 22", "aria-hidden": "true" }, draw("path", { class: "curve", d: path }));
}

// Roots, not the counts themselves: a burst would turn everything else into one colour.
const heatLevel = (value, top) => (value ? Math.max(1, Math.ceil(HEAT_LEVELS * Math.sqrt(value / top))) : 0);

function heatPaths(values, top, x, y, width, height) {
  const paths = Array.from({ length: HEAT_LEVELS + 1 }, () => "");
  values.forEach((value, point) => {
    paths[heatLevel(value, top)] += `M${x(point).toFixed(2)} ${y}h${width.toFixed(2)}v${height}h-${width.toFixed(2)}z`;
  });
  return paths.map((d, level) => (d ? draw("path", { d, class: `h${level}` }) : null));
}

function heatStrip(values) {
  if (!values) return "";
  const width = 120 / values.length;
  const paths = heatPaths(values, most(values) || 1, (point) => point * width, 3, width, 16);
  return draw("svg", { class: "small", viewBox: "0 0 120 22", "aria-hidden": "true" }, ...paths);
}

function timeSteps() {
  const span = report.step_ms * report.points;
  const minute = 60000;
  const sizes = [1, 5, 15, 30, 60, 180, 360, 720, 1440, 2880, 10080, 43200, 129600].map((each) => each * minute);
  const size = [1000, 5000, 15000, ...sizes].find((each) => span / each <= WIDTH / 110) || span / 6;
  const steps = [];
  for (let ms = Math.ceil(report.from_ms / size) * size; ms <= report.from_ms + span; ms += size) steps.push(ms);
  return { size, steps };
}

function timeAxis(top, bottom) {
  const { size, steps } = timeSteps();
  const drawn = [];
  steps.forEach((ms, place) => {
    const text = new Date(ms).toISOString();
    const isDay = size >= 86400000;
    const label = isDay ? text.slice(5, 10) : size < 60000 ? text.slice(11, 19) : text.slice(11, 16);
    const x = acrossTime(ms);
    drawn.push(draw("line", { class: "grid", x1: x, x2: x, y1: top, y2: bottom }));
    if (x > LEFT + 14 && x < WIDTH - 20) drawn.push(draw("text", { class: "middle", x, y: bottom + 16 }, label));
    const isNew = !isDay && (place === 0 || text.slice(0, 10) !== new Date(steps[place - 1]).toISOString().slice(0, 10));
    if (isNew && x > LEFT + 14 && x < WIDTH - 40) {
      drawn.push(draw("text", { class: "middle", x, y: bottom + 29 }, text.slice(0, 10)));
    }
  });
  return drawn;
}

// `highest` is 1, 2 or 5 times a power of ten; every line stands for a whole number.
function valueAxis(top, bottom, highest) {
  const drawn = [];
  const ticks = highest <= 2 ? highest : highest === 10 || String(highest)[0] === "5" ? 5 : 4;
  for (let tick = 0; tick <= ticks; tick++) {
    const y = bottom - ((bottom - top) * tick) / ticks;
    drawn.push(draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y }));
    drawn.push(draw("text", { class: "end", x: LEFT - 7, y: y + 4 }, shortText((highest * tick) / ticks)));
  }
  return drawn;
}

function showTip(text, x, y) {
  tip.textContent = text.split("\n").map(readable).join("\n");
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - box.width - 6))}px`;
  tip.style.top = `${y + 18 + box.height > window.innerHeight ? y - box.height - 10 : y + 18}px`;
}

function hideTip() {
  tip.hidden = true;
}

// A frame is read with the pointer or, when it has the focus, with the arrow keys; `told` says what is at a point.
function frame(svg, label, top, bottom, told) {
  const box = make("div", { class: "chart", tabindex: "0", role: "img", "aria-label": label }, svg);
  const cursor = draw("line", { class: "cursor", y1: top, y2: bottom, visibility: "hidden" });
  svg.append(cursor);
  let at = report.points - 1;
  const show = (point, row, x, y) => {
    at = Math.max(0, Math.min(report.points - 1, point));
    const text = told(at, row);
    if (!text) return hide();
    cursor.setAttribute("x1", across(at));
    cursor.setAttribute("x2", across(at));
    cursor.setAttribute("visibility", "visible");
    showTip(text, x, y);
  };
  const hide = () => {
    cursor.setAttribute("visibility", "hidden");
    hideTip();
  };
  box.addEventListener("pointermove", (event) => {
    const area = svg.getBoundingClientRect();
    const scale = WIDTH / area.width;
    const x = (event.clientX - area.left) * scale;
    const y = (event.clientY - area.top) * scale;
    show(Math.floor(((x - LEFT) / inner()) * report.points), y, event.clientX, event.clientY);
  });
  box.addEventListener("pointerleave", hide);
  box.addEventListener("blur", hide);
  box.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const area = svg.getBoundingClientRect();
    at = Math.max(0, Math.min(report.points - 1, at + step));
    const x = area.left + (across(at) * area.width) / WIDTH;
    show(at, null, x, area.top + area.height / 2);
  });
  return box;
}

// Lines over time; `series` are {name, values, look}, `bands` are {from, until, look} behind them.
function lineChart(label, series, bands) {
  const top = 12;
  const bottom = 250;
  const highest = roundUp(Math.max(1, ...series.map((each) => most(each.values))));
  const y = (value) => bottom - ((bottom - top) * value) / highest;
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} 286` }, ...valueAxis(top, bottom, highest), ...timeAxis(top, bottom));
  for (const band of bands) {
    const x = acrossTime(band.from);
    const width = Math.max(3, acrossTime(band.until) - x);
    svg.append(draw("rect", { class: `band ${band.look}`, x, y: top, width, height: bottom - top }));
  }
  for (const each of series) {
    svg.append(draw("path", { class: `curve ${each.look}`, d: curve(each.values, across, y) }));
  }
  return frame(svg, label, top, bottom, (point) => {
    const known = series.filter((each) => each.values[point] !== null).sort((a, b) => b.values[point] - a.values[point]);
    if (!known.length) return `${timeText(pointTime(point))}\nno data`;
    const lines = known.slice(0, 10).map((each) => `${each.name}: ${countText(each.values[point])}`);
    const more = known.length > 10 ? [`and ${known.length - 10} more`] : [];
    return [timeText(pointTime(point)), ...lines, ...more].join("\n");
  });
}

// Rows of counts over time as colours; `rows` are {name, values}.
function heatMap(label, rows) {
  const height = rows.length > 24 ? 10 : 16;
  const top = 6;
  const bottom = top + rows.length * height;
  const highest = Math.max(1, ...rows.map((row) => most(row.values)));
  const width = inner() / report.points;
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${bottom + 36}` }, ...timeAxis(top, bottom));
  rows.forEach((row, place) => {
    const y = top + place * height;
    svg.append(...heatPaths(row.values, highest, (point) => LEFT + point * width, y + 0.5, width, height - 1).filter(Boolean));
    if (rows.length <= 24) svg.append(draw("text", { class: "end", x: LEFT - 7, y: y + height - 4 }, row.short));
  });
  const box = frame(svg, label, top, bottom, (point, y) => {
    const place = y === null ? -1 : Math.floor((y - top) / height);
    const row = rows[place];
    const count = row ? row.values[point] : sum(rows.map((each) => each.values[point]));
    return `${timeText(pointTime(point))}\n${row ? row.name : "all partitions"}: ${countText(count)} commits in ${stepText()}`;
  });
  const steps = Array.from({ length: HEAT_LEVELS + 1 }, (_, level) => make("i", { class: `swatch h${level}` }));
  const legend = make("div", { class: "legend quiet" }, "0", ...steps, `${countText(highest)} commits in ${stepText()}`);
  return [box, legend];
}

// Members over time as steps, a mark for each rebalance.
function rebalanceChart(label, marks) {
  const top = 12;
  const bottom = 120;
  const highest = roundUp(Math.max(1, ...marks.map((mark) => mark[R.members])));
  const y = (members) => bottom - ((bottom - top) * members) / highest;
  const inside = marks.filter((mark) => mark[R.at_ms] >= report.from_ms);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} 156` }, ...valueAxis(top, bottom, highest), ...timeAxis(top, bottom));
  let path = "";
  marks.forEach((mark, place) => {
    const x = acrossTime(mark[R.at_ms]).toFixed(1);
    path += `${place ? `H${x}V` : `M${x},`}${y(mark[R.members]).toFixed(1)}`;
  });
  if (marks.length) path += `H${WIDTH - RIGHT}`;
  svg.append(draw("path", { class: "curve s0", d: path }));
  for (const mark of inside) {
    const look = mark[R.gone] ? "critical" : mark[R.joined] ? "s2" : "notice";
    const x = acrossTime(mark[R.at_ms]);
    svg.append(draw("line", { class: `mark ${look}`, x1: x, x2: x, y1: bottom - 8, y2: bottom + 4 }));
    svg.append(draw("circle", { class: `dot ${look}`, cx: x, cy: y(mark[R.members]), r: 3.2 }));
  }
  return frame(svg, label, top, bottom, (point) => {
    const from = pointTime(point);
    const here = marks.filter((mark) => mark[R.at_ms] >= from && mark[R.at_ms] < from + report.step_ms);
    const before = marks.filter((mark) => mark[R.at_ms] < from + report.step_ms).pop();
    if (!before) return `${timeText(from)}\nno data`;
    const lines = here.slice(-6).map((mark) => {
      const took = mark[R.duration_ms] === null ? "" : `, took ${durationText(mark[R.duration_ms])}`;
      return `generation ${mark[R.generation]} at ${timeText(mark[R.at_ms]).slice(11)}: ${mark[R.joined]} joined, ${mark[R.gone]} left${took}`;
    });
    return [timeText(from), `${countText(before[R.members])} members`, ...lines].join("\n");
  });
}

// How the work is spread: a bar per partition; `rows` are {name, value, note}.
function bars(label, rows) {
  const height = 20;
  const highest = Math.max(1, ...rows.map((row) => row.value));
  const left = Math.min(250, Math.round(WIDTH * 0.36));
  const room = WIDTH - left - 130;
  const letters = Math.floor(left / 6.6);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${rows.length * height + 10}` });
  rows.forEach((row, place) => {
    const y = 4 + place * height;
    const half = Math.floor(letters / 2) - 1;
    const name = row.name.length > letters ? `${row.name.slice(0, half)}…${row.name.slice(-half)}` : row.name;
    const width = Math.max(1, (room * row.value) / highest);
    svg.append(
      draw("text", { class: "end", x: left - 8, y: y + 13 }, name),
      draw("rect", { class: "h4", x: left, y: y + 2, width, height: height - 6, rx: 2 }, draw("title", {}, row.name)),
      draw("text", { x: left + width + 6, y: y + 13 }, row.note),
    );
  });
  return make("div", { class: "chart", role: "img", "aria-label": label }, svg);
}
