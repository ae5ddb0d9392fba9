"""Where sandboxes run: CoreWeave's service, or the embedded runner that speaks its protocol."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from pytest_cwsandbox import runner
from pytest_cwsandbox.errors import BackendError, InfrastructureError
from pytest_cwsandbox.surroundings import surround

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from cwsandbox import AuthHeaders, AuthStrategy, SandboxDefaults, Session

Kind = Literal["local", "hosted"]
HOSTED_IMAGE = "python:3.11"
HOSTED_ADDRESS = "https://api.cwsandbox.com"
REACH_SECONDS = 10.0
USED = "backend.used"
ONE_SHOT = "bubblewrap-one-shot"  # the local runner's runtime class, in local/records.py


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """What the user asked for; empty strings leave the choice to ``choose`` and the SDK."""

    backend: str = "auto"
    auth: str = ""
    base_url: str = ""
    image: str = ""

    def __post_init__(self) -> None:
        for name, value, known in (
            ("backend", self.backend, ("auto", *get_args(Kind))),
            ("auth", self.auth, ("", "api-key", "wandb")),
        ):
            if value not in known:
                choices = ", ".join(repr(each) for each in known)
                raise BackendError(f"{name} must be one of {choices}, not {value!r}")

    def choose(self, environ: Mapping[str, str]) -> Kind:
        """Hosted when asked for, or when there are credentials, an address or wandb; else local.

        An address inherited from a local runner is local, whatever its credentials look like.
        Raises ``BackendError`` when the hosted service is asked for and a local address inherited.
        """
        inherited = runner.inherited(environ)
        if self.backend == "local":
            return "local"
        wanted = self.backend == "hosted" or bool(self.auth or self.base_url)
        if wanted and inherited:
            raise BackendError(
                "the environment holds a local runner's address, so the hosted service cannot be "
                "reached with it: unset CWSANDBOX_BASE_URL, CWSANDBOX_API_KEY and "
                f"{runner.LOCAL_MARKER}, or leave out --cwsandbox-backend=hosted"
            )
        credentials = environ.get("CWSANDBOX_API_KEY") or environ.get("CWSANDBOX_BASE_URL")
        return "hosted" if wanted or (credentials and not inherited) else "local"


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend in use. ``isolation`` is a line for people; ``restore`` undoes the environment."""

    kind: Kind
    base_url: str
    auth: AuthHeaders | AuthStrategy | None
    image: str
    isolation: str
    restore: Callable[[], None]

    def defaults(self, *, tags: tuple[str, ...], max_lifetime_seconds: float) -> SandboxDefaults:
        """SDK defaults for sandboxes on this backend."""
        from cwsandbox import DataPlaneMode, SandboxDefaults

        defaults = SandboxDefaults(
            container_image=self.image,
            base_url=self.base_url,
            auth=self.auth,
            tags=tags,
            max_lifetime_seconds=max_lifetime_seconds,
        )
        if self.kind == "hosted":
            return defaults
        # What the service needs and the local runner does not: asking for a direct endpoint costs a
        # call per sandbox, a shell around the sleeping main process costs a process.
        return defaults.with_overrides(
            data_plane_mode=DataPlaneMode.GATEWAY, command="/bin/sleep", args=("infinity",)
        )


def runs_one_shot(session: Session) -> bool:
    """Whether a session's sandboxes can be one-shot: where they are the local runner's."""
    address = session._defaults.base_url  # noqa: SLF001 - the SDK shows them to nobody
    return runner.inherited(os.environ) and address == os.environ["CWSANDBOX_BASE_URL"]


def local_image() -> str:
    """The default image of the local backend: this interpreter's minor version."""
    return f"python:{sys.version_info.major}.{sys.version_info.minor}"


def connect(
    options: BackendOptions,
    folder: Path,
    *,
    lifeline: int,
    faults: Sequence[str] = (),
    controlled: bool = False,
) -> Backend:
    """Reach the backend and set this process's environment, which the SDK reads at every call.

    ``controlled`` says that a controller sweeps what the run leaves.

    The local runner of the run whose ``folder`` this is gets started when it is not there yet, and
    ends with the process ``lifeline``. With ``faults`` it is never one that this process inherits.
    Raises ``BackendError`` with the remedy.
    """
    kind = options.choose(os.environ)
    if kind == "hosted" and faults:
        raise BackendError("only the local runner injects faults: use --cwsandbox-backend=local")
    ours = kind == "local" and (bool(faults) or not runner.inherited(os.environ))
    if controlled and not ours:  # no runner of ours leaves its traces
        mark_used(folder)
    # Ctrl-C belongs to the test runner; sandboxes are swept by tag and have a lifetime.
    variables = {"CWSANDBOX_DISABLE_SIGNAL_HANDLERS": "1"}
    if kind == "hosted":
        address, auth = hosted(options)
        variables["CWSANDBOX_BASE_URL"] = address  # to the SDK the variable is worth more
        restore = surround(variables)
        wandb = options.auth == "wandb"
        credentials = auth if wandb else bearer(os.environ["CWSANDBOX_API_KEY"])
        return Backend(
            "hosted", address, credentials, options.image or HOSTED_IMAGE, address, restore
        )
    if ours:
        check_image(options.image or local_image())
        served = runner.join_or_start(folder, lifeline=lifeline, faults=faults)
        variables |= served.environment(os.environ)
    else:
        runner.reach(os.environ)
    restore = surround(variables)
    return Backend(
        "local",
        os.environ["CWSANDBOX_BASE_URL"],
        bearer(os.environ["CWSANDBOX_API_KEY"]),
        options.image or local_image(),
        os.environ[runner.LOCAL_MARKER],
        restore,
    )


def prepare(options: BackendOptions, folder: Path, *, lifeline: int) -> None:
    """Do what takes long in ``connect``, and nothing that others could notice: on another thread.

    Raises as it does.
    """
    import cwsandbox  # noqa: F401 - whoever imports it next need not wait

    if options.choose(os.environ) == "local" and not runner.inherited(os.environ):
        check_image(options.image or local_image())
        runner.join_or_start(folder, lifeline=lifeline)


def used(folder: Path) -> bool:
    """Whether a process of the run with this folder connected to a backend."""
    return (folder / USED).exists() or (folder / runner.RENDEZVOUS).exists()


def mark_used(folder: Path) -> None:
    """Leave a note for the controller that this run may have sandboxes to sweep."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / USED).touch()
    except OSError as error:
        raise BackendError(runner.unwritable(folder, error)) from error


def forget(folder: Path) -> None:
    """Remove that note."""
    if (folder / USED).exists():
        (folder / USED).unlink(missing_ok=True)


def hosted(options: BackendOptions) -> tuple[str, AuthStrategy]:
    """Address and credentials of the hosted service; raises ``BackendError`` without any."""
    from cwsandbox import AuthStrategy

    address = hosted_address(options)
    if options.auth == "wandb":
        return address, AuthStrategy.WANDB
    if not os.environ.get("CWSANDBOX_API_KEY"):
        raise BackendError(
            "the hosted backend needs credentials: set CWSANDBOX_API_KEY, choose wandb for auth "
            "(--cwsandbox-auth), or run without an account on the local backend "
            "(--cwsandbox-backend)"
        )
    return address, AuthStrategy.COREWEAVE_API_KEY


def hosted_address(options: BackendOptions) -> str:
    """Where the hosted service is asked for."""
    return options.base_url or os.environ.get("CWSANDBOX_BASE_URL") or HOSTED_ADDRESS


def usual_image(kind: Kind) -> str:
    """The image of sandboxes where none is asked for."""
    return HOSTED_IMAGE if kind == "hosted" else local_image()


def check_hosted(options: BackendOptions) -> str:
    """One request to the hosted service; returns its address or raises ``BackendError``."""
    from cwsandbox import CWSandboxError, Sandbox

    address, auth = hosted(options)
    try:
        Sandbox.list(
            tags=["pytest-cwsandbox:reachable"],
            base_url=address,
            auth=auth,
            timeout_seconds=REACH_SECONDS,
        ).result(timeout=REACH_SECONDS * 2)
    except (CWSandboxError, TimeoutError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BackendError(
            f"the hosted backend at {address} cannot be used: {reason}; check "
            "--cwsandbox-base-url and CWSANDBOX_API_KEY, or use --cwsandbox-backend=local"
        ) from error
    return address


def check_elsewhere(options: BackendOptions, what: str) -> None:
    """Raise ``BackendError`` where ``what``, on another machine, would use the local backend."""
    if options.choose(os.environ) == "local":
        raise BackendError(
            f"{what}: sandboxes of the local backend are reached at 127.0.0.1, on one machine "
            "only, and not by workers on others: use the hosted backend (set CWSANDBOX_API_KEY "
            "here and there, or give --cwsandbox-backend=hosted), or workers on this machine (-n)"
        )


def check(options: BackendOptions) -> str:
    """Find out early whether the backend can be used; returns lines that say what it is.

    Raises ``BackendError`` with the remedy.
    """
    if options.choose(os.environ) == "hosted":
        image = options.image or HOSTED_IMAGE
        return f"hosted backend, image {image}\n{check_hosted(options)}"
    image = options.image or local_image()
    return f"local backend, image {image}\n{check_local(image)}"


def check_local(image: str) -> str:
    """Whether this host can run sandboxes; returns a line for people or raises ``BackendError``."""
    if runner.inherited(os.environ):
        runner.reach(os.environ)
        return os.environ[runner.LOCAL_MARKER]
    from pytest_cwsandbox.local import bwrap, checks, limits

    found = checks.checks()
    for check in found:
        if not check.ok:
            raise BackendError(
                f"the local backend cannot run here: {check.name}: {check.detail}: "
                f"{check.remedy}; or use --cwsandbox-backend=hosted"
            )
    check_image(image)
    _, version = bwrap.find(os.environ.get("PATH", os.defpath)) or (None, "")
    return f"{bwrap.describe(version)}\nlimits: {limits.describe(limits.obtainable())}"


def check_image(image: str) -> None:
    """Raise ``BackendError`` for an image that the local backend does not have here."""
    from pytest_cwsandbox.local import images

    try:
        images.select(image, images.find(os.environ))
    except images.NoSuchImageError as error:
        raise BackendError(f"image: {error}") from error


def in_use(options: BackendOptions, folder: Path) -> tuple[str, AuthHeaders | AuthStrategy] | None:
    """Address and credentials of the service that the run with this folder uses."""
    rendezvous = folder / runner.RENDEZVOUS
    if rendezvous.exists():
        served = runner.read(rendezvous)
        return served.address, bearer(served.token)
    if options.choose(os.environ) == "hosted":
        return hosted(options)
    if runner.inherited(os.environ):
        return os.environ["CWSANDBOX_BASE_URL"], bearer(os.environ["CWSANDBOX_API_KEY"])
    return None


def sweep(options: BackendOptions, folder: Path, wanted: list[str]) -> list[str]:
    """Remove every live sandbox that carries all of these tags; returns their ids.

    Raises ``InfrastructureError`` when the service does not answer.
    """
    from cwsandbox import CWSandboxError, Sandbox

    service = in_use(options, folder)
    if service is None:
        return []  # the runner has ended, and its sandboxes with it
    address, auth = service
    try:
        left = Sandbox.list(
            tags=wanted, base_url=address, auth=auth, timeout_seconds=REACH_SECONDS
        ).result(timeout=REACH_SECONDS * 2)
        stops = [box.stop(graceful_shutdown_seconds=0, missing_ok=True) for box in left]
        for stop in stops:
            stop.result(timeout=REACH_SECONDS * 2)
    except (CWSandboxError, TimeoutError) as error:
        raise InfrastructureError(
            f"sandboxes tagged {' '.join(wanted)} could not be swept: {error}"
        ) from error
    return [box.sandbox_id or "" for box in left]


def bearer(token: str) -> AuthHeaders:
    """Credentials that stay what they are whatever the environment holds later."""
    from cwsandbox import AuthHeaders

    return AuthHeaders(headers={"Authorization": f"Bearer {token}"}, strategy="api_key")
