"""Files of contact problems: every storage of a matrix gives the same problem, and errors say what is wrong with a file."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import jaxns as ns


def words(values):
    return " ".join(f"{value:.17g}" for value in np.ravel(values))


def dense(A):
    return f"0\n{A.shape[0]}\n{A.shape[1]}\n{A.shape[0]}\t{A.shape[1]}\n{words(A.T)}\n"


def blocks(A, size):
    """Blocks of the given size; those of zeros are left out."""
    m, n = A.shape[0] // size, A.shape[1] // size
    cells = A.reshape(m, size, n, size).transpose(0, 2, 1, 3)
    full = np.any(cells != 0, axis=(2, 3))
    starts = np.concatenate([[0], np.cumsum(full.sum(axis=1))])
    columns = np.nonzero(full)[1]
    ends = [words(size * np.arange(1, 1 + k)) for k in (m, n)]
    body = "\n".join(f"{k}\n{words(cell.T)}" for k, cell in enumerate(cells[full]))
    head = f"1\n{A.shape[0]}\n{A.shape[1]}\n{len(columns)}\n{m}\n{n}\n{ends[0]}\n{ends[1]}\n"
    return head + f"{len(starts)}\n{len(columns)}\n{words(starts)}\n{words(columns)}\n{body}\n"


def sparse(A, kind):
    m, n = A.shape
    count = np.count_nonzero(A)
    head = f"2\n{m}\n{n}\n1\nCSparse Version 3.1.9, May 4, 2016.  Copyright (c) some one, 2006-2016\n"
    if kind == "triplet":
        entries = "".join(f"  {i} {j} : {A[i, j]:.17g}\n" for i, j in np.argwhere(A))
        return head + f"triplet: {m}-by-{n}, nzmax: {count} nnz: {count}\n" + entries
    lines, name, mark = (A.T, "col", "") if kind == "columns" else (A, "row", "csr: ")
    text, place = "", 0
    for k, line in enumerate(lines):
        where = np.nonzero(line)[0]
        text += f"    {name} {k} : locations {place} to {place + len(where) - 1}\n"
        text += "".join(f"      {i} : {line[i]:.17g}\n" for i in where)
        place += len(where)
    return head + f"{mark}{m}-by-{n}, nzmax: {count} nnz: {count}, 1-norm: 1\n" + text


STORAGES = {
    "dense": dense,
    "blocks": lambda A: blocks(A, 3),
    "triplets": lambda A: sparse(A, "triplet"),
    "columns": lambda A: sparse(A, "columns"),
    "rows": lambda A: sparse(A, "rows"),
}


@pytest.fixture
def spatial(rng):
    """Three contacts in space, rows contact by contact; W is not symmetric, and the first contact does not feel the last.

    The last column is zero but for one entry, so that a sparse matrix has short lines.
    """
    W = rng.normal(size=(9, 9))
    W[:3, 6:] = 0.0
    W[:8, 8] = 0.0
    return W, rng.normal(size=9), rng.uniform(0.1, 1.0, 3)


def assert_is_the_problem(problem, W, q, mu):
    """Normals first, then the friction of each contact."""
    order = [0, 3, 6, 1, 2, 4, 5, 7, 8]
    np.testing.assert_allclose(problem["G"], W[order][:, order], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(problem["c"], q[order], rtol=1e-13)
    np.testing.assert_array_equal(problem["mu"], mu)
    assert (problem["d"], problem["n_bilateral"]) == (2, 0)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("end", ["", "0\n"])
def test_text_local(tmp_path, spatial, storage, end):
    W, q, mu = spatial
    file = tmp_path / "problem.dat"
    file.write_text(f"3\n3\n{STORAGES[storage](W)}{words(q)}\n{words(mu)}\n{end}")
    assert_is_the_problem(ns.contact_problems.load(file), W, q, mu)


@pytest.mark.parametrize("storage", STORAGES)
def test_text_global(tmp_path, rng, storage):
    M, H = np.diag(rng.uniform(1, 2, 9)), rng.normal(size=(9, 9))
    f, w, mu = rng.normal(size=9), rng.normal(size=9), np.array([0.3, 0.4, 0.5])
    file = tmp_path / "problem.dat"
    write = STORAGES[storage]
    file.write_text(f"3\n3\n{write(M)}{write(H)}{words(f)}\n{words(w)}\n{words(mu)}\n0\n")
    inverse = np.diag(1 / np.diag(M))
    assert_is_the_problem(ns.contact_problems.load(str(file)), H.T @ inverse @ H, w + H.T @ inverse @ f, mu)


def put_matrix(group, A, kind):
    rows, columns = np.nonzero(A)
    if kind == "rows":
        p, i, nz = np.concatenate([[0], np.cumsum(np.count_nonzero(A, axis=1))]), columns, -2
    else:
        order = np.lexsort((rows, columns))
        rows, columns = rows[order], columns[order]
        p, i, nz = np.concatenate([[0], np.cumsum(np.count_nonzero(A, axis=0))]), rows, -1
    if kind == "triplets":
        p, i, nz = columns, rows, len(rows)
    for name, value in (("m", A.shape[0]), ("n", A.shape[1]), ("nz", nz), ("nzmax", len(rows))):
        group[name] = np.array([value], np.int32)
    group["p"], group["i"], group["x"] = p.astype(np.int32), i.astype(np.int32), A[rows, columns]


@pytest.mark.parametrize("kind", ["triplets", "columns", "rows"])
def test_hdf5_local(tmp_path, spatial, kind):
    h5py = pytest.importorskip("h5py")
    W, q, mu = spatial
    with h5py.File(tmp_path / "problem.hdf5", "w") as file:
        local = file.create_group("fclib_local")
        local["spacedim"] = np.array([3], np.int32)
        put_matrix(local.create_group("W"), W, kind)
        vectors = local.create_group("vectors")
        vectors["q"], vectors["mu"] = q, mu
    assert_is_the_problem(ns.contact_problems.load(tmp_path / "problem.hdf5"), W, q, mu)


def test_hdf5_global_with_constraints_is_solved(tmp_path, rng):
    """The solution obeys the equations of the file: M v = H r + B λ + f, B' v + b = 0, u = H' v + w opens or presses."""
    h5py = pytest.importorskip("h5py")
    M, H, B = np.diag(rng.uniform(1, 2, 6)), rng.normal(size=(6, 4)), rng.normal(size=(6, 2))
    f, w, b, mu = rng.normal(size=6), rng.normal(size=4), rng.normal(size=2), np.array([0.3, 0.4])
    with h5py.File(tmp_path / "problem.hdf5", "w") as file:
        whole = file.create_group("fclib_global")
        whole["spacedim"] = np.array([2], np.int32)
        for name, A in (("M", M), ("H", H), ("G", B)):
            put_matrix(whole.create_group(name), A, "columns")
        vectors = whole.create_group("vectors")
        vectors["f"], vectors["w"], vectors["b"], vectors["mu"] = f, w, b, mu
    solution = ns.solve_contacts(**ns.contact_problems.load(tmp_path / "problem.hdf5"))
    assert solution.status == ns.Status.OK
    r = np.column_stack([solution.P_N, solution.P_F[:, 0]]).ravel()
    v = np.linalg.solve(M, H @ r + B @ np.asarray(solution.P_b) + f)
    np.testing.assert_allclose(B.T @ v + b, 0.0, atol=1e-9)
    u = H.T @ v + w
    np.testing.assert_allclose(np.minimum(u[0::2], r[0::2]), 0.0, atol=1e-9)
    assert np.all(np.abs(r[1::2]) <= mu * r[0::2] + 1e-9)


def test_hdf5_needs_h5py(tmp_path, monkeypatch):
    file = tmp_path / "problem.hdf5"
    file.write_bytes(b"\x89HDF\r\n\x1a\n")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match="install the extra `hdf5`"):
        ns.contact_problems.load(file)


def test_hdf5_of_something_else(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["data"] = np.zeros(3)
    with pytest.raises(ValueError, match="this one holds data"):
        ns.contact_problems.load(tmp_path / "other.hdf5")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("something else", "nor a friction-contact problem"),
        ("", "the file ends"),
        ("2 1 0 2 2 2 2 1 0 0", "the file ends"),
        ("2 1 7 2 2 1 0 0 2 -3 1 0.1", "not as 7"),
        ("5 1 0 5 5 5 5 " + "0 " * 25 + "1 0 0 0 0 0.1", "Rolling friction is not read"),
        ("2 2 0 2 2 2 2 1 0 0 2 -3 1 0.1 0.2", "do not make contacts"),
    ],
)
def test_text_that_is_no_problem(tmp_path, text, message):
    (tmp_path / "problem.dat").write_text(text)
    with pytest.raises(ValueError, match=message):
        ns.contact_problems.load(tmp_path / "problem.dat")
