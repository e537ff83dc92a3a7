"""Solids in the page of a film, beside rays that are cast at them in numpy."""

from __future__ import annotations

import base64
import io
import json
import re

import jax.numpy as jnp
import numpy as np
import pytest
from browsers import browse
from PIL import Image
from test_player import LISTEN

import jaxns as ns
from jaxns import scene

BALL = ns.models.bouncing_ball()
RADIUS, CENTERS = 0.5, np.array([[0.0, 0.0, 1.0], [0.5, 0.3, 1.3]])  # two spheres that penetrate each other
SUN = np.array([-0.12, -0.6, 0.79])  # as solids.js has it
TRAVEL = 3.0
MISSED = -100.0

DRIVE = """<script>
const log = {};
const size = () => [canvas.clientWidth, canvas.clientHeight];
const shot = () => ({ picture: still().toDataURL(), eye: { ...camera(), size: size() } });
(async () => {
  await new Promise((done) => setTimeout(done, 300));
  log.webgl = solids !== null;
  log.first = shot();
  show(count - 1);
  log.last = shot();
  element("follow").checked = true;
  log.followed = shot();
  const link = [];
  HTMLAnchorElement.prototype.click = function () { link.push(this.download, this.href.slice(0, 14)); };
  element("still").click();
  log.link = link;
})().catch((error) => complaints.push(String(error))).finally(() => {
  const result = document.createElement("pre");
  result.id = "findings";
  result.textContent = JSON.stringify({ ...log, complaints });
  document.body.append(result);
});
</script>"""


def draw(t, q, p):
    """Two spheres above a floor; the second of them moves."""
    shift = jnp.array([0.0, TRAVEL, 0.0]) * t
    balls = [
        *scene.sphere(CENTERS[0], RADIUS, colors=("red", "red")),
        *scene.sphere(CENTERS[1] + shift, RADIUS, colors=("blue", "blue")),
    ]
    return ns.Scene([scene.grid(2.0), *balls])


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("solids")
    traj = ns.simulate(BALL.system, ns.Moreau(), BALL.q0, BALL.u0, dt=0.01, num_steps=100)
    page = ns.animate(BALL, traj, draw=draw, title="solids").html()
    (folder / "page.html").write_text(page.replace("<head>", "<head>" + LISTEN).replace("</body>", DRIVE + "</body>"))
    document = browse((folder / "page.html").as_uri(), folder, "--dump-dom")
    findings = json.loads(re.search(r'<pre id="findings">(.*?)</pre>', document)[1])
    assert findings["complaints"] == []
    assert findings["webgl"]
    return findings


def colours(shot) -> np.ndarray:
    """(height, width, 3)."""
    content = base64.b64decode(shot["picture"].partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int)


def rays(shot, picture) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each pixel a point (height, width, 3) of its ray, and the three axes of the view; the last looks at the eye."""
    eye = shot["eye"]
    axes, (width, height) = np.array(eye["axes"]), eye["size"]
    y, x = np.mgrid[: picture.shape[0], : picture.shape[1]] + 0.5
    a = (x - 0.5 * width - eye["shift"][0]) / eye["scale"]
    b = -(y - 0.5 * height - eye["shift"][1]) / eye["scale"]
    return np.array(eye["center"]) + a[..., None] * axes[0] + b[..., None] * axes[1], axes, np.array([a, b])


def hits(origin, direction, center) -> tuple[np.ndarray, np.ndarray]:
    """Where rays from the far end of `direction` first meet a sphere, `MISSED` where they do not; and how far inside."""
    to = origin - center
    along = to @ direction
    inside = RADIUS**2 - np.sum(to**2, axis=-1) + along**2
    return np.where(inside > 0.0, -along + np.sqrt(np.maximum(inside, 0.0)), MISSED), inside


def test_nearer_solids_hide_what_is_behind_them_also_where_they_penetrate(found):
    picture = colours(found["first"])
    origin, axes, _ = rays(found["first"], picture)
    (red, red_inside), (blue, blue_inside) = (hits(origin, axes[2], c) for c in CENTERS)
    seen_red = picture[..., 0] > picture[..., 2] + 30
    seen_blue = picture[..., 2] > picture[..., 0] + 30
    rim = (np.abs(red_inside) < 0.03) | (np.abs(blue_inside) < 0.03) | (np.abs(red - blue) < 0.03)  # facets are coarse
    sure_red, sure_blue = (red > blue) & ~rim, (blue > red) & ~rim
    assert min(sure_red.sum(), sure_blue.sum()) > 3000
    both = (red > MISSED) & (blue > MISSED) & ~rim
    assert (both & sure_red).sum() > 100  # some of each where the other is behind or inside
    assert (both & sure_blue).sum() > 100
    assert seen_red[sure_red].mean() > 0.999
    assert seen_blue[sure_blue].mean() > 0.999


def test_surfaces_are_brighter_towards_the_light(found):
    picture = colours(found["first"])
    origin, axes, _ = rays(found["first"], picture)
    depth, inside = hits(origin, axes[2], CENTERS[0])
    other, _ = hits(origin, axes[2], CENTERS[1])
    normal = (origin + depth[..., None] * axes[2] - CENTERS[0]) / RADIUS
    towards = normal @ (SUN / np.linalg.norm(SUN))
    shown = (inside > 0.03) & (depth > other)
    shaded, lit = (picture[..., 0][shown & part].mean() for part in (towards < 0.0, towards > 0.8))
    assert lit > 1.25 * shaded


def test_solids_throw_shadows_on_the_floor(found):
    picture = colours(found["last"])  # here they stand apart
    origin, axes, _ = rays(found["last"], picture)
    floor = origin - (origin[..., 2] / axes[2, 2])[..., None] * axes[2]  # where rays meet z = 0
    centers = [CENTERS[0], CENTERS[1] + np.array([0.0, TRAVEL, 0.0])]
    free = np.all([(hits(origin, axes[2], c)[0] == MISSED) for c in centers], axis=0)
    sun = SUN / np.linalg.norm(SUN)
    inside = [hits(floor, sun, c)[1] for c in centers]
    dark = free & (np.max(inside, axis=0) > 0.04)
    light = free & (np.max(inside, axis=0) < -0.04)
    assert dark.sum() > 2000
    white = picture.min(axis=-1) > 250
    assert white[dark].mean() < 0.01
    assert white[light & (np.abs(floor[..., :2]).max(axis=-1) < 2.0)].mean() > 0.8  # but for the lines of the grid


def test_the_view_follows(found):
    def middle(shot):
        picture = colours(shot)
        y, x = np.nonzero(picture[..., 2] > picture[..., 0] + 30)
        return np.array([x.mean(), y.mean()])

    width, height = found["last"]["eye"]["size"]
    followed = middle(found["followed"])
    assert np.abs(followed - [0.5 * width, 0.5 * height + 14]).max() < 8
    assert np.linalg.norm(middle(found["last"]) - followed) > 50


def test_a_still_is_saved_with_title_and_time(found):
    assert found["link"] == ["solids 1.000 s.png", "data:image/png"]


def test_viser_shows_the_same_points():
    pytest.importorskip("viser")
    traj = ns.simulate(BALL.system, ns.Moreau(), BALL.q0, BALL.u0, dt=0.01, num_steps=20)
    film = ns.animate(BALL, traj, draw=draw)
    show = film.viser(port=0)
    try:
        for frame in (0, 20):
            show.show(frame)
            grid, *balls = show._parts
            assert grid.points.shape == (22, 2, 3)
            for handle, path in zip(balls, film.paths[1:], strict=True):
                np.testing.assert_allclose(handle.vertices, path.points[frame].reshape(-1, 3), atol=1e-6)
                corners = handle.vertices[handle.faces]
                area = 0.5 * np.linalg.norm(np.cross(*np.diff(corners, axis=1).swapaxes(0, 1)), axis=-1).sum()
                assert area == pytest.approx(2.0 * np.pi * RADIUS**2, rel=0.06)  # each path has half of its ball
    finally:
        show.stop()


def test_viser_is_for_space():
    pytest.importorskip("viser")
    traj = ns.simulate(BALL.system, ns.Moreau(), BALL.q0, BALL.u0, dt=0.01, num_steps=20)
    with pytest.raises(ValueError, match="in space"):
        ns.animate(BALL, traj).viser()
