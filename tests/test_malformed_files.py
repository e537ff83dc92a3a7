"""Sixty model files with an error each: every one gets an error that names file, element and line, and nothing is read that
lies outside of the folder of the model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import jaxns as ns

INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
LINKS = f'<link name="base"/>\n<link name="arm">{INERTIAL}</link>\n'
ENDS = '<parent link="base"/><child link="arm"/>'


def robot(*content: str) -> str:
    return '<robot name="r">\n' + LINKS + "\n".join(content) + "\n</robot>"


def joint(content: str = ENDS, kind: str = "continuous", name: str = 'name="j"') -> str:
    return robot(f'<joint {name} type="{kind}">{content}</joint>')


def link(content: str) -> str:
    joint = f'<joint name="j" type="continuous">{ENDS}</joint>'
    return f'<robot name="r">\n<link name="base"/>\n<link name="arm">{content}</link>\n{joint}</robot>'


def inertial(mass: str = "1", tensor: str = 'ixx="1" iyy="1" izz="1"') -> str:
    return link(f'<inertial><mass value="{mass}"/><inertia {tensor}/></inertial>')


URDF = {  # what is wrong: (text, line, what the message says)
    "truncated": (robot()[:-20], 3, "no well-formed XML"),
    "empty": ("  ", 1, "a path, or XML"),
    "no XML": ("<<<>>>", 1, "no well-formed XML"),
    "mismatched tags": (robot("<joint></link>"), 4, "mismatched tag"),
    "attribute twice": (robot('<joint name="a" name="b"/>'), 4, "duplicate attribute"),
    "another root": ("<mujoco/>", 1, "begins with <robot>"),
    "no link": ('<robot name="r"/>', 1, "no <link>"),
    "link without name": (robot("<link/>"), 4, "name is missing"),
    "link twice": (robot('<link name="arm"/>'), 4, "another link 'arm' in line 3"),
    "joint twice": (robot(*[f'<joint name="j" type="fixed">{ENDS}</joint>'] * 2), 5, "another joint 'j'"),
    "unknown joint type": (joint(kind="helical"), 4, "type must be one of .* got 'helical'"),
    "joint without type": (robot(f'<joint name="j">{ENDS}</joint>'), 4, "type is missing"),
    "unknown parent": (joint('<parent link="bse"/><child link="arm"/>'), 4, "no link 'bse'"),
    "no child": (joint('<parent link="base"/>'), 4, "needs a <child>"),
    "two parents": (joint('<parent link="base"/>' + ENDS), 4, "another <parent> in line 4"),
    "two joints to one link": (
        robot(f'<joint name="j" type="fixed">{ENDS}</joint>', f'<joint name="k" type="fixed">{ENDS}</joint>'), 5,
        "child of the joint in line 4",
    ),
    "circle": (
        robot(f'<joint name="j" type="fixed">{ENDS}</joint>',
              '<joint name="k" type="fixed"><parent link="arm"/><child link="base"/></joint>'), 1, "in a circle",
    ),
    "two bases": (robot(), 1, "one link must be the base"),
    "axis of zero": (joint(ENDS + '<axis xyz="0 0 0"/>'), 4, "xyz must not be zero"),
    "axis of two": (joint(ENDS + '<axis xyz="0 1"/>'), 4, "xyz must have 3 numbers, got '0 1'"),
    "NaN in an origin": (joint(ENDS + '<origin xyz="0 nan 0"/>'), 4, "xyz must be finite numbers"),
    "units in an origin": (joint(ENDS + '<origin xyz="0 10mm 0"/>'), 4, "got '10mm'"),
    "no limit": (joint(kind="revolute"), 4, "needs <limit>"),
    "limits exchanged": (joint(ENDS + '<limit lower="1" upper="-1"/>', "revolute"), 4, "lower must be below upper"),
    "negative damping": (joint(ENDS + '<dynamics damping="-1"/>'), 4, "damping must be at least 0"),
    "mimic of nobody": (joint(ENDS + '<mimic joint="k"/>'), 4, "no joint 'k'"),
    "negative mass": (inertial("-1"), 3, "value must be at least 0"),
    "infinite mass": (inertial("inf"), 3, "value must be finite"),
    "huge mass": (inertial("1e400"), 3, "value must be finite"),
    "mass in words": (inertial("one kilogram"), 3, "value must be finite numbers"),
    "inertia of zero": (inertial(tensor='ixx="0" iyy="0" izz="0"'), 3, "positive definite"),
    "inertia of no body": (inertial(tensor='ixx="1" iyy="1" izz="3"'), 3, "none exceeds the sum"),
    "no inertia": (link('<inertial><mass value="1"/></inertial>'), 3, "needs a <inertia>"),
    "box of two sizes": (link('<collision><geometry><box size="1 1"/></geometry></collision>'), 3, "3 numbers"),
    "sphere inside out": (link('<visual><geometry><sphere radius="-1"/></geometry></visual>'), 3, "positive"),
    "two shapes": (link('<visual><geometry><sphere radius="1"/><box size="1 1 1"/></geometry></visual>'), 3, "one shape"),
    "entity bomb": (
        '<!DOCTYPE b [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>\n<robot name="&b;"/>', 1, "entities are not read",
    ),
    "external entity": (
        '<!DOCTYPE r [<!ENTITY secret SYSTEM "file:///etc/hostname">]>\n<robot name="&secret;"/>', 1,
        "entities are not read",
    ),
    "external document type": ('<!DOCTYPE robot SYSTEM "http://localhost/r.dtd">\n<robot/>', 1, "entities are not read"),
    "deep nesting": ("<robot name='r'>" + "<link>" * 5000, 1, "nested more than"),
}  # fmt: skip

BODY = '<body name="a">\n<joint name="j"/>\n<geom size="0.1" pos="1 0 0"/></body>'


def model(body: str = BODY, more: str = "") -> str:
    return f"<mujoco>\n<worldbody>\n{body}\n</worldbody>\n{more}\n</mujoco>"


MJCF = {
    "another root": ("<robot/>", 1, "begins with <mujoco>"),
    "wrong units of angles": (model(more='<compiler angle="grad"/>'), 7, "angle must be one of 'degree', 'radian'"),
    "global coordinates": (model(more='<compiler coordinate="global"/>'), 7, "coordinate must be one of 'local'"),
    "euler sequence": (model(more='<compiler eulerseq="xyw"/>'), 7, "three letters of xyzXYZ"),
    "unknown class": (model(BODY.replace("<joint", '<joint class="c"')), 4, "no default class 'c'"),
    "default class twice": (
        model(more='<default><default class="c"/><default class="c"/></default>'),
        7,
        "another default",
    ),
    "two orientations": (model(BODY.replace('"a"', '"a" euler="1 2 3" quat="1 0 0 0"')), 3, "quat and euler"),
    "quaternion of zero": (model(BODY.replace('"a"', '"a" quat="0 0 0 0"')), 3, "quat must not be zero"),
    "joint of no kind": (model(BODY.replace("<joint", '<joint type="screw"')), 4, "type must be one of"),
    "range of one": (model(BODY.replace("<joint", '<joint range="1"')), 4, "range must have 2 numbers"),
    "no size": (model(BODY.replace('size="0.1"', "")), 5, "size of a sphere"),
    "no mesh": (model(BODY.replace('size="0.1"', 'type="mesh" mesh="m"')), 5, "no mesh 'm'"),
    "no inertia": (model(BODY.replace("<geom", "<site")), 3, "'a' moves, so it needs mass"),
    "body twice": (model(BODY + '\n<body name="a"/>'), 6, "another body 'a' in line 3"),
    "free joint inside": (
        model(BODY.replace("</body>", "<body><freejoint/></body></body>")),
        5,
        "free joint is the only one",
    ),
    "equality of nobody": (model(more='<equality><connect body1="b" anchor="0 0 0"/></equality>'), 7, "no body 'b'"),
    "motor of nobody": (model(more='<actuator><motor joint="k"/></actuator>'), 7, "no hinge or slide 'k'"),
    "short keyframe": (model(more='<keyframe><key qpos="1 2"/></keyframe>'), 7, "qpos must have 1 numbers"),
    "exclusion of nobody": (model(more='<contact><exclude body1="a" body2="z"/></contact>'), 7, "no body 'z'"),
    "include from a text": (model(more='<include file="x.xml"/>'), 7, "give folder"),
}


@pytest.mark.parametrize("case", URDF)
def test_urdf(case, tmp_path):
    check(ns.from_urdf, *URDF[case], tmp_path / "bad.urdf")


@pytest.mark.parametrize("case", MJCF)
def test_mjcf(case, tmp_path):
    text, line, what = MJCF[case]
    if case != "include from a text":
        check(ns.from_mjcf, text, line, what, tmp_path / "bad.xml")
    with pytest.raises(ns.ModelFileError, match=f"text, line {line}\\b.*{what}"):
        ns.from_mjcf(text)


def check(load, text: str, line: int, what: str, path: Path) -> None:
    """The same error for the file and for its text."""
    path.write_text(text)
    with pytest.raises(
        ns.ModelFileError, match=f"{re.escape(path.name)}, line {line}\\b.*{what}" if text.strip() else path.name
    ):
        load(path)
    with pytest.raises(ns.ModelFileError, match=f"text, line {line}\\b.*{what}"):
        load(text)


# Files beside the model -----------------------------------------------------------------------------------------------


def included(folder: Path, name: str) -> Path:
    path = folder / "model.xml"
    path.write_text(model(more=f'<include file="{name}"/>'))
    return path


@pytest.mark.parametrize(
    "name", ["../secret.xml", "/etc/passwd", "link.xml", "inner/../../secret.xml", "http://localhost/x.xml"]
)
def test_nothing_outside_of_the_folder_is_read(name, tmp_path, monkeypatch):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "inner").mkdir()
    (tmp_path / "secret.xml").write_text("<mujoco/>")
    (folder / "link.xml").symlink_to(tmp_path / "secret.xml")
    path = included(folder, name)
    read: list[Path] = []
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: read.append(self) or read_bytes(self))
    with pytest.raises(ns.ModelFileError, match=r"model\.xml, line 7, <include>: .*(outside of the folder|no file)"):
        ns.from_mjcf(path)
    assert read == [path]
    if name == "../secret.xml":
        assert ns.from_mjcf(path, folder=tmp_path).degrees_of_freedom == 1


def test_included_files(tmp_path):
    (tmp_path / "parts.xml").write_text(
        "<mujoco>\n<worldbody>\n" + BODY.replace("size", "sise") + "</worldbody></mujoco>"
    )
    path = included(tmp_path, "parts.xml")
    with pytest.raises(ns.ModelFileError, match=r"parts\.xml, line 3, <body name='a'>: there is another body"):
        ns.from_mjcf(path)
    for name in ("model.xml", "round.xml"):
        (tmp_path / "round.xml").write_text('<mujoco>\n<include file="round.xml"/></mujoco>')
        with pytest.raises(ns.ModelFileError, match=r"\.xml, line \d, <include>: .* includes itself"):
            ns.from_mjcf(included(tmp_path, name))
    with pytest.raises(ns.ModelFileError, match=r"model\.xml, line 7, <include>: there is no file 'none\.xml'"):
        ns.from_mjcf(included(tmp_path, "none.xml"))


BAD_MESHES = {
    "a.stl": b"",
    "b.stl": b"\0" * 80 + b"\xff\xff\xff\xff",
    "c.stl": b"solid x\nvertex 0 0\nvertex 1 0 0\nendsolid",
    "d.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 zero",
    "e.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 9",
    "f.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0",
    "g.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 nan",
    "h.dae": b"<COLLADA/>",
}


@pytest.mark.parametrize("name", BAD_MESHES)
def test_meshes(name, tmp_path):
    (tmp_path / name).write_bytes(BAD_MESHES[name])
    (tmp_path / "m.urdf").write_text(link(f'<collision><geometry><mesh filename="{name}"/></geometry></collision>'))
    with pytest.raises(ns.ModelFileError, match=r"m\.urdf, line 3, <mesh>: "):
        ns.from_urdf(tmp_path / "m.urdf")


def test_there_are_sixty():
    assert len(URDF) + len(MJCF) >= 60
