"""Files of contact problems: fclib's HDF5, and the text files of Siconos.

A *local* problem has ξ = W r + q, contact by contact (normal, then friction). A *global* one has M v = H r + f and
ξ = Hᵀ v + w; its velocities v are eliminated here. Either may have bilateral rows. Matrices are filled: these are problems
for dense solvers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

import numpy as np

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"


class Arguments(TypedDict):
    """What a file holds, under the names of the arguments of `jaxns.solve_contacts`."""

    G: np.ndarray  # (rows, rows)
    c: np.ndarray  # (rows,)
    mu: np.ndarray  # (n,)
    d: int
    n_bilateral: int


def load(path: str | Path) -> Arguments:
    """Read a contact problem from a file: the arguments of `jaxns.solve_contacts`, in numpy.

    The content decides on the format:

    - HDF5 of the library fclib, local or global problems (needs h5py)
    - text of Siconos (`frictionContact_printInFile` and its global kin), with dense, block or sparse matrices

    >>> import tempfile, jaxns as ns
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "pressed.dat"  # one planar contact: d + 1, n, dense 2 × 2 matrix, q, μ
    ...     _ = file.write_text("2 1  0 2 2  2 2  1 0 0 2  -3 1  0.1")
    ...     problem = ns.contact_problems.load(file)
    >>> problem["G"].tolist(), problem["d"]
    ([[1.0, 0.0], [0.0, 2.0]], 1)
    >>> ns.solve_contacts(**problem).P_N.tolist()
    [3.0]
    """
    path = Path(path)
    with path.open("rb") as file:
        is_hdf5 = file.read(len(HDF5_MAGIC)) == HDF5_MAGIC
    return _from_hdf5(path) if is_hdf5 else _from_text(path)


def _arguments(
    path: Path, W: np.ndarray, q: np.ndarray, mu: np.ndarray, dimension: int, bilateral: tuple[np.ndarray, ...] = ()
) -> Arguments:
    """Rows contact by contact, sorted into [bilateral, normals, friction]. `bilateral`: R, V, s of V' r + R λ + s = 0."""
    if dimension not in (1, 2, 3):
        raise ValueError(
            f"{path}: contacts have {dimension} rows each; solve_contacts knows a normal with no, one or two friction"
            " rows. Rolling friction is not read."
        )
    n, rest = divmod(len(q), dimension)
    if rest or len(mu) != n or W.shape != (len(q), len(q)):
        raise ValueError(
            f"{path}: a matrix {W.shape}, {len(q)} entries of q and {len(mu)} of mu do not make contacts with"
            f" {dimension} rows each."
        )
    rows = np.arange(len(q)).reshape(n, dimension)
    order = np.concatenate([rows[:, 0], rows[:, 1:].ravel()])
    G, c, n_bilateral = W[np.ix_(order, order)], q[order], 0
    if bilateral:
        R, V, s = bilateral
        G, c = np.block([[R, V[order].T], [V[order], G]]), np.concatenate([s, c])
        n_bilateral = len(s)
    return Arguments(G=G, c=c, mu=mu, d=dimension - 1, n_bilateral=n_bilateral)


def _without_velocities(
    path: Path,
    M: np.ndarray,
    H: np.ndarray,
    f: np.ndarray,
    w: np.ndarray,
    mu: np.ndarray,
    dimension: int,
    constraint: tuple[np.ndarray, ...] = (),
) -> Arguments:
    """The local form of a global problem; `constraint`: B, b of B' v + b = 0."""
    columns = np.linalg.solve(M, np.column_stack([H, f, *constraint[:1]]))
    v_r, v_f, v_b = np.split(columns, [H.shape[1], H.shape[1] + 1], axis=1)
    bilateral: tuple[np.ndarray, ...] = ()
    if constraint:
        B, b = constraint
        bilateral = B.T @ v_b, H.T @ v_b, b + (B.T @ v_f)[:, 0]
    return _arguments(path, H.T @ v_r, w + (H.T @ v_f)[:, 0], mu, dimension, bilateral)


# --------------------------------------------------------------------------------------------------------------- HDF5


def _from_hdf5(path: Path) -> Arguments:
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"{path} is an HDF5 file, and reading it needs h5py: install the extra `hdf5`.") from error
    with h5py.File(path) as file:
        if "fclib_local" in file:
            local = file["fclib_local"]
            vectors = local["vectors"]
            bilateral = (_hdf5_matrix(local["R"]), _hdf5_matrix(local["V"]), vectors["s"][:]) if "V" in local else ()
            dimension = int(local["spacedim"][0])
            return _arguments(path, _hdf5_matrix(local["W"]), vectors["q"][:], vectors["mu"][:], dimension, bilateral)
        if "fclib_global" in file:
            whole = file["fclib_global"]
            vectors = whole["vectors"]
            constraint = (_hdf5_matrix(whole["G"]), vectors["b"][:]) if "G" in whole else ()
            M, H, dimension = _hdf5_matrix(whole["M"]), _hdf5_matrix(whole["H"]), int(whole["spacedim"][0])
            f, w, mu = (vectors[name][:] for name in ("f", "w", "mu"))
            return _without_velocities(path, M, H, f, w, mu, dimension, constraint)
        found = ", ".join(file) or "nothing"
        raise ValueError(f"{path}: an fclib file holds the group fclib_local or fclib_global; this one holds {found}.")


def _hdf5_matrix(group: Any) -> np.ndarray:
    """nz says how a matrix is stored: its number of triplets (i, p), −1 compressed columns, −2 compressed rows."""
    m, n, nz = (int(group[name][0]) for name in ("m", "n", "nz"))
    p, i, x = (group[name][:] for name in ("p", "i", "x"))
    out = np.zeros((m, n))
    if nz >= 0:
        np.add.at(out, (i[:nz], p[:nz]), x[:nz])
    else:
        lines = np.repeat(np.arange(len(p) - 1), np.diff(p))
        i, x = i[: len(lines)], x[: len(lines)]
        np.add.at(out, (i, lines) if nz == -1 else (lines, i), x)
    return out


# --------------------------------------------------------------------------------------------------------------- text


class _Words:
    """The words of a text file, one after the other."""

    def __init__(self, path: Path):
        self.path = path
        self.words = path.read_text().split()
        self.place = 0

    @property
    def left(self) -> int:
        return len(self.words) - self.place

    def take(self, number: int) -> list[str]:
        if self.left < number:
            raise ValueError(f"{self.path}: the file ends where {number - self.left} more numbers are due.")
        self.place += number
        return self.words[self.place - number : self.place]

    def integers(self, number: int) -> list[int]:
        return [int(word) for word in self.take(number)]

    def numbers(self, number: int) -> np.ndarray:
        return np.array(self.take(number), float)


def _from_text(path: Path) -> Arguments:
    """Dimension, number of contacts, M, q, μ; or dimension, number of contacts, M, H, f, w, μ."""
    words = _Words(path)
    try:
        dimension, n = words.integers(2)
        M = _text_matrix(words)
        local = words.left <= len(M) + n + 2  # files of some versions end with a flag
        if local:
            return _arguments(path, M, words.numbers(len(M)), words.numbers(n), dimension)
        H = _text_matrix(words)
        f, w, mu = (words.numbers(number) for number in (len(M), H.shape[1], n))
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"{path}: neither an fclib file (HDF5) nor a friction-contact problem in Siconos' text format, near word"
            f" {words.place}: {error}"
        ) from error
    return _without_velocities(path, M, H, f, w, mu, dimension)


def _text_matrix(words: _Words) -> np.ndarray:
    storage, m, n = words.integers(3)
    if storage == 0:  # dense, by columns
        m, n = words.integers(2)
        return words.numbers(m * n).reshape(n, m).T
    if storage == 1:
        return _text_blocks(words, m, n)
    if storage == 2:
        return _text_sparse(words, m, n)
    raise ValueError(f"a matrix is stored as 0 (dense), 1 (blocks) or 2 (sparse), not as {storage}")


def _text_blocks(words: _Words, m: int, n: int) -> np.ndarray:
    """Compressed rows of dense blocks; block sizes are added up, and each block comes by columns after its number."""
    _, block_rows, block_columns = words.integers(3)
    row_ends, column_ends = words.integers(block_rows), words.integers(block_columns)
    n_starts, n_blocks = words.integers(2)
    starts, columns = words.integers(n_starts), words.integers(n_blocks)
    out = np.zeros((m, n))
    for row in range(n_starts - 1):
        top = row_ends[row - 1] if row else 0
        for column in columns[starts[row] : starts[row + 1]]:
            left = column_ends[column - 1] if column else 0
            height, width = row_ends[row] - top, column_ends[column] - left
            words.take(1)  # its number
            out[top : row_ends[row], left : column_ends[column]] = (
                words.numbers(height * width).reshape(width, height).T
            )
    return out


def _text_sparse(words: _Words, m: int, n: int) -> np.ndarray:
    """As CSparse prints it, with six digits: triplets "i j : x", or lines "col j : locations a to b" with "i : x" each."""
    out = np.zeros((m, n))
    header: list[str] = []
    while header[-1:] != ["nnz:"]:
        header += words.take(1)
    number = int(words.take(1)[0].rstrip(","))
    if "triplet:" in header:
        for _ in range(number):
            i, j, _, x = words.take(4)
            out[int(i), int(j)] += float(x)
        return out
    words.take(2)  # 1-norm
    for _ in range(m if "csr:" in header else n):
        _, line, _, _, begin, _, end = words.take(7)
        for _ in range(int(begin), int(end) + 1):
            i, _, x = words.take(3)
            out[(int(line), int(i)) if "csr:" in header else (int(i), int(line))] += float(x)
    return out
