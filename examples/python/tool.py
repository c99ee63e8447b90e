"""Coding agents as tools of a Python program.

    pip install -r requirements.txt
    python tool.py codex "Which tests fail?"

Further arguments after `--` are passed to `sheepdog mcp`.
"""

import asyncio
import json
import os
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters, stdio_client


async def call(session: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await session.call_tool(tool, arguments)
    return json.loads(result.content[0].text)


async def main() -> None:
    words = sys.argv[1:]
    options = words[words.index("--") + 1 :] if "--" in words else []
    provider, prompt = words[: words.index("--")] if "--" in words else words
    command = os.environ.get("SHEEPDOG", "sheepdog").split()
    server = StdioServerParameters(
        command=command[0], args=[*command[1:], "mcp", *options], env=dict(os.environ)
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        agent = await call(session, "start_agent", provider=provider, prompt=prompt)
        while agent["state"] == "running":
            # A call never takes longer than 45 seconds, however long the agent works.
            status = await call(session, "agent_status", id=agent["id"], waitMs=45_000)
            agent["state"] = status["state"]
        result = await call(session, "agent_result", id=agent["id"])
        print(result.get("text") or result["error"]["message"])


asyncio.run(main())
