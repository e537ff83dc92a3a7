"""Contacts, equality constraints and keyframes of MJCF files beside MuJoCo."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from mjcf_models import BOX_MESH
from test_mjcf_mujoco import Peer

import jaxns as ns

mujoco = pytest.importorskip("mujoco")

FAMILY = """<mujoco><worldbody>
  <geom name="floor" type="plane" size="1 1 1" pos="0 0 -5"/><geom name="post" type="box" size="0.1 0.1 0.1" pos="3 0 0"/>
  <body name="stand"><geom name="stand" size="0.1" pos="0 3 0"/>
    <body name="upper"><joint axis="0 1 0"/><geom name="upper" size="0.1" friction="0.3"/>
      <body name="lower" pos="0.5 0 0"><joint axis="0 1 0"/><geom name="lower" size="0.1" friction="0.8"/>
        <body name="tip" pos="0.2 0 0"><geom name="tip" size="0.05" contype="2" conaffinity="4" mass="0.1"/>
          <body name="finger" pos="0.2 0 0"><joint type="slide"/><geom name="finger" size="0.05" condim="1"/></body>
        </body></body></body></body>
  <body name="ball" pos="1 1 1"><freejoint/><geom name="ball" size="0.1" contype="3" conaffinity="2" priority="1"/>
    <geom name="skin" size="0.2" contype="0" conaffinity="0" mass="0"/></body>
  <body name="other" pos="2 1 1"><freejoint/><geom name="other" size="0.1" condim="1"/></body>
</worldbody><contact><exclude body1="ball" body2="upper"/><pair geom1="upper" geom2="lower" friction="0.7 0.7"/></contact>
</mujoco>"""


def test_what_touches_is_what_mujoco_lets_touch():
    mechanism = ns.from_mjcf(FAMILY, strict=True)
    far = '<default><geom margin="100"/><pair margin="100"/></default>'  # all that may touch, does
    model = mujoco.MjModel.from_xml_string(FAMILY.replace("<mujoco>", f"<mujoco>{far}"))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    met = {frozenset(model.geom(int(g)).name for g in contact.geom) for contact in data.contact}
    touching = {tuple(name.split("-")) for name in mechanism.contacts}
    assert {frozenset(pair) for pair in touching} == met and len(met) == 24
    p = mechanism.system.params
    frictions = {frozenset(model.geom(int(g)).name for g in c.geom): (c.dim, c.friction[0]) for c in data.contact}
    for a, b in touching:
        dimension, mu = frictions[frozenset((a, b))]
        assert (f"{a}-{b}.mu" in p) == (dimension > 1), (a, b)
        if dimension > 1:
            assert float(p[f"{a}-{b}.mu"]) == mu, (a, b)
    few = ns.from_mjcf(FAMILY, contacts="world")
    assert set(few.contacts) < set(mechanism.contacts) and "ball-other" not in few.contacts
    assert not ns.from_mjcf(FAMILY, contacts="none").contacts


SHAPES = {
    "sphere": 'type="sphere" size="0.1"',
    "box": 'type="box" size="0.1 0.15 0.2"',
    "capsule": 'type="capsule" size="0.08 0.2"',
    "cylinder": 'type="cylinder" size="0.08 0.2"',
    "ellipsoid": 'type="ellipsoid" size="0.1 0.15 0.2"',
    "mesh": 'type="mesh" mesh="stone"',
    "plane": 'type="plane" size="1 1 1"',
}
PAIRS = [(a, "plane") for a in SHAPES if a != "plane"] + [("sphere", b) for b in ("sphere", "box", "capsule", "mesh")]
PAIRS += [("capsule", "capsule")]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_gaps_are_those_of_mujoco(pair, rng):
    stone = f'<asset><mesh name="stone" vertex="{BOX_MESH}" scale="0.1 0.15 0.2"/></asset>'
    text = (
        f'<mujoco>{stone}<worldbody><body name="a" pos="0 0 1"><freejoint/><geom name="a" {SHAPES[pair[0]]} '
        'pos="0.05 0.02 0" euler="10 20 30"/></body>'
        f'<body name="b" euler="5 0 10"><geom name="b" {SHAPES[pair[1]]}/></body>'
        "</worldbody></mujoco>"
    )
    mechanism = ns.from_mjcf(text, strict=True)
    peer = Peer(text)
    peer.model.opt.disableflags = 0
    peer.model.geom_margin[:] = 10.0
    compared = 0
    for _ in range(20):
        peer.data.qpos[:3] = rng.uniform([-0.3, -0.3, 0.3], [0.3, 0.3, 0.9])
        peer.data.qpos[3:] = rng.standard_normal(4)
        mujoco.mj_forward(peer.model, peer.data)
        gap = float(np.min(mechanism.system.g_N(0.0, jnp.asarray(peer.positions()))))
        nearest = min(contact.dist for contact in peer.data.contact)
        if gap > 0.01:  # MuJoCo measures the depth of shapes that overlap in other ways
            np.testing.assert_allclose(gap, nearest, atol=2e-6, err_msg=str(pair))
            compared += 1
    assert compared >= 8


def test_pairs_without_a_contact_are_listed():
    text = '<mujoco><worldbody>{}<body pos="0 0 1"><freejoint/><geom type="ellipsoid" size="0.1 0.2 0.3"/></body>'
    text = text.format('<geom type="box" size="1 1 0.1"/>') + "</worldbody></mujoco>"
    with pytest.warns(ns.ModelFileWarning, match="contact between Box and Ellipsoid"):
        assert not ns.from_mjcf(text).contacts


# Equality constraints -------------------------------------------------------------------------------------------------

HARD = 'solref="2e-5 1" solimp="0.9999 0.9999 0.001"'
LOOPS = {
    "connect": f'<connect body1="rod" body2="rocker" anchor="0.5 0 0.1" {HARD}/>',
    "weld": f'<weld body1="crank" body2="rocker" {HARD}/>',
    "joint": f'<joint joint1="second" joint2="third" polycoef="0 -0.5 0.2 0 0" {HARD}/>',
}


@pytest.mark.parametrize("coordinates", ["bodies", pytest.param("joints", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["connect", *(pytest.param(k, marks=pytest.mark.slow) for k in ("weld", "joint"))])
def test_loops_move_as_in_mujoco(kind, coordinates):
    inertial = '<inertial pos="{}" mass="{}" diaginertia="{i} {i} {i}"/>'
    text = (
        '<mujoco><option timestep="1e-5"/><worldbody>'
        f'<body name="crank"><joint name="first" axis="0 -1 0"/>{inertial.format("0 0 0.1", 0.5, i=0.01)}'
        f'<body name="rod" pos="0 0 0.2"><joint name="second" axis="0 -1 0"/>{inertial.format("0.25 0 0.05", 1, i=0.05)}'
        f'</body></body><body name="rocker" pos="0.5 0 0"><joint name="third" axis="0 -1 0"/>'
        f"{inertial.format('0 0 0.15', 0.8, i=0.03)}</body></worldbody><equality>{LOOPS[kind]}</equality></mujoco>"
    )
    mechanism = ns.from_mjcf(text, coordinates=coordinates, strict=True)
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    for _ in range(40_000):
        mujoco.mj_step(model, data)
    mujoco.mj_kinematics(model, data)
    traj = ns.simulate(mechanism.system, ns.Lobatto(3), mechanism.q0, mechanism.u0, dt=2e-3, num_steps=200)
    for name in ("crank", "rod", "rocker"):
        found = np.asarray(mechanism.pose(name, traj.q[-1])[0])
        assert np.abs(found - data.body(name).xipos).max() < 1e-5, name


# Keyframes ------------------------------------------------------------------------------------------------------------

POSED = """<mujoco><worldbody><body name="base" pos="0 0 1"><freejoint/><geom size="0.1" pos="0.02 0 0"/>
  <body name="arm" pos="0.1 0 0"><joint name="elbow" axis="0 1 0" ref="10" range="-90 90"/>
  <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02"/></body></body>
  <body name="bob"><joint type="ball"/><geom size="0.1" pos="0 0 -0.5"/></body></worldbody>
  <actuator><position name="servo" joint="elbow" kp="10"/></actuator>
  <keyframe><key/><key name="home" qpos="0.1 0.2 0.8 0.9 0.1 0.2 0.3 0.4 0.8 0 0.6 0"
  qvel="1 2 3 0.1 0.2 0.3 0.4 0.5 0.6 0.7" ctrl="0.25"/></keyframe></mujoco>"""


@pytest.mark.parametrize("coordinates", ["bodies", "joints"])
def test_keyframe_is_the_initial_state(coordinates):
    mechanism = ns.from_mjcf(POSED, coordinates=coordinates, keyframe="home", contacts="none", strict=True)
    peer = Peer(POSED)
    mujoco.mj_resetDataKeyframe(peer.model, peer.data, 1)
    mujoco.mj_forward(peer.model, peer.data)
    joints = mechanism.q0, mechanism.u0
    for name in ("base", "arm", "bob"):
        position, rotation = mechanism.pose(name, mechanism.q0)
        np.testing.assert_allclose(position, peer.data.body(name).xipos, atol=1e-12)
        np.testing.assert_allclose(rotation, peer.data.body(name).xmat.reshape(3, 3), atol=1e-12)
    if coordinates == "bodies":
        joints = mechanism.to_joints(*joints)
    np.testing.assert_allclose(joints[1], peer.velocities()[0], atol=1e-12)
    assert float(mechanism.system.params["servo.control"]) == 0.25
    assert float(mechanism.system.params["elbow.high"]) == pytest.approx(np.radians(80.0))
    with pytest.raises(ns.MechanismError, match="there is none 'away'; there are '', 'home'"):
        ns.from_mjcf(POSED, keyframe="away")


def test_controls_by_name():
    ramp = ns.Signal([0.0, 1.0], [0.0, 2.0])
    mechanism = ns.from_mjcf(POSED, coordinates="joints", controls={"servo": ramp}, contacts="none")
    assert mechanism.system.params["servo.values"].tolist() == [0.0, 2.0]
    with pytest.raises(ns.MechanismError, match="no actuator 'motor'; there are 'servo'"):
        ns.from_mjcf(POSED, controls={"motor": 1.0})


def test_joints_that_are_no_bodies_coordinates():
    text = '<mujoco><worldbody><body name="a">{}<geom size="0.1" pos="0 0 1"/></body></worldbody></mujoco>'
    planar = text.format('<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>')
    with pytest.raises(ns.ModelFileError, match=r'line 1, <body name=\'a\'>: .* coordinates="joints"'):
        ns.from_mjcf(planar)
    screw = ns.from_mjcf(text.format('<joint type="slide" axis="0 0 1"/><joint axis="0 0 1"/>'))
    cross = ns.from_mjcf(text.format('<joint axis="1 0 0"/><joint axis="0 0 1"/>'))
    assert screw.degrees_of_freedom == cross.degrees_of_freedom == 2
    assert [type(m.parts[1]) for m in (screw, cross)] == [ns.Cylindrical, ns.Universal]
