"use strict";

/* The table of samples. What it shows stands in the address: "#q=text&verdict=timeout&page=2". */

const TABLE = JSON.parse(document.getElementById("table").textContent);
const PAGE = 50; // rows
const STATUS = { passed: "passed", failed: "below full reward", lost: "lost to infrastructure" };
const NONE = "(none)"; // in place of an empty value, which an address does not keep
const TONE = { passed: "good", failed: "bad", lost: "warn" };
const COLUMNS = [
  { name: "problem", of: (row) => row.problem, cell: problemCell, class: "clip" },
  { name: "sample", of: (row) => row.sample, class: "num" },
  { name: "group", of: (row) => row.group, show: (row) => TABLE.groups[row.group], class: "wide-only" },
  { name: "verdict", of: (row) => row.verdict, cell: verdictCell },
  { name: "reward", of: (row) => row.reward ?? -Infinity, show: (row) => rewardOf(row), class: "num" },
  { name: "seconds", of: (row) => row.seconds, show: (row) => row.seconds.toFixed(2), class: "num wide-only" },
  { name: "detail", show: (row) => row.detail, class: "clip wide-only" },
].filter((column) => column.name !== "group" || TABLE.groups.length > 1);

const ROWS = TABLE.rows.map((told, place) => {
  const [prefix, rest, group, problem, sample, reward, verdict, seconds, detail, ...values] = told;
  const status = reward === null ? "lost" : reward >= 1 ? "passed" : "failed";
  const id = (TABLE.prefixes[prefix] + rest).toWellFormed(); // as addresses have it
  const searched = [id, TABLE.problems[problem], TABLE.verdicts[verdict], TABLE.groups[group], detail];
  const text = searched.join("\n").toWellFormed().toLowerCase();
  return { place, id, group, problem, sample, reward, verdict, seconds, detail, values, status, text };
});
const PLACES = new Map(ROWS.map((row) => [row.id, row.place]));

// What a filter compares: its name in the address, its label, its choices as [value, text].
const FILTERS = [
  { name: "status", label: "Status", choices: Object.entries(STATUS), of: (row) => row.status },
  { name: "verdict", label: "Verdict", choices: named(TABLE.verdicts), of: (row) => TABLE.verdicts[row.verdict] || NONE },
  { name: "group", label: "Group", choices: named(TABLE.groups), of: (row) => TABLE.groups[row.group].toWellFormed() },
  ...TABLE.keys.map((key, number) => ({
    name: `key.${key}`,
    label: visible(clipped(key, 60)),
    choices: named(TABLE.values[number]),
    of: (row) => TABLE.values[number][row.values[number]] || NONE,
  })),
].filter((filter) => filter.choices.length > 1);
const CHOICES = 200; // of one field: beyond, the search is faster
const FIELDS = FILTERS.filter((filter) => filter.choices.length <= CHOICES);

const search = document.getElementById("search");
const head = document.querySelector("#samples thead tr");
const body = document.querySelector("#samples tbody");
const dialog = document.getElementById("sample");
let state = new URLSearchParams();
let shown = ROWS; // what the filters leave, in order

function named(values) {
  return values.map((value) => [value || NONE, visible(value) || NONE]);
}

function rewardOf(row) {
  return row.reward === null ? "-" : String(Math.round(row.reward * 1000) / 1000);
}

/** The address with these changes; null takes a part away. */
function addressWith(changes) {
  const changed = new URLSearchParams(state);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") changed.delete(name);
    else changed.set(name, value);
  }
  return `#${changed}`;
}

/** Change what is shown without a step in the browser's history. */
function change(changes) {
  history.replaceState(null, "", addressWith(changes));
  show();
}

function problemCell(row) {
  const name = visible(TABLE.problems[row.problem] || row.id);
  return element("a", { href: addressWith({ sample: row.id }) }, name);
}

function verdictCell(row) {
  const name = TABLE.verdicts[row.verdict] || STATUS[row.status];
  return element("span", { class: `chip ${TONE[row.status]}` }, ...breakable(name));
}

function matching() {
  const words = (state.get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = FILTERS.filter((filter) => state.get(filter.name));
  return ROWS.filter(
    (row) =>
      words.every((word) => row.text.includes(word)) &&
      wanted.every((filter) => filter.of(row) === state.get(filter.name)),
  );
}

function sorted(rows) {
  const wanted = state.get("sort") || "";
  const column = COLUMNS.find((each) => each.of && each.name === wanted.replace(/^-/, ""));
  if (!column) return rows;
  const sign = wanted.startsWith("-") ? -1 : 1;
  const compare = (a, b) => (column.of(a) < column.of(b) ? -sign : column.of(a) > column.of(b) ? sign : a.place - b.place);
  return [...rows].sort(compare);
}

function rowElement(row) {
  const cells = COLUMNS.map((column) => {
    const content = column.cell ? column.cell(row) : visible(column.show ? column.show(row) : column.of(row));
    return element("td", { class: column.class || null }, content);
  });
  const open = (event) => event.target.closest("a") || location.assign(addressWith({ sample: row.id }));
  return element("tr", { onclick: open }, ...cells);
}

function showHead() {
  const [, sign, name] = /^(-?)(.*)$/.exec(state.get("sort") || "");
  head.replaceChildren(
    ...COLUMNS.map((column) => {
      if (!column.of) return element("th", { scope: "col", class: column.class || null }, column.name);
      const sort = name !== column.name ? "none" : sign ? "descending" : "ascending";
      const next = sort === "none" ? column.name : sort === "ascending" ? `-${column.name}` : null;
      const press = () => {
        change({ sort: next, page: null });
        head.querySelector(`[data-name="${column.name}"]`).focus();
      };
      const button = element("button", { type: "button", onclick: press, "data-name": column.name }, column.name);
      return element("th", { scope: "col", class: column.class || null, "aria-sort": sort }, button);
    }),
  );
}

function showPages(page, pages) {
  const to = (number) => () => {
    change({ page: number > 1 ? number : null });
    toTable();
  };
  const button = (text, number) =>
    element("button", { type: "button", onclick: to(number), disabled: number < 1 || number > pages }, text);
  document.getElementById("pages").replaceChildren(
    ...(pages > 1 ? [button("Previous", page - 1), `page ${page} of ${pages}`, button("Next", page + 1)] : []),
  );
}

function showTable() {
  shown = sorted(matching());
  const pages = Math.max(Math.ceil(shown.length / PAGE), 1);
  const page = Math.min(Math.max(parseInt(state.get("page") || "1", 10) || 1, 1), pages);
  const rows = shown.slice((page - 1) * PAGE, page * PAGE).map(rowElement);
  const nothing = element("td", { colspan: COLUMNS.length, class: "nothing" }, "No sample matches.");
  body.replaceChildren(...(rows.length ? rows : [element("tr", {}, nothing)]));
  const scored = shown.filter((row) => row.reward !== null);
  const rate = scored.length ? scored.filter((row) => row.status === "passed").length / scored.length : 0;
  const number = (count) => count.toLocaleString("en");
  const filtered = filters().length > 0;
  document.getElementById("count").textContent =
    `${filtered ? "Filtered: " : ""}${number(shown.length)} of ${number(ROWS.length)} samples` + (scored.length ? `, ${(rate * 100).toFixed(1)}% passed` : "");
  document.getElementById("reset").hidden = !filtered;
  document.querySelector(".filters summary").textContent = filtered ? `Filters: ${filters().length} on` : "Filters";
  showHead();
  showPages(page, pages);
}

/** What narrows the table down, by the names in the address. */
function filters() {
  return ["q", ...FILTERS.map((filter) => filter.name)].filter((name) => state.get(name));
}

function toTable() {
  document.getElementById("samples-title").scrollIntoView();
}

function showControls() {
  if (document.activeElement !== search) search.value = state.get("q") || "";
  for (const filter of FIELDS) filter.select.value = state.get(filter.name) || "";
}

async function showSample() {
  const id = state.get("sample");
  const row = ROWS[PLACES.get(id)];
  if (!row) {
    dialog.close();
    return;
  }
  const content = await bodyOf(row);
  if (state.get("sample") !== id) return; // another was asked for meanwhile
  const place = shown.indexOf(row);
  const step = (text, label, to) =>
    element("button", { type: "button", "aria-label": label, title: label, disabled: !to, "data-step": text, onclick: () => change({ sample: to.id }) }, text);
  const badges = element("div", { class: "badges" }, verdictCell(row),
    ...[`reward ${rewardOf(row)}`, `${row.seconds.toFixed(2)} s`, visible(TABLE.groups[row.group])].map((text) => element("span", { class: "chip" }, text)));
  const focused = document.activeElement?.dataset?.step;
  dialog.replaceChildren(
    element("div", { class: "sample-head" },
      element("div", { class: "line" },
        element("h2", { id: "sample-title" }, visible(TABLE.problems[row.problem] || row.id), element("span", { class: "muted" }, ` sample ${row.sample}`)),
        step("←", "Previous sample", place > 0 && shown[place - 1]),
        step("→", "Next sample", place >= 0 && shown[place + 1]),
        element("button", { type: "button", "aria-label": "Close", title: "Close", onclick: () => dialog.close() }, "✕")),
      element("p", { class: "sample-id" }, element("a", { href: addressWith({}), title: "Link to this sample" }, visible(row.id))),
      badges),
    content,
  );
  if (!dialog.open) {
    dialog.showModal();
    dialog.focus(); // so that the keys scroll
  }
  dialog.scrollTop = 0;
  if (focused) dialog.querySelector(`[data-step="${focused}"]`).focus();
}

function show() {
  const before = new URLSearchParams(state);
  state = new URLSearchParams(location.hash.slice(1));
  before.set("sample", "");
  const now = new URLSearchParams(state);
  now.set("sample", "");
  const changed = `${before}` !== `${now}`;
  if (changed || !head.children.length) {
    showControls();
    showTable();
  }
  showSample();
  return changed;
}

function setUp() {
  const controls = document.getElementById("controls");
  const fields = element("div", { class: "fields" });
  for (const filter of FIELDS) {
    const press = (event) => change({ [filter.name]: event.target.value, page: null });
    filter.select = element("select", { id: `filter-${filter.name}`, onchange: press },
      element("option", { value: "" }, "all"),
      ...filter.choices.map(([value, text]) => element("option", { value }, text)));
    const label = element("label", { for: filter.select.id }, filter.label);
    fields.append(element("div", { class: "field" }, label, filter.select));
  }
  const folded = element("details", { class: "filters" }, element("summary", {}, "Filters"), fields);
  const wide = matchMedia("(min-width: 48.01rem)"); // where page.css has no summary to fold them
  const fold = () => (folded.open = wide.matches);
  wide.addEventListener("change", fold);
  fold();
  controls.append(folded);
  const reset = () => {
    history.replaceState(null, "", "#");
    search.value = "";
    show();
  };
  controls.append(element("button", { type: "button", id: "reset", onclick: reset }, "Clear filters"));
  controls.addEventListener("submit", (event) => event.preventDefault());
  search.addEventListener("input", () => change({ q: search.value, page: null }));
  dialog.addEventListener("close", () => state.has("sample") && change({ sample: null }));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: "←", ArrowRight: "→" }[event.key];
    if (step && !event.target.closest("pre")) dialog.querySelector(`[data-step="${step}"]`).click();
  });
  addEventListener("hashchange", () => show() && toTable());
  for (const link of document.querySelectorAll("a.to-table")) link.addEventListener("click", toTable);
  show();
  if (state.size) toTable();
}

setUp();
