"""The real Python client against our server. Each scenario is a coroutine; a failure is a line with its name and why."""

import asyncio
import http.server
import os
import sys
import tempfile
import threading
import time
import traceback

import runtimeuse_client as client

received = {}


class Sink(http.server.BaseHTTPRequestHandler):
    """Takes PUTs and serves files: what uploads and downloads need."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        length = int(self.headers["Content-Length"])
        received[self.path] = self.rfile.read(length)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        found = self.path.startswith("/there/")
        body = b"downloaded" if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


sink = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
threading.Thread(target=sink.serve_forever, daemon=True).start()
SINK = f"http://127.0.0.1:{sink.server_port}"
URL = sys.argv[1]


def connect():
    return client.RuntimeUseClient(ws_url=URL)


def options(**more):
    return client.QueryOptions(system_prompt="s", model="m", **more)


def command(text, **more):
    return client.CommandInterface(command=text, **more)


async def put(request):
    return client.ArtifactUploadResult(presigned_url=f"{SINK}/{request.filename}?sig=1", content_type="text/plain")


async def raises(kind, awaitable):
    try:
        await awaitable
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


async def query_text():
    said = []

    async def on_message(message):
        said.extend(message.text_blocks)

    result = await connect().query("say hello", options(on_assistant_message=on_message))
    assert (result.data.text, said, result.metadata) == ("hello", ["hello"], {"model": "m"}), result


async def query_structured():
    schema = '{"type":"json_schema","schema":{"type":"object"}}'
    result = await connect().query('json {"a": [1]}', options(output_format_json_schema_str=schema))
    assert result.data.structured_output == {"a": [1]}
    assert "json_schema" in (await connect().query("format", options(output_format_json_schema_str=schema))).data.text


async def streaming():
    said = []

    async def on_message(message):
        said.extend(message.text_blocks)

    await connect().query("many 500", options(on_assistant_message=on_message))
    assert said == [str(number) for number in range(500)]


async def errors():
    error = await raises(client.AgentRuntimeError, connect().query("fail broken", options()))
    assert "broken" in str(error) and "stack" not in error.metadata and error.metadata["error_name"] == "Error"
    error = await raises(client.AgentRuntimeError, connect().query("error early", options()))
    assert "early" in str(error)
    error = await raises(
        client.AgentRuntimeError,
        connect().query("say x", options(pre_agent_invocation_commands=[command("exit 4")])),
    )
    assert "pre-agent command failed with exit code: 4" in str(error)


async def commands():
    text = []

    async def on_output(message):
        text.append((message.stream, message.text))

    result = await connect().execute_commands(
        [command("echo out; echo err >&2"), command("echo no; exit 3"), command("echo never")],
        client.ExecuteCommandsOptions(on_command_output=on_output),
    )
    assert [item.exit_code for item in result.results] == [0, 3]
    assert result.results[0].stdout == "out\n"
    assert ("stderr", "err\n") in text


async def large_output():
    total = 0

    async def on_output(message):
        nonlocal total
        total += len(message.text)

    result = await connect().execute_commands(
        [command("head -c 20000000 /dev/zero | tr '\\0' x")], client.ExecuteCommandsOptions(on_command_output=on_output)
    )
    assert (total, result.results[0].exit_code) == (20_000_000, 0), total


async def cancel():
    one = connect()

    async def on_message(_):
        one.abort()

    await raises(client.CancelledException, one.query("wait", options(on_assistant_message=on_message)))


async def timeouts():
    await raises(TimeoutError, connect().query("wait", options(timeout=0.3)))
    await raises(client.AgentRuntimeError, connect().query("wait", options(idle_timeout=0.3)))


async def downloads():
    directory = tempfile.mkdtemp()
    item = client.RuntimeEnvironmentDownloadableInterface(download_url=f"{SINK}/there/a%20b.txt?x=1", working_dir=directory)
    await connect().query("say x", options(pre_agent_downloadables=[item]))
    assert open(os.path.join(directory, "a b.txt")).read() == "downloaded"
    item.download_url = f"{SINK}/gone/x"
    error = await raises(client.AgentRuntimeError, connect().query("say x", options(pre_agent_downloadables=[item])))
    assert "Download failed: 404" in str(error)


async def artifacts_of_one_shot():
    directory = tempfile.mkdtemp()
    await connect().execute_commands(
        [command("for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $n > one-$n.txt; done", cwd=directory)],
        client.ExecuteCommandsOptions(artifacts_dirs=[directory], on_artifact_upload_request=put),
    )
    deadline = time.monotonic() + 10
    while len([path for path in received if path.startswith("/one-")]) < 12:
        assert time.monotonic() < deadline, received.keys()
        await asyncio.sleep(0.02)
    assert received["/one-7.txt?sig=1"] == b"7\n"


async def late_artifacts():
    directory = tempfile.mkdtemp()
    async with connect().session() as session:
        await session.execute_commands(
            [command("true")],
            client.ExecuteCommandsOptions(artifacts_dirs=[directory], on_artifact_upload_request=put),
        )
        for number in range(100):
            with open(os.path.join(directory, f"late-{number}"), "w") as file:
                file.write(str(number))
    assert len([path for path in received if path.startswith("/late-")]) == 100
    assert received["/late-42?sig=1"] == b"42"


async def end_of_session_is_quick():
    directory = tempfile.mkdtemp()
    session_context = connect().session()
    session = await session_context.__aenter__()
    await session.execute_commands(
        [command("true")], client.ExecuteCommandsOptions(artifacts_dirs=[directory], on_artifact_upload_request=put)
    )
    started = time.monotonic()
    await session_context.__aexit__(None, None, None)
    assert time.monotonic() - started < 2, time.monotonic() - started


async def secrets():
    text = []

    async def on_output(message):
        text.append(message.text)

    result = await connect().query(
        "say the word is hunter2",
        options(
            secrets_to_redact=["hunter2"],
            agent_env={"A": "b"},
            pre_agent_invocation_commands=[command("printf hun; sleep 0.1; echo ter2")],
            on_command_output=on_output,
        ),
    )
    assert result.data.text == "the word is [REDACTED]"
    assert "".join(text) == "[REDACTED]\n", text


async def persistent_session():
    async with connect().session() as session:
        for number in range(5):
            assert (await session.query(f"say {number}", options())).data.text == str(number)
            result = await session.execute_commands([command(f"echo {number}")], client.ExecuteCommandsOptions())
            assert result.results[0].stdout == f"{number}\n"
        await raises(client.AgentRuntimeError, session.query("fail x", options()))
        assert (await session.query("say still", options())).data.text == "still"


async def many_sessions():
    async def one(number):
        assert (await connect().query(f"say {number}", options())).data.text == str(number)

    await asyncio.gather(*(one(number) for number in range(50)))


ALL = [
    query_text, query_structured, streaming, errors, commands, large_output, cancel, timeouts, downloads,
    artifacts_of_one_shot, late_artifacts, end_of_session_is_quick, secrets, persistent_session, many_sessions,
]


async def main():
    failed = 0
    for scenario in ALL:
        try:
            await asyncio.wait_for(scenario(), 60)
            print(f"ok {scenario.__name__}", flush=True)
        except BaseException:
            failed += 1
            print(f"failed {scenario.__name__}\n{traceback.format_exc()}", flush=True)
    return failed


sys.exit(asyncio.run(main()))
