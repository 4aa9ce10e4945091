// One operator on one grid: input, truth, prediction and error, as pictures or as curves, and their values at a point.

let pointed = null; // [x] or [x, y] that the reader points at

function showRows() {
  const shown = state.rows.map((choice, k) => readRow(rows[k], choice));
  const scales = commonScales(shown.filter(Boolean));
  part("rows").classList.toggle("beside", shown.length > 1 && viewOf(state.rows[0]).axes.length === 1);
  state.rows.forEach((choice, k) => {
    describeRow(rows[k], choice);
    if (shown[k]) drawRow(rows[k], choice, scales);
  });
  showPoint();
}

// The functions of a row, or null where this sample was not kept.
function readRow(row, choice) {
  const sample = sampleOf(choice), view = viewOf(choice);
  row.functions = null;
  if (!sample) return null;
  const numbers = [sample.u[state.input], sample.z[state.channel], sample.e[state.channel]];
  const [input, truth, off] = numbers.map((k) => data.pictures[k]);
  const values = { input: decodeValues(input), truth: decodeValues(truth), error: decodeErrors(off) };
  values.prediction = values.truth.map((value, k) => value + values.error[k]);
  row.functions = { values, axes: view.axes.map((k) => decodeAxis(data.axes[k])), spans: { input, truth, error: off } };
  return row.functions;
}

// Rows that stand one above the other share their colours and axes.
function commonScales(shown) {
  const join = (name) => extent(shown.flatMap((row) => row.spans[name].slice(0, 2)));
  let highest = Math.max(...(state.steady ? everyHighest() : shown.map((row) => row.spans.error[1])));
  if (highest < -200) highest = -12; // no error at all
  const truth = join("truth");
  return { input: join("input"), truth, output: joinOutputs(shown, truth), error: [highest - DECADES, highest] };
}

// Truth and predictions together; predictions that run away do not take the truth out of sight.
function joinOutputs(shown, [low, high]) {
  const [lowest, highest] = extent([low, high, ...shown.flatMap((row) => extent(row.values.prediction))]);
  return [Math.max(lowest, 2 * low - high), Math.min(highest, 2 * high - low)];
}

// log10 of the largest error in each sample of the problem.
function everyHighest() {
  const views = problemShown().operators.flatMap((operator) => Object.values(operator.views));
  return views.flatMap((view) => view.samples.map((sample) => data.pictures[sample.e[state.channel]][1]));
}

function describeRow(row, choice) {
  const problem = problemShown(), operator = operatorOf(choice), sample = sampleOf(choice);
  const operators = problem.operators.map(({ name, views }) => (
    { value: name, text: name, disabled: !Object.keys(views).length }));
  const grids = problem.grids.map(({ label, name }) => {
    const reason = operator.absent[label];
    return { value: label, text: reason ? `${name} (${reason})` : name, disabled: Boolean(reason) };
  });
  fill(control("operator", row.element), operators, choice.operator);
  fill(control("grid", row.element), grids, choice.grid);
  const error = sample ? `relative L2 error ${sample.error}` : "this sample was not kept here";
  part("error", row.element).textContent = error;
  part("size", row.element).textContent = viewOf(choice).size;
  row.element.querySelector(".pictures").hidden = !sample;
}

function drawRow(row, choice, scales) {
  const { axes, values } = row.functions;
  if (row.dimension !== axes.length) makePlots(row, axes.length);
  const problem = problemShown(), where = `${choice.operator} on the ${gridName(choice.grid)}`;
  const input = problem.inputs[state.input], output = problem.outputs[state.channel];
  const titles = { input: `input, ${input}`, truth: `truth, ${output}`, prediction: "prediction" };
  titles.error = "error, log scale";
  const logarithms = values.error.map((value) => Math.log10(Math.max(Math.abs(value), 1e-300)));
  if (axes.length === 1) drawOverLine(row, axes[0], values, logarithms, scales, titles);
  else drawOverRectangle(row, axes, values, logarithms, scales, titles);
  for (const [name, plot] of Object.entries(row.plots)) {
    plot.canvas.setAttribute("aria-label", `${titles[name]}; ${output} by ${where}`);
  }
}

function drawOverRectangle(row, [x, y], values, logarithms, scales, titles) {
  for (const name of ["input", "truth", "prediction", "error"]) {
    const plot = row.plots[name], isError = name === "error";
    const span = isError ? scales.error : name === "input" ? scales.input : scales.truth;
    plot.title.textContent = titles[name];
    drawImage(plot.canvas, isError ? logarithms : values[name], x, y, span, isError ? colours.error : colours.value);
    drawBar(plot.bar, isError ? colours.error : colours.value);
    const text = (value) => (isError ? short(Math.pow(10, value), 2) : short(value));
    plot.ends.replaceChildren(...[0, 0.5, 1].map((share) =>
      makeElement("span", { textContent: text(span[0] + share * (span[1] - span[0])) })));
  }
}

function drawOverLine(row, x, values, logarithms, scales, titles) {
  const marked = 4 * x.length < row.element.clientWidth && isUneven(x);
  const curve = (name, numbers, dash) => ({ values: numbers, colour: data.ink[name], dash, marked });
  row.plots.input.title.textContent = titles.input;
  row.plots.truth.title.replaceChildren(legend("truth", titles.truth), " ", legend("prediction", "prediction"));
  row.plots.error.title.textContent = titles.error;
  drawCurves(row.plots.input.canvas, x, [curve("input", values.input)], wider(scales.input), false, 150);
  const curves = [curve("truth", values.truth), curve("prediction", values.prediction, [5, 4])];
  drawCurves(row.plots.truth.canvas, x, curves, wider(scales.output), false, 220);
  const span = [scales.error[0], scales.error[1] + 0.2];
  drawCurves(row.plots.error.canvas, x, [curve("error", logarithms)], span, true, 150);
}

function legend(name, text) {
  const element = makeElement("span", { className: `legend ${name}`, textContent: text });
  element.style.setProperty("--ink-of", data.ink[name]);
  return element;
}

function isUneven(x) {
  const steps = Array.from(x.slice(1), (value, k) => value - x[k]);
  const [shortest, longest] = extent(steps);
  return longest > 1.01 * shortest;
}

function wider([low, high]) {
  const more = 0.05 * (high - low) || 0.05 * Math.abs(high) || 1;
  return [low - more, high + more];
}

function makePlots(row, dimension) {
  const names = dimension === 1 ? ["input", "truth", "error"] : ["input", "truth", "prediction", "error"];
  const place = row.element.querySelector(".pictures");
  place.className = dimension === 1 ? "pictures curves" : "pictures images";
  row.plots = Object.fromEntries(names.map((name) => [name, makePlot(row, dimension)]));
  row.dimension = dimension;
  place.replaceChildren(...names.map((name) => Object.assign(row.plots[name].element, { className: `plot ${name}` })));
}

function makePlot(row, dimension) {
  const element = makeElement("div"), frame = makeElement("div", { className: "frame" });
  const plot = { element, title: makeElement("p", { className: "title" }), canvas: makeElement("canvas") };
  plot.mark = makeElement("i", { className: "mark", hidden: true });
  plot.canvas.setAttribute("role", "img");
  frame.append(plot.canvas, plot.mark);
  element.append(plot.title, frame);
  if (dimension === 2) {
    plot.bar = makeElement("canvas", { className: "bar" });
    plot.ends = makeElement("div", { className: "ends" });
    plot.bar.setAttribute("aria-hidden", "true");
    element.append(plot.bar, plot.ends);
  }
  const point = (event) => { pointed = pointAt(row, plot.canvas, event); showPoint(); };
  plot.canvas.addEventListener("pointermove", point);
  plot.canvas.addEventListener("pointerdown", point);
  plot.canvas.addEventListener("pointerleave", () => { pointed = null; showPoint(); });
  return plot;
}

function pointAt(row, canvas, event) {
  const place = canvas.getBoundingClientRect(), [x, y] = row.functions.axes;
  const across = (event.clientX - place.left) / place.width, down = (event.clientY - place.top) / place.height;
  if (!y) {
    const share = (across * place.width - MARGIN.left) / (place.width - MARGIN.left - MARGIN.right);
    return [x[0] + Math.min(1, Math.max(0, share)) * (x[x.length - 1] - x[0])];
  }
  const [left, right] = reach(x), [bottom, top] = reach(y);
  return [left + across * (right - left), top - down * (top - bottom)];
}

// The values of each row at the point of its grid that is nearest to where the reader points.
function showPoint() {
  for (const row of rows) {
    const readable = row.functions && !row.element.hidden && (!pointed || pointed.length === row.functions.axes.length);
    const found = readable && pointed ? row.functions.axes.map((axis, d) => nearest(axis, pointed[d])) : null;
    if (row.plots) for (const plot of Object.values(row.plots)) placeMark(plot, row.functions, found);
    const hint = readable ? "Point at a picture to read its values." : "";
    part("readout", row.element).textContent = found ? readout(row.functions, found) : hint;
  }
}

function readout({ axes, values }, at) {
  const k = at.length === 1 ? at[0] : at[0] * axes[1].length + at[1];
  const where = at.map((place, d) => short(axes[d][place])).join(", ");
  const numbers = ["input", "truth", "prediction"].map((name) => `${name} ${short(values[name][k], 4)}`).join(", ");
  return `at (${where}): ${numbers}, error ${short(values.error[k], 3)}`;
}

function placeMark(plot, functions, at) {
  plot.mark.hidden = !at;
  if (!at) return;
  const [x, y] = functions.axes;
  if (!y) {
    const share = (x[at[0]] - x[0]) / (x[x.length - 1] - x[0] || 1);
    plot.mark.style.left = `${MARGIN.left + share * (plot.canvas.clientWidth - MARGIN.left - MARGIN.right)}px`;
    return;
  }
  const [left, right] = reach(x), [bottom, top] = reach(y);
  plot.mark.style.left = `${(100 * (x[at[0]] - left)) / (right - left)}%`;
  plot.mark.style.top = `${(100 * (top - y[at[1]])) / (top - bottom)}%`;
}
