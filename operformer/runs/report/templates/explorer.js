// What is shown: a problem, a sample, its channels, and one or two operators, each on a grid of its choice.

const root = document.getElementById("explorer");
const data = JSON.parse(document.getElementById("explorer-data").textContent);
const colours = { value: bytesOf(data.colours.viridis), error: bytesOf(data.colours.magma) };
const DECADES = 4; // of errors in a picture
const PREFIX = "#explore&";
const state = { problem: "", draw: 0, input: 0, channel: 0, steady: true, active: 0, rows: [] };
state.rows.push({ operator: "", grid: "1x" });
const rows = [];
let remark = "";

const control = (name, within) => (within || root).querySelector(`[name=${name}]`);
const part = (name, within) => (within || root).querySelector(`[data-of=${name}]`);
const named = (list, name) => list.find((item) => item.name === name);
const problemShown = () => named(data.problems, state.problem);
const operatorOf = (row) => named(problemShown().operators, row.operator);
const viewOf = (row) => operatorOf(row).views[row.grid];
const sampleOf = (row) => viewOf(row).samples.find((sample) => sample.draw === state.draw);
const gridName = (label) => problemShown().grids.find((grid) => grid.label === label).name;

// Make the state one that can be shown, and say what had to give way.
function settle() {
  remark = "";
  if (!problemShown()) state.problem = data.problems[0].name;
  const able = problemShown().operators.filter((operator) => Object.keys(operator.views).length);
  state.rows.forEach((row, k) => {
    if (!named(able, row.operator)) row.operator = able[Math.min(k, able.length - 1)].name;
    const views = operatorOf(row).views;
    if (Object.hasOwn(views, row.grid)) return;
    const absent = operatorOf(row).absent, instead = views["1x"] ? "1x" : Object.keys(views)[0];
    if (Object.hasOwn(absent, row.grid)) {
      const [wanted, found] = [row.grid, instead].map(gridName);
      remark = `${row.operator} is not shown on the ${wanted} (${absent[row.grid]}), but on the ${found}.`;
    }
    row.grid = instead;
  });
  state.active = Math.min(state.active, state.rows.length - 1);
  if (!sampleOf(state.rows[0])) state.draw = viewOf(state.rows[0]).samples[0].draw;
  if (!(state.input < problemShown().inputs.length)) state.input = 0;
  if (!(state.channel < problemShown().outputs.length)) state.channel = 0;
}

function change(update) {
  update();
  settle();
  show();
  keepAddress();
}

function show() {
  const problem = problemShown();
  fill(control("problem"), data.problems.map((item) => ({ value: item.name, text: item.name })), state.problem);
  for (const [name, list] of [["input", problem.inputs], ["channel", problem.outputs]]) {
    fill(control(name), list.map((text, k) => ({ value: String(k), text })), String(state[name]));
    control(name).parentNode.hidden = list.length < 2;
  }
  control("second").checked = state.rows.length > 1;
  control("steady").checked = state.steady;
  part("status").textContent = remark;
  showSamples();
  state.rows.forEach((_, k) => rows[k] || rows.push(makeRow(k)));
  rows.forEach((row, k) => { row.element.hidden = k >= state.rows.length; });
  showRows();
  showMatrix();
}

// Choices of a <select>, made anew only where they differ, since that would close it under the reader's hand.
function fill(select, choices, value) {
  const signature = JSON.stringify(choices);
  if (select.dataset.signature !== signature) {
    select.replaceChildren(...choices.map((choice) => {
      const option = new Option(choice.text, choice.value);
      option.disabled = Boolean(choice.disabled);
      return option;
    }));
    select.dataset.signature = signature;
  }
  select.value = value;
}

function showSamples() {
  const samples = viewOf(state.rows[0]).samples, place = part("sample");
  while (place.children.length > samples.length) place.lastChild.remove();
  while (place.children.length < samples.length) {
    const k = place.children.length;
    place.append(makeElement("button", { type: "button", textContent: String(k + 1) }));
    const take = () => { state.draw = viewOf(state.rows[0]).samples[k].draw; };
    place.lastChild.addEventListener("click", () => change(take));
  }
  samples.forEach((sample, k) => {
    const button = place.children[k];
    button.title = `draw ${sample.draw} of the test set`;
    button.setAttribute("aria-label", `sample ${k + 1}, draw ${sample.draw}`);
    button.setAttribute("aria-pressed", String(sample.draw === state.draw));
  });
}

function step(by) {
  const samples = viewOf(state.rows[0]).samples;
  const at = samples.findIndex((sample) => sample.draw === state.draw);
  change(() => { state.draw = samples[(at + by + samples.length) % samples.length].draw; });
}

function makeElement(tag, properties) {
  return Object.assign(document.createElement(tag), properties);
}

function makeRow(k) {
  const element = root.querySelector("template").content.firstElementChild.cloneNode(true);
  element.classList.add(k ? "second" : "first");
  const chosen = (name, value) => change(() => { state.active = k; state.rows[k][name] = value; });
  control("operator", element).addEventListener("change", (event) => chosen("operator", event.target.value));
  control("grid", element).addEventListener("change", (event) => chosen("grid", event.target.value));
  part("rows").append(element);
  return { element, plots: null, dimension: 0, functions: null };
}

// Operators by grids; a choice of the row that was changed last.
function showMatrix() {
  const problem = problemShown(), table = root.querySelector(".matrix");
  if (table.dataset.problem !== problem.name) makeMatrix(table, problem);
  table.dataset.problem = problem.name;
  for (const button of table.querySelectorAll("button")) {
    const operator = problem.operators[button.dataset.operator], label = button.dataset.grid;
    const sample = operator.views[label] && operator.views[label].samples.find((item) => item.draw === state.draw);
    const at = state.rows.findIndex((row) => row.operator === operator.name && row.grid === label);
    button.textContent = sample ? sample.error : "–";
    button.disabled = !sample;
    button.title = sample ? "" : operator.absent[label] || "this sample was not kept";
    button.setAttribute("aria-label", `${operator.name}, ${gridName(label)}: ${sample ? sample.error : button.title}`);
    button.setAttribute("aria-pressed", String(at >= 0));
    button.className = at === 1 ? "second" : "";
  }
}

function makeMatrix(table, problem) {
  const header = makeElement("tr");
  header.append(makeElement("th", { textContent: "operator", scope: "col" }));
  for (const { short: textContent, name: title } of problem.grids) {
    header.append(makeElement("th", { textContent, title, scope: "col" }));
  }
  const body = problem.operators.map((operator, number) => {
    const line = makeElement("tr");
    line.append(makeElement("th", { textContent: operator.name, scope: "row" }));
    for (const grid of problem.grids) {
      const button = makeElement("button", { type: "button" });
      Object.assign(button.dataset, { operator: number, grid: grid.label });
      button.addEventListener("click", () => change(() => {
        state.rows[state.active] = { operator: operator.name, grid: grid.label };
      }));
      line.insertCell().append(button);
    }
    return line;
  });
  table.tHead.replaceChildren(header);
  table.tBodies[0].replaceChildren(...body);
  part("absent").replaceChildren(...problem.operators.flatMap((operator) => reasons(problem, operator)));
}

// One line for all grids that an operator lacks for the same reason.
function reasons(problem, operator) {
  const found = new Map();
  for (const grid of problem.grids) {
    const reason = operator.absent[grid.label];
    if (reason) found.set(reason, [...(found.get(reason) || []), grid.name]);
  }
  const texts = [...found].map(([reason, grids]) => `${operator.name}, ${grids.join(", ")}: ${reason}`);
  return texts.map((textContent) => makeElement("li", { textContent }));
}

// The address holds what is shown. Browsers refuse addresses that change many times a second, hence the pause.
let waiting = 0;
function keepAddress() {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    const { problem, draw: sample, input, channel } = state;
    const words = new URLSearchParams({ problem, sample, input, channel });
    state.rows.forEach((row, k) => {
      words.set("operator" + (k || ""), row.operator);
      words.set("grid" + (k || ""), row.grid);
    });
    if (!state.steady) words.set("scale", "own");
    history.replaceState(null, "", PREFIX + words);
  }, 200);
}

function readAddress() {
  if (!location.hash.startsWith(PREFIX)) return false;
  const words = new URLSearchParams(location.hash.slice(PREFIX.length));
  const number = (name) => Math.max(0, Math.trunc(Number(words.get(name))) || 0);
  state.problem = words.get("problem") || "";
  Object.assign(state, { draw: number("sample"), input: number("input"), channel: number("channel"), active: 0 });
  state.steady = words.get("scale") !== "own";
  state.rows = ["", "1"].filter((k) => !k || words.has("operator1"))
    .map((k) => ({ operator: words.get("operator" + k) || "", grid: words.get("grid" + k) || "1x" }));
  return true;
}

function visit() {
  if (!readAddress()) return;
  settle();
  show();
  root.scrollIntoView();
}

function onKey(event) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (event.target.closest && event.target.closest("select, input, textarea, .scroll")) return;
  const place = root.getBoundingClientRect();
  if (place.bottom < 0 || place.top > window.innerHeight) return;
  event.preventDefault();
  step(by);
}

// A second row: another operator on the same grid, where there is one.
function compare(wanted) {
  const first = state.rows[0];
  const others = problemShown().operators.filter(({ name, views }) => name !== first.operator && views[first.grid]);
  const operator = others.length ? others[0].name : first.operator;
  state.rows = wanted ? [first, { operator, grid: first.grid }] : [first];
  state.active = state.rows.length - 1;
}

function start() {
  control("problem").addEventListener("change", (event) => change(() => { state.problem = event.target.value; }));
  for (const name of ["input", "channel"]) {
    control(name).addEventListener("change", (event) => change(() => { state[name] = Number(event.target.value); }));
  }
  control("steady").addEventListener("change", (event) => change(() => { state.steady = event.target.checked; }));
  control("second").addEventListener("change", (event) => change(() => compare(event.target.checked)));
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", visit);
  window.addEventListener("resize", showRows);
  root.querySelector(".panel").hidden = false;
  const linked = readAddress();
  settle();
  show();
  if (linked) root.scrollIntoView();
}

start();
