// One group: how far behind it was, when it committed, who was in it, how its work is spread, and what was found.
const COLOURS = 8;
// So many findings of a group are seen at once; its charts are not to be far below.
const FEW = 6;

const SUMS =
  "Committed + lag = log end, as of the last sample. First offset + read + moved = last offset: the first known commit, what the group has read, what was set from outside, went back or expired, and the last commit. What was read before the first commit is unknown.";

function tile(name, value, note, look) {
  return make("div", {}, make("span", {}, name), make("strong", { class: look }, value), note ? make("small", {}, note) : null);
}

function lookOf(place, count) {
  return count <= COLOURS ? `s${place}` : "many";
}

function groupTiles(group) {
  return make(
    "div",
    { class: "tiles" },
    tile("Lag", countText(group.lag), "log end minus committed offset, at the last sample"),
    ...lagParts([group], (each) => each).map(([title, value, note, look]) => tile(title, countText(value(group)), note, look)),
    tile("Behind", lateText(group.time_lag_ms, group.method), lateNote(group.time_lag_ms, group.method)),
    tile("State", group.state || "–", [group.type, group.members === null ? null : `${countText(group.members)} members`].filter(Boolean).join(", ")),
    tile("Commits", countText(group.commits), `the last ${timeText(group.last_commit_ms)}`),
    tile("Read", countText(group.read), "records, from the first commit to the last"),
    tile("From outside", countText(group.outside), "commits, inferred", group.outside ? "warning" : null),
    tile("Rebalances", countText(group.rebalances)),
  );
}

function lagSection(group, bands) {
  const shown = group.shown.filter((row) => row[P.lag_points]);
  if (!group.lag_points) {
    return [make("p", { class: "quiet" }, "The logs were not sampled, so the lag is unknown.")];
  }
  const series = shown.map((row, place) => ({ name: partitionName(row), values: row[P.lag_points], look: lookOf(place, shown.length) }));
  const all = { name: "all partitions", values: group.lag_points, look: "all total" };
  const off = new Set();
  const holder = make("div");
  const redraw = () => {
    const drawn = [all, ...series].filter((each) => !off.has(each.name));
    holder.replaceChildren(lineChart(lagLabel(group), drawn, bands));
  };
  const legend = make("div", { class: "legend" });
  const entries = shown.length <= 24 ? [all, ...series] : [all];
  for (const each of entries) {
    const button = make("button", { type: "button", "aria-pressed": "true" }, make("i", { class: `swatch ${each.look.split(" ")[0]}` }), each.name);
    button.addEventListener("click", () => {
      if (!off.delete(each.name)) off.add(each.name);
      button.setAttribute("aria-pressed", String(!off.has(each.name)));
      redraw();
    });
    legend.append(button);
  }
  redraw();
  return [holder, legend];
}

function lagLabel(group) {
  const known = group.lag_points.filter((each) => each !== null);
  return `Lag of ${group.name} over time: at most ${countText(most(known))}, at the end ${countText(known[known.length - 1])} records`;
}

function skewRows(group) {
  const value = group.shown.some((row) => row[P.written]) ? P.written : P.read;
  const what = value === P.written ? "written from the first to the last sample" : "read from the first to the last commit";
  const short = value === P.written ? "written" : "read";
  const rows = group.shown
    .filter((row) => row[value] !== null)
    .map((row) => ({ name: partitionName(row), value: row[value], note: `${countText(row[value])} ${short}` }));
  return { what, rows: rows.sort((a, b) => b.value - a.value).slice(0, 40) };
}

function partitionTable(group) {
  const columns = [
    ["Partition", partitionName, false],
    ["Committed", (row) => countText(row[P.committed]), true],
    ["Log end", (row) => countText(row[P.log_end]), true],
    ["Lag", (row) => countText(row[P.lag]), true],
    ...lagParts(group.shown, (row) => ({ lag: row[P.lag], lost: row[P.lost], unfinished: row[P.unfinished], beyond: row[P.beyond] })).map(
      ([title, value]) => [title, (row) => countText(value(row)), true],
    ),
    ["Behind", (row) => lateText(row[P.time_lag_ms], row[P.method]), true],
    ["Commits", (row) => countText(row[P.commits]), true],
    ["First offset", (row) => countText(row[P.first_offset]), true],
    ["Read", (row) => countText(row[P.read]), true],
    ["Moved", (row) => countText(row[P.moved]), true],
    ["Last offset", (row) => countText(row[P.last_offset]), true],
    ["Last commit", (row) => timeText(row[P.last_commit_ms]), true],
  ];
  const head = make("tr", {}, ...columns.map(([title, , isNumber]) => make("th", { scope: "col", class: isNumber ? "number" : null }, title)));
  const body = group.shown.map((row) =>
    make("tr", {}, ...columns.map(([title, cell, isNumber]) => make("td", { class: isNumber ? "number" : "name", "data-title": title }, cell(row)))),
  );
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
}

// Findings of one time, such as a stall of every partition, are one band.
function mergedBands(findings, look) {
  const bands = [];
  const ends = findings.map((each) => [each.first_ms, each.last_ms === null ? report.until_ms : each.last_ms]);
  for (const [from, until] of ends.sort((a, b) => a[0] - b[0])) {
    const last = bands[bands.length - 1];
    if (last && from <= last.until) last.until = Math.max(last.until, until);
    else bands.push({ from, until, look });
  }
  return bands;
}

function findingCards(findings) {
  const holder = make("div", {}, ...findings.slice(0, FEW).map((each) => findingCard(each, false)));
  if (findings.length <= FEW) return holder;
  const all = make("button", { type: "button" }, `Show all ${countText(findings.length)} findings`);
  all.addEventListener("click", () => all.replaceWith(...findings.slice(FEW).map((each) => findingCard(each, false))));
  holder.append(all);
  return holder;
}

function showGroup(place) {
  const view = byId("view-group");
  const group = report.groups[place];
  if (!group) {
    view.replaceChildren(make("p", { class: "problem" }, "The report has no such group."));
    return;
  }
  WIDTH = Math.max(320, Math.min(1180, byId("main").clientWidth - 52));
  const findings = report.findings.filter((each) => each.place === place);
  const bands = SEVERITIES.flatMap((name) => mergedBands(findings.filter((each) => each.severity === name), name));
  const missing = group.partitions - group.shown.length;
  const parts = [
    make("p", {}, make("a", { href: "#/groups" }, "← Groups")),
    make("h1", {}, group.name || "(no name)"),
    groupTiles(group),
  ];
  if (findings.length) parts.push(make("h2", {}, "Findings"), findingCards(findings));
  parts.push(make("h2", {}, "Lag over time"), ...lagSection(group, bands));
  const heat = group.shown.filter((row) => row[P.commit_points]).map((row) => ({
    name: partitionName(row), short: report.topics.length > 1 ? shortName(row) : `partition ${row[P.partition]}`, values: row[P.commit_points],
  }));
  if (heat.length) parts.push(make("h2", {}, "Commits over time, by partition"), ...heatMap(`Commits of ${group.name} over time, ${countText(group.commits)} in total`, heat));
  if (group.read_points && sum(group.read_points)) {
    const read = { name: `read in ${stepText()}`, values: group.read_points, look: "s0" };
    parts.push(make("h2", {}, `Records read over time, per ${stepText()}`), lineChart(`Records that ${group.name} read over time, ${countText(group.read)} in total`, [read], []));
  }
  if (group.rebalance_marks.length) {
    const count = `${countText(group.rebalances)} rebalances`;
    parts.push(make("h2", {}, "Members and rebalances"), rebalanceChart(`Members of ${group.name} over time, ${count}`, group.rebalance_marks));
    const left = group.rebalances - group.rebalance_marks.length;
    parts.push(make("p", { class: "quiet" }, left > 0 ? `The last ${group.rebalance_marks.length} of ${count}.` : `${count}.`, " Red marks: members left; green marks: members only joined."));
  }
  const skew = skewRows(group);
  if (skew.rows.length > 1) parts.push(make("h2", {}, `Distribution of work: records ${skew.what}`), bars(`Records ${skew.what} per partition of ${group.name}`, skew.rows));
  if (group.shown.length) parts.push(make("h2", {}, "Partitions"), make("p", { class: "quiet" }, SUMS), make("div", { class: "wide" }, partitionTable(group)));
  if (missing > 0) parts.push(make("p", { class: "quiet" }, `${countText(missing)} partitions with less lag are not shown.`));
  view.replaceChildren(...parts);
}

function shortName(row) {
  const name = partitionName(row);
  return name.length > 10 ? `…${name.slice(-9)}` : name;
}
