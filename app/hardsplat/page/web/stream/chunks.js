// Worker: SOG chunks from the network -> splats as the painter takes them. The ranges of scales, colours and SH are the same for all chunks.
"use strict";

const WIDTH = 2048, SLOT = 256;  // texels of a row of the textures, and of the pieces that runs of splats are stored in
const SCALES = [-20, 12], COLORS = [-2, 3], SH_STEP = 1 / 64, C0 = 0.28209479177387814;
const MOST_META = 1 << 20, PER_SPLAT = 64, CHANNEL_FILES = { means: 2, scales: 1, quats: 1, sh0: 1, shN: 2 };
let received = 0;  // bytes

// The body of a file, at most `most` bytes of it.
async function fetched(url, most, signal) {
  const answer = await fetch(url, { signal, credentials: "same-origin" });
  if (!answer.ok) throw new Error(`${url.pathname} cannot be loaded: ${answer.status} ${answer.statusText}`);
  const reader = answer.body.getReader(), parts = [];
  for (let size = 0; ;) {
    const { value, done } = await reader.read();
    if (done) return new Blob(parts);
    size += value.length;
    received += value.length;
    if (size > most) {
      reader.cancel();
      throw new Error(`${url.pathname} is larger than its splats can be`);
    }
    parts.push(value);
  }
}

// The meta.json of a chunk with so many splats, or any number up to 2^22, checked.
async function chunkMeta(url, count) {
  const fail = what => { throw new Error(`${url.pathname} is damaged: ${what}`); };
  const meta = JSON.parse(await (await fetched(url, MOST_META)).text());
  if (meta?.version !== 2) fail("version of SOG");
  if (count === null ? !isWhole(meta.count, 1, 2 ** 22) : meta.count !== count) fail("number of splats");
  const bands = meta.shN ? meta.shN.bands : 0, book = b => Array.isArray(b) && b.length >= 1 && b.length <= 256 && b.every(Number.isFinite);
  if (!isWhole(bands, 0, 3) || meta.shN && !isWhole(meta.shN.count, 1, 65536)) fail("colours");
  if (!areFinite(meta.means?.mins, 3) || !areFinite(meta.means.maxs, 3)) fail("bounds");
  if (!book(meta.scales?.codebook) || !book(meta.sh0?.codebook) || meta.shN && !book(meta.shN.codebook)) fail("codebooks");
  for (const [name, n] of Object.entries(CHANNEL_FILES)) {
    const files = meta[name]?.files;
    if ((name !== "shN" || meta.shN) && !(Array.isArray(files) && files.length === n && files.every(f => /^[\w-]+\.webp$/.test(f)))) fail("names of images");
  }
  return { ...meta, bands };
}

// Width and height in the header of a WebP.
function webpSize(bytes) {
  const view = new DataView(bytes.buffer), kind = String.fromCharCode(...bytes.subarray(8, 16));
  if (kind === "WEBPVP8L") {
    const bits = view.getUint32(21, true);
    return [1 + (bits & 16383), 1 + (bits >>> 14 & 16383)];
  }
  return kind === "WEBPVP8X" ? [1 + (view.getUint32(24, true) & 0xffffff), 1 + (view.getUint32(26, true) >>> 8)] : [0, 0];
}

// Pixels of an image, RGBA as they are in the file: through WebGL, since a 2D canvas would multiply colours by alpha.
const unpacker = { gl: null };
async function pixels(url, count, width = 0) {
  const blob = await fetched(url, PER_SPLAT * count + 65536);
  const [w, h] = webpSize(new Uint8Array(await blob.slice(0, 32).arrayBuffer()));
  if (w * h < count || w * h > 2 * count + 4096 || width && w !== width) throw new Error(`${url.pathname} is damaged: size of the image`);
  const bitmap = await createImageBitmap(blob, { premultiplyAlpha: "none", colorSpaceConversion: "none" });
  const gl = unpacker.gl ??= new OffscreenCanvas(1, 1).getContext("webgl2");
  if (!gl) throw new Error("this browser has no WebGL2 in workers, which levels of detail take (Chrome 80, Firefox 113, Safari 17 or newer)");
  const texture = gl.createTexture(), out = new Uint8Array(4 * w * h);
  gl.bindTexture(gl.TEXTURE_2D, texture);
  gl.pixelStorei(gl.UNPACK_COLORSPACE_CONVERSION_WEBGL, gl.NONE);
  gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, gl.RGBA, gl.UNSIGNED_BYTE, bitmap);
  gl.bindFramebuffer(gl.FRAMEBUFFER, unpacker.target ??= gl.createFramebuffer());
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0);
  gl.readPixels(0, 0, w, h, gl.RGBA, gl.UNSIGNED_BYTE, out);
  gl.deleteTexture(texture);
  bitmap.close();
  return out;
}

// A chunk's images and codebooks, of which `run` makes splats.
async function loadChunk(url, count) {
  const meta = await chunkMeta(url, count), image = (name, i = 0, n = count, width = 0) => pixels(new URL(meta[name].files[i], url), n, width);
  const coefficients = (meta.bands + 1) ** 2 - 1, wanted = [image("means"), image("means", 1), image("scales"), image("quats"), image("sh0")];
  if (meta.bands) wanted.push(image("shN", 1), image("shN", 0, Math.ceil(meta.shN.count / 64) * 64 * coefficients, 64 * coefficients));
  const [low, high, scales, quats, sh0, labels, centroids] = await Promise.all(wanted);
  return { meta, low, high, scales, quats, sh0, labels, palette: meta.bands ? palette(meta, coefficients, centroids) : null, coefficients };
}

const steps = (values, [from, to], most) => Uint32Array.from(values, v => Math.max(0, Math.min(most, Math.round((v - from) / (to - from) * 1020))));

// A word for each coefficient of each entry: 128 + coefficient / SH_STEP, red, green and blue.
function palette({ shN }, coefficients, pixels) {
  const bytes = Uint32Array.from(shN.codebook, v => Math.max(0, Math.min(255, Math.round(128 + v / SH_STEP)))), out = new Uint32Array(shN.count * coefficients);
  for (let i = 0; i < out.length; i++) out[i] = bytes[pixels[4 * i]] | bytes[pixels[4 * i + 1]] << 8 | bytes[pixels[4 * i + 2]] << 16;
  return out;
}

// Splats first .. first + n of a chunk, in whole slots: {positions, reach, places, shapes, sh}, with SH of `textures` textures.
function runOf(chunk, first, n, textures) {
  const { meta, low, high, scales, quats, sh0, labels, palette, coefficients } = chunk, size = SLOT * Math.ceil(n / SLOT), { mins, maxs } = meta.means;
  const positions = new Float32Array(3 * size).fill(NaN), reach = new Float32Array(size), places = new Uint32Array(4 * size), coordinates = new Float32Array(places.buffer);
  const shapes = new Uint32Array(2 * size), sh = Array.from({ length: textures }, () => new Uint32Array(4 * size).fill(0x808080));
  const reaches = Float32Array.from(meta.scales.codebook, v => 3.33 * Math.exp(v)), scaleSteps = steps(meta.scales.codebook, SCALES, 1023);
  const colorSteps = steps(meta.sh0.codebook.map(v => 0.5 + C0 * v), COLORS, 1023), kept = Math.min(coefficients, 4 * textures);
  for (let i = 0; i < n; i++) {
    const at = 4 * (first + i);
    for (let k = 0; k < 3; k++) {
      const log = mins[k] + (low[at + k] | high[at + k] << 8) / 65535 * (maxs[k] - mins[k]);
      positions[3 * i + k] = coordinates[4 * i + k] = Math.sign(log) * Math.expm1(Math.abs(log));
    }
    const r = colorSteps[sh0[at]], g = colorSteps[sh0[at + 1]], b = colorSteps[sh0[at + 2]], [x, y, z] = [scales[at], scales[at + 1], scales[at + 2]];
    const which = quats[at + 3] - 252;
    places[4 * i + 3] = r >> 2 | g >> 2 << 8 | b >> 2 << 16 | (which < 0 ? 0 : sh0[at + 3]) << 24;
    shapes[2 * i] = scaleSteps[x] | scaleSteps[y] << 10 | scaleSteps[z] << 20;
    shapes[2 * i + 1] = quats[at] | quats[at + 1] << 8 | quats[at + 2] << 16 | (r & 3) << 24 | (g & 3) << 26 | (b & 3) << 28 | (which & 3) << 30;
    reach[i] = Math.max(reaches[x], reaches[y], reaches[z]);
    if (kept) {
      const entry = (labels[at] | labels[at + 1] << 8) * coefficients;
      for (let c = 0; c < kept; c++) sh[c >> 2][4 * i + (c & 3)] = palette[entry + c];
    }
  }
  return { positions, reach, places, shapes, sh };
}
