// Worker, first half: the data of the page -> arrays as the GPU takes them. The layout is described in pack.py.
"use strict";

const CHUNK = 256, POSITION_STEPS = 2 ** 14 - 1, WIDTH = 2048;  // WIDTH: texels of a row of every texture
const MOST_SPLATS = WIDTH * 2048;

function fail(what) { throw new Error(`the scene inside this page is damaged: ${what}`); }

// The header, whose numbers sizes follow from. Throws where one is not what the exporter can have written.
function checked(header) {
  const { splats, degree, scale, color, sh, bytes } = header;
  const finite = (list, n) => Array.isArray(list) && list.length === n && list.every(Number.isFinite);
  if (!Number.isInteger(splats) || splats < 1 || splats > MOST_SPLATS) fail("number of splats");
  if (![0, 1, 2, 3].includes(degree)) fail("degree of colour");
  if (!finite(scale, 2) || !finite(color, 2) || !finite(sh, degree)) fail("ends of a range");
  if (bytes !== 24 * Math.ceil(splats / CHUNK) + splats * (16 + 3 * ((degree + 1) ** 2 - 1))) fail("number of bytes");
  return header;
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const characters = atob(text), out = new Uint8Array(characters.length);
  for (let i = 0; i < out.length; i++) out[i] = characters.charCodeAt(i);
  return out;
}

// Exactly `size` bytes, or an error: a stream that grows beyond is left where it is.
async function inflate(compressed, size) {
  const out = new Uint8Array(size), reader = new Blob([compressed]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
  let at = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    if (at + value.length > size) fail("more data than announced");
    out.set(value, at);
    at += value.length;
  }
  if (at !== size) fail("less data than announced");
  return out;
}

// {places, shapes, sh: textures of WIDTH texels a row; positions: x, y, z; reach: world units from a mean within which its splat can be seen}
function arrays(header, data) {
  const n = header.splats, texels = Math.ceil(n / WIDTH) * WIDTH, coefficients = (header.degree + 1) ** 2 - 1;
  const chunks = Math.ceil(n / CHUNK), bounds = new DataView(data.buffer, 0, 24 * chunks);
  let next = 24 * chunks;
  const planes = count => Array.from({ length: count }, () => data.subarray(next, next += n));
  const low = planes(3), high = planes(3), scale = planes(3), turn = planes(3), [opacity] = planes(1), color = planes(3), rest = planes(3 * coefficients);
  const rgb = ([r, g, b], i) => (r[i] + g[i] & 255) | g[i] << 8 | (b[i] + g[i] & 255) << 16;

  const positions = new Float32Array(3 * n), reach = new Float32Array(n);
  const places = new Uint32Array(4 * texels), coordinates = new Float32Array(places.buffer), shapes = new Uint32Array(2 * texels);
  const size = (header.scale[1] - header.scale[0]) / 255;
  for (let i = 0; i < n; i++) {
    const chunk = 24 * Math.floor(i / CHUNK);
    for (let k = 0; k < 3; k++) {
      const from = bounds.getFloat32(chunk + 4 * k, true), to = bounds.getFloat32(chunk + 12 + 4 * k, true);
      positions[3 * i + k] = coordinates[4 * i + k] = from + (to - from) * (low[k][i] + 256 * high[k][i]) / POSITION_STEPS;
    }
    places[4 * i + 3] = rgb(color, i) | opacity[i] << 24;
    shapes[2 * i] = scale[0][i] | scale[1][i] << 8 | scale[2][i] << 16;
    shapes[2 * i + 1] = turn[0][i] | turn[1][i] << 8 | turn[2][i] << 16;
    reach[i] = 3.33 * Math.exp(header.scale[0] + size * Math.max(scale[0][i], scale[1][i], scale[2][i]));  // sqrt(2 ln 255) sigma
  }

  const sh = Array.from({ length: Math.ceil(coefficients / 4) }, () => new Uint32Array(4 * texels));
  for (let c = 0; c < coefficients; c++) {
    const words = sh[c >> 2], of = rest.slice(3 * c, 3 * c + 3);
    for (let i = 0; i < n; i++) words[4 * i + (c & 3)] = rgb(of, i);
  }
  return { places, shapes, sh, positions, reach };
}
