"""The OpenAPI document is what the service does: whatever is sent, the answer is one that the document tells of."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from kernelmill.leaderboard.api.app import create_app
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.settings import Settings
from tests.leaderboard.populated import Site, Things, known
from tests.leaderboard.world import DEFINITION

EXAMPLES = 30
Case = schemathesis.Case[Any]
PEOPLE = (None, "reader", "alice", "root")
DOCUMENT: dict[str, Any] = create_app(Settings(), Database("postgresql://nobody@/nothing")).openapi()
OPERATIONS = [(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
each_operation = pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[f"{m} {p}" for m, p in OPERATIONS])


@pytest.fixture(scope="module")
def schema(site: Site) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", site.world.client.app)


@each_operation
def test_every_answer_is_documented(site: Site, schema: Any, method: str, path: str) -> None:
    operation = schema[path][method]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    cases = st.one_of([operation.as_strategy(generation_mode=mode) for mode in modes])

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases, who=st.sampled_from(PEOPLE), data=st.data())
    def check(case: Case, who: str | None, data: st.DataObject) -> None:
        _make_meaningful(case, site.things, data)
        case.headers.pop("Authorization", None)
        response = case.call(headers=site.world.headers(who))
        case.validate_response(response, checks=CHECKS)

    check()


def _make_meaningful(case: Case, things: Things, data: st.DataObject) -> None:
    """Every other time let it name what is there, so that more than refusals are looked at."""
    if not data.draw(st.booleans()):
        return
    values = known(things)
    for named in (case.path_parameters, case.query):
        for name in set(named or {}) & values.keys():
            named[name] = data.draw(st.sampled_from(values[name]))
    if isinstance(case.body, dict) and isinstance(solution := case.body.get("solution"), dict):
        solution["definition"] = DEFINITION


@each_operation
def test_every_operation_says_what_it_does(method: str, path: str) -> None:
    """In words, by example where it takes a body, and with problems in their own media type."""
    operation = DOCUMENT["paths"][path][method]
    assert operation["summary"] and operation["description"].rstrip().endswith((".", ":"))
    for status, answer in operation["responses"].items():
        if status >= "400":
            assert answer["content"] == {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            }
    for each in operation.get("parameters", ()):
        assert each["in"] == "path" or not each.get("required") or each["name"] in ("definition", "device_model")
    if body := operation.get("requestBody"):
        name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        assert DOCUMENT["components"]["schemas"][name]["examples"]


@pytest.mark.parametrize("path", [path for method, path in OPERATIONS if method == "post" and "{" not in path])
def test_the_examples_are_of_the_right_shape(site: Site, path: str) -> None:
    """What an example is refused for is that its things are not there."""
    operation = DOCUMENT["paths"][path]["post"]
    name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    reply = site.world.post(path, DOCUMENT["components"]["schemas"][name]["examples"][0])
    assert reply.status_code < 300 or any(word in reply.json()["detail"] for word in ("there is no", "not found")), (
        reply
    )


def test_the_checks_would_see_an_undocumented_answer(site: Site, schema: Any) -> None:
    """So that the tests above are known to be able to fail."""
    case = schema["/healthz"]["get"].Case()
    reply = site.world.get("/api/v1/definitions")
    with pytest.raises(BaseExceptionGroup):
        case.validate_response(reply, checks=[response_schema_conformance])
