"""What the service answers: the real SDK, or its bare stub, against a real runner."""

from __future__ import annotations

import os
import signal
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import grpc
import pytest
from cwsandbox import (
    CWSandboxAuthenticationError,
    Sandbox,
    SandboxError,
    SandboxFailedError,
    SandboxFileError,
    SandboxNotFoundError,
    SandboxNotRunningError,
    SandboxStatus,
    SandboxTerminatedError,
    SandboxTimeoutError,
    SandboxValidationError,
)
from cwsandbox._error_info import parse_error_info
from cwsandbox._proto import (
    discovery_pb2,
    sandbox_data_plane_pb2,
    sandbox_pb2,
    sandbox_template_pb2,
    settings_pb2,
    volume_pb2,
)

from pytest_cwsandbox.backend import ONE_SHOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cwsandbox import SandboxDefaults
    from cwsandbox._proto.sandbox_pb2_grpc import SandboxServiceStub

    from .conftest import Runner

MIB = 1 << 20
SERVED = {
    *("CreateSandbox", "GetSandbox", "ListSandboxes", "DeleteSandbox"),
    *("StreamExec", "StreamLogs", "ReadFile", "WriteFile"),
}
MODULES = (
    *(discovery_pb2, sandbox_data_plane_pb2, sandbox_pb2, sandbox_template_pb2),
    *(settings_pb2, volume_pb2),
)
UNSERVED = [
    f"/{service.full_name}/{method.name}"
    for module in MODULES
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if not (service.name == "SandboxService" and method.name in SERVED)
]


@pytest.fixture
def sandbox(defaults: SandboxDefaults) -> Iterator[Sandbox]:
    with Sandbox.run(defaults=defaults) as running:
        yield running


def request(image: str, *tags: str, **spec: object) -> sandbox_pb2.CreateSandboxRequest:
    container = sandbox_pb2.Container(image=image, command="sleep", args=["infinity"])
    return sandbox_pb2.CreateSandboxRequest(
        sandbox=sandbox_pb2.Sandbox(
            spec=sandbox_pb2.SandboxSpec(containers=[container], tags=tags, **spec)  # type: ignore[arg-type]  # any of the message's fields
        ),
        request_id=str(uuid.uuid4()),
    )


class TestCommands:
    def test_output_and_exit_code_come_back(self, sandbox: Sandbox) -> None:
        result = sandbox.exec(["sh", "-c", "echo out; echo err >&2; exit 7"]).result()
        assert (result.stdout, result.stderr, result.returncode) == ("out\n", "err\n", 7)

    def test_a_command_that_does_not_exist_exits_as_in_a_shell(self, sandbox: Sandbox) -> None:
        result = sandbox.exec(["no-such-program"]).result()
        assert result.returncode == 127
        assert "no-such-program" in result.stderr

    def test_a_killed_command_exits_as_in_a_shell(self, sandbox: Sandbox) -> None:
        assert sandbox.exec(["sh", "-c", "kill -9 $$"]).result().returncode == 137

    def test_a_command_without_input_reads_its_end_at_once(self, sandbox: Sandbox) -> None:
        assert sandbox.exec(["cat"], timeout_seconds=60).result().returncode == 0

    def test_input_arrives_unchanged(self, sandbox: Sandbox) -> None:
        data = bytes(range(256)) * 2048
        process = sandbox.exec(["cat"], stdin=True)
        assert process.stdin is not None
        process.stdin.write(data).result()
        process.stdin.close().result()
        assert process.result().stdout_bytes == data

    def test_input_that_nobody_reads_does_no_harm(self, sandbox: Sandbox) -> None:
        process = sandbox.exec(["sh", "-c", "exec <&-; echo deaf; sleep 0.5"], stdin=True)
        assert process.stdin is not None
        process.stdin.write(bytes(MIB))
        assert process.result().stdout == "deaf\n"

    def test_large_output_arrives_whole(self, sandbox: Sandbox) -> None:
        size = 20 * MIB
        result = sandbox.exec(["head", "-c", str(size), "/dev/zero"]).result()
        assert result.stdout_bytes == bytes(size)

    def test_output_without_end_is_cut_and_said(
        self, sandbox: Sandbox, stub: SandboxServiceStub, runner: Runner
    ) -> None:
        init = sandbox_pb2.ExecStreamInit(sandbox_id=sandbox.sandbox_id, command=["yes"])
        call = stub.StreamExec(
            iter([sandbox_pb2.ExecStreamRequest(init=init)]), metadata=runner.credentials
        )
        received = 0
        for response in call:
            received += len(response.output.data)
        assert response.error.code == "STREAM_TRUNCATED"
        assert received <= 256 * MIB
        assert _running(sandbox, "yes") == 0

    def test_a_terminal_has_its_size_and_echoes(self, sandbox: Sandbox) -> None:
        script = "import os; input(); print(os.get_terminal_size())"
        session = sandbox.shell(["python", "-c", script], width=101, height=33)
        session.stdin.writeline("go").result()
        output = b"".join(session.output)
        assert b"go" in output
        assert b"columns=101, lines=33" in output
        assert session.wait() == 0

    def test_a_terminal_can_be_resized(self, sandbox: Sandbox) -> None:
        script = (
            "import os, signal, threading; seen = threading.Event(); "
            "signal.signal(signal.SIGWINCH, lambda *_: seen.set()); print('ready', flush=True); "
            "seen.wait(); print(os.get_terminal_size())"
        )
        session = sandbox.shell(["python", "-c", script], width=80, height=24)
        output = b""
        for chunk in session.output:
            output += chunk
            if b"ready" in chunk:
                session.resize(44, 55)
        assert b"columns=44, lines=55" in output

    def test_the_timeout_kills_the_whole_tree_and_nothing_else(self, sandbox: Sandbox) -> None:
        other = sandbox.exec(["sleep", "7777"])
        tree = "setsid sleep 8888 & setsid sh -c 'setsid sleep 8888' & sleep 8888"
        with pytest.raises(SandboxTimeoutError):
            sandbox.exec(["sh", "-c", tree], timeout_seconds=1).result()
        assert _becomes(lambda: _running(sandbox, "8888"), 0)
        assert _becomes(lambda: _running(sandbox, "7777"), 1)
        assert other.poll() is None

    def test_a_cancelled_call_kills_its_command(
        self, sandbox: Sandbox, stub: SandboxServiceStub, runner: Runner
    ) -> None:
        init = sandbox_pb2.ExecStreamInit(
            sandbox_id=sandbox.sandbox_id, command=["sh", "-c", "echo on; sleep 6666"]
        )
        call = stub.StreamExec(
            iter([sandbox_pb2.ExecStreamRequest(init=init)]), metadata=runner.credentials
        )
        # On a slow machine the end of the requests comes late, and the server says first that it
        # is ready for standard input.
        assert next(said.output.data for said in call if said.HasField("output")) == b"on\n"
        call.cancel()
        assert _becomes(lambda: _running(sandbox, "6666"), 0)

    def test_jobs_in_the_background_neither_block_the_end_nor_die_of_it(
        self, sandbox: Sandbox
    ) -> None:
        result = sandbox.exec(["sh", "-c", "sleep 5555 & echo done"], timeout_seconds=60).result()
        assert result.stdout == "done\n"
        assert _becomes(lambda: _running(sandbox, "5555"), 1)

    def test_nul_in_a_command_is_the_callers_mistake(self, sandbox: Sandbox) -> None:
        with pytest.raises(SandboxValidationError, match="without NUL"):
            sandbox.exec(["echo", "a\0b"]).result()


class TestFiles:
    def test_a_file_is_written_and_read(self, sandbox: Sandbox) -> None:
        data = bytes(range(256)) * 40_000
        sandbox.write_file("/tmp/deep/er/file.bin", data).result()
        assert sandbox.read_file("/tmp/deep/er/file.bin").result() == data

    @pytest.mark.parametrize(
        ("path", "reason"),
        [
            ("/tmp/missing", "CWSANDBOX_FILE_NOT_FOUND"),
            ("/tmp", "CWSANDBOX_FILE_IS_DIRECTORY"),
        ],
    )
    def test_reading_fails_with_the_reason(self, sandbox: Sandbox, path: str, reason: str) -> None:
        with pytest.raises(SandboxFileError, match=path) as error:
            sandbox.read_file(path).result()
        assert error.value.reason == reason
        assert error.value.filepath == path

    def test_writing_where_nobody_may_fails(self, sandbox: Sandbox) -> None:
        with pytest.raises(SandboxFileError) as error:
            sandbox.write_file("/usr/bin/mine", b"").result()
        assert error.value.reason in {
            "CWSANDBOX_FILE_PERMISSION_DENIED",
            "CWSANDBOX_FILE_IO_FAILED",  # a read-only file system
        }

    def test_large_files_go_the_sdks_other_way(self, sandbox: Sandbox) -> None:
        data = uuid.uuid4().bytes * (33 * MIB // 16)
        sandbox.write_file("/tmp/large", data).result()
        assert sandbox.read_file("/tmp/large").result() == data

    def test_too_large_a_file_is_said_with_its_size(
        self, sandbox: Sandbox, stub: SandboxServiceStub, runner: Runner
    ) -> None:
        sandbox.exec(["truncate", "-s", str(33 * MIB), "/tmp/large"], check=True).result()
        read = sandbox_pb2.ReadFileRequest(sandbox_id=sandbox.sandbox_id, path="/tmp/large")
        with pytest.raises(grpc.RpcError) as error:
            stub.ReadFile(read, metadata=runner.credentials)
        parsed = parse_error_info(error.value)
        assert parsed is not None
        assert parsed.reason == "CWSANDBOX_FILE_TOO_LARGE"
        assert parsed.metadata["size_bytes"] == str(33 * MIB)
        assert parsed.metadata["max_size_bytes"] == str(32 * MIB)

    def test_mounted_files_are_there(self, defaults: SandboxDefaults) -> None:
        files = [{"mount_path": "/tmp/in/data.txt", "file_content": b"mounted"}]
        with Sandbox.run(defaults=defaults, mounted_files=files) as sandbox:
            assert sandbox.read_file("/tmp/in/data.txt").result() == b"mounted"


class TestOneShot:
    def test_its_log_is_what_it_wrote(self, defaults: SandboxDefaults) -> None:
        with Sandbox.run(
            *("sh", "-c", "echo out; echo err >&2; exit 3"),
            defaults=defaults,
            runtime_class=ONE_SHOT,
        ) as sandbox:
            sandbox.wait_until_complete().result()
            assert sandbox.returncode == 3
            assert [*sandbox.stream_logs()] == ["out\n", "err\n"]

    def test_others_that_write_much_do_not_cost_it_its_log(self, defaults: SandboxDefaults) -> None:
        def write(megabytes: int) -> Sandbox:
            lines = f"yes {'x' * 99_999} | head -c {megabytes}000000"
            return Sandbox.run("sh", "-c", lines, defaults=defaults, runtime_class=ONE_SHOT)

        with write(1) as sandbox, write(35) as one, write(35) as another:
            for each in (sandbox, one, another):
                each.wait_until_complete().result()
            assert len("".join(sandbox.stream_logs())) == 1_000_000

    def test_its_log_is_read_once(self, defaults: SandboxDefaults) -> None:
        with Sandbox.run("true", defaults=defaults, runtime_class=ONE_SHOT) as sandbox:
            sandbox.wait_until_complete().result()
            assert list(sandbox.stream_logs()) == []
            with pytest.raises(SandboxError, match="was read"):
                list(sandbox.stream_logs())

    def test_it_takes_no_command_and_other_sandboxes_keep_no_log(
        self, sandbox: Sandbox, defaults: SandboxDefaults
    ) -> None:
        with Sandbox.run("sleep", "99", defaults=defaults, runtime_class=ONE_SHOT) as one_shot:
            with pytest.raises(SandboxError, match="one-shot"):
                one_shot.exec(["true"]).result()
            one_shot.stop(graceful_shutdown_seconds=0).result()
            assert one_shot.status is SandboxStatus.COMPLETED
        with pytest.raises(SandboxError, match="one-shot"):
            list(sandbox.stream_logs())

    def test_one_that_cannot_start_has_failed(self, defaults: SandboxDefaults) -> None:
        sandbox = Sandbox.run(
            "true", defaults=defaults, runtime_class=ONE_SHOT, container_image="python:3.99"
        )
        with pytest.raises(SandboxFailedError, match=r"3\.99"):
            sandbox.wait_until_complete().result()


class TestLife:
    def test_the_main_commands_exit_code_is_the_sandboxs(self, defaults: SandboxDefaults) -> None:
        sandbox = Sandbox.run("sh", "-c", "exit 3", defaults=defaults)
        sandbox.wait_until_complete().result()
        assert (sandbox.status, sandbox.returncode) == (SandboxStatus.COMPLETED, 3)

    def test_stopping_lets_the_main_command_clean_up(self, defaults: SandboxDefaults) -> None:
        script = "trap 'exit 5' TERM; echo > /tmp/armed; while :; do sleep 0.05; done"
        sandbox = Sandbox.run("sh", "-c", script, defaults=defaults)
        assert _becomes(lambda: sandbox.exec(["ls", "/tmp/armed"]).result().returncode, 0)
        sandbox.stop(graceful_shutdown_seconds=60).result()
        assert (sandbox.status, sandbox.returncode) == (SandboxStatus.COMPLETED, 5)

    def test_stopping_ends_a_main_command_that_does_not_listen(
        self, defaults: SandboxDefaults
    ) -> None:
        script = "trap '' TERM; echo > /tmp/armed; while :; do sleep 0.05; done"
        sandbox = Sandbox.run("sh", "-c", script, defaults=defaults)
        assert _becomes(lambda: sandbox.exec(["ls", "/tmp/armed"]).result().returncode, 0)
        sandbox.stop(graceful_shutdown_seconds=1).result()
        assert (sandbox.status, sandbox.returncode) == (SandboxStatus.COMPLETED, 137)

    def test_a_poll_waits_for_a_sandbox_on_its_way_out(
        self, defaults: SandboxDefaults, stub: SandboxServiceStub, runner: Runner
    ) -> None:
        """Else the SDK's next one comes 0.2 s later, and its stop takes as much longer."""
        script = "trap '' TERM; echo > /tmp/armed; while :; do sleep 0.05; done"
        sandbox = Sandbox.run("sh", "-c", script, defaults=defaults)
        assert _becomes(lambda: sandbox.exec(["ls", "/tmp/armed"]).result().returncode, 0)
        delete = sandbox_pb2.DeleteSandboxRequest(
            sandbox_id=sandbox.sandbox_id, grace_period_seconds=3
        )
        stub.DeleteSandbox(delete, metadata=runner.credentials)
        poll = sandbox_pb2.GetSandboxRequest(sandbox_id=sandbox.sandbox_id)
        answer = stub.GetSandbox(poll, metadata=runner.credentials)
        assert answer.status.state == sandbox_pb2.STATE_COMPLETED

    def test_a_sandbox_that_is_killed_has_failed(
        self, defaults: SandboxDefaults, runner: Runner
    ) -> None:
        others = runner.processes()
        sandbox = Sandbox.run(defaults=defaults)
        running = sandbox.exec(["sleep", "infinity"])
        assert _becomes(lambda: _running(sandbox, "infinity"), 2)  # the main command sleeps too
        for pid in sorted(runner.processes() - others):  # the outermost first
            with suppress(ProcessLookupError):  # one takes others with it
                os.kill(pid, signal.SIGKILL)
        with pytest.raises(SandboxNotRunningError):
            running.result()
        with pytest.raises(SandboxNotRunningError):
            sandbox.read_file("/etc/passwd").result()
        with pytest.raises(SandboxFailedError, match="killed"):
            sandbox.wait_until_complete(timeout=60).result()

    def test_a_sandbox_ends_with_its_lifetime(self, defaults: SandboxDefaults) -> None:
        sandbox = Sandbox.run(defaults=defaults, max_lifetime_seconds=1)
        running = sandbox.exec(["sleep", "infinity"])
        with pytest.raises(SandboxTerminatedError):
            sandbox.wait_until_complete(timeout=60).result()
        # On a slow machine it may be over before the command is under way.
        with pytest.raises((SandboxNotRunningError, SandboxTerminatedError)):
            running.result()
        again = Sandbox.from_id(str(sandbox.sandbox_id)).result()
        assert again.status == SandboxStatus.TERMINATED
        assert again.status_reason == "its lifetime of 1 s is over"

    def test_a_command_ends_with_its_sandbox(self, sandbox: Sandbox) -> None:
        running = sandbox.exec(["sleep", "infinity"])
        assert _becomes(lambda: _running(sandbox, "infinity"), 2)  # the main command sleeps too
        Sandbox.delete(str(sandbox.sandbox_id)).result()
        with pytest.raises(SandboxNotRunningError):
            running.result()
        with pytest.raises(SandboxNotRunningError):
            sandbox.exec(["true"]).result()

    def test_an_unknown_image_fails_with_what_there_is(
        self, defaults: SandboxDefaults, runner: Runner
    ) -> None:
        sandbox = Sandbox.run(defaults=defaults, container_image="python:3.1")
        with pytest.raises(SandboxFailedError) as error:
            sandbox.wait()
        assert "python:3.1'" in str(error.value)
        for image in runner.images:
            assert image in str(error.value)

    def test_deleting_is_done_when_it_answers(self, sandbox: Sandbox) -> None:
        identity = str(sandbox.sandbox_id)
        Sandbox.delete(identity).result()
        assert Sandbox.from_id(identity).result().status == SandboxStatus.COMPLETED
        Sandbox.delete(identity).result()  # once more does no harm

    def test_an_absent_sandbox_is_said_unless_it_may_be_missing(
        self, stub: SandboxServiceStub, runner: Runner
    ) -> None:
        with pytest.raises(SandboxNotFoundError):
            Sandbox.delete("absent").result()
        delete = sandbox_pb2.DeleteSandboxRequest(sandbox_id="absent", allow_missing=True)
        answer = stub.DeleteSandbox(delete, metadata=runner.credentials)
        assert not answer.HasField("sandbox")

    def test_a_repeated_create_makes_one_sandbox(
        self, stub: SandboxServiceStub, runner: Runner, defaults: SandboxDefaults
    ) -> None:
        create = request(defaults.container_image, *defaults.tags)
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(
                lambda _: stub.CreateSandbox(create, metadata=runner.credentials), range(8)
            )
            identities = {answer.sandbox_id for answer in answers}
        assert len(identities) == 1
        listed = Sandbox.list(tags=list(defaults.tags)).result()
        assert {sandbox.sandbox_id for sandbox in listed} == identities
        Sandbox.delete(identities.pop()).result()


class TestListing:
    def test_tags_are_all_required(self, defaults: SandboxDefaults) -> None:
        own = defaults.tags[0]
        with (
            Sandbox.run(defaults=defaults, tags=["red", "big"]) as both,
            Sandbox.run(defaults=defaults, tags=["red"]) as one,
        ):
            assert _ids(tags=[own, "red"]) == {both.sandbox_id, one.sandbox_id}
            assert _ids(tags=[own, "red", "big"]) == {both.sandbox_id}
            assert _ids(tags=[own, "blue"]) == set()

    def test_ended_sandboxes_are_listed_on_request(self, defaults: SandboxDefaults) -> None:
        own = list(defaults.tags)
        with Sandbox.run(defaults=defaults) as running:
            ended = Sandbox.run("true", defaults=defaults)
            ended.wait_until_complete().result()
            assert _ids(tags=own) == {running.sandbox_id}
            assert _ids(tags=own, show_terminated=True) == {running.sandbox_id, ended.sandbox_id}
            assert _ids(tags=own, status="completed") == {ended.sandbox_id}
            assert _ids(tags=own, status="running") == {running.sandbox_id}

    def test_pages_show_every_sandbox_once(
        self, defaults: SandboxDefaults, stub: SandboxServiceStub, runner: Runner
    ) -> None:
        made = []
        for _ in range(5):
            sandbox = Sandbox.run("true", defaults=defaults)
            sandbox.wait_until_complete().result()
            made.append(sandbox.sandbox_id)
        for direction, expected in (
            (sandbox_pb2.SORT_DIRECTION_ASCENDING, made),
            (sandbox_pb2.SORT_DIRECTION_DESCENDING, made[::-1]),
        ):
            seen, tokens, token = [], [], ""
            while True:
                page = stub.ListSandboxes(
                    sandbox_pb2.ListSandboxesRequest(
                        tags=defaults.tags,
                        show_terminated=True,
                        page_size=2,
                        page_token=token,
                        sort_direction=direction,
                    ),
                    metadata=runner.credentials,
                )
                seen += [sandbox.sandbox_id for sandbox in page.sandboxes]
                token = page.next_page_token
                if not token:
                    break
                tokens.append(token)
            assert seen == expected
            assert len(set(tokens)) == len(tokens) == 2


class TestTheDoor:
    @pytest.mark.usefixtures("runner")
    @pytest.mark.parametrize("token", ["", "wrong"])
    def test_another_token_is_refused(self, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
        if token:
            monkeypatch.setenv("CWSANDBOX_API_KEY", token)
        else:
            monkeypatch.delenv("CWSANDBOX_API_KEY")
        with pytest.raises(CWSandboxAuthenticationError):
            Sandbox.list().result()

    @pytest.mark.parametrize("method", UNSERVED)
    def test_what_is_not_served_is_said(self, runner: Runner, method: str) -> None:
        with grpc.insecure_channel(
            runner.address.removeprefix("http://"), options=[("grpc.enable_http_proxy", 0)]
        ) as channel:
            call = channel.unary_unary(method)
            with pytest.raises(grpc.RpcError) as error:
                call(b"", metadata=runner.credentials)
        assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
        assert method.rpartition("/")[2] in error.value.details()
        parsed = parse_error_info(error.value)
        assert parsed is not None
        assert parsed.reason == "CWSANDBOX_NOT_IMPLEMENTED"

    @pytest.mark.parametrize(
        ("spec", "reason"),
        [
            ({"volumes": [{"name": "v", "scratch": {"size": "1Gi"}}]}, "NOT_IMPLEMENTED"),
            ({"services": [{"port": 80}]}, "NOT_IMPLEMENTED"),
            ({"network_ids": ["n"]}, "NOT_IMPLEMENTED"),
            ({"instance_type": "gpu"}, "NOT_IMPLEMENTED"),
            ({"object_storage_access": {"buckets": ["b"]}}, "NOT_IMPLEMENTED"),
            ({"network": {"egress": [{"any": True}]}}, "NO_SUITABLE_RUNNER"),
            ({"runner_ids": ["elsewhere"]}, "NO_SUITABLE_RUNNER"),
            ({"runtime_class": "kata"}, "NO_SUITABLE_RUNNER"),
        ],
        ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
    )
    def test_what_cannot_be_honoured_is_refused(
        self, stub: SandboxServiceStub, runner: Runner, spec: dict[str, object], reason: str
    ) -> None:
        with pytest.raises(grpc.RpcError) as error:
            stub.CreateSandbox(request("python:3", **spec), metadata=runner.credentials)
        assert error.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        parsed = parse_error_info(error.value)
        assert parsed is not None
        assert parsed.reason == f"CWSANDBOX_{reason}"

    @pytest.mark.parametrize(
        ("container", "reason"),
        [
            ({"secret_stores": [{"store_name": "s"}]}, "NOT_IMPLEMENTED"),
            ({"volume_mounts": [{"volume": "v"}]}, "NOT_IMPLEMENTED"),
            ({"security_context": {"privileged": True}}, "NOT_IMPLEMENTED"),
            ({"security_context": {"run_as_user": 0}}, "NOT_IMPLEMENTED"),
            ({"resources": {"gpu": {"count": 1}}}, "NO_SUITABLE_RUNNER"),
        ],
    )
    def test_what_a_container_cannot_have_is_refused(
        self, stub: SandboxServiceStub, runner: Runner, container: dict[str, object], reason: str
    ) -> None:
        create = request("python:3")
        create.sandbox.spec.containers[0].MergeFrom(sandbox_pb2.Container(**container))  # type: ignore[arg-type]  # any of the message's fields
        with pytest.raises(grpc.RpcError) as error:
            stub.CreateSandbox(create, metadata=runner.credentials)
        assert error.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        parsed = parse_error_info(error.value)
        assert parsed is not None
        assert parsed.reason == f"CWSANDBOX_{reason}"

    @pytest.mark.parametrize(
        ("container", "field"),
        [
            ({"image": ""}, "image"),
            ({"command": ""}, "command"),
            ({"environment_variables": {"A=B": "c"}}, "environment_variables"),
            ({"files": [{"path": "relative", "content": b""}]}, "files.path"),
            ({"resources": {"memory": "lots"}}, "resources.memory"),
            ({"resources": {"cpu": "0"}}, "resources.cpu"),
        ],
    )
    def test_a_mistake_names_its_field(
        self, stub: SandboxServiceStub, runner: Runner, container: dict[str, object], field: str
    ) -> None:
        create = request("python:3")
        for name in container:
            create.sandbox.spec.containers[0].ClearField(name)
        create.sandbox.spec.containers[0].MergeFrom(sandbox_pb2.Container(**container))  # type: ignore[arg-type]  # any of the message's fields
        with pytest.raises(grpc.RpcError) as error:
            stub.CreateSandbox(create, metadata=runner.credentials)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        parsed = parse_error_info(error.value)
        assert parsed is not None
        assert [row.field for row in parsed.field_violations] == [
            f"sandbox.spec.containers[0].{field}"
        ]


def _ids(**filters: object) -> set[str | None]:
    return {sandbox.sandbox_id for sandbox in Sandbox.list(**filters).result()}  # type: ignore[arg-type]  # list's own parameters


def _running(sandbox: Sandbox, argument: str) -> int:
    """How many processes in the sandbox were started with this last argument."""
    script = (
        "import glob, sys\n"
        "count = 0\n"
        "for path in glob.glob('/proc/[0-9]*/cmdline'):\n"
        "    try:\n"
        "        words = open(path).read().split('\\0')[:-1]\n"
        "    except OSError:\n"
        "        continue\n"
        "    count += words[-1:] == [sys.argv[1]] and 'python' not in words[0]\n"
        "print(count)\n"
    )
    return int(sandbox.exec(["python", "-c", script, argument], check=True).result().stdout)


def _becomes(value: Callable[[], object], expected: object, *, seconds: float = 30) -> bool:
    """Whether a value becomes the expected one, however slow the machine is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value() == expected:
            return True
        time.sleep(0.05)
    return False
