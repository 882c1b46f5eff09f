// Cameras as WebGL has them, column by column, from w2c (row by row, right, down, forward) and K.

export function projection({ fx, fy, cx, cy, width, height, near, far }) {
  const deep = far - near;
  return [
    (2 * fx) / width, 0, 0, 0,
    0, (2 * fy) / height, 0, 0,
    1 - (2 * cx) / width, (2 * cy) / height - 1, -(far + near) / deep, -1,
    0, 0, (-2 * far * near) / deep, 0,
  ];
}

// Camera to world; the camera's axes are right, up, back.
export function pose({ w2c }) {
  const [right, down, forward] = w2c;
  const rows = [right, down, forward];
  const offset = rows.map((row) => row[3]);
  const position = [0, 1, 2].map((i) => -rows.reduce((sum, row, k) => sum + row[i] * offset[k], 0));
  const axis = (row, sign) => [...row.slice(0, 3).map((x) => sign * x), 0];
  return [...axis(right, 1), ...axis(down, -1), ...axis(forward, -1), ...position, 1];
}
