// WebGL2: one pass that projects every splat, one that draws them as quads in the order of the worker, one that shows the result.
"use strict";

const LOG_WIDTH = 11, WIDTH = 1 << LOG_WIDTH;  // texels of a row of the textures of splats
const BATCH = 256;  // splats of an instance: the smaller instances are, the more of the time goes into starting them
const DRAW_CALLS = 3;

class Painter {
  // header: of the scene. sources: GLSL by name. Throws where there is no WebGL2.
  constructor(canvas, header, sources) {
    const gl = this.gl = canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false, powerPreference: "high-performance" });
    if (!gl) throw new Error("this browser offers no WebGL2, which drawing splats takes; try a current Firefox, Chrome, Edge or Safari, with hardware acceleration on");
    this.canvas = canvas;
    this.header = header;
    this.float = Boolean(gl.getExtension("EXT_color_buffer_float") || gl.getExtension("EXT_color_buffer_half_float"));
    const shTextures = this.shTextures = Math.ceil(((header.degree + 1) ** 2 - 1) / 4);
    const defines = `#define SH_TEXTURES ${shTextures}\n` + (header.antialiased ? "#define ANTIALIASED\n" : "") + (header.streamed ? "#define STREAMED\n" : "");
    this.project = this.program(sources["cover.vert"], sources["project.frag"].replace(/\n/, `\n${defines}`));
    this.draw = this.program(sources["splat.vert"].replace(/\n/, `\n#define BATCH ${BATCH}\n#define LOG_WIDTH ${LOG_WIDTH}\n`), sources["splat.frag"]);
    this.show = this.program(sources["cover.vert"], sources["show.frag"]);
    gl.disable(gl.DITHER);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 4);
  }

  // The arrays of decode.js onto the GPU.
  upload({ places, shapes, sh }) { this.allocate(shapes.length / 2 / WIDTH, [places, shapes, ...sh]); }

  // Textures for rows of splats. words: what is in them, if anything.
  allocate(rows, words = []) {
    for (const program of [this.project, this.draw, this.show]) this.linked(program);
    const gl = this.gl, formats = [gl.RGBA32UI, gl.RG32UI, ...Array(this.shTextures).fill(gl.RGBA32UI)];
    if (rows > gl.getParameter(gl.MAX_TEXTURE_SIZE)) throw new Error("the scene has more splats than this graphics card's textures hold");
    this.rows = rows;
    this.used = words.length ? rows : 0;  // rows that have splats
    this.inputs = formats.map((format, i) => this.texture(format, WIDTH, rows, words[i]));
    this.outputs = [this.texture(gl.RGBA32UI, WIDTH, rows), this.texture(gl.RGBA32UI, WIDTH, rows)];
    this.projected = this.framebuffer(this.outputs);
    this.order = this.texture(gl.R32UI, WIDTH, rows);
    const corners = Uint16Array.from({ length: 6 * BATCH }, (_, i) => 4 * Math.floor(i / 6) + [0, 1, 2, 2, 1, 3][i % 6]);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, corners, gl.STATIC_DRAW);
    this.count = 0;
    const error = gl.getError();
    if (error) throw new Error(error === gl.OUT_OF_MEMORY ? "the scene does not fit into this graphics card's memory" : `WebGL error ${error}`);
  }

  // Splats of a run into its slots, which are stretches of `length` texels, some to a row.
  place({ slots, places, shapes, sh }) {
    const gl = this.gl, length = places.length / 4 / slots.length, each = WIDTH / length;
    this.used = Math.max(this.used, Math.floor(Math.max(...slots) / each) + 1);
    [places, shapes, ...sh].forEach((words, t) => {
      const wide = t === 1 ? 2 : 4;
      gl.bindTexture(gl.TEXTURE_2D, this.inputs[t]);
      slots.forEach((slot, i) => gl.texSubImage2D(gl.TEXTURE_2D, 0, slot % each * length, Math.floor(slot / each), length, 1,
        wide === 2 ? gl.RG_INTEGER : gl.RGBA_INTEGER, gl.UNSIGNED_INT, words.subarray(wide * length * i, wide * length * (i + 1))));
    });
  }

  sorted(order, count) {
    const gl = this.gl;
    gl.bindTexture(gl.TEXTURE_2D, this.order);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, WIDTH, Math.ceil(count / WIDTH), gl.RED_INTEGER, gl.UNSIGNED_INT, order);
    this.count = count;
  }

  // What `controls` see, on a canvas of width x height, drawn with `scale` times as many pixels a side.
  paint(controls, width, height, scale) {
    const gl = this.gl, { header, canvas } = this, w = Math.max(1, Math.round(width * scale)), h = Math.max(1, Math.round(height * scale));
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    if (!this.target || this.target.width !== w || this.target.height !== h) this.makeTarget(w, h);

    const { focal, centre } = controls.fitted(w, h), view = controls.view;
    this.use(this.project, this.projected, WIDTH, this.used);
    this.bind(this.project, ["places", "shapes", ...this.inputs.slice(2).map((_, i) => `sh[${i}]`)], this.inputs);
    const u = this.project.uniforms;
    gl.uniformMatrix4fv(u.world_to_camera, true, [...view, 0, 0, 0, 1]);
    gl.uniform3fv(u.eye, controls.position);
    gl.uniform2fv(u.focal, focal);
    gl.uniform2fv(u.centre, centre);
    gl.uniform2f(u.size, w, h);
    gl.uniform1f(u.near, header.near);
    gl.uniform1i(u.count, header.streamed ? WIDTH * this.rows : header.splats);
    gl.uniform2fv(u.scale_ends, header.scale);
    gl.uniform2fv(u.color_ends, header.color);
    gl.uniform3fv(u.sh_steps, [...header.sh, 0, 0, 0].slice(0, 3));
    if (!header.streamed) gl.uniform1f(u.largest, Math.sin(Math.PI / 8));
    gl.drawArrays(gl.TRIANGLES, 0, 3);

    this.use(this.draw, this.target.framebuffer, w, h);
    gl.clearBufferfv(gl.COLOR, 0, [0, 0, 0, 0]);
    this.bind(this.draw, ["order", "place", "paint"], [this.order, ...this.outputs]);
    gl.uniform1i(this.draw.uniforms.count, this.count);
    gl.uniform2f(this.draw.uniforms.size, w, h);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.drawElementsInstanced(gl.TRIANGLES, 6 * BATCH, gl.UNSIGNED_SHORT, 0, Math.ceil(this.count / BATCH));
    gl.disable(gl.BLEND);

    this.use(this.show, null, width, height);
    this.bind(this.show, ["drawn"], [this.target.texture]);
    gl.uniform2f(this.show.uniforms.canvas, width, height);
    gl.uniform3fv(this.show.uniforms.background, header.background);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    this.fence = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
    gl.flush();
  }

  // Whether the GPU is still busy with the last picture.
  get busy() {
    const gl = this.gl;
    if (this.fence && !gl.isContextLost() && gl.getSyncParameter(this.fence, gl.SYNC_STATUS) !== gl.SIGNALED) return true;
    if (this.fence) gl.deleteSync(this.fence);
    this.fence = null;
    return false;
  }

  makeTarget(width, height) {
    const gl = this.gl;
    if (this.target) {
      gl.deleteTexture(this.target.texture);
      gl.deleteFramebuffer(this.target.framebuffer);
    }
    const texture = this.texture(this.float ? gl.RGBA16F : gl.RGBA8, width, height);  // halves: hundreds of faint splats would round to bands in 8 bits
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.LINEAR);
    this.target = { width, height, texture, framebuffer: this.framebuffer([texture]) };
  }

  texture(format, width, height, words = null) {
    const gl = this.gl, texture = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.texStorage2D(gl.TEXTURE_2D, 1, format, width, height);
    for (const side of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, side, gl.CLAMP_TO_EDGE);
    for (const filter of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, filter, gl.NEAREST);
    if (words) gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, width, height, format === gl.RG32UI ? gl.RG_INTEGER : gl.RGBA_INTEGER, gl.UNSIGNED_INT, words);
    return texture;
  }

  framebuffer(textures) {
    const gl = this.gl, framebuffer = gl.createFramebuffer(), attachments = textures.map((_, i) => gl.COLOR_ATTACHMENT0 + i);
    gl.bindFramebuffer(gl.FRAMEBUFFER, framebuffer);
    textures.forEach((texture, i) => gl.framebufferTexture2D(gl.FRAMEBUFFER, attachments[i], gl.TEXTURE_2D, texture, 0));
    gl.drawBuffers(attachments);
    if (gl.checkFramebufferStatus(gl.FRAMEBUFFER) !== gl.FRAMEBUFFER_COMPLETE) throw new Error("this graphics driver refuses a render target that WebGL2 promises");
    return framebuffer;
  }

  // Begins to compile, which some drivers do beside; `linked` asks how it went.
  program(vertex, fragment) {
    const gl = this.gl, handle = gl.createProgram();
    const shaders = [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]].map(([kind, source]) => {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(handle, shader);
      return shader;
    });
    gl.linkProgram(handle);
    return { handle, shaders, uniforms: {} };
  }

  linked({ handle, shaders, uniforms }) {
    const gl = this.gl;
    if (!gl.getProgramParameter(handle, gl.LINK_STATUS) && !gl.isContextLost()) {
      throw new Error(`this browser does not compile the page's shaders: ${shaders.map(s => gl.getShaderInfoLog(s)).join(" ")} ${gl.getProgramInfoLog(handle)}`);
    }
    for (let i = gl.getProgramParameter(handle, gl.ACTIVE_UNIFORMS); i--;) {
      const { name, size } = gl.getActiveUniform(handle, i);
      for (let k = 0; k < size; k++) {
        const one = name.replace("[0]", `[${k}]`);
        uniforms[one] = gl.getUniformLocation(handle, one);
      }
    }
  }

  use(program, framebuffer, width, height) {
    const gl = this.gl;
    gl.useProgram(program.handle);
    gl.bindFramebuffer(gl.FRAMEBUFFER, framebuffer);
    gl.viewport(0, 0, width, height);
  }

  bind(program, names, textures) {
    const gl = this.gl;
    textures.forEach((texture, i) => {
      gl.activeTexture(gl.TEXTURE0 + i);
      gl.bindTexture(gl.TEXTURE_2D, texture);
      gl.uniform1i(program.uniforms[names[i]], i);
    });
    gl.activeTexture(gl.TEXTURE0);
  }
}
