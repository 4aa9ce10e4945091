// Pictures and curves on canvases.

const SIDE = 384; // pixels along a picture: a multiple of 96, 64, 48, 32 points, so that each has as many
const NOTHING = [203, 213, 225]; // where there is no number

// Values (N, M) at points x, y, each pixel in the colour of the nearest point; x to the right, y upwards.
function drawImage(canvas, values, x, y, span, colours) {
  const [left, right] = reach(x), [bottom, top] = reach(y);
  const ratio = Math.min(3, Math.max(1 / 3, (top - bottom) / (right - left)));
  canvas.width = SIDE;
  canvas.height = Math.round(SIDE * ratio);
  const columns = pixels(x, left, right, canvas.width), rows = pixels(y, top, bottom, canvas.height);
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const scale = span[1] > span[0] ? 255 / (span[1] - span[0]) : 0;
  let at = 0;
  for (let row = 0; row < canvas.height; row++) {
    for (let column = 0; column < canvas.width; column++) {
      const value = values[columns[column] * y.length + rows[row]];
      const k = 3 * Math.min(255, Math.max(0, Math.round((value - span[0]) * scale)));
      const missing = Number.isNaN(value);
      for (let c = 0; c < 3; c++) image.data[at++] = missing ? NOTHING[c] : colours[k + c];
      image.data[at++] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}

// Which point each of so many pixels from one end to the other shows.
function pixels(points, from, to, count) {
  return Uint16Array.from({ length: count }, (_, k) => nearest(points, from + ((k + 0.5) / count) * (to - from)));
}

function drawBar(canvas, colours) {
  canvas.width = 256;
  canvas.height = 1;
  const context = canvas.getContext("2d");
  const image = context.createImageData(256, 1);
  for (let k = 0; k < 256; k++) {
    image.data.set([colours[3 * k], colours[3 * k + 1], colours[3 * k + 2], 255], 4 * k);
  }
  context.putImageData(image, 0, 0);
}

const MARGIN = { left: 52, right: 10, top: 8, bottom: 22 };

// Curves {values, colour, dash} over x with axes; a logarithmic one is given by the logarithms of its values.
function drawCurves(canvas, x, curves, span, logarithmic, height) {
  const width = Math.max(200, canvas.parentNode.clientWidth), sharp = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * sharp);
  canvas.height = Math.round(height * sharp);
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.scale(sharp, sharp);
  const across = [x[0], x[x.length - 1]];
  const place = (value, [low, high], from, to) => from + ((value - low) / (high - low || 1)) * (to - from);
  const px = (value) => place(value, across, MARGIN.left, width - MARGIN.right);
  const py = (value) => place(value, span, height - MARGIN.bottom, MARGIN.top);
  drawAxes(context, px, py, across, span, logarithmic, width, height);
  context.save();
  context.beginPath();
  context.rect(MARGIN.left, 0, width - MARGIN.left - MARGIN.right, height - MARGIN.bottom + 1);
  context.clip();
  for (const curve of curves) drawCurve(context, x, curve, px, py);
  context.restore();
}

function drawCurve(context, x, curve, px, py) {
  context.strokeStyle = context.fillStyle = curve.colour;
  context.lineWidth = 1.6;
  context.lineJoin = "round";
  context.setLineDash(curve.dash || []);
  context.beginPath();
  let drawing = false;
  curve.values.forEach((value, k) => {
    if (Number.isFinite(value)) {
      if (drawing) context.lineTo(px(x[k]), py(value)); else context.moveTo(px(x[k]), py(value));
    }
    drawing = Number.isFinite(value);
  });
  context.stroke();
  context.setLineDash([]);
  if (!curve.marked) return;
  curve.values.forEach((value, k) => {
    if (Number.isFinite(value)) context.fillRect(px(x[k]) - 1.5, py(value) - 1.5, 3, 3);
  });
}

function drawAxes(context, px, py, across, span, logarithmic, width, height) {
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = "#475569";
  context.strokeStyle = "#e2e8f0";
  context.lineWidth = 1;
  context.textAlign = "right";
  context.textBaseline = "middle";
  const levels = logarithmic ? decades(span) : ticks(span, 5);
  for (const level of levels) {
    line(context, MARGIN.left, py(level), width - MARGIN.right, py(level));
    const text = logarithmic ? "1e" + level : short(level, 4);
    context.fillText(text, MARGIN.left - 6, py(level));
  }
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const value of ticks(across, Math.max(2, width / 110))) {
    line(context, px(value), height - MARGIN.bottom, px(value), height - MARGIN.bottom + 4);
    context.fillText(short(value, 4), Math.min(px(value), width - 14), height - MARGIN.bottom + 7);
  }
}

function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5);
  context.lineTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
  context.stroke();
}

// About so many multiples of 1, 2 or 5 times a power of ten.
function ticks([low, high], count) {
  if (!(high > low)) return [low];
  const raw = (high - low) / count, power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k === 0 ? 0 : k * step);
  return found;
}

function decades([low, high]) {
  const step = Math.max(1, Math.ceil((high - low) / 5)), found = [];
  for (let k = Math.ceil(low); k <= high; k++) if (k % step === 0) found.push(k);
  return found;
}
