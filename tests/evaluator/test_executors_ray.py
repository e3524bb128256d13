"""The same runs on a Ray cluster of two nodes, both on this host and each with one pretended device."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kernelmill.dataset import Dataset
from kernelmill.evaluator.executors import RayExecutor, Spread
from kernelmill.evaluator.executors.ray import PREFIX
from kernelmill.evaluator.runner import Event
from kernelmill.evaluator.sandbox import probe
from kernelmill.trace_schema.errors import InternalError
from tests.evaluator.pretended import MODEL
from tests.evaluator.test_executors import HERE, OPTIONS, SEEN, make, todo

pytestmark = [
    pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}"),
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head and a second node, `.second`, which both offer the model; the head also its real CPU."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    offer = {f"{PREFIX}{MODEL}": 1}
    head = {"num_cpus": 1, "resources": {**offer, f"{PREFIX}cpu": 1}, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    try:
        made.second = made.add_node(num_cpus=1, resources=offer)
        yield made
    finally:
        made.shutdown()


def joined(cluster: Any, device: str = MODEL) -> RayExecutor:
    return RayExecutor(device, OPTIONS, address=cluster.address, opener=f"{HERE}:open_shared")


def node(event: Event) -> str:
    """The node that a unit was begun on."""
    return event.text.partition(": on node ")[2]


def test_both_nodes_judge_and_each_trace_is_saved_as_it_comes(cluster: Any, tmp_path: Path) -> None:
    dataset = make(tmp_path, definitions=3, workloads=2)
    saved, nodes = [], set()
    with closing(joined(cluster)) as executor:
        assert (executor.seen, executor.share) == (SEEN, 2)
        spread = Spread(dataset, executor, save=True)
        for event in spread.run(todo(dataset)):
            if event.trace is not None:
                saved.append(len(list(dataset.traces())))
            elif node(event):
                nodes.add(node(event))
    assert saved == [1, 2, 3, 4, 5, 6]
    assert len(nodes) == 2
    assert spread.exit_code == 0
    assert todo(dataset, resume=True) == []


def test_the_command_judges_on_a_cluster_what_its_nodes_offer(cluster: Any, tmp_path: Path) -> None:
    make(tmp_path, definitions=1, workloads=1)
    command = [sys.executable, "-P", "-m", "kernelmill", "run", str(tmp_path), "--executor", "ray"]
    where = ["--ray-address", cluster.address]
    unclear, done = (
        subprocess.run([*command, *where, *device], capture_output=True, text=True, timeout=300, check=False)
        for device in ([], ["--device", "cpu"])
    )
    assert unclear.returncode == 1
    assert f"the nodes of the Ray cluster offer {MODEL}, cpu; choose one of them" in unclear.stderr
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 1), done.stderr
    assert len(list(Dataset.open(tmp_path).traces())) == 1


def test_a_lost_node_is_said_to_be_lost_and_its_unit_is_not_tried_again(cluster: Any, tmp_path: Path) -> None:
    dataset = make(tmp_path, definitions=3, workloads=3)
    begun: dict[str, list[str]] = {}
    removed, told = "", []
    with closing(joined(cluster)) as executor:
        spread = Spread(dataset, executor, save=True)
        for event in spread.run(todo(dataset)):
            if node(event):
                begun.setdefault(event.text.split()[0], []).append(node(event))
            if node(event) == cluster.second.node_id and not removed:
                removed = event.text.split()[0]
                cluster.remove_node(cluster.second, allow_graceful=False)
            if event.kind != "building":
                told.append(event)
        with pytest.raises(InternalError, match=f"offer {MODEL}"):
            joined(cluster, "cuda")
    (lost,) = [event for event in told if event.trace is None]
    assert removed
    assert lost.kind == "harness_error"
    assert lost.text.startswith(f"{removed} ")
    assert "its node or its worker was lost (NodeDiedError" in lost.text
    assert "kernelmill run --resume" in lost.text
    assert len(begun[removed]) == 1
    assert spread.exit_code == 1
    assert [job.definition.name for job in todo(dataset, resume=True)] == [removed]


def test_without_a_cluster_or_without_ray_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    pytest.importorskip("ray")
    with pytest.raises(InternalError, match=r"no Ray cluster is reached at 127.0.0.1:1 .*ray start --head"):
        RayExecutor("cpu", OPTIONS, address="127.0.0.1:1")
    with pytest.raises(InternalError, match="run on a node of the cluster"):
        RayExecutor("cpu", OPTIONS, address="ray://127.0.0.1:10001")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InternalError, match=r"pip install 'kernelmill\[ray\]'"):
        RayExecutor("cpu", OPTIONS)
