"""URDF files: links, inertias, joints, shapes, meshes, mimic; the same models by hand, in MuJoCo, or in closed form."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns
from jaxns.command_line.model_files import still

TOSSED = """<?xml version="1.0"?>
<robot name="tossed" xmlns:drake="https://drake.mit.edu/">
  <material name="sand"><color rgba="0.9 0.8 0.5 1"/></material>
  <link name="core">
    <inertial><origin xyz="0 0 0" rpy="0 0 0"/><mass value="0.4"/>
      <inertia ixx="0.0008" ixy="0" ixz="0" iyy="0.0009" iyz="0.0001" izz="0.0007"/></inertial>
    <visual><geometry><box size="0.1 0.05 0.05"/></geometry><material name="sand"/></visual>
    <collision><geometry><box size="0.1 0.05 0.05"/></geometry>
      <drake:proximity_properties><drake:mu_static value="0.15"/></drake:proximity_properties></collision>
  </link>
  <link name="flap">
    <inertial><origin xyz="0.035 0 0" rpy="0.1 0.2 0.3"/><mass value="0.3"/>
      <inertia ixx="0.0006" iyy="0.0006" izz="0.0005"/></inertial>
    <collision><origin xyz="0.035 0 0"/><geometry><sphere radius="0.03"/></geometry></collision>
  </link>
  <joint name="hinge" type="continuous"><parent link="core"/><child link="flap"/>
    <origin xyz="-0.035 0.06 0" rpy="0 0 0.2"/><axis xyz="0 1 0"/><dynamics damping="0.01" friction="0.0"/></joint>
</robot>"""


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", ["bodies", "joints"])
def test_tossed_elbow_runs_and_animates(coordinates, tmp_path):
    mechanism = ns.from_urdf(TOSSED, coordinates=coordinates, position=(0.0, 0.0, 0.2), floor=0.0, strict=True)
    assert mechanism.degrees_of_freedom == 7
    assert set(mechanism.contacts) == {"core:collision-floor", "flap:collision-floor"}
    assert float(mechanism.system.params["core:collision-floor.mu"]) == 0.15
    assert float(mechanism.system.params["flap:collision-floor.mu"]) == 0.5
    traj = ns.simulate(mechanism.system, ns.Rattle(), mechanism.q0, mechanism.u0, dt=2e-3, t1=0.4)
    gaps = np.array([mechanism.system.g_N(0.0, q) for q in traj.q[::20]])
    assert gaps.min() > -1e-8 and gaps[-1].min() < 1e-8 < gaps[0].min()
    ns.animate(mechanism, traj).save(tmp_path / "film.html")
    assert len(mechanism.draw(0.0, mechanism.q0, mechanism.system.params).paths) >= 3  # both boxes and the floor


def test_contacts_are_drawn_beside_limits_of_joints(tmp_path):
    text = TOSSED.replace("continuous", "revolute").replace("<dynamics", '<limit lower="-1" upper="1"/><dynamics')
    mechanism = ns.from_urdf(text, position=(0.0, 0.0, 0.2), floor=0.0, strict=True)
    assert len(mechanism.contacts) == 9 + 2
    assert mechanism.draw(0.0, mechanism.q0, mechanism.system.params).contact_points.shape == (9, 3)
    problem = mechanism.problem(dt=1e-2, t1=1.0)
    assert ns.animate(problem, still(problem)).contact_points.shape == (2, 9, 3)


def test_inertia_is_that_of_the_file():
    mechanism = ns.from_urdf(TOSSED)
    p = mechanism.system.params
    np.testing.assert_allclose(p["core.inertia"], [[8e-4, 0, 0], [0, 9e-4, 1e-4], [0, 1e-4, 7e-4]])
    np.testing.assert_allclose(np.linalg.eigvalsh(p["flap.inertia"]), [5e-4, 6e-4, 6e-4], rtol=1e-12)
    c, s = np.cos(0.2), np.sin(0.2)
    position, _ = mechanism.pose("flap", mechanism.q0)
    np.testing.assert_allclose(position, [-0.035 + 0.035 * c, 0.06 + 0.035 * s, 0.0], atol=1e-14)


def test_arm_as_in_mujoco(rng):
    """MuJoCo reads URDF, too, and fuses the base with the world."""
    mujoco = pytest.importorskip("mujoco")
    inertial = '<inertial><origin xyz="{}" rpy="0.3 -0.2 0.5"/><mass value="{}"/><inertia {}/></inertial>'
    tensor = 'ixx="0.02" ixy="0.001" ixz="-0.002" iyy="0.03" iyz="0.0015" izz="0.025"'
    text = f"""<robot name="arm"><link name="world"/>
    <link name="upper">{inertial.format("0.1 0 0.2", 2.0, tensor)}</link>
    <link name="fore">{inertial.format("0 0.05 0.15", 1.0, tensor)}</link>
    <link name="slide">{inertial.format("0.02 0 0", 0.5, tensor)}</link>
    <joint name="shoulder" type="revolute"><parent link="world"/><child link="upper"/>
      <origin xyz="0 0 1" rpy="0.1 0.2 0.3"/><axis xyz="0 1 0.5"/>
      <limit lower="-2" upper="2" effort="1" velocity="1"/><dynamics damping="0.3"/></joint>
    <joint name="elbow" type="continuous"><parent link="upper"/><child link="fore"/><origin xyz="0.2 0 0.3" rpy="-0.4 0 0"/>
      <axis xyz="1 0 0"/></joint>
    <joint name="finger" type="prismatic"><parent link="fore"/><child link="slide"/><origin xyz="0 0 0.3"/>
      <axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""
    mechanism = ns.from_urdf(text, coordinates="joints", strict=True)
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = rng.uniform(-0.8, 0.8, 3), rng.uniform(-1.0, 1.0, 3)
    mujoco.mj_forward(model, data)
    M = np.zeros((3, 3))
    mujoco.mj_fullM(model, data, M)
    t, q, u = 0.0, jnp.asarray(data.qpos), jnp.asarray(data.qvel)
    np.testing.assert_allclose(mechanism.system.M(t, q), M, atol=1e-9)
    load = data.qfrc_passive - data.qfrc_bias
    np.testing.assert_allclose(mechanism.system.h(t, q, u), load, atol=1e-9)
    assert mechanism.contacts == ("shoulder", "shoulder", "finger", "finger")


def gears(offset: float) -> str:
    wheel = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="{}"/></inertial>'
    return f"""<robot name="gears"><link name="world"/>
    <link name="small">{wheel.format(0.5)}</link><link name="large">{wheel.format(1.2)}</link>
    <joint name="pinion" type="continuous"><parent link="world"/><child link="small"/><axis xyz="0 0 1"/>
      <dynamics damping="0.4"/></joint>
    <joint name="wheel" type="continuous"><parent link="world"/><child link="large"/>
      <origin xyz="1 0 0"/><axis xyz="0 0 1"/><mimic joint="pinion" multiplier="-0.5" offset="{offset}"/></joint></robot>"""


@pytest.mark.parametrize("coordinates", ["bodies", "joints"])
def test_mimic_is_a_gear(coordinates):
    mechanism = ns.from_urdf(gears(0.0), coordinates=coordinates, strict=True)
    assert mechanism.degrees_of_freedom == 1
    u0 = np.zeros(mechanism.frames.nu)
    for spin, k in ((1.0, 0), (-0.5, 1)):
        u0[k if coordinates == "joints" else 6 * k + 5] = spin
    traj = ns.simulate(mechanism.system, ns.Rattle(), mechanism.q0, jnp.asarray(u0), dt=1e-3, num_steps=1000)
    decayed = np.exp(
        -0.4 / (0.5 + 0.25 * 1.2)
    )  # of the speed of both wheels, whose inertia seen from the pinion is 0.8
    np.testing.assert_allclose(traj.u[-1], u0 * decayed, atol=1e-6)


@pytest.mark.slow
def test_mimic_with_an_offset_is_assembled():
    mechanism = ns.from_urdf(gears(0.3), coordinates="joints")
    pinion, wheel = mechanism.q0
    assert abs(wheel - (0.3 - 0.5 * pinion)) < 1e-10


# Meshes ---------------------------------------------------------------------------------------------------------------

CORNERS = np.array([[x, y, z] for x in (-0.1, 0.1) for y in (-0.05, 0.05) for z in (-0.02, 0.02)])
FACES = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
TRIANGLES = [t for a, b, c, d in FACES for t in ((a, b, c), (a, c, d))]
MESHED = """<robot name="stone"><link name="stone">
  <inertial><mass value="1"/><inertia ixx="0.01" iyy="0.02" izz="0.025"/></inertial>
  <collision><geometry>{}</geometry></collision></link></robot>"""


def write_mesh(path: Path, kind: str) -> None:
    if kind == "obj":
        lines = [f"v {x} {y} {z}" for x, y, z in CORNERS]
        lines += ["f " + " ".join(f"{k + 1}//1" for k in face) for face in FACES]
        path.write_text("\n".join(["# a brick", *lines]))
    elif kind == "ascii":
        facets = (
            "facet normal 0 0 0\nouter loop\n" + "".join(f"vertex {' '.join(map(str, CORNERS[k]))}\n" for k in t) +
            "endloop\nendfacet\n" for t in TRIANGLES
        )  # fmt: skip
        path.write_text("solid brick\n" + "".join(facets) + "endsolid brick\n")
    else:
        rows = np.zeros(len(TRIANGLES), dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
        rows["corners"] = CORNERS[np.array(TRIANGLES)]
        path.write_bytes(b"solid but binary".ljust(80) + len(rows).to_bytes(4, "little") + rows.tobytes())


@pytest.mark.parametrize("kind", ["obj", "ascii", "binary"])
def test_mesh_of_a_brick_is_a_box(kind, tmp_path, rng):
    name = "brick.obj" if kind == "obj" else "brick.STL"
    (tmp_path / "meshes").mkdir()
    write_mesh(tmp_path / "meshes" / name, kind)
    (tmp_path / "stone.urdf").write_text(
        MESHED.format(f'<mesh filename="package://stone/meshes/{name}" scale="2 2 2"/>')
    )
    stone = ns.from_urdf(tmp_path / "stone.urdf", floor=0.0, position=(0.0, 0.0, 1.0), strict=True)
    box = ns.from_urdf(MESHED.format('<box size="0.4 0.2 0.08"/>'), floor=0.0, position=(0.0, 0.0, 1.0))
    for _ in range(5):
        q = stone.q0.at[3:].set(rng.standard_normal(4))
        gaps = [np.sort(mechanism.system.g_N(0.0, q)) for mechanism in (stone, box)]
        np.testing.assert_allclose(*gaps, atol=1e-7)  # the numbers of a binary file are of single precision


def test_hull_of_many_vertices_is_reduced(tmp_path, rng):
    points = rng.standard_normal((400, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    (tmp_path / "ball.obj").write_text("\n".join(f"v {x} {y} {z}" for x, y, z in points))
    (tmp_path / "ball.urdf").write_text(MESHED.format('<mesh filename="ball.obj"/>'))
    with pytest.warns(ns.ModelFileWarning, match="376 of 400 vertices of a hull"):
        stone = ns.from_urdf(tmp_path / "ball.urdf", max_vertices=24, floor=-2.0)
    gaps = stone.system.g_N(0.0, stone.q0)
    assert gaps.shape == (24,) and 1.0 < gaps.min() < 1.1


# What is left out -----------------------------------------------------------------------------------------------------


def test_one_warning_lists_all_that_is_left_out():
    text = TOSSED.replace("</robot>", '<gazebo reference="flap"/><transmission name="t"/></robot>')
    text = text.replace('<link name="flap">', '<link name="flap" hue="red">')
    with pytest.warns(ns.ModelFileWarning) as caught:
        ns.from_urdf(text)
    message = str(caught[0].message)
    assert len(caught) == 1
    assert all(part in message for part in ("<gazebo> (line 18)", "<transmission>", "hue of <link> (line 11)")), message
    with pytest.raises(ns.ModelFileError, match="gazebo"):
        ns.from_urdf(text, strict=True)


def test_massless_links():
    inertial = '<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial>'
    cross = f"""<robot name="cross"><link name="world"/><link name="spider"/><link name="shaft">{inertial}</link>
    <link name="tool"><visual><origin xyz="0 0 0.1"/><geometry><sphere radius="0.05"/></geometry></visual></link>
    <joint name="first" type="continuous"><parent link="world"/><child link="spider"/><axis xyz="1 0 0"/></joint>
    <joint name="second" type="continuous"><parent link="spider"/><child link="shaft"/><axis xyz="0 1 0"/></joint>
    <joint name="mount" type="fixed"><parent link="shaft"/><child link="tool"/></joint></robot>"""
    mechanism = ns.from_urdf(cross, coordinates="joints", strict=True)
    assert mechanism.frames.moving == ("spider", "shaft")
    np.testing.assert_allclose(mechanism.system.M(0.0, mechanism.q0), 0.1 * np.eye(2), atol=1e-14)
    with pytest.raises(ns.ModelFileError, match=r"line 1, <link name='spider'>: .*coordinates=\"joints\""):
        ns.from_urdf(cross)
    with pytest.raises(ns.ModelFileError, match="'spider' can move without inertia"):
        ns.from_urdf(cross.replace(inertial, ""), coordinates="joints")


def test_base_named_ground_does_not_move():
    text = MESHED.format('<sphere radius="0.1"/>').replace("stone", "ground", 2)
    arm = '<link name="arm"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>'
    hinge = '<joint name="j" type="continuous"><parent link="ground"/><child link="arm"/></joint></robot>'
    mechanism = ns.from_urdf(text.replace("</robot>", arm + hinge), strict=True)
    assert mechanism.frames.moving == ("arm",) and mechanism.degrees_of_freedom == 1
    free = ns.from_urdf(text.replace("</robot>", arm + hinge), base="free")
    assert free.degrees_of_freedom == 7
