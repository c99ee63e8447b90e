// What each agent's CLI prints: first lines, a line of work, last lines, in its own words.
import { appendFileSync, writeFileSync } from 'node:fs'

/** Length of a line of work. */
export const BYTES = 555

const uuid = '0644d6c0-4b51-4b72-ab58-96d88a8b3545'
const timestamp = '2026-11-21T20:37:37.797Z'

/** The end of turn of claude-code and qwen. */
const successful = {
  type: 'result',
  subtype: 'success',
  is_error: false,
  result: 'done',
  num_turns: 1,
  session_id: uuid,
  usage: { input_tokens: 1, output_tokens: 1 },
}

/** For each provider: its first lines, a line of work that holds `words`, its last lines. */
export const streams = {
  'claude-code': (words) => [
    [{ type: 'system', subtype: 'init', session_id: uuid, model: 'm' }],
    {
      type: 'assistant',
      message: {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        model: 'm',
        content: [{ type: 'text', text: words }],
        stop_reason: null,
        usage: { input_tokens: 1200, cache_read_input_tokens: 200, output_tokens: 1 },
      },
      parent_tool_use_id: null,
      session_id: uuid,
      uuid,
      timestamp,
    },
    [successful],
  ],
  codex: (words) => [
    [{ type: 'thread.started', thread_id: uuid }, { type: 'turn.started' }],
    {
      type: 'item.completed',
      item: {
        id: 'item_1',
        type: 'command_execution',
        command: "/bin/bash -lc 'npm test'",
        aggregated_output: words,
        exit_code: 0,
        status: 'completed',
      },
    },
    [
      { type: 'item.completed', item: { id: 'm', type: 'agent_message', text: 'done' } },
      { type: 'turn.completed', usage: { input_tokens: 1, cached_input_tokens: 0, output_tokens: 1 } },
    ],
  ],
  gemini: (words) => [
    [{ type: 'init', timestamp, session_id: uuid, model: 'm' }],
    { type: 'message', timestamp, role: 'assistant', content: words, delta: true },
    [
      {
        type: 'result',
        timestamp,
        status: 'success',
        stats: { input_tokens: 1, output_tokens: 1, cached: 0 },
      },
    ],
  ],
  opencode: (words) => [
    [{ type: 'step_start', timestamp: 1, sessionID: 'ses_1', part: { type: 'step-start' } }],
    {
      type: 'text',
      timestamp: 1795293446653,
      sessionID: 'ses_1',
      part: {
        id: 'prt_1',
        messageID: 'msg_1',
        sessionID: 'ses_1',
        type: 'text',
        text: words,
        time: { start: 1795293446635, end: 1795293446641 },
      },
    },
    [
      {
        type: 'step_finish',
        sessionID: 'ses_1',
        part: { reason: 'stop', tokens: { input: 1, output: 1, cache: { read: 0, write: 0 } }, cost: 0 },
      },
    ],
  ],
  copilot: (words) => [
    [{ type: 'assistant.turn_start', data: {}, id: uuid, timestamp }],
    {
      type: 'assistant.message_delta',
      data: { messageId: uuid, deltaContent: words },
      ephemeral: true,
      id: uuid,
      timestamp,
      parentId: uuid,
    },
    [{ type: 'result', timestamp, sessionId: uuid, exitCode: 0, usage: {} }],
  ],
  qwen: (words) => [
    [{ type: 'system', subtype: 'init', session_id: uuid, model: 'm' }],
    {
      type: 'stream_event',
      uuid,
      session_id: uuid,
      parent_tool_use_id: null,
      event: { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: words } },
    },
    [successful],
  ],
  pi: (words) => {
    const message = {
      role: 'assistant',
      content: [{ type: 'text', text: words.slice(0, words.length / 2) }],
      stopReason: 'stop',
      usage: { input: 1, output: 1, cacheRead: 0 },
    }
    return [
      [{ type: 'session', version: 3, id: uuid }],
      {
        type: 'message_update',
        assistantMessageEvent: { type: 'text_delta', contentIndex: 0, delta: 'word ', partial: message },
        message,
      },
      [
        { type: 'message_end', message },
        { type: 'agent_end', messages: [] },
      ],
    ]
  },
}

export function lineOf(provider) {
  let words = ''
  while (JSON.stringify(streams[provider](words)[1]).length < BYTES - 1)
    words += provider === 'codex' && words.length % 60 === 59 ? '\n' : 'words and more '[words.length % 15]
  return words
}

/** Writes a whole run of the provider with so many lines of work. */
export function record(file, provider, count) {
  const [first, work, last] = streams[provider](lineOf(provider))
  const line = `${JSON.stringify(work)}\n`
  const text = (objects) => objects.map((object) => `${JSON.stringify(object)}\n`).join('')
  // In pieces: the whole text would be the peak of the memory that is measured.
  const piece = 1000
  writeFileSync(file, text(first))
  for (let left = count; left > 0; left -= piece) appendFileSync(file, line.repeat(Math.min(left, piece)))
  appendFileSync(file, text(last))
}
