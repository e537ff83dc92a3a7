"use strict";
// Solids in space by WebGL 2: filled polygons as shaded surfaces that hide each other and throw shadows, lines between them.
// The player (player.js) says which frame and from where; without WebGL it paints on its own, from far to near.

const SUN = [-0.12, -0.6, 0.79]; // from where the light comes: from the left of who looks
const SHADOW = 1024; // pixels of the shadow map
const CREASE = Math.cos(40 * Math.PI / 180); // facets that meet at a smaller angle look like one smooth surface

const SURFACE = [`#version 300 es
uniform mat4 place, view, light;
uniform mat3 turn;
in vec3 position, normal;
out vec3 n, lit;
void main() {
  vec4 world = place * vec4(position, 1.0);
  n = turn * normal;
  lit = (light * world).xyz * 0.5 + 0.5;
  gl_Position = view * world;
}`, `#version 300 es
precision highp float;
precision highp sampler2DShadow;
uniform sampler2DShadow map;
uniform vec3 color, dark, sun, eye;
uniform float floor_; // 1: no shading, only shadows in the colour dark
in vec3 n, lit;
out vec4 pixel;
void main() {
  vec3 normal = normalize(n);
  if (dot(normal, eye) < 0.0) normal = -normal;
  float towards = dot(normal, sun), bright = 0.0;
  for (int i = -1; i <= 1; i++)
    for (int j = -1; j <= 1; j++)
      bright += texture(map, vec3(lit.xy + vec2(i, j) / ${SHADOW}.0, lit.z - 0.0025)) / 9.0;
  if (any(lessThan(lit, vec3(0.0))) || any(greaterThan(lit, vec3(1.0)))) bright = 1.0;
  vec3 shaded = color * (0.62 + 0.1 * normal.z + 0.32 * max(towards, 0.0) * bright);
  pixel = vec4(mix(shaded, mix(dark, color, bright), floor_), 1.0);
}`];
const LINE = [`#version 300 es
uniform mat4 place, view;
uniform vec2 size; // of the picture, in pixels
uniform float width;
in vec3 a, b;
void main() {
  vec4 p = view * place * vec4(a, 1.0), q = view * place * vec4(b, 1.0);
  vec2 along = (q.xy - p.xy) * size, u = length(along) > 1e-6 ? normalize(along) : vec2(1.0, 0.0);
  float end = gl_VertexID < 2 ? -1.0 : 1.0, side = gl_VertexID % 2 == 0 ? -1.0 : 1.0;
  gl_Position = end < 0.0 ? p : q;
  gl_Position.xy += (side * vec2(-u.y, u.x) + 0.5 * end * u) * width / size;
  gl_Position.z -= 2e-4; // a line on a surface is seen
}`, `#version 300 es
precision highp float;
uniform vec3 color;
out vec4 pixel;
void main() { pixel = vec4(color, 1.0); }`];
const DEPTH = [`#version 300 es
uniform mat4 place, light;
in vec3 position;
void main() { gl_Position = light * place * vec4(position, 1.0); }`, `#version 300 es
void main() {}`];

const minus = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const unit = (a) => { const l = Math.hypot(...a) || 1; return a.map((x) => x / l); };

// Twice the area of a polygon, as its normal.
function areaOf(corners) {
  const sum = [0, 0, 0];
  corners.forEach((p, i) => {
    const c = cross(minus(p, corners[0]), minus(corners[(i + 1) % corners.length], corners[0]));
    for (let k = 0; k < 3; k++) sum[k] += c[k];
  });
  return sum;
}

// Triangles of a plane polygon, as places of its corners, by cutting off ears; slits that lead to holes are fine.
function triangulate(corners) {
  const left = corners.map((_, i) => i), found = [];
  if (left.length > 4) {
    const n = areaOf(corners), drop = n.map(Math.abs).indexOf(Math.max(...n.map(Math.abs))), sign = Math.sign(n[drop]);
    const flat = corners.map((p) => [p[(drop + 1) % 3], p[(drop + 2) % 3]]);
    const turn = (a, b, c) => sign * ((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]));
    const inside = (p, a, b, c) => turn(a, b, p) > 0 && turn(b, c, p) > 0 && turn(c, a, p) > 0;
    for (let misses = 0, i = 0; left.length > 3 && misses < left.length;) {
      const k = left.length, ear = [left[(i + k - 1) % k], left[i % k], left[(i + 1) % k]], [a, b, c] = ear.map((j) => flat[j]);
      if (turn(a, b, c) >= 0 && !left.some((j) => !ear.includes(j) && inside(flat[j], a, b, c))) {
        if (turn(a, b, c) > 0) found.push(ear);
        left.splice(i % k, 1);
        misses = 0;
      } else { i += 1; misses += 1; }
      i %= left.length;
    }
  }
  for (let i = 1; i + 1 < left.length; i++) found.push([left[0], left[i], left[i + 1]]);
  return found;
}

// Corners of the polygon or line m of a piece; `points` are those of one frame.
const cornersOf = (piece, points, m) =>
  Array.from({ length: piece.corners }, (_, i) => [...points.subarray(3 * (m * piece.corners + i), 3 * (m * piece.corners + i) + 3)]);

// All polygons (their corners and which piece they belong to) of pieces, with normals at corners that are smooth across edges.
function surfaceOf(pieces) {
  const polygons = pieces.flatMap(({ piece, points }, owner) =>
    Array.from({ length: piece.count }, (_, m) => ({ owner, corners: cornersOf(piece, points, m) })));
  const all = polygons.flatMap((p) => p.corners);
  const size = all.reduce((most, p) => Math.max(most, ...minus(p, all[0]).map(Math.abs)), 0);
  const grain = 1e-4 * size || 1, meeting = new Map();
  const key = (p) => minus(p, all[0]).map((x) => Math.round(x / grain)).join();
  for (const polygon of polygons) {
    polygon.area = areaOf(polygon.corners);
    polygon.normal = unit(polygon.area);
    for (const name of polygon.corners.map(key)) {
      if (!meeting.has(name)) meeting.set(name, []);
      meeting.get(name).push(polygon);
    }
  }
  const parts = pieces.map(() => []);
  for (const polygon of polygons) {
    const normals = polygon.corners.map((p) => {
      const sum = [0, 0, 0];
      for (const other of meeting.get(key(p))) {
        const along = dot(other.normal, polygon.normal);
        if (Math.abs(along) > CREASE) for (let k = 0; k < 3; k++) sum[k] += Math.sign(along) * other.area[k];
      }
      return unit(sum);
    });
    for (const triangle of triangulate(polygon.corners))
      for (const i of triangle) parts[polygon.owner].push(...polygon.corners[i], ...normals[i]);
  }
  return parts.map((part) => new Float32Array(part));
}

// Ends of the segments of the lines of a piece.
function segmentsOf(piece, points, closed) {
  const ends = [];
  for (let m = 0; m < piece.count; m++) {
    const corners = cornersOf(piece, points, m);
    for (let i = 0; i + 1 < corners.length + closed; i++) ends.push(...corners[i], ...corners[(i + 1) % corners.length]);
  }
  return new Float32Array(ends);
}

// A rectangle, three times as large as a ground, in its plane: on it fall the shadows.
function carpetOf(points) {
  const p = Array.from({ length: points.length / 3 }, (_, i) => [...points.subarray(3 * i, 3 * i + 3)]);
  const x = unit(minus(p[1], p[0]));
  const off = (q) => { const r = minus(q, p[0]), s = dot(r, x); return minus(r, x.map((c) => c * s)); };
  const farthest = p.reduce((best, q) => (Math.hypot(...off(q)) > Math.hypot(...off(best)) ? q : best), p[0]);
  const y = unit(off(farthest)), normal = cross(x, y);
  const range = (axis) => { const s = p.map((q) => dot(q, axis)); return [Math.min(...s), Math.max(...s)]; };
  const wide = ([low, high]) => [2 * low - high, 2 * high - low], [u, v] = [wide(range(x)), wide(range(y))], w = dot(p[0], normal);
  const at = (s, t) => [0, 1, 2].map((k) => s * x[k] + t * y[k] + w * normal[k]);
  const c = [at(u[0], v[0]), at(u[1], v[0]), at(u[1], v[1]), at(u[0], v[1])];
  return new Float32Array([0, 1, 2, 0, 2, 3].flatMap((i) => [...c[i], ...normal]));
}

const IDENTITY = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1];

// The affine map of a piece in a frame, as a matrix of WebGL (by columns), and its cofactors, which turn normals.
function placeOf(piece, numbers, frame) {
  if (piece.maps === null) return [IDENTITY, [1, 0, 0, 0, 1, 0, 0, 0, 1]];
  const [a, b, c, t] = [0, 1, 2, 3].map((i) => [...numbers.subarray(piece.maps + 12 * frame + 3 * i, piece.maps + 12 * frame + 3 * i + 3)]);
  return [[...a, 0, ...b, 0, ...c, 0, ...t, 1], [...cross(b, c), ...cross(c, a), ...cross(a, b)]];
}
