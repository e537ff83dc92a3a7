"""The player of animations, driven in a browser."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from browsers import browse
from PIL import Image

import jaxns as ns

BALL = ns.models.bouncing_ball(omega=10.0)
DISK = ns.models.tippedisk()


@pytest.fixture(scope="module")
def films() -> dict[str, ns.Animation]:
    """One in the plane, one in space."""
    ball = ns.simulate(BALL.system, ns.Moreau(), BALL.q0, BALL.u0, dt=5e-3, num_steps=160)
    disk = ns.simulate(DISK.system, ns.Moreau(), DISK.q0, DISK.u0, dt=1e-3, num_steps=60)
    return {"ball": ns.animate(BALL, ball, title="in a browser"), "disk": ns.animate(DISK, disk)}


# Errors are kept; and pictures come by the clock that the browser runs ahead, which its own screen does not follow.
LISTEN = """<script>
window.complaints = [];
onerror = (message) => { complaints.push(String(message)); };
requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 16);
</script>"""
WITHOUT_WEBGL = """<script>
const usual = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
  return kind === "webgl2" ? null : usual.call(this, kind, ...rest);
};
</script>"""
DRIVE = """<script>
const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
const seconds = () => parseFloat(element("time").textContent);
const pixels = () => {
  const picture = still();
  return picture.getContext("2d").getImageData(0, 0, picture.width, picture.height).data;
};
const changed = (a, b) => a.reduce((sum, value, i) => sum + (value !== b[i]), 0);
const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const set = (id, value, event) => { element(id).value = value; element(id).dispatchEvent(new Event(event)); };
const log = {};
async function drive() {
  await pause(0.2);
  log.start = seconds();
  element("play").click();
  log.label = element("play").getAttribute("aria-label");
  await pause(1);
  element("play").click();
  await pause(0.2);
  log.played = seconds();
  await pause(0.5);
  log.paused = seconds();
  set("speed", "4", "change");
  press(" ");
  await pause(1);
  press(" ");
  await pause(0.2);
  log.fast = seconds() - log.paused;
  set("scrub", String(FRAME), "input");
  await pause(0.2);
  log.scrubbed = seconds();
  press("ArrowRight");
  await pause(0.2);
  log.right = frame;
  press("ArrowLeft");
  element("back").click();
  await pause(0.2);
  log.left = frame;
  element("on").click();
  await pause(0.2);
  log.on = frame;
  const before = pixels();
  element("forces").click();
  await pause(0.2);
  const without = pixels();
  log.forces = changed(before, without);
  log.legend = getComputedStyle(element("legend")).display;
  const at = (x, y) => ({ clientX: x, clientY: y, pointerId: 1, bubbles: true });
  canvas.setPointerCapture = () => {};
  canvas.dispatchEvent(new PointerEvent("pointerdown", at(300, 200)));
  canvas.dispatchEvent(new PointerEvent("pointermove", at(360, 220)));
  canvas.dispatchEvent(new PointerEvent("pointerup", at(360, 220)));
  await pause(0.2);
  const dragged = pixels();
  log.dragged = changed(without, dragged);
  canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -300, clientX: 400, clientY: 300, cancelable: true }));
  await pause(0.2);
  log.zoomed = changed(dragged, pixels());
  canvas.dispatchEvent(new MouseEvent("dblclick"));
  await pause(0.2);
  log.reset = changed(without, pixels());
  press("End");
  await pause(0.2);
  log.end = seconds();
  log.webgl = solids !== null;
  log.controls = [...document.querySelectorAll("button, input, select, canvas")].every((e) => e.getAttribute("aria-label"));
}
drive().catch((error) => complaints.push(String(error))).finally(() => {
  const result = document.createElement("pre");
  result.id = "findings";
  result.textContent = JSON.stringify({ ...log, complaints });
  document.body.append(result);
});
</script>"""


@pytest.mark.parametrize(("which", "before"), [("ball", ""), ("disk", ""), ("disk", WITHOUT_WEBGL)])
def test_player_works_in_a_browser(which, before, films, tmp_path):
    film = films[which]
    frame = int(np.argmax(film.normal_forces[..., -1].sum(axis=1)))
    page, drive = film.html(), DRIVE.replace("FRAME", str(frame))
    (tmp_path / "page.html").write_text(
        page.replace("<head>", "<head>" + LISTEN + before).replace("</body>", drive + "</body>")
    )
    document = browse((tmp_path / "page.html").as_uri(), tmp_path, "--dump-dom")
    found = json.loads(re.search(r'<pre id="findings">(.*?)</pre>', document)[1])
    assert found["complaints"] == []
    assert found["label"] == "pause"
    assert found["start"] == 0.0
    assert found["played"] == pytest.approx(film.speed, rel=0.3)  # one second of playback
    assert found["paused"] == found["played"]
    assert found["fast"] == pytest.approx(4.0 * film.speed, rel=0.3)
    assert found["scrubbed"] == pytest.approx(film.t[frame], abs=1e-4)
    assert (found["right"], found["left"], found["on"]) == (frame + 1, frame - 1, frame)
    assert found["forces"] > 100
    assert found["legend"] == "none"
    assert min(found["dragged"], found["zoomed"]) > 1000
    assert found["reset"] == 0
    assert found["end"] == pytest.approx(film.t[-1], abs=1e-4)
    assert found["controls"]
    assert found["webgl"] is (which == "disk" and not before)


@pytest.mark.parametrize("which", ["ball", "disk"])
def test_player_shows_a_picture(which, films, tmp_path):
    films[which].save(tmp_path / "page.html")
    browse((tmp_path / "page.html").as_uri(), tmp_path, f"--screenshot={tmp_path / 'page.png'}")
    with Image.open(tmp_path / "page.png") as image:
        picture = np.asarray(image.convert("RGB")).astype(int)
    assert picture.shape[:2] == (700, 900)
    stage = picture[60:560]
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 30
    blue = (stage[..., 2] > stage[..., 0] + 40).mean()  # the body
    assert 0.005 < blue < 0.5
