// The same calls made with the Copilot SDK and with this package, and what each sends to one scripted runtime.
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'

const peer = join(__dirname, '..', '..', 'fixtures', 'copilot', 'peer.mjs')

export interface Frame {
  method?: string
  params?: unknown
  result?: unknown
  error?: { code: number; message: string; data?: unknown }
}

/** A program's side of a conversation; `sdk` is a package with the SDK's names. */
// oxlint-disable-next-line typescript/no-explicit-any -- one program for packages whose classes are not one
export type Sdk = any

export interface Conversation {
  client: Sdk
  /** What the runtime has got so far. */
  frames(): Frame[]
  /** Waits for that many frames of a method, or without one for answers. */
  got(method: string | undefined, count?: number): Promise<void>
}

export interface Spoken {
  frames: Frame[]
  args: string[]
  env: Record<string, string>
}

/** Runs a program against a runtime of its own, and tells what the runtime got. */
export async function speak(
  sdk: Sdk,
  program: (conversation: Conversation) => Promise<void>,
  { args = [] as string[], options = {} as Record<string, unknown> } = {},
): Promise<Spoken> {
  const folder = mkdtempSync(join(tmpdir(), 'sheepdog-wire-'))
  const log = join(folder, 'log.jsonl')
  const start = join(folder, 'start.json')
  const client = new sdk.CopilotClient({
    connection: sdk.RuntimeConnection.forStdio({
      path: peer,
      args: [...args, '--log', log, '--log-start', start, '--'],
    }),
    baseDirectory: '/nowhere/home',
    ...options,
  })
  const frames = (): Frame[] => {
    const lines = readFileSync(log, 'utf8').trim().split('\n')
    return lines.map((line) => {
      const { jsonrpc: _, id: __, ...frame } = JSON.parse(line) as Frame & { jsonrpc: string; id?: unknown }
      return frame
    })
  }
  const got = async (method: string | undefined, count = 1) => {
    await expect
      .poll(() => frames().filter((frame) => frame.method === method).length, { timeout: 20_000 })
      .toBeGreaterThanOrEqual(count)
  }
  try {
    await program({ client, frames, got })
  } finally {
    await client.stop()
  }
  const { args: all, env } = JSON.parse(readFileSync(start, 'utf8')) as Spoken
  return { frames: frames(), args: all.slice(all.indexOf('--')), env }
}
