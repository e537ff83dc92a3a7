"""Twenty small MJCF models for the tests, each with features of its own."""

from __future__ import annotations

BOX_MESH = "-1 -1 -1  1 -1 -1  1 1 -1  -1 1 -1  -1 -1 1  1 -1 1  1 1 1  -1 1 1"


def model(body: str, more: str = "", options: str = "") -> str:
    return f"<mujoco>{options}<worldbody>{body}</worldbody>{more}</mujoco>"


MODELS = {
    "pendulum": model(
        '<body name="rod"><joint name="pivot" axis="0 1 0"/>'
        '<geom type="capsule" fromto="0 0 0 0.3 0 -0.8" size="0.05"/></body>'
    ),
    "double pendulum with inertials": model(
        '<body name="upper" pos="0 0 1"><joint axis="0 -1 0" pos="0.02 0 0.01"/>'
        '<inertial pos="0.25 0.01 0.02" mass="1.2" diaginertia="0.02 0.03 0.04" quat="0.9 0.1 -0.3 0.2"/>'
        '<body name="lower" pos="0.5 0 0" euler="20 0 10"><joint axis="0.1 1 0.2"/>'
        '<inertial pos="0 0 -0.2" mass="0.7" fullinertia="0.02 0.03 0.025 0.002 -0.003 0.001"/></body></body>'
    ),
    "free body": model(
        '<body name="brick" pos="0 0 1" euler="10 20 30"><freejoint/>'
        '<geom type="box" size="0.1 0.2 0.3" pos="0.05 0 0.02"/>'
        '<geom type="sphere" size="0.1" pos="0.3 0.1 0"/></body>'
    ),
    "ball joints": model(
        '<body name="a"><joint type="ball" damping="0.3"/><geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.04"/>'
        '<body name="b" pos="0 0 -0.5" quat="0.8 0.2 0.1 0"><joint type="ball" pos="0.01 0 0"/>'
        '<geom type="ellipsoid" size="0.1 0.2 0.3" pos="0 0 -0.3" mass="1"/></body></body>'
    ),
    "slides of a cart": model(
        '<body name="cart" pos="0.7 0 0">'
        '<joint type="slide" axis="1 0 0.2" stiffness="40" springref="-0.5" damping="0.8"/>'
        '<geom type="box" size="0.2 0.1 0.1"/><body name="pole">'
        '<joint axis="0 1 0" stiffness="3" springref="20" damping="0.1"/>'
        '<geom type="cylinder" fromto="0 0 0 0 0 0.6" size="0.03"/></body></body>'
    ),
    "several joints on one body": model(
        '<body name="hand" pos="0.1 0 0.5" euler="0 30 0"><joint type="slide" axis="1 0 0"/>'
        '<joint type="slide" axis="0 0 1"/>'
        '<joint axis="0 1 0" pos="0.05 0 0"/><joint axis="1 0 0" pos="0 0.02 0"/>'
        '<geom type="box" size="0.1 0.05 0.02"/></body>'
    ),
    "hip of three hinges": model(
        '<body name="pelvis" pos="0 0 1"><freejoint/><geom type="sphere" size="0.12"/>'
        '<body name="thigh" pos="0 -0.1 -0.1"><joint axis="1 0 0" armature="0.02" damping="0.5" stiffness="10"/>'
        '<joint axis="0 0 1" armature="0.01"/><joint axis="0 1 0" armature="0.03" ref="10"/>'
        '<geom type="capsule" fromto="0 0 0 0 0.01 -0.34" size="0.06"/></body></body>'
    ),
    "radians and default classes": model(
        '<body name="a" childclass="arm" euler="0.1 0.2 0.3"><joint/><geom fromto="0 0 0 0.4 0 0"/>'
        '<body name="b" pos="0.4 0 0"><joint class="wrist"/><geom class="ball"/></body></body>',
        options='<compiler angle="radian" eulerseq="zyx"/><default><geom density="500"/><default class="arm">'
        '<joint axis="0 1 0" damping="0.2" armature="0.01"/><geom type="capsule" size="0.04"/>'
        '<default class="wrist"><joint axis="0 0 1" stiffness="2" springref="0.3"/></default></default>'
        '<default class="ball"><geom type="sphere" size="0.07" pos="0.1 0 0"/></default></default>',
    ),
    "orientations": model(
        '<body name="a" axisangle="1 1 0 40"><joint axis="0 1 0"/>'
        '<geom type="box" size="0.1 0.05 0.2" euler="0 40 0"/>'
        '<body name="b" pos="0.2 0 0.1" xyaxes="1 1 0 0 1 1"><joint axis="1 0 0"/>'
        '<geom type="cylinder" size="0.05 0.2" zaxis="1 0 1" pos="0 0 0.1"/>'
        '<body name="c" pos="0 0.3 0" zaxis="0 -1 0.2"><joint axis="0 0 1"/><geom type="box" size="0.1 0.2 0.05"/>'
        "</body></body></body>"
    ),
    "fixed euler sequence": model(
        '<body name="a" euler="10 20 30"><joint axis="1 2 3"/>'
        '<geom type="box" size="0.1 0.2 0.05" pos="0.1 0 0"/></body>',
        options='<compiler eulerseq="XYz"/>',
    ),
    "welded bodies": model(
        '<body name="stand" pos="0 0 1"><geom type="box" size="0.05 0.05 0.3"/>'
        '<body name="arm" pos="0.1 0 0"><joint axis="0 1 0"/>'
        '<geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03"/>'
        '<body name="gripper" pos="0.4 0 0" euler="0 0 45"><geom type="box" size="0.05 0.02 0.02" pos="0.05 0 0"/>'
        '<body name="finger" pos="0.1 0 0"><joint type="slide" axis="0 1 0"/><geom type="box" size="0.02 0.01 0.03"/>'
        "</body></body></body></body>"
    ),
    "reference positions": model(
        '<body name="a"><joint name="j" axis="0 1 0" ref="30" stiffness="5" springref="50"/>'
        '<geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03"/><body name="b" pos="0.4 0 0">'
        '<joint type="slide" axis="1 0 0" ref="0.1" stiffness="100" springref="0.15"/>'
        '<geom type="sphere" size="0.08"/></body></body>'
    ),
    "motors": model(
        '<body name="a"><joint name="shoulder" axis="0 1 0" damping="0.2"/>'
        '<geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03"/>'
        '<body name="b" pos="0.4 0 0"><joint name="elbow" axis="0 1 0" ref="20" damping="0.2"/>'
        '<geom type="capsule" fromto="0 0 0 0.3 0 0.1" size="0.02"/></body></body>',
        '<actuator><motor joint="shoulder" gear="2" ctrlrange="-0.5 0.5"/>'
        '<position joint="elbow" kp="3" kv="0.4" gear="1.5"/>'
        '<velocity joint="shoulder" kv="0.3"/>'
        '<general joint="elbow" gainprm="0.2" biastype="affine" biasprm="0.1 -0.2 -0.3" '
        'forcerange="-0.05 0.05"/></actuator>',
    ),
    "frames": model(
        '<frame pos="0 0 1" euler="0 0 30"><body name="a" pos="0.1 0 0"><frame pos="0 0 -0.1" euler="0 15 0">'
        '<joint axis="0 1 0" pos="0 0 0.1"/><geom type="capsule" size="0.04 0.2"/></frame></body></frame>'
    ),
    "gravity and density": model(
        '<body name="a"><joint axis="0 1 0"/><geom type="ellipsoid" size="0.1 0.2 0.15" pos="0.2 0 0" density="300"/>'
        '<geom type="cylinder" size="0.05 0.1" mass="0.5"/></body>',
        options='<option gravity="1 3 -5"/>',
    ),
    "a mesh": model(
        '<body name="stone" pos="0 0 1"><joint axis="0 1 0"/>'
        '<geom type="mesh" mesh="stone" pos="0.1 0 0" euler="0 30 0"/></body>',
        f'<asset><mesh name="stone" vertex="{BOX_MESH}" scale="0.1 0.2 0.05"/></asset>',
    ),
    "inertia of geometries": model(
        '<body name="a"><joint axis="0 1 0"/><inertial pos="0 0 0" mass="9" diaginertia="1 1 1"/>'
        '<geom type="box" size="0.1 0.2 0.05" pos="0.1 0 0"/></body>',
        options='<compiler inertiafromgeom="true"/>',
    ),
    "two trees": model(
        '<body name="a"><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.03"/></body>'
        '<body name="b" pos="0 1 0"><joint type="ball"/><geom type="box" size="0.1 0.1 0.2" pos="0 0 -0.2"/></body>'
        '<body name="c" pos="0 2 0"><freejoint/><geom type="sphere" size="0.1" pos="0.1 0 0"/></body>'
    ),
    "universal and screw": model(
        '<body name="a"><joint axis="1 0 0"/><joint axis="0 1 0"/>'
        '<geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.03"/>'
        '<body name="b" pos="0 0 -0.4"><joint type="slide" axis="0 0 1" stiffness="50"/>'
        '<joint axis="0 0 1" damping="0.1"/>'
        '<geom type="box" size="0.1 0.05 0.05"/></body></body>'
    ),
    "many links": model(
        "".join(
            f'<body name="link{k}" pos="{0.2 * (k > 0)} 0 0"><joint axis="{k % 2} {1 - k % 2} 0.3"/>'
            '<geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.02"/>'
            for k in range(6)
        )
        + "</body>" * 6
    ),
}
