// The list of findings, the most urgent first, with the evidence of each.
const findingsList = { text: "", kind: "", page: 0 };
const findingWords = report.findings.map((each) =>
  [each.kind, each.group, each.topic || "", each.text, each.severity].join("\n").toLowerCase(),
);

function evidenceText(finding) {
  const told = Object.entries(finding.evidence).filter(([, value]) => value !== null);
  return told.map(([name, value]) => {
    const isTime = name.endsWith("_ms") && value > 1e12;
    return `${name.replaceAll("_", " ")}: ${isTime ? `${timeText(value)} UTC` : typeof value === "number" ? countSmall(value) : value}`;
  }).join(" · ");
}

const countSmall = (number) => (Number.isInteger(number) ? countText(number) : String(Number(number.toPrecision(3))));

function findingCard(finding, withGroup) {
  const last = finding.last_ms === null ? "ongoing" : `until ${timeText(finding.last_ms)}`;
  const head = make("p", {}, make("span", { class: `badge ${finding.severity}` }, finding.severity), make("span", { class: "kind" }, finding.kind));
  if (withGroup) {
    const name = finding.group;
    head.append(" in ", finding.place === null ? make("bdi", {}, name) : make("a", { href: `#/group/${finding.place}` }, name));
  }
  return make(
    "div",
    { class: `finding ${finding.severity}` },
    head,
    make("p", {}, finding.text),
    finding.advice ? make("p", { class: "quiet" }, finding.advice) : null,
    make("p", { class: "quiet" }, `from ${timeText(finding.first_ms)} UTC, ${last}`),
    make("p", { class: "quiet" }, make("code", {}, evidenceText(finding))),
  );
}

function headFindings() {
  const select = byId("findings-kind");
  const total = Object.values(report.totals.findings).reduce((all, each) => all + each, 0);
  select.append(make("option", { value: "" }, `all kinds (${countText(total)})`));
  for (const [kind, count] of Object.entries(report.totals.findings)) {
    select.append(make("option", { value: kind }, `${kind} (${countText(count)})`));
  }
}

function showFindings() {
  const words = findingsList.text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = report.findings.filter(
    (each, place) => (!findingsList.kind || each.kind === findingsList.kind) && words.every((word) => findingWords[place].includes(word)),
  );
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  findingsList.page = Math.max(0, Math.min(findingsList.page, pages - 1));
  const cards = rows.slice(findingsList.page * PAGE, (findingsList.page + 1) * PAGE).map((each) => findingCard(each, true));
  const nothing = report.findings.length ? "No finding matches the filter." : "No findings.";
  byId("findings").replaceChildren(...(cards.length ? cards : [make("p", { class: "quiet" }, nothing)]));
  const left = report.findings_left_out ? `; ${countText(report.findings_left_out)} less urgent ones are in the lake only` : "";
  byId("findings-count").textContent = `${countText(rows.length)} of ${countText(report.findings.length)} findings${left}`;
  pager(byId("findings-pager"), findingsList, pages, showFindings);
}
