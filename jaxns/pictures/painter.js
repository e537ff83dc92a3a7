// What the player (player.js) paints on its canvas: plane films, arrows of forces, and films in space where there is no WebGL.

const LIGHT = [0.35, -0.5, 0.79];

// Colours ----------------------------------------------------------------------------------------------------------
const rgb = (color) => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
const css = (c) => `rgb(${c.map((v) => Math.round(Math.min(v, 255))).join(",")})`;
const named = (color) => rgb(color in data.colors ? data.colors[color][dark.matches ? 1 : 0] : color);

function inside(path, points, from) {
  const color = named(path.color);
  if (space && path.color !== "shadow") {
    const n = [0, 0, 0], k = path.corners;
    for (let i = 0; i < k; i++) {
      const a = from + 3 * i, b = from + 3 * ((i + 1) % k);
      for (let c = 0; c < 3; c++) {
        const u = (c + 1) % 3, v = (c + 2) % 3;
        // relative to the first corner, as the numbers have few digits
        n[c] += (points[a + u] - points[from + u]) * (points[b + v] - points[from + v])
              - (points[a + v] - points[from + v]) * (points[b + u] - points[from + u]);
      }
    }
    const light = Math.abs(n[0] * LIGHT[0] + n[1] * LIGHT[1] + n[2] * LIGHT[2]) / (Math.hypot(...n) || 1);
    return color.map((v) => v * (0.7 + 0.3 * light));
  }
  const tint = { paper: 1, shadow: 1, ground: 0.4 }[path.color] ?? 0.6, paper = named("paper");
  return color.map((v, i) => v * tint + paper[i] * (1 - tint));
}

// Polygons from far to near, where there is no WebGL, and in the plane.
function paintAll(eye, width, height) {
  ctx.fillStyle = css(named("paper"));
  ctx.fillRect(0, 0, width, height);
  const items = [];
  for (const path of data.paths) {
    const layer = !space ? 0 : path.ground ? 0 : path.color === "shadow" ? 1 : 2;
    for (const piece of path.pieces) {
      const points = pointsOf(piece, frame);
      for (let m = 0; m < piece.count; m++) {
        const from = m * piece.corners * d;
        let depth = Infinity; // of the farthest corner, so that what lies on a facet comes after it
        if (layer === 2) for (let k = 0; k < piece.corners; k++) depth = Math.min(depth, eye.depth(points, from + k * d));
        items.push({ path: { ...path, corners: piece.corners }, points, from, layer, depth });
      }
    }
  }
  if (space) items.sort((a, b) => a.layer - b.layer || (a.layer === 2 ? a.depth - b.depth : 0)); // from far to near
  for (const item of items) paint(item, eye);
}

function paint({ path, points, from }, eye) {
  ctx.beginPath();
  for (let k = 0; k < path.corners; k++) ctx.lineTo(eye.x(points, from + k * d), eye.y(points, from + k * d));
  if (path.closed) ctx.closePath();
  const fill = path.filled ? inside(path, points, from) : null;
  if (fill) { ctx.fillStyle = css(fill); ctx.fill(); }
  if (path.width > 0) {
    ctx.lineWidth = path.width;
    ctx.strokeStyle = css(space && fill ? fill : named(path.color === "paper" ? "ink" : path.color));
    ctx.stroke();
  }
}

function drawForces(eye) {
  for (const kind of ["normal", "friction"]) {
    ctx.strokeStyle = ctx.fillStyle = data.force_colors[kind][dark.matches ? 1 : 0];
    ctx.lineWidth = 2.5;
    for (let i = 0; i < data.contact_count; i++) {
      const at = d * (frame * data.contact_count + i), p = numbers.subarray(data.points + at, data.points + at + d);
      const tip = p.map((v, k) => v + numbers[data[kind] + at + k]);
      const x = eye.x(p, 0), y = eye.y(p, 0), dx = eye.x(tip, 0) - x, dy = eye.y(tip, 0) - y, length = Math.hypot(dx, dy);
      if (length < 1.5) continue;
      const head = Math.min(11, 0.6 * length), ux = dx / length, uy = dy / length;
      ctx.beginPath();
      ctx.moveTo(x, y);
      ctx.lineTo(x + dx - ux * head * 0.8, y + dy - uy * head * 0.8);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x + dx, y + dy);
      for (const side of [1, -1])
        ctx.lineTo(x + dx - head * (ux - side * 0.45 * uy), y + dy - head * (uy + side * 0.45 * ux));
      ctx.closePath();
      ctx.fill();
    }
  }
}
