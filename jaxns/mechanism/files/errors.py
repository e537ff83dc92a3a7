"""What is wrong with a file, and what of it is left out."""

from __future__ import annotations

from ..errors import MechanismError


class ModelFileError(MechanismError):
    """A model file that cannot be read: file, element, line, what was given and what was expected.

    >>> import jaxns as ns
    >>> try:
    ...     ns.from_urdf('<robot>\\n<link name="a"><inertial><mass value="-1"/><inertia/></inertial></link></robot>')
    ... except ns.ModelFileError as error:
    ...     print(error)
    text, line 2, <mass>: value must be at least 0, got '-1'.
    """


class ModelFileWarning(UserWarning):
    """Elements and attributes of a model file that have no part in the mechanism, all in one message.

    >>> import warnings, jaxns as ns
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     inertia = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
    ...     _ = ns.from_urdf(f'<robot name="r"><link name="a">{inertia}<smell kind="rose"/></link></robot>')
    >>> print(caught[0].message)
    text: not understood and left out: <smell> (line 1).
    """
