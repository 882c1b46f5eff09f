// Worker, last part: the data of the page -> arrays as the GPU takes them. The layout is described in pack.py.
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
  const bounds = new DataView(data.buffer, 0, 24 * Math.ceil(n / CHUNK));
  let next = bounds.byteLength;
  const planes = count => Array.from({ length: count }, () => data.subarray(next, next += n));
  const low = planes(3), high = planes(3), [s0, s1, s2] = planes(3), [x, y, z] = planes(3), [opacity] = planes(1), color = planes(3), rest = planes(3 * coefficients);

  const positions = new Float32Array(3 * n), places = new Uint32Array(4 * texels), coordinates = new Float32Array(places.buffer);
  for (let k = 0; k < 3; k++) {
    const fine = low[k], coarse = high[k];
    for (let start = 0; start < n; start += CHUNK) {
      const at = 24 * start / CHUNK + 4 * k, from = bounds.getFloat32(at, true), step = (bounds.getFloat32(at + 12, true) - from) / POSITION_STEPS;
      for (let i = start, end = Math.min(start + CHUNK, n); i < end; i++) {
        positions[3 * i + k] = coordinates[4 * i + k] = from + step * (fine[i] + 256 * coarse[i]);
      }
    }
  }
  interleave(color, places, 3, 4, opacity);

  const shapes = new Uint32Array(2 * texels), reach = new Float32Array(n);
  const reaches = Float32Array.from({ length: 256 }, (_, byte) => 3.33 * Math.exp(header.scale[0] + byte * (header.scale[1] - header.scale[0]) / 255));  // sqrt(2 ln 255) sigma
  for (let i = 0; i < n; i++) {
    const a = s0[i], b = s1[i], c = s2[i];
    shapes[2 * i] = a << 2 | b << 12 | c << 22;
    shapes[2 * i + 1] = x[i] | y[i] << 8 | z[i] << 16;
    reach[i] = reaches[a > b ? a > c ? a : c : b > c ? b : c];
  }

  const sh = Array.from({ length: Math.ceil(coefficients / 4) }, () => new Uint32Array(4 * texels));
  for (let c = 0; c < coefficients; c++) interleave(rest.slice(3 * c, 3 * c + 3), sh[c >> 2], c & 3, 4);
  return { places, shapes, sh, positions, reach };
}

// Red, green and blue, the first and last of which are stored less green, into the words first, first + stride, ...; with a fourth plane into their top bytes.
function interleave([red, green, blue], words, first, stride, top = null) {
  for (let i = 0, at = first; i < green.length; i++, at += stride) {
    const g = green[i];
    words[at] = red[i] + g & 255 | g << 8 | (blue[i] + g & 255) << 16 | (top ? top[i] << 24 : 0);
  }
}

onmessage = async ({ data }) => {
  try {
    if (data.header) {
      postMessage({ unpacking: true });
      const header = checked(data.header), found = arrays(header, await inflate(fromBase64(data.text), header.bytes));
      ({ positions, reach } = found);
      depths = new Float32Array(reach.length);
      seen = new Uint32Array(reach.length);
      keys = new Uint16Array(reach.length);
      const { places, shapes, sh } = found;
      postMessage({ places, shapes, sh }, [places.buffer, shapes.buffer, ...sh.map(words => words.buffer)]);
    } else {
      const order = data.order.length ? data.order : new Uint32Array(Math.ceil(reach.length / WIDTH) * WIDTH), began = performance.now();
      const count = sort(data, order);
      postMessage({ order, count, ms: performance.now() - began }, [order.buffer]);
    }
  } catch (error) {
    postMessage({ error: error.message });
  }
};
