"""The expression language: what it can say, what it refuses, and that hostile expressions cost nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelmill.trace_schema.constraints import ConstraintError, MissingNameError, check, evaluate, parse
from kernelmill.trace_schema.errors import DatasetError

AXES = {"batch_size": 2, "len_indptr": 3, "num_pages": 6, "page_size": 16, "head_dim": 128}
LIBRARIES = [list, numpy.array, torch.tensor]


def tensors(make: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        "indptr": make([0, 3, 5]),
        "indices": make([5, 0, 2, 1, 4]),
        "table": make([[1, 2, 3], [4, 5, 6]]),
        "mask": make([True, False]),
        "nothing": make([]),
        "eps": 1e-5,
        "causal": True,
        "absent": None,
    }


@pytest.mark.parametrize("make", LIBRARIES)
@pytest.mark.parametrize(
    "expression",
    [
        "len_indptr == batch_size + 1",
        "indptr[-1].item() == 5",
        "indptr[-1] == len(indices)",
        "(indptr[1:] >= indptr[:-1]).all()",
        "all(indptr[1:] >= indptr[:-1])",
        "(0 <= indices < num_pages).all()",
        "not (indices < 0).any()",
        "not any(indices < 0)",
        "(indptr[1:] - indptr[:-1]).max() == 3",
        "max(indices) < num_pages <= 6",
        "indices.max() == 5 and indices.min() == 0 and indices.sum() == 12",
        "min(indices) == 0 and sum(indices) == 12",
        "(indices + indices).sum() == 24",
        "(2 * indices - 1).min() == -1",
        "(-indices).min() == -5 and abs(-indices).max() == 5",
        "(indices % 2 == 0).sum() == 3",
        "(indices // 2).max() == 2",
        "table.shape == (2, 3)",
        "table.shape[0] * table.shape[-1] == table.numel() == 6",
        "table.size(1) == 3 and table.size(-2) == 2 and table.size() == table.shape",
        "table.ndim == 2 == table.dim() and indptr.dim() == 1",
        "table[1, 2] == 6 and table[1][2] == 6 and table[0, 1:].sum() == 5",
        "table[:, 0].sum() == 5",
        "table[:, 0].shape == (2,)",
        "(table == table).all()",
        "mask.any() and not mask.all()",
        "nothing.numel() == 0 and nothing.all() and len(nothing) == 0",
        "page_size in (1, 16, 64)",
        "page_size not in (1, 64)",
        "1 in table.shape or 2 in table.shape",
        "head_dim == 2 ** 7",
        "2 ** -1 == 0.5",
        "2.0 ** 0.5 > 1.4",
        "head_dim % 8 == 0 and head_dim / 8 == 16 and -head_dim // 100 == -2",
        "max(batch_size, len_indptr) == 3 and min(1, 2.5, -1) == -1",
        "abs(-3) == 3 and +3 == 3",
        "eps > 0 and causal",
        "absent == None and indices != None",
        "(1 if causal else 0) == 1",
        "True or missing",
        "not (False and missing)",
        "1 < 0 < missing or True",
        "eps.item() == eps and batch_size.item() == 2",
        "eps.shape == () and eps.ndim == 0 and eps.numel() == 1",
        "all((True, 1)) and any((0, 1)) and sum((1, 2)) == 3",
        "(\nbatch_size\n== 2)",
        "2**53 + 1 == 9007199254740993",
    ],
)
def test_holds(expression: str, make: Callable[[Any], Any]) -> None:
    assert check(expression, AXES, tensors(make)) is True
    assert check(f"not ({expression})", AXES, tensors(make)) is False


@pytest.mark.parametrize("make", LIBRARIES)
@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("batch_size", "gives 2, not true or false"),
        ("indices > 0", "gives an array of shape (5,), not a number or true or false: add .all()"),
        ("(1, 2)", "gives the tuple (1, 2)"),
        ("None", "gives None"),
        ("indices and True", "'indices' at column 1: an array of shape (5,) is neither true nor false"),
        ("not indices", "'indices' at column 5: an array"),
        ("1 if indices else 2", "add .all() or .any()"),
        ("indices.item() == 1", ".item() needs exactly one element, the shape is (5,)"),
        ("indices + indptr == 1", "'indices + indptr' at column 1: the shapes (5,) and (3,) differ"),
        ("(indices < indptr).all()", "the shapes (5,) and (3,) differ"),
        ("nothing.max() == 1", "'nothing.max()' at column 1"),
        ("indices[9] == 1", "'indices[9]' at column 1"),
        ("indices[0.5] == 1", "the index 0.5 is not a whole number"),
        ("indices[True] == 1", "the index True is not a whole number"),
        ("indices[None] == 1", "the index None is not a whole number"),
        ("indices[indptr].all()", "is not a whole number"),
        ("batch_size[0] == 1", "2 can't be indexed"),
        ("table.size(2) == 1", "index out of range"),
        ("batch_size / 0 == 1", "division by zero"),
        ("(indices % 0).all()", "division by zero"),
        ("(1, 2) * 3 == 1", "(1, 2) can't be used as a number"),
        ("(1,) + (2,) == (1, 2)", "can't be used as a number"),
        ("absent + 1 == 1", "None can't be used as a number"),
        ("absent < 1", "None has no order"),
        ("absent.shape == ()", "None has no shape"),
        ("1 in indices", "the right side of `in` must be a tuple"),
        ("indices in (1, 2)", "an array can't be used as a number here"),
        ("batch_size == (1, 2)", "can't be compared"),
        ("len(batch_size) == 1", "out of range"),
        ("max(indices, 3) == 3", "an array can't be used as a number here"),
        ("min() == 3", "'min()' at column 1"),
        ("(-1) ** 0.5 == 1", "the power is not a real number"),
        ("indices ** 2 == 1", "an array can't be used as a number here"),
    ],
)
def test_cannot_be_answered(expression: str, complaint: str, make: Callable[[Any], Any]) -> None:
    with pytest.raises(ConstraintError) as error:
        check(expression, AXES, tensors(make))
    assert complaint in str(error.value)
    assert expression in str(error.value)


@pytest.mark.parametrize(
    ("expression", "column", "complaint"),
    [
        ("a.__class__", 1, "the attribute '__class__' is not allowed: only .shape and .ndim are"),
        ("().__class__", 1, "the attribute '__class__'"),
        ("a.T", 1, "the attribute 'T'"),
        ("n == x.data_ptr()", 6, "this can't be called"),
        ("__import__('os')", 1, "this can't be called: only len, abs, min"),
        ("open('f')", 1, "this can't be called"),
        ("(lambda: 1)()", 2, "this can't be called"),
        ("a()()", 1, "this can't be called"),
        ("a[0]()", 1, "this can't be called"),
        ("lambda: 1", 1, "Lambda is not part"),
        ("[x for x in a]", 1, "ListComp is not part"),
        ("all(x for x in a)", 4, "GeneratorExp is not part"),
        ("{1: 2}", 1, "Dict is not part"),
        ("{1, 2}", 1, "Set is not part"),
        ("f'{a}'", 1, "JoinedStr is not part"),
        ("n == 'text'", 6, "only whole numbers"),
        ("b'bytes' == n", 1, "only whole numbers"),
        ("n == 1j", 6, "only whole numbers"),
        ("n == ...", 6, "only whole numbers"),
        ("(n := 1)", 2, "NamedExpr is not part"),
        ("n @ n", 1, "the operator MatMult"),
        ("n << 9", 1, "the operator LShift"),
        ("n & 1 == 1", 1, "the operator BitAnd"),
        ("~n == 1", 1, "the operator Invert"),
        ("n is None", 1, "the operator Is "),
        ("a.max(axis=0)", 1, "no keywords"),
        ("max(*a)", 1, "no keywords and no *"),
        ("max(a, key=len)", 1, "no keywords"),
        ("a.max(0)", 1, ".max() takes no argument"),
        ("a.size(0, 1)", 1, ".size() takes one argument at most"),
        ("(yield)", 2, "Yield is not part"),
        ("await a", 1, "Await is not part"),
        ("é == a.b", 6, "the attribute 'b'"),
    ],
)
def test_outside_the_language(expression: str, column: int, complaint: str) -> None:
    with pytest.raises(ConstraintError) as error:
        parse(expression)
    assert complaint in str(error.value)
    assert error.value.column == column
    assert f"at column {column}" in str(error.value)
    assert isinstance(error.value, DatasetError)


@pytest.mark.parametrize("expression", ["", "n ==", "n; n", "import os", "x = 1", "n == 1\nn == 2", "(" * 900, "\x00"])
def test_not_python(expression: str) -> None:
    with pytest.raises(ConstraintError, match="is not a Python expression"):
        parse(expression)


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("9**9**9", "the power needs more than 256 bits"),
        ("2 ** 10000000000", "the power needs more than 256 bits"),
        ("(2 ** 200) ** (2 ** 200) > 0", "the power needs more"),
        ("2 ** 250 * 2 ** 250 > 0", "the integer needs more than 256 bits"),
        ("9" * 200 + " > 1", "the integer needs more than 256 bits"),
        ("1e308 ** 9 > 0", "out of range"),
        ("1 + " * 490 + "1 > 0", "nested deeper than 60 levels"),
        ("not " * 400 + "True", "nested deeper"),
        ("-" * 1999 + "1", "nested deeper"),
        ("(" * 150 + "1" + ")" * 150 + "== n[" + "0]", "at column"),
        ("x" * 2001, "is 2001 characters long; at most 2000"),
        ("a[:, None] == a[None, :]", "the index None"),
    ],
)
def test_hostile_expressions_are_refused_at_once(expression: str, complaint: str) -> None:
    start = time.perf_counter()
    with pytest.raises(ConstraintError, match=complaint):
        check(expression, {}, {"a": numpy.zeros(4)})
    assert time.perf_counter() - start < 5


def test_arrays_are_not_broadcast_into_each_other() -> None:
    column, row = numpy.zeros((1000, 1)), numpy.zeros((1, 1000))
    with pytest.raises(ConstraintError, match="differ"):
        check("(c == r).all()", {}, {"c": column, "r": row})


def test_a_missing_name_says_which_are_known() -> None:
    with pytest.raises(MissingNameError, match=r"'kv' at column 6: .*known: x, n") as error:
        check("n == kv[-1]", {"n": 1}, {"x": [1]})
    assert (error.value.name, error.value.column) == ("kv", 6)


def test_the_column_is_found_in_odd_text() -> None:
    with pytest.raises(ConstraintError) as error:
        parse("'é\u2028é' == n and (\n x.y)")
    assert error.value.column == 1
    with pytest.raises(ConstraintError, match=r"'x.y' at column 2"):
        parse("(\r x.y)")


def test_names_tell_what_has_to_be_loaded() -> None:
    assert parse("num == max(kv[-1].item(), len(x))").names == {"num", "kv", "x"}


def test_an_axis_goes_before_a_tensor_of_its_name() -> None:
    assert evaluate("n", {"n": 1}, {"n": [1, 2]}) == 1


def test_numbers_out_of_small_integer_arrays_do_not_wrap() -> None:
    big = {"x": numpy.array([2**30], dtype=numpy.int32)}
    assert evaluate("x[0] * 8", {}, big) == 2**33
    assert check("x[0] * 8 == 2 ** 33", {}, {"x": torch.tensor([2**30], dtype=torch.int32)})


def test_costs_are_numbers() -> None:
    assert evaluate("2 * n * m + 4", {"n": 3, "m": 5}) == 34
    assert evaluate("n / 2", {"n": 3}) == 1.5


def test_what_is_no_array_is_refused() -> None:
    for value in ("text", {"a": 1}, object(), [[1], [1, 2]], ["a"], numpy.array("text"), numpy.array(1j)):
        with pytest.raises(ConstraintError):
            check("x == x", {}, {"x": value})


@given(
    st.text(max_size=40)
    | st.lists(st.sampled_from([*"n0x()[]:.+-*/%,=<>!", " in ", " not ", " if ", "len", ".max()"])).map("".join)
)
def test_any_text_gives_an_answer_or_a_constraint_error(expression: str) -> None:
    try:
        assert isinstance(check(expression, {"n": 2}, {"x": [1, 2]}), bool)
    except ConstraintError as error:
        assert str(error)
