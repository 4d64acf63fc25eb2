"""The files in deploy/ray: their fields exist, and they agree with each other and with the code."""

import json
import re
import shlex
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from headrace.cli.train import TrainOptions, read_options
from headrace.launch.ray import Ray
from headrace.topologies.apex import Apex

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "deploy/ray"
OTHER_PROCESSES = 1  # the evaluator


def one_of(**fields: Any) -> dict[str, Any]:
    """The schema of an object with these fields and no others."""
    return {"type": "object", "properties": fields, "additionalProperties": False}


TEXT, COUNT, SWITCH = {"type": "string", "minLength": 1}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
QUANTITY = {"type": "string", "pattern": r"^[0-9]+(m|[KMGT]i?)?$"}
RESOURCES = one_of(requests=(amounts := one_of(cpu=QUANTITY, memory=QUANTITY, storage=QUANTITY)), limits=amounts)
CONTAINER = one_of(
    name=TEXT,
    image=TEXT,
    resources=RESOURCES,
    ports={"type": "array", "items": one_of(name=TEXT, containerPort=COUNT)},
    volumeMounts={"type": "array", "items": one_of(name=TEXT, mountPath=TEXT)},
)
POD = one_of(
    securityContext=one_of(runAsNonRoot=SWITCH, runAsUser=COUNT, fsGroup=COUNT),
    containers={"type": "array", "items": CONTAINER, "minItems": 1},
    volumes={"type": "array", "items": one_of(name=TEXT, persistentVolumeClaim=one_of(claimName=TEXT))},
)
GROUP = {"rayStartParams": {"type": "object", "additionalProperties": TEXT}, "template": one_of(spec=POD)}
WORKERS = one_of(groupName=TEXT, replicas=COUNT, minReplicas=COUNT, maxReplicas=COUNT, **GROUP)
CLUSTER = one_of(
    rayVersion=TEXT,
    authOptions=one_of(mode={"enum": ["disabled", "token"]}),
    enableInTreeAutoscaling=SWITCH,
    autoscalerOptions=one_of(idleTimeoutSeconds=COUNT, resources=RESOURCES),
    headGroupSpec=one_of(**GROUP),
    workerGroupSpecs={"type": "array", "items": WORKERS},
)
RAY_JOB = one_of(
    apiVersion={"const": "ray.io/v1"},
    kind={"const": "RayJob"},
    metadata=one_of(name=TEXT),
    spec=one_of(
        submissionMode={"enum": ["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"]},
        entrypoint=TEXT,
        backoffLimit=COUNT,
        activeDeadlineSeconds=COUNT,
        shutdownAfterJobFinishes=SWITCH,
        ttlSecondsAfterFinished=COUNT,
        rayClusterSpec=CLUSTER,
    ),
)
"""The fields of KubeRay's reference of ray.io/v1, and of Kubernetes' reference of a pod, that the job uses."""


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    """The documents of rayjob.yaml by kind."""
    return {each["kind"]: each for each in yaml.safe_load_all((FOLDER / "rayjob.yaml").read_text())}


@pytest.fixture(scope="module")
def job(documents: dict[str, Any]) -> dict[str, Any]:
    """The specification of the Ray job."""
    spec: dict[str, Any] = documents["RayJob"]["spec"]
    return spec


@pytest.fixture(scope="module")
def train(job: dict[str, Any]) -> TrainOptions:
    """The options of the job's `headrace train`; raises ConfigError for a mistake."""
    [command] = re.findall(r"exec headrace train ([^;]+);", job["entrypoint"])
    return read_options(shlex.split(command))


def pods(job: dict[str, Any]) -> list[dict[str, Any]]:
    cluster = job["rayClusterSpec"]
    return [group["template"]["spec"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


def pinned(package: str) -> str:
    [version] = re.findall(rf"^{package}==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    return version


def test_fields_are_those_of_kuberay(documents: dict[str, Any]) -> None:
    jsonschema.validate(documents["RayJob"], RAY_JOB)


def test_versions_are_the_pinned_ones(job: dict[str, Any]) -> None:
    dockerfile = (FOLDER / "Dockerfile").read_text()
    assert re.findall(r"ray\[default\]==([\d.]+)", dockerfile) == [pinned("ray")]
    assert job["rayClusterSpec"]["rayVersion"] == pinned("ray")


def test_pods_have_the_image_that_the_dockerfile_names(job: dict[str, Any]) -> None:
    [image] = re.findall(r"--tag (\S+)", (FOLDER / "Dockerfile").read_text())
    [version] = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert image.endswith(f":{version}")
    assert {container["image"] for pod in pods(job) for container in pod["containers"]} == {image}


def test_what_the_dockerfile_copies_exists() -> None:
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    assert [name for names in copies for name in names.split() if not (ROOT / name).exists()] == []
    assert copies


def test_the_command_trains_on_ray_and_resumes_the_same_directory(job: dict[str, Any], train: TrainOptions) -> None:
    assert train.launcher == Ray()  # the address comes from the environment of the job
    assert re.findall(r"headrace resume ([^\s;]+)", job["entrypoint"]) == [str(train.run_dir)]


def test_the_entrypoint_is_a_shell_command(job: dict[str, Any]) -> None:
    assert job["submissionMode"] == "HTTPMode"  # in the others, the shell of the submitter would interpret it
    subprocess.run(["sh", "-n", "-c", job["entrypoint"]], check=True)


def test_the_run_directory_is_on_the_volume(
    documents: dict[str, Any], job: dict[str, Any], train: TrainOptions
) -> None:
    head = pods(job)[0]
    [mount] = head["containers"][0]["volumeMounts"]
    [volume] = head["volumes"]
    assert train.run_dir
    assert train.run_dir.is_relative_to(mount["mountPath"])
    assert mount["name"] == volume["name"]
    assert volume["persistentVolumeClaim"]["claimName"] == documents["PersistentVolumeClaim"]["metadata"]["name"]


def test_the_workers_have_room_for_every_process(job: dict[str, Any], train: TrainOptions) -> None:
    [workers] = job["rayClusterSpec"]["workerGroupSpecs"]
    cores = workers["maxReplicas"] * int(workers["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"])
    assert isinstance(train.topology, Apex)
    assert train.topology.actors
    assert cores >= (train.topology.actors + OTHER_PROCESSES) * Ray().actor_cpus
    assert job["rayClusterSpec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


def test_rays_launcher_accepts_the_cluster() -> None:
    cluster = yaml.safe_load((FOLDER / "cluster.yaml").read_text())
    schema = json.loads(files("ray").joinpath("autoscaler/ray-schema.json").read_text())
    jsonschema.validate(cluster, schema)
    assert cluster["max_workers"] == len(cluster["provider"]["worker_ips"])
