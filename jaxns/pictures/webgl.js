// The pictures of solids: programs, buffers and the two passes, shadows and colours. solids.js makes what they need.

function makeSolids(canvas) {
  const gl = canvas.getContext("webgl2", { antialias: true, alpha: false });
  if (!gl) return null;
  const programOf = ([vertex, fragment]) => {
    const program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    return program;
  };
  const programs = { surface: programOf(SURFACE), line: programOf(LINE), depth: programOf(DEPTH) };
  const uniform = (program, name) => gl.getUniformLocation(programs[program], name);
  const shadows = gl.createTexture(), target = gl.createFramebuffer();
  gl.bindTexture(gl.TEXTURE_2D, shadows);
  gl.texStorage2D(gl.TEXTURE_2D, 1, gl.DEPTH_COMPONENT24, SHADOW, SHADOW);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_COMPARE_MODE, gl.COMPARE_REF_TO_TEXTURE);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.LINEAR);
  gl.bindFramebuffer(gl.FRAMEBUFFER, target);
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, shadows, 0);
  gl.enable(gl.DEPTH_TEST);
  let film, numbers, parts = [], reach = 1;

  // Frame by frame or once: the points of a piece without its map.
  const pointsOf = (piece, frame) => {
    const size = 3 * piece.count * piece.corners, from = piece.points + (piece.moving ? frame * size : 0);
    return numbers.subarray(from, from + size);
  };

  function upload(part, values) {
    part.count = values.length / 6;
    gl.bindBuffer(gl.ARRAY_BUFFER, part.buffer);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.DYNAMIC_DRAW);
  }

  function load(newFilm, newNumbers) {
    for (const part of parts) gl.deleteBuffer(part.buffer);
    [film, numbers, parts] = [newFilm, newNumbers, []];
    const add = (kind, path, piece, values) => {
      const part = { kind, path, piece, buffer: gl.createBuffer() };
      upload(part, values);
      parts.push(part);
    };
    const pieces = film.paths.flatMap((path) => path.pieces.map((piece) => ({ path, piece, points: pointsOf(piece, 0) })));
    const ground = pieces.filter(({ path }) => path.ground);
    const solid = pieces.filter(({ path }) => path.filled && !path.ground && (path.color !== "shadow" || !ground.length));
    surfaceOf(solid).forEach((values, k) => add("surface", solid[k].path, solid[k].piece, values));
    for (const { path, piece, points } of ground) if (points.length > 6) add("carpet", path, piece, carpetOf(points));
    for (const { path, piece, points } of pieces)
      if (path.width > 0 && !path.filled) add("line", path, piece, segmentsOf(piece, points, Number(path.closed)));
    const size = Math.hypot(...minus(film.bounds[1], film.bounds[0]));
    reach = 2 * size + Math.max(0, ...ground.map(({ points }) => 8 * Math.max(...points.map(Math.abs))));
  }

  function bind(name, attributes, buffer, divisor) {
    gl.useProgram(programs[name]);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    attributes.forEach((attribute, k) => {
      const at = gl.getAttribLocation(programs[name], attribute);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, 3, gl.FLOAT, false, 24, 12 * k);
      gl.vertexAttribDivisor(at, divisor);
    });
    return () => { for (const a of attributes) gl.disableVertexAttribArray(gl.getAttribLocation(programs[name], a)); };
  }

  // Orthographic: rows of the axes with factors and shifts, as a matrix of WebGL.
  const orthographic = (axes, factors, shifts, center) => {
    const rows = axes.map((axis, i) => [...axis.map((c) => c * factors[i]), shifts[i] - factors[i] * dot(axis, center)]);
    return [0, 1, 2, 3].flatMap((k) => [rows[0][k], rows[1][k], rows[2][k], Number(k === 3)]);
  };

  function lightOf(center) {
    const z = unit(SUN), x = unit(cross([0, 1, 0], z)), y = cross(z, x);
    const radius = 0.5 * Math.hypot(...minus(film.bounds[1], film.bounds[0])) * 1.1;
    return orthographic([x, y, z], [1 / radius, 1 / radius, -1 / (3 * radius)], [0, 0, 0], center);
  }

  function drawShadows(frame, light) {
    gl.bindFramebuffer(gl.FRAMEBUFFER, target);
    gl.viewport(0, 0, SHADOW, SHADOW);
    gl.clear(gl.DEPTH_BUFFER_BIT);
    for (const part of parts) {
      if (part.kind !== "surface") continue;
      const done = bind("depth", ["position"], part.buffer, 0);
      gl.uniformMatrix4fv(uniform("depth", "light"), false, light);
      gl.uniformMatrix4fv(uniform("depth", "place"), false, placeOf(part.piece, numbers, frame)[0]);
      gl.drawArrays(gl.TRIANGLES, 0, part.count);
      done();
    }
  }

  function drawPart(part, frame, view, light, eye, named) {
    const line = part.kind === "line", name = line ? "line" : "surface", set = (key) => uniform(name, key);
    const done = bind(name, line ? ["a", "b"] : ["position", "normal"], part.buffer, line ? 1 : 0);
    const [place, turn] = placeOf(part.piece, numbers, frame), carpet = part.kind === "carpet";
    const rgb = (color) => named(color).map((v) => v / 255);
    gl.uniformMatrix4fv(set("view"), false, view);
    gl.uniformMatrix4fv(set("place"), false, carpet && part.piece.maps === null ? IDENTITY : place);
    gl.uniform3fv(set("color"), rgb(carpet ? "paper" : line && part.path.color === "paper" ? "ink" : part.path.color));
    if (line) {
      gl.uniform2f(set("size"), canvas.width, canvas.height);
      gl.uniform1f(set("width"), part.path.width * eye.ratio);
      gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, part.count);
    } else {
      gl.uniformMatrix4fv(set("light"), false, light);
      gl.uniformMatrix3fv(set("turn"), false, turn);
      gl.uniform3fv(set("dark"), rgb("shadow").map((v) => 0.93 * v));
      gl.uniform3fv(set("sun"), unit(SUN));
      gl.uniform3fv(set("eye"), eye.axes[2]);
      gl.uniform1f(set("floor_"), Number(carpet));
      gl.drawArrays(gl.TRIANGLES, 0, part.count);
    }
    done();
  }

  // eye: axes, center, scale and shift (pixels of the page) of the view, and the pixels of the canvas in one of them.
  function draw(frame, eye, named) {
    for (const part of parts.filter(({ piece }) => piece.moving)) {
      const points = pointsOf(part.piece, frame);
      if (part.kind === "surface") upload(part, surfaceOf([{ piece: part.piece, points }])[0]);
      if (part.kind === "line") upload(part, segmentsOf(part.piece, points, Number(part.path.closed)));
    }
    const light = lightOf(eye.center), [width, height] = [canvas.width / eye.ratio, canvas.height / eye.ratio];
    const factors = [2 * eye.scale / width, 2 * eye.scale / height, -1 / reach];
    const view = orthographic(eye.axes, factors, [2 * eye.shift[0] / width, -2 * eye.shift[1] / height, 0], eye.center);
    drawShadows(frame, light);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(...named("paper").map((v) => v / 255), 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    for (const kind of ["carpet", "surface", "line"])
      for (const part of parts) if (part.kind === kind) drawPart(part, frame, view, light, eye, named);
  }

  return { load, draw };
}
