// The camera that mouse, touch and keys move. Frame: OpenCV; the rows of the rotation are right, down and forward in world coordinates.
"use strict";

const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const plus = (a, b, times = 1) => [a[0] + times * b[0], a[1] + times * b[1], a[2] + times * b[2]];
const unit = a => a.map(x => x / Math.hypot(...a));
const mix = (a, b, t) => a.map((x, i) => x + (b[i] - x) * t);

// v turned around a unit axis, by the right hand (Rodrigues' formula).
function turned(v, axis, angle) {
  const c = Math.cos(angle), s = Math.sin(angle), along = dot(axis, v) * (1 - c), side = cross(axis, v);
  return v.map((x, i) => c * x + s * side[i] + along * axis[i]);
}

// The axis and angle that turn the rotation a into b, both by rows.
function between(a, b) {
  const R = [0, 1, 2].map(i => [0, 1, 2].map(j => a[0][j] * b[0][i] + a[1][j] * b[1][i] + a[2][j] * b[2][i]));  // b = a R^T, R of world vectors
  const axis = [R[2][1] - R[1][2], R[0][2] - R[2][0], R[1][0] - R[0][1]], sine = Math.hypot(...axis) / 2, cosine = (R[0][0] + R[1][1] + R[2][2] - 1) / 2;
  if (sine > 1e-6) return { axis: unit(axis), angle: Math.atan2(sine, cosine) };
  if (cosine > 0) return { axis: [0, 0, 1], angle: 0 };
  const k = [0, 1, 2].reduce((best, i) => R[i][i] > R[best][best] ? i : best, 0);  // half a turn: R = 2 axis axis^T - 1
  return { axis: unit([0, 1, 2].map(i => R[i][k] + (i === k ? 1 : 0))), angle: Math.PI };
}

const STEEPEST = 89 * Math.PI / 180, GLIDE = 700;  // elevation of the view; milliseconds from one camera to the next

class Controls {
  // up: unit vector, where horizons are level. centre: of the scene; what is orbited lies straight ahead, as far away as that.
  constructor(camera, up, centre) {
    this.up = up;
    this.centre = centre;
    this.jump(camera);
    this.speed = this.distance / 2;  // world units a second
  }

  jump(camera) {
    Object.assign(this, this.poseOf(camera));
    this.glide = null;
  }

  // Goes there within GLIDE milliseconds.
  goTo(camera, now) {
    const to = this.poseOf(camera), { rotation, position, distance, lens } = this;
    this.glide = { from: { rotation, position, distance, lens }, to, began: now, ...between(rotation, to.rotation) };
  }

  poseOf({ w2c, K, size }) {
    const rotation = [w2c.slice(0, 3), w2c.slice(4, 7), w2c.slice(8, 11)], t = [w2c[3], w2c[7], w2c[11]];
    const position = [0, 1, 2].map(j => -(rotation[0][j] * t[0] + rotation[1][j] * t[1] + rotation[2][j] * t[2]));
    const away = plus(this.centre, position, -1), distance = Math.max(dot(rotation[2], away), 0.1 * Math.hypot(...away), 1e-3);
    return { rotation, position, distance, lens: [...K, ...size] };
  }

  get pivot() { return plus(this.position, this.rotation[2], this.distance); }

  // Turns on the spot, radians to the right and down.
  look(right, down) {
    this.glide = null;
    const elevation = Math.asin(Math.max(-1, Math.min(1, dot(this.rotation[2], this.up))));
    down = Math.max(elevation - STEEPEST, Math.min(elevation + STEEPEST, down));
    this.rotation = this.rotation.map(row => turned(turned(row, this.rotation[0], -down), this.up, -right));
  }

  // Turns around the pivot.
  orbit(right, down) {
    const pivot = this.pivot;
    this.look(right, down);
    this.position = plus(pivot, this.rotation[2], -this.distance);
  }

  // Sideways, so that the pivot follows the pointer by so many pixels of a canvas of that size.
  pan(right, down, width, height) {
    this.glide = null;
    const { focal } = this.fitted(width, height);
    this.position = plus(plus(this.position, this.rotation[0], -right * this.distance / focal[0]), this.rotation[1], -down * this.distance / focal[1]);
  }

  // Toward the pivot, which stays: `share` of the distance is left.
  dolly(share) {
    this.glide = null;
    const pivot = this.pivot;
    this.distance = Math.max(this.distance * share, 1e-4 * this.speed);
    this.position = plus(pivot, this.rotation[2], -this.distance);
  }

  // Along right, down and forward, at `speed`.
  fly(steps, seconds) {
    this.glide = null;
    this.rotation.forEach((row, i) => this.position = plus(this.position, row, steps[i] * this.speed * seconds));
  }

  // Turns around the line of sight until the horizon is level.
  level() {
    this.glide = null;
    const right = cross(this.rotation[2], this.up);
    if (Math.hypot(...right) < 1e-6) return;
    this.rotation = [unit(right), cross(this.rotation[2], unit(right)), this.rotation[2]];
  }

  // One step of a glide. Whether there was one.
  step(now) {
    if (!this.glide) return false;
    const { from, to, axis, angle, began } = this.glide, share = Math.min((now - began) / GLIDE, 1);
    if (share === 1) {
      Object.assign(this, to);
      this.glide = null;
      return true;
    }
    const t = share * share * (3 - 2 * share);
    this.rotation = from.rotation.map(row => turned(row, axis, t * angle));
    this.position = mix(from.position, to.position, t);
    this.distance = from.distance + (to.distance - from.distance) * t;
    const scaled = ([fx, fy, cx, cy, w, h], height) => [fx, fy, cx, cy, w, h].map(x => x * height / h);
    this.lens = mix(scaled(from.lens, to.lens[5]), to.lens, t);
    return true;
  }

  // Intrinsics in pixels of an image of width x height that has the whole of the lens's image in its middle; on narrow screens only as much as 90 degrees hold.
  fitted(width, height) {
    const [fx, fy, cx, cy, w, h] = this.lens, whole = Math.min(width / w, height / h), covered = Math.max(width / w, height / h);
    const scale = Math.max(whole, Math.min(covered, Math.max(width / fx, height / fy) / 2));
    return { focal: [fx * scale, fy * scale], centre: [cx * scale + (width - scale * w) / 2, cy * scale + (height - scale * h) / 2] };
  }

  // World to camera, 3 rows of 4.
  get view() { return this.rotation.flatMap(row => [...row, -dot(row, this.position)]); }
}
