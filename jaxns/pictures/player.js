const element = (id) => document.getElementById(id);
const canvas = element("canvas"), ctx = canvas.getContext("2d");
let solids = null; // for films in space, where the browser has WebGL
const dark = matchMedia("(prefers-color-scheme: dark)");

// State ------------------------------------------------------------------------------------------------------------
let data, numbers; // of the film that is shown
let d, count, space, t0, t1; // dimension, number of frames, whether it is spatial, first and last time
let bounds, center; // of the view
let frame = 0, now = 0, playing = false, last = null, waiting = false, stale = true;
let home, view;
let drawn = []; // who waits for the next picture

// Geometry: points of the drawing → pixels ---------------------------------------------------------------------------
function camera() {
  const width = canvas.clientWidth, height = canvas.clientHeight, radians = Math.PI / 180;
  const a = view.azimuth * radians, e = view.elevation * radians;
  const axes = space
    ? [[-Math.sin(a), Math.cos(a), 0],
       [-Math.sin(e) * Math.cos(a), -Math.sin(e) * Math.sin(a), Math.cos(e)],
       [Math.cos(e) * Math.cos(a), Math.cos(e) * Math.sin(a), Math.sin(e)]]
    : [[1, 0], [0, 1]];
  const extent = (axis) => axis.reduce((sum, c, i) => sum + Math.abs(c) * (bounds[1][i] - bounds[0][i]), 0);
  const room = { width: Math.max(width - 24, 40), height: Math.max(height - 64, 40) }; // texts at the top keep their place
  const scale = view.zoom * Math.min(room.width / extent(axes[0]), room.height / extent(axes[1]));
  const middle = element("follow").checked ? focus() : center;
  const along = (axis, p, i) => { let s = 0; for (let k = 0; k < d; k++) s += axis[k] * (p[i + k] - middle[k]); return s; };
  return {
    scale, axes, center: middle, ratio: devicePixelRatio || 1, shift: [view.x, view.y + 14],
    x: (p, i) => 0.5 * width + view.x + scale * along(axes[0], p, i),
    y: (p, i) => 0.5 * height + 14 + view.y - scale * along(axes[1], p, i),
    depth: (p, i) => (space ? along(axes[2], p, i) : 0),
  };
}

// The middle of all that moves, in this frame.
function focus() {
  const low = Array(d).fill(Infinity), high = Array(d).fill(-Infinity);
  for (const path of data.paths.filter((path) => !path.ground && path.color !== "shadow"))
    for (const piece of path.pieces.filter((piece) => piece.moving || piece.maps !== null))
      pointsOf(piece, frame).forEach((v, i) => {
        low[i % d] = Math.min(low[i % d], v);
        high[i % d] = Math.max(high[i % d], v);
      });
  return low.every(Number.isFinite) ? low.map((v, k) => 0.5 * (v + high[k])) : center;
}

function pointsOf(piece, f) {
  const size = piece.count * piece.corners * d;
  const from = piece.points + (piece.moving ? f * size : 0);
  const first = numbers.subarray(from, from + size);
  if (piece.maps === null) return first;
  const moved = new Float32Array(size), map = piece.maps + f * d * (d + 1);
  for (let i = 0; i < size; i += d)
    for (let k = 0; k < d; k++) {
      let s = numbers[map + d * d + k];
      for (let j = 0; j < d; j++) s += first[i + j] * numbers[map + j * d + k];
      moved[i + k] = s;
    }
  return moved;
}

// One picture ------------------------------------------------------------------------------------------------------
function draw() {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  for (const layer of solids ? [canvas, element("solids")] : [canvas])
    if (layer.width !== Math.round(width * ratio) || layer.height !== Math.round(height * ratio)) {
      layer.width = Math.round(width * ratio);
      layer.height = Math.round(height * ratio);
    }
  stale = false;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.lineCap = ctx.lineJoin = "round";
  const eye = camera();
  if (solids) solids.draw(frame, eye, named);
  else paintAll(eye, width, height);
  if (element("forces").checked) drawForces(eye);
  words();
  for (const tell of drawn.splice(0)) tell();
}

// The picture that is shown, as a canvas of its own.
function still() {
  draw();
  const picture = document.createElement("canvas"), layers = solids ? [element("solids"), canvas] : [canvas];
  [picture.width, picture.height] = [canvas.width, canvas.height];
  for (const layer of layers) picture.getContext("2d").drawImage(layer, 0, 0);
  return picture;
}

function saveStill() {
  const link = document.createElement("a");
  link.href = still().toDataURL("image/png");
  link.download = `${data.title || "jaxns"} ${element("time").textContent}.png`;
  link.click();
}

function words() {
  const digits = Math.max(0, Math.min(6, 3 - Math.floor(Math.log10(Math.max(t1 - t0, 1e-9)))));
  element("time").textContent = `${numbers[data.t + frame].toFixed(digits)} s`;
  const pace = data.speed * Number(element("speed").value);
  const factor = (v) => Number(v.toPrecision(2)).toString();
  element("pace").textContent =
    Math.abs(pace - 1) < 0.05 ? "real time" : pace < 1 ? `slowed down ${factor(1 / pace)}×` : `sped up ${factor(pace)}×`;
  element("scrub").value = frame;
  element("scrub").setAttribute("aria-valuetext", element("time").textContent);
  if (!data.contact_count) return;
  const shown = element("forces").checked;
  element("legend").style.display = shown ? "" : "none";
  if (shown)
    for (const kind of ["normal", "friction"]) {
      const text = element(`legend-${kind}`);
      if (!text) continue;
      let largest = 0;
      for (let i = 0; i < data.contact_count; i++)
        largest = Math.max(largest, numbers[data[`${kind}_size`] + frame * data.contact_count + i]);
      const value = largest === 0 ? "0" : largest >= 1e5 || largest < 1e-3 ? largest.toExponential(1) : largest.toPrecision(3);
      text.textContent = `${kind} force, ${data.contact_count > 1 ? "largest " : ""}${Number(value)} N`;
    }
}

// Time -------------------------------------------------------------------------------------------------------------
// Ask for a new picture; a film that plays needs one only where its frame changes.
function request() { stale = true; wait(); }
function wait() { if (data && !waiting) { waiting = true; requestAnimationFrame(tick); } }

function tick(stamp) {
  waiting = false;
  if (playing) {
    if (last !== null) now += 1e-3 * (stamp - last) * data.speed * Number(element("speed").value);
    last = stamp;
    if (now > t1) {
      if (element("repeat").checked) now = t0;
      else { now = t1; setPlaying(false); }
    }
    const at = Math.min(count - 1, Math.max(0, Math.round((now - t0) / (t1 - t0) * (count - 1))));
    stale = stale || at !== frame;
    frame = at;
    wait();
  }
  if (stale) draw();
}

function setPlaying(value) {
  playing = value;
  last = null;
  if (playing && frame === count - 1) show(0);
  element("icon").setAttribute("d", playing ? "M3 2h4v12H3zM9 2h4v12H9z" : "M4 2l10 6-10 6z");
  element("play").setAttribute("aria-label", playing ? "pause" : "play");
  request();
}

function show(f) {
  frame = Math.min(count - 1, Math.max(0, f));
  now = t0 + (t1 - t0) * frame / (count - 1);
  request();
}

const step = (by) => { setPlaying(false); show(frame + by); };

// Controls ---------------------------------------------------------------------------------------------------------
element("play").addEventListener("click", () => setPlaying(!playing));
element("back").addEventListener("click", () => step(-1));
element("on").addEventListener("click", () => step(1));
element("scrub").addEventListener("input", () => { setPlaying(false); show(Number(element("scrub").value)); });
element("still").addEventListener("click", saveStill);
for (const id of ["speed", "forces", "repeat", "follow"]) element(id).addEventListener("change", request);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
  const far = event.shiftKey ? 10 : 1;
  const actions = {
    " ": () => setPlaying(!playing), ArrowLeft: () => step(-far), ArrowRight: () => step(far),
    Home: () => step(-count), End: () => step(count), f: () => { element("forces").checked ^= 1; request(); },
  };
  const action = actions[event.key];
  if (!action || (event.key === "f" && !data.contact_count)) return;
  event.preventDefault(); // also a focused button must not act on the space bar a second time
  action();
});

let drag = null;
canvas.addEventListener("pointerdown", (event) => { drag = event; canvas.setPointerCapture(event.pointerId); });
canvas.addEventListener("pointerup", () => { drag = null; });
canvas.addEventListener("pointercancel", () => { drag = null; });
canvas.addEventListener("pointermove", (event) => {
  if (!drag) return;
  const dx = event.clientX - drag.clientX, dy = event.clientY - drag.clientY;
  if (space) {
    view.azimuth -= 0.4 * dx;
    view.elevation = Math.min(89, Math.max(-5, view.elevation + 0.4 * dy));
  } else { view.x += dx; view.y += dy; }
  drag = event;
  request();
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const zoom = Math.min(200, Math.max(0.2, view.zoom * Math.exp(-0.0015 * event.deltaY))), by = zoom / view.zoom;
  const box = canvas.getBoundingClientRect();
  const x = event.clientX - box.left - 0.5 * box.width, y = event.clientY - box.top - 0.5 * box.height - 14;
  view = { ...view, zoom, x: x + by * (view.x - x), y: y + by * (view.y - y) };
  request();
}, { passive: false });
canvas.addEventListener("dblclick", () => { look(data.bounds); request(); });
addEventListener("resize", request);
new ResizeObserver(request).observe(canvas);
dark.addEventListener("change", () => { legend(); request(); });

function legend() {
  element("legend").replaceChildren();
  for (const kind of data.friction_shown ? ["normal", "friction"] : ["normal"]) {
    const row = document.createElement("div"), mark = document.createElement("i"), text = document.createElement("span");
    mark.style.background = data.force_colors[kind][dark.matches ? 1 : 0];
    text.id = `legend-${kind}`;
    row.append(mark, text);
    element("legend").append(row);
  }
}

// Films ------------------------------------------------------------------------------------------------------------
function look(at) {
  bounds = at;
  center = bounds[0].map((low, i) => 0.5 * (low + bounds[1][i]));
  view = { ...home };
}

// Show a film: its description and its numbers, as page.py makes them. A film after another one of the same dimension keeps
// the view, the time and whether it plays. Returns a promise of its first picture.
function load(film, values) {
  const first = data === undefined || film.dimension !== data.dimension;
  data = film;
  numbers = values;
  [d, count, space] = [data.dimension, data.frames, data.dimension === 3];
  [t0, t1] = [numbers[data.t], numbers[data.t + count - 1]];
  if (first) {
    home = { zoom: 1, x: 0, y: 0, azimuth: data.camera[0], elevation: data.camera[1] };
    look(data.bounds);
    now = t0;
  }
  now = Math.min(Math.max(now, t0), t1);
  frame = Math.round((now - t0) / (t1 - t0) * (count - 1));
  if (space && first) {
    solids = makeSolids(element("solids"));
    element("solids").addEventListener("webglcontextlost", () => { solids = null; element("solids").hidden = true; request(); });
  } else if (!space) solids = null;
  element("solids").hidden = !solids;
  if (solids) solids.load(data, numbers);
  document.title = data.title || "jaxns";
  element("title").textContent = data.title;
  element("scrub").max = count - 1;
  element("hint").textContent = `drag to ${space ? "turn" : "move"}, wheel to zoom, double click to reset`;
  element("with-forces").style.display = data.contact_count ? "" : "none";
  if (data.contact_count) legend();
  request();
  return new Promise((tell) => drawn.push(tell));
}

if (element("data").textContent) {
  const text = atob(element("numbers").textContent.trim());
  load(JSON.parse(element("data").textContent), new Float32Array(Uint8Array.from(text, (c) => c.charCodeAt(0)).buffer));
}
