// A client of the scripted runtime (fixtures/copilot/peer.mjs), stopped at the end of its test.
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { CopilotClient, type CopilotClientOptions, RuntimeConnection } from '../../entries/copilot.js'

const peer = join(__dirname, '..', '..', 'fixtures', 'copilot', 'peer.mjs')

export function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), 'sheepdog-copilot-'))
}

export interface Scripted {
  client: CopilotClient
  home: string
  /** Methods that the peer was asked for. */
  asked(): { method?: string; params?: Record<string, unknown>; [field: string]: unknown }[]
}

export function scripted(args: string[] = [], options: CopilotClientOptions = {}): Scripted {
  const home = temporaryFolder()
  const log = join(temporaryFolder(), 'log.jsonl')
  const client = new CopilotClient({
    connection: RuntimeConnection.forStdio({ path: peer, args: [...args, '--log', log, '--'] }),
    baseDirectory: home,
    ...options,
  })
  onTestFinished(async () => {
    await client.stop()
  })
  const asked = () =>
    readFileSync(log, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
  return { client, home, asked }
}

/** The error that the promise rejects with. */
export async function rejection(promise: Promise<unknown>): Promise<any> {
  const error = await promise.then(
    (value) => {
      throw new Error(`resolved with ${JSON.stringify(value)}`)
    },
    (error: Error) => error,
  )
  return error as unknown
}
