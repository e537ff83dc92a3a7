// The page of an exploration: sliders, the player of films in a frame of its own, and curves. Python computes.
//
// Messages to Python are {id, kind: "picture" | "code" | "prepare", values}; its reply has the same id and kind. One picture is asked for
// at a time: while it is under way, sliders may move on, and the next message has their newest values.

const COLORS = ["#3f74b8", "#d9822b", "#4a9560", "#c4453f", "#7d5fb5", "#8b95a5"];
const NAMES = { parameters: "Parameters", q: "Initial positions", u: "Initial velocities", time: "Time" };
const STEPS = 400; // of a slider

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const short = (value) => Number(value.toPrecision(4)).toString();

// A slider of the specification that sliders.py describes: its row, and how to read and set its value.
function sliderOf(spec, moved) {
  const scale = spec.logarithmic ? Math.log : (x) => x, back = spec.logarithmic ? Math.exp : (x) => x;
  const [low, high] = [scale(spec.low), scale(spec.high)];
  const input = make("input", { type: "range", min: 0, max: STEPS, step: "any", "aria-label": spec.name });
  const shown = make("output");
  let value = spec.value;
  const set = (to) => {
    value = to;
    input.value = STEPS * (scale(to) - low) / (high - low);
    shown.textContent = short(to);
  };
  input.addEventListener("input", () => {
    value = Number(back(low + (high - low) * Number(input.value) / STEPS).toPrecision(4));
    shown.textContent = short(value);
    moved();
  });
  set(value);
  const row = make("label", { class: "row" }, make("span", {}, spec.name), shown, input);
  return { row, group: spec.group, name: spec.name, read: () => value, reset: () => set(spec.value), set };
}

// One canvas with curves over time; a choice says which family of curves.
function plotOf(label, first) {
  const choice = make("select", { "aria-label": label }), canvas = make("canvas", { role: "img", "aria-label": label });
  const legend = make("div", { class: "legend" }), box = make("div", {}, choice, canvas, legend);
  let film = null, numbers = null;
  const draw = () => {
    if (!film) return;
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth || 300, height = canvas.clientHeight || 150;
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const ctx = canvas.getContext("2d"), style = getComputedStyle(box);
    ctx.scale(ratio, ratio);
    const values = (at) => numbers.subarray(at, at + film.frames), t = values(film.t);
    const curves = (film.curves[choice.value] || []).slice(0, COLORS.length);
    const all = curves.flatMap((c) => [...values(c.at)]).filter(Number.isFinite);
    let [low, high] = [Math.min(...all), Math.max(...all)];
    if (!(high - low > 1e-6 * Math.max(Math.abs(low), Math.abs(high)))) [low, high] = [low - 1, high + 1];
    const x = (s) => 44 + (width - 50) * (s - t[0]) / (t[t.length - 1] - t[0]);
    const y = (v) => height - 16 - (height - 24) * (v - low) / (high - low);
    ctx.fillStyle = style.getPropertyValue("--soft");
    ctx.strokeStyle = style.getPropertyValue("--line");
    ctx.font = "10px system-ui";
    for (const v of [low, high]) ctx.fillText(short(v), 2, y(v) + 4);
    ctx.fillText(`${short(t[t.length - 1])} s`, width - 40, height - 3);
    ctx.strokeRect(44, 8, width - 50, height - 24);
    legend.replaceChildren();
    curves.forEach((curve, k) => {
      ctx.strokeStyle = COLORS[k];
      ctx.beginPath();
      values(curve.at).forEach((v, i) => ctx.lineTo(x(t[i]), y(v)));
      ctx.stroke();
      legend.append(make("span", { style: `color: ${COLORS[k]}` }, curve.name));
    });
  };
  choice.addEventListener("change", draw);
  const show = (newFilm, newNumbers) => {
    const families = Object.keys(newFilm.curves);
    if (!choice.length) {
      for (const name of families) choice.append(make("option", { value: name }, name));
      choice.value = families[Math.min(first, families.length - 1)];
    }
    [film, numbers] = [newFilm, newNumbers];
    draw();
  };
  return { box, show };
}

function render({ model, el }) {
  const settings = model.get("settings");
  const root = make("div", { class: "jaxns-explore" });
  const state = make("div", { class: "state", role: "status" }, "computing …");
  const frame = make("iframe", { title: "film" }), text = make("pre", { hidden: "" });
  const ready = new Promise((done) => frame.addEventListener("load", done, { once: true }));
  frame.srcdoc = settings.player;
  const sliders = settings.sliders.map((spec) => sliderOf(spec, moved));
  const integrator = make("select", { "aria-label": "integrator" });
  settings.integrators.forEach((name, k) => integrator.append(make("option", { value: k }, name)));
  const code = make("button", { type: "button" }, "code"), reset = make("button", { type: "button" }, "reset");
  const controls = make("div", { class: "controls" }, integrator);
  for (const [group, title] of Object.entries(NAMES)) {
    const rows = sliders.filter((s) => s.group === group).map((s) => s.row);
    if (rows.length) controls.append(make("details", group === "parameters" || group === "time" ? { open: "" } : {},
      make("summary", {}, title), ...rows));
  }
  controls.append(code, reset);
  const plots = [plotOf("first curves", 0), plotOf("second curves", 1)];
  root.append(controls, make("div", {}, frame, state, make("div", { class: "plots" }, ...plots.map((p) => p.box))), text);
  el.append(root);

  let prepare = settings.prepare; // whether something is left to compile after the first picture
  let pending = null, outcome = "", asked = 0, underWay = false, changed = false, since = 0, started = false;
  const values = () => ({ ...Object.fromEntries(sliders.map((s) => [s.name, s.read()])), integrator: Number(integrator.value) });

  function moved() {
    if (!changed) since = performance.now();
    changed = true;
    if (!underWay) ask();
  }

  function ask() {
    [underWay, changed] = [true, false];
    const begin = since;
    asked += 1;
    model.send({ id: asked, kind: "picture", values: values() });
    const mine = asked;
    setTimeout(() => { if (underWay && asked === mine) state.textContent = "computing …"; }, 400);
    pending = { id: mine, begin };
  }

  async function answered(message, buffers) {
    if (message.kind === "code") {
      text.textContent = message.code;
      text.hidden = false;
      navigator.clipboard?.writeText(message.code).catch(() => {}); // where the page may not, one copies by hand
      return;
    }
    if (!pending || message.id !== pending.id) return;
    if (message.kind === "prepare") {
      underWay = false;
      state.textContent = outcome;
      if (changed) ask();
      el.dispatchEvent(new CustomEvent("jaxns-ready"));
      return;
    }
    const { begin } = pending;
    let picture = Promise.resolve();
    if (message.film) {
      const view = buffers[0], bytes = view.buffer ? view : new DataView(view);
      const numbers = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
      await ready;
      picture = frame.contentWindow.load(message.film, numbers);
      if (!started) frame.contentWindow.setPlaying(true);
      started = true;
      for (const plot of plots) plot.show(message.film, numbers);
    }
    underWay = prepare;
    if (!prepare && changed) ask(); // Python computes while this picture is drawn
    await picture;
    const milliseconds = performance.now() - begin;
    outcome = `${message.outcome} · ${Math.round(milliseconds)} ms`;
    state.textContent = outcome;
    state.classList.toggle("bad", !message.ok);
    el.dispatchEvent(new CustomEvent("jaxns-picture", { detail: { id: message.id, milliseconds, ok: message.ok } }));
    if (prepare) {
      prepare = false;
      pending = { id: ++asked };
      model.send({ id: asked, kind: "prepare" });
      state.textContent = `${outcome} · preparing initial states …`;
    }
  }

  model.on("msg:custom", answered);
  integrator.addEventListener("change", moved);
  code.addEventListener("click", () => model.send({ id: ++asked, kind: "code", values: values() }));
  reset.addEventListener("click", () => { for (const s of sliders) s.reset(); integrator.value = 0; moved(); });
  moved();
  return () => model.off("msg:custom", answered);
}

export default { render };
