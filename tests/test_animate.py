"""Animations agree with the trajectories they are made of, in memory and in files."""

from __future__ import annotations

import base64
import json
import re
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import jaxns as ns
from jaxns import scene
from jaxns.command_line import main as cli
from jaxns.pictures.animate import MAX_FRAMES

BALL = ns.models.bouncing_ball(omega=10.0)
DISK = ns.models.tippedisk()


@pytest.fixture(scope="module")
def ball() -> ns.Trajectory:
    return ns.simulate(BALL.system, ns.Moreau(), BALL.q0, BALL.u0, dt=5e-3, num_steps=160)


@pytest.fixture(scope="module")
def disk() -> ns.Trajectory:
    return ns.simulate(DISK.system, ns.Moreau(), DISK.q0, DISK.u0, dt=1e-3, num_steps=60)


def test_frames_show_the_nearest_rows(ball):
    film = ns.animate(BALL, ball, speed=0.2, fps=10.0)
    assert len(film.t) == 41
    assert film.fps == pytest.approx(10.0)
    np.testing.assert_allclose(film.t, np.asarray(ball.t)[::4])
    np.testing.assert_allclose(film.paths[1].points[:, 0, -1], np.asarray(ball.q)[::4, :2], atol=1e-12)
    assert len(ns.animate(BALL, ball).t) == len(ball.t)  # no more frames than rows
    assert ns.animate(BALL, ball).speed == pytest.approx(0.08)  # ten seconds


def test_no_more_frames_than_the_limit():
    t = jnp.linspace(0.0, 1.0, 2001)
    still = {"q": jnp.tile(BALL.q0, (2001, 1)), "P_N": jnp.zeros((2001, 1)), "P_F": jnp.zeros((2001, 1, 1))}
    nothing = dict.fromkeys("u P_g P_gamma iterations residual stage_iterations worst_row".split())
    traj = ns.Trajectory(t=t, status=jnp.zeros(2000, int), **still, **nothing)
    assert len(ns.animate(BALL, traj, speed=0.01).t) == MAX_FRAMES


@pytest.mark.parametrize("fps", [3.0, 10.0, 300.0])
def test_forces_of_all_frames_sum_up_to_the_percussions_of_the_trajectory(ball, fps):
    """So an impact between two frames is seen in the second one."""
    film = ns.animate(BALL, ball, speed=0.2, fps=fps)
    intervals = np.diff(film.t, prepend=film.t[0])[:, None]
    assert np.sum(film.normal_forces[:, 0] * intervals, axis=0) == pytest.approx([0.0, float(ball.P_N.sum())])
    assert np.sum(film.friction_forces[:, 0] * intervals, axis=0) == pytest.approx([float(ball.P_F.sum()), 0.0])
    assert float(ball.P_N.sum()) > 1.0
    assert float(ball.P_F.sum()) < 0.0  # the ball spins counter-clockwise: the floor pushes it to the left


def test_arrows_saturate_and_stay_in_view(ball):
    film = ns.animate(BALL, ball, speed=0.2, fps=10.0)
    normal, friction = film.arrows
    size, lengths = np.linalg.norm(film.normal_forces[:, 0], axis=1), np.linalg.norm(normal[:, 0], axis=1)
    assert np.all(np.diff(lengths[np.argsort(size)]) >= 0.0)
    usual = np.median(size[size > 0.0])
    assert lengths[size > 0.0].min() / lengths.max() > 0.5 * usual / size.max()  # small forces gain
    for arrows in (normal, friction):
        tips = film.contact_points + arrows
        assert np.all((tips >= film.bounds[0]) & (tips <= film.bounds[1]))


def test_a_failed_run_is_shown_up_to_its_failure(ball):
    status = np.zeros(160, int)
    status[100:] = [ns.Status.NOT_CONVERGED] + [ns.Status.STOPPED] * 59
    film = ns.animate(BALL, replace(ball, status=jnp.asarray(status)).failed_as_nan())
    assert film.t[-1] == pytest.approx(float(ball.t[100]))
    with pytest.raises(ValueError, match="the first step failed"):
        ns.animate(BALL, replace(ball, status=jnp.ones(160, int)))


def test_event_driven_runs_are_shown_like_others(ball):
    events = ns.Events(*(jnp.zeros((1, 1)) for _ in ns.Events.__dataclass_fields__))
    assert len(ns.animate(BALL, replace(ball, events=events)).t) == 161


def wrong(**changes):
    """Drawings of the ball with something wrong."""

    def draw(t, q, p):
        right = BALL.draw(t, q, p)
        fields = {name: getattr(right, name) for name in ("paths", "contact_points", "normals", "tangents")}
        return ns.Scene(**(fields | {name: change(fields[name]) for name, change in changes.items()}))

    return draw


ERRORS = {  # drawing, and what the message must say
    "no scene": (lambda t, q, p: scene.disk(q[:2], 0.1), "must return a jaxns.Scene, got Path"),
    "dimension": (wrong(paths=lambda x: [scene.line(jnp.zeros((3, 4)))]), r"\(…, k, 3\), got \(3, 4\)"),
    "mixed": (wrong(paths=lambda x: [*x, scene.ring(jnp.zeros(3), 1.0)]), r"path 2 must have shape \(…, k, 2\)"),
    "single point": (wrong(paths=lambda x: [*x, scene.line(jnp.zeros(2))]), r"path 2 must have shape \(…, k, 2\)"),
    "contacts": (wrong(contact_points=lambda x: jnp.zeros((3, 2))), r"contact_points must have shape \(1, 2\)"),
    "normals": (wrong(normals=lambda x: x[0]), r"normals must have shape \(1, 2\), got \(2,\)"),
    "tangents": (wrong(tangents=lambda x: jnp.zeros((1, 2, 2))), r"tangents must have shape \(1, ≤ 1, 2\)"),
    "not finite": (wrong(contact_points=lambda x: x / 0.0), "not finite"),
}


@pytest.mark.parametrize("what", ERRORS)
def test_wrong_drawings_are_refused(ball, what):
    draw, message = ERRORS[what]
    with pytest.raises((TypeError, ValueError), match=message):
        ns.animate(BALL, ball, draw=draw)


def test_wrong_arguments_are_refused(ball, tmp_path):
    with pytest.raises(ValueError, match="no drawing; give draw="):
        ns.animate(BALL.system, ball)
    with pytest.raises(TypeError, match="must be a Problem, a Mechanism or a System, got Array"):
        ns.animate(ball.q, ball)
    with pytest.raises(ValueError, match=r"the trajectory is a batch.*choose one"):
        ns.animate(BALL, jax.tree.map(lambda x: jnp.stack([x, x]), ball))
    with pytest.raises(ValueError, match=r"at least two rows; it has 1"):
        ns.animate(BALL, jax.tree.map(lambda x: x[:1], replace(ball, status=ball.status[:0])))
    with pytest.raises(ValueError, match="fps and speed must be positive"):
        ns.animate(BALL, ball, speed=-1.0)
    with pytest.raises(ValueError, match=r"as .html, .gif or .mp4, got 'film.avi'"):
        ns.animate(BALL, ball).save("film.avi")


def test_a_system_is_animated_by_a_drawing_of_ones_own(ball):
    film = ns.animate(BALL.system, ball, draw=lambda t, q, p: ns.Scene([scene.disk(q[:2], p["R"])]))
    assert film.contact_points.shape == (161, 0, 2)
    assert not any(arrows.size for arrows in film.arrows)
    assert "<!DOCTYPE html>" in film.html()


# Files ----------------------------------------------------------------------------------------------------------------


def test_gif_has_all_frames_and_its_time(ball, tmp_path):
    film = ns.animate(BALL, ball, speed=0.4, fps=8.0, title="ball")
    film.save(tmp_path / "ball.gif", width=200)
    with Image.open(tmp_path / "ball.gif") as image:
        assert image.n_frames == len(film.t) == 17
        assert image.width == 200
        durations, pictures = [], []
        for frame in range(image.n_frames):
            image.seek(frame)
            durations.append(image.info["duration"])
            pictures.append(np.asarray(image.convert("RGB")))
    assert sum(durations) == pytest.approx(1e3 * 17 / 8.0, abs=10.0)
    assert pictures[0][100, 5].tolist() == [255, 255, 255]
    assert np.mean(pictures[0] != pictures[8]) > 0.01


def test_mp4_is_written(ball, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    ns.animate(BALL, ball, speed=0.4, fps=8.0).save(tmp_path / "ball.mp4", width=200)
    film = (tmp_path / "ball.mp4").read_bytes()
    assert film[4:8] == b"ftyp"
    assert len(film) > 2000


def test_without_ffmpeg_the_message_says_what_to_do(ball, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ImportError, match=r"films need ffmpeg.*jaxns-mechanics\[animation\].*\.gif or \.html"):
        ns.animate(BALL, ball).save("film.mp4")


@pytest.mark.parametrize("forces", [True, False])
def test_still_shows_the_frame_at_a_time(ball, disk, forces):
    film = ns.animate(BALL, ball)
    figure = film.still(0.3, forces=forces)
    texts = {text.get_text() for text in figure.axes[0].texts}
    assert "t = 0.3000 s" in texts
    assert ("normal force" in texts) is forces
    assert not hasattr(figure, "number")  # pyplot does not know it
    assert ns.animate(DISK, disk).still().axes


def page_data(page: str) -> tuple[dict, np.ndarray]:
    text, numbers = (re.search(rf'id="{i}">(.*?)</script>', page, re.DOTALL)[1] for i in ("data", "numbers"))
    return json.loads(text), np.frombuffer(base64.b64decode(numbers), "<f4")


@pytest.mark.parametrize("which", ["ball", "disk"])
def test_numbers_of_the_page_give_the_frames_back(which, request):
    film = ns.animate(BALL if which == "ball" else DISK, request.getfixturevalue(which))
    data, numbers = page_data(film.html())
    d, size = film.dimension, float(np.max(film.bounds[1] - film.bounds[0]))
    for frame in (0, len(film.t) // 2, len(film.t) - 1):
        for path, described in zip(film.paths, data["paths"], strict=True):
            pieces = []
            for piece in described["pieces"]:
                length = piece["count"] * piece["corners"] * d
                start = piece["points"] + (frame * length if piece["moving"] else 0)
                points = numbers[start : start + length].reshape(piece["count"], piece["corners"], d)
                if piece["maps"] is not None:
                    start = piece["maps"] + frame * d * (d + 1)
                    A = numbers[start : start + d * (d + 1)].reshape(d + 1, d)
                    points = points @ A[:d] + A[d]
                pieces.append(points)
            exact = path.points[frame]
            tolerance = 1e-5 * max(size, 0.02 * np.abs(exact).max())  # the ground reaches far; 32 bits
            np.testing.assert_allclose(np.concatenate(pieces), exact, atol=tolerance)
    np.testing.assert_allclose(numbers[data["t"] : data["t"] + len(film.t)], film.t, rtol=1e-6)


def test_page_is_complete_in_itself_and_shows_any_title(ball):
    title = 'a ball </script><script>alert("x")</script> & more'
    film = ns.animate(BALL, ball, title=title)
    page = film.html()
    assert not re.search(r"https?:|//cdn|<link|<img|\bsrc=|@import|url\(|fetch\(", page)
    assert page.count("</script>") == 3
    assert page_data(page)[0]["title"] == title
    assert len(page) < 150_000
    cell = film._repr_html_()
    assert cell.startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert "<script" not in cell


def test_command_line_writes_an_animation(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = ["run", "bouncing-ball", "--integrator", "moreau", "--t1", "0.2", "--plot", "f.png", "--animate"]
    assert cli.main([*run, "f.html"]) == 0
    assert "wrote f.html" in capsys.readouterr().out
    assert page_data((tmp_path / "f.html").read_text())[0]["frames"] == 21
    assert cli.main([*run, "f.avi"]) == 2
    assert "as .html, .gif or .mp4" in capsys.readouterr().err
