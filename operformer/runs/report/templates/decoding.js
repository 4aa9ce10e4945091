// Functions from the text that encoding.py makes of them.

function bytesOf(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let k = 0; k < raw.length; k++) bytes[k] = raw.charCodeAt(k);
  return bytes;
}

function decodeAxis(text) {
  return new Float32Array(bytesOf(text).buffer);
}

// v = lowest + code / 65534 (highest - lowest); 65535 is no number.
function decodeValues(picture) {
  const lowest = picture[0], step = (picture[1] - picture[0]) / 65534;
  const codes = new Uint16Array(bytesOf(picture[2]).buffer);
  return Float64Array.from(codes, (code) => (code === 65535 ? NaN : lowest + code * step));
}

// log10 |e| = lowest + (code - 1) / 32766 (highest - lowest), bit 15 is the sign; 0 is zero, the sign alone no number.
function decodeErrors(picture) {
  const lowest = picture[0], step = (picture[1] - picture[0]) / 32766;
  const codes = new Uint16Array(bytesOf(picture[2]).buffer);
  return Float64Array.from(codes, (code) => {
    if (code === 0) return 0;
    if (code === 32768) return NaN;
    const size = Math.pow(10, lowest + ((code & 32767) - 1) * step);
    return code > 32768 ? -size : size;
  });
}

// The place of the nearest of sorted points.
function nearest(points, value) {
  let low = 0, high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle] <= value) low = middle; else high = middle;
  }
  return value - points[low] <= points[high] - value ? low : high;
}

// What the points stand for together: half a step beyond the first and the last.
function reach(points) {
  const last = points.length - 1;
  if (last === 0) return [points[0] - 0.5, points[0] + 0.5];
  return [points[0] - (points[1] - points[0]) / 2, points[last] + (points[last] - points[last - 1]) / 2];
}

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [0, 0];
}

// A number in a few characters.
function short(value, digits) {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return "no number";
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e5) return String(Number(value.toPrecision(digits || 3)));
  return value.toExponential((digits || 3) - 1);
}
