"""From the protocol's sandbox spec to the runner's, refusing whatever cannot be honoured."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from grpc import StatusCode

from pytest_cwsandbox.local.records import ONE_SHOT, RUNNER_ID, RUNTIME_CLASS
from pytest_cwsandbox.local.sandbox import Spec
from pytest_cwsandbox.local.status import Refusal, invalid, unsupported

if TYPE_CHECKING:
    from cwsandbox._proto import sandbox_pb2 as pb
    from google.protobuf.message import Message

CONTAINER = "sandbox.spec.containers[0]"

# Beyond mounted files, which are not kept; every record holds its spec for as long as it is known.
SPEC_BYTES = 1 << 20

# Fields that are honoured, or that make no difference on one machine. Any other field that is set
# is refused: a program must not run without something that its caller counts on.
SPEC_FIELDS = frozenset(
    {"annotations", "containers", "max_lifetime_seconds", "mode", "network"}
    | {"runner_ids", "runtime_class", "tags"}
)
CONTAINER_FIELDS = frozenset(
    {"args", "command", "environment_variables", "files", "image", "name", "primary"}
    | {"resource_requirements", "resources", "security_context", "working_dir"}
)
# True of every local sandbox, whether asked for or not.
HARDENED = {
    "privileged": False,
    "allow_privilege_escalation": False,
    "read_only_root_filesystem": True,
}
SECURITY_FIELDS = frozenset({*HARDENED, "capabilities_drop"})

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|[kMGTPE]|[KMGTPE]i)?")
_SCALES = {"m": Decimal("0.001"), "k": Decimal(1000), "Ki": Decimal(1024)}
_SCALES |= {unit: Decimal(1000) ** (i + 2) for i, unit in enumerate("MGTPE")}
_SCALES |= {f"{unit}i": Decimal(1024) ** (i + 2) for i, unit in enumerate("MGTPE")}


def translate(spec: pb.SandboxSpec) -> Spec:
    """The spec of a local sandbox; raises ``Refusal``."""
    _only(spec, SPEC_FIELDS, "spec")
    if not spec.containers:
        raise invalid("sandbox.spec.containers", "a sandbox needs a container")
    if len(spec.containers) > 1:
        raise unsupported("more than one container in a sandbox is")
    if spec.max_lifetime_seconds < 0:
        raise invalid("sandbox.spec.max_lifetime_seconds", "must not be negative")
    if spec.runner_ids and RUNNER_ID not in spec.runner_ids:
        raise _unplaceable(f"the only runner here is {RUNNER_ID!r}")
    if spec.runtime_class not in ("", RUNTIME_CLASS, ONE_SHOT):
        raise _unplaceable(f"the runtime classes here are {RUNTIME_CLASS!r} and {ONE_SHOT!r}")
    if spec.network.ingress or spec.network.egress:
        raise _unplaceable("a local sandbox has no network")
    container = spec.containers[0]
    translated = _container(container, one_shot=spec.runtime_class == ONE_SHOT)
    if spec.ByteSize() - sum(len(file.content) for file in container.files) > SPEC_BYTES:
        raise invalid("sandbox.spec", f"larger than {SPEC_BYTES} bytes; mount or write large files")
    return translated


def _container(container: pb.Container, *, one_shot: bool) -> Spec:
    _only(container, CONTAINER_FIELDS, "containers[0]")
    _secure(container.security_context)
    if not container.image:
        raise invalid(f"{CONTAINER}.image", "an image such as python:3.11 is required")
    if not container.command:
        raise invalid(f"{CONTAINER}.command", "a command is required: local images define none")
    command = (container.command, *container.args)
    if any("\0" in part for part in command):
        raise invalid(f"{CONTAINER}.args", "must not contain NUL")
    environment = dict(container.environment_variables)
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise invalid(f"{CONTAINER}.environment_variables", f"cannot be set: {name!r}")
    for file in container.files:
        if not file.path.startswith("/") or "\0" in file.path:
            raise invalid(f"{CONTAINER}.files.path", f"must be absolute: {file.path!r}")
    memory, cpus = _limits(container)
    return Spec(
        image=container.image,
        command=command,
        env=environment,
        files={file.path: file.content for file in container.files},
        working_dir=container.working_dir,
        memory_bytes=memory,
        one_shot=one_shot,
        cpus=cpus,
    )


def _secure(context: pb.SecurityContext) -> None:
    _only(context, SECURITY_FIELDS, "containers[0].security_context")
    for name, value in HARDENED.items():
        if context.HasField(name) and getattr(context, name) is not value:
            raise unsupported(f"containers[0].security_context.{name}={not value} is")


def _limits(container: pb.Container) -> tuple[int | None, float | None]:
    """Bytes of memory and number of CPUs; requests below the limits mean nothing on one machine."""
    asked = container.resource_requirements
    limits = container.resources if container.HasField("resources") else asked.limits
    if limits.HasField("gpu") or asked.requests.HasField("gpu"):
        raise _unplaceable("the local runner has no GPUs")
    memory = quantity(limits.memory, f"{CONTAINER}.resources.memory")
    cpus = quantity(limits.cpu, f"{CONTAINER}.resources.cpu")
    return None if memory is None else int(memory), cpus


def quantity(text: str, field: str) -> float | None:
    """A Kubernetes quantity as a number; None when it is not given."""
    if not text:
        return None
    match = _QUANTITY.fullmatch(text.strip())
    if not match or not float(match[1]):
        raise invalid(field, f"not a positive quantity such as 500m or 1Gi: {text!r}")
    return float(Decimal(match[1]) * _SCALES.get(match[2] or "", Decimal(1)))


def _only(message: Message, honoured: frozenset[str], where: str) -> None:
    for field, _ in message.ListFields():
        if field.name not in honoured:
            raise unsupported(f"{where}.{field.name} is")


def _unplaceable(why: str) -> Refusal:
    return Refusal(StatusCode.FAILED_PRECONDITION, why, reason="CWSANDBOX_NO_SUITABLE_RUNNER")
