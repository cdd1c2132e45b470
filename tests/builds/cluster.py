"""A Ray of this machine that outlives the builds that use it. Run as a program it starts one and says its address."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from forge import OWN_TOKEN


class Cluster:
    """A Ray with four CPUs (as it believes), on one node or several, until `close`."""

    def __init__(self, nodes: int = 1) -> None:
        self._nodes = nodes
        here = str(Path(__file__).parent)
        own = {
            "PYTHONPATH": os.pathsep.join(
                [here, str(Path(here).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "OMP_NUM_THREADS": "1",
            "RAY_raylet_start_wait_time_s": "120",
            **OWN_TOKEN,
        }
        environment = {**os.environ, **own}
        for _ in range(3):  # on a busy machine, Ray gives up waiting for its own parts
            if self._start(environment):
                return
        raise AssertionError("Ray did not start")

    def _start(self, environment: dict[str, str]) -> bool:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self._nodes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("address "):
                self.environment = {"RAY_ADDRESS": line.split()[1]}
                return True
        self.close()
        return False

    def lose_a_node(self) -> None:
        """End a node that is not the head, as a machine that loses its power."""
        assert self._process.stdin is not None
        self._process.stdin.write("lose\n")
        self._process.stdin.flush()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


def _serve(nodes: int) -> None:
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import ray
    from ray.cluster_utils import Cluster as Nodes

    if nodes == 1:
        ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
        print("address", ray.get_runtime_context().gcs_address, flush=True)
        sys.stdin.read()
        return ray.shutdown()
    settings = {"num_cpus": 4 // nodes, "include_dashboard": False}
    cluster = Nodes(initialize_head=True, head_node_args=settings)
    others = [cluster.add_node(**settings) for _ in range(nodes - 1)]
    cluster.wait_for_nodes()
    print("address", cluster.address, flush=True)
    for _ in sys.stdin:
        cluster.remove_node(others.pop(), allow_graceful=False)
    return cluster.shutdown()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
