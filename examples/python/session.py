"""A session with a coding agent, from Python.

    pip install -r requirements.txt
    python session.py claude-code "Which tests fail?"

The first argument is a provider. Further arguments after `--` are passed to `sheepdog acp`.
"""

import asyncio
import os
import sys
from typing import Any

from acp import PROTOCOL_VERSION, Client, spawn_agent_process, text_block
from acp.schema import AgentMessageChunk, AllowedOutcome, DeniedOutcome, RequestPermissionResponse


class Editor(Client):
    """Prints the answer as it comes, and allows what the agent asks for."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if isinstance(update, AgentMessageChunk) and update.content.type == "text":
            print(update.content.text, end="", flush=True)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> RequestPermissionResponse:
        print(f"\n[allowed: {tool_call.title}]")
        once = next((option for option in options if option.kind == "allow_once"), None)
        if once is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=once.option_id))


async def main() -> None:
    words = sys.argv[1:]
    options = words[words.index("--") + 1 :] if "--" in words else []
    provider, prompt = words[: words.index("--")] if "--" in words else words
    command = os.environ.get("SHEEPDOG", "sheepdog").split()
    arguments = [*command[1:], "acp", provider, *options]
    async with spawn_agent_process(Editor(), command[0], *arguments, env=dict(os.environ)) as (agent, _):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = await agent.new_session(cwd=os.getcwd(), mcp_servers=[])
        answer = await agent.prompt(session_id=session.session_id, prompt=[text_block(prompt)])
        print(f"\n[{answer.stop_reason}]")


asyncio.run(main())
