// Compiled by `npm run check`, never run: what the types say of runs.
import { Readable } from 'node:stream'
import { Harness, type ProcessStdin, type RunOptions, type RunResult, run, spawn } from '../../index.js'

export async function called(): Promise<void> {
  const text: RunResult = await run('true', { cwd: new URL('file:///tmp') })
  const bytes: RunResult<Uint8Array> = await run('true', { encoding: 'buffer' })
  const same: RunResult<Uint8Array> = await run('true', ['x'], { encoding: 'buffer' })
  const first: number | undefined = same.stdout[0]
  const length: string = text.stdout.trim()
  // @ts-expect-error: bytes are no text
  bytes.stdout.trim()
  // @ts-expect-error: no such option
  await run('true', { idelTimeoutMs: 5 })
  // @ts-expect-error: no such option
  spawn('true', [], { stdin: 'pipe', idelTimeoutMs: 5 })
  await run('cat', { input: Readable.from(['x']) })
  await run('cat', { input: new Blob(['x']).stream() })
  await run('cat', { input: { file: 'x' } })
  // @ts-expect-error: no input
  await run('cat', { input: 7 })
  const list: readonly string[] = ['x']
  await run('true', list)
  const options: RunOptions = { timeoutMs: 5 }
  const either: string | Uint8Array = (await run('true', list, options)).stdout
  // @ts-expect-error: an encoding that is not known gives text or bytes
  ;(await run('true', list, options)).stdout.trim()
  const encoding = 'utf8' as 'utf8' | 'buffer'
  // @ts-expect-error: the same
  ;(await run('true', { encoding })).stdout.trim()
  void [first, length, either]
}

export async function spawned(): Promise<void> {
  const piped = spawn('cat', { stdin: 'pipe' })
  const stdin: ProcessStdin = piped.stdin
  await stdin.write('x')
  const both = spawn('cat', ['x'], { stdin: 'pipe', encoding: 'buffer' })
  await both.stdin.end()
  const options: RunOptions = {}
  const known = spawn('cat', [], { ...options, stdin: 'pipe' })
  await known.stdin.end('x', 'utf8', () => {})
  // @ts-expect-error: an encoding that is not known gives text or bytes
  ;(await known.result).stdout.trim()
  const kept: Uint8Array = (await both.result).stdout
  const plain = spawn('cat')
  // @ts-expect-error: there is none unless it is asked for
  await plain.stdin.end()
  const line: string = (await plain.kill('SIGINT')).stdout
  // @ts-expect-error: no such signal
  await plain.kill('SIGFOO')
  for await (const chunk of plain.bytes()) void chunk.byteLength
  const stream: ReadableStream<Uint8Array> = plain.stdout
  plain.stdoutNode.pipe(process.stdout)
  plain.resize(80, 24)
  void [kept, line, stream]
}

/** Lists that are only read may be lists that nobody may change. */
export async function frozen(): Promise<void> {
  const list = ['a', 'b'] as const
  await run('true', list, { inheritEnv: list, sandbox: { write: list, read: list, sockets: list } })
  for await (const _ of spawn('true', list).json({ types: list }));
  const harness = new Harness({ provider: 'codex', binary: list, extraArgs: list, allow: list, redact: list })
  await harness.run('x', { images: list, mcpServers: [{ name: 'm', command: 'm', args: list }] as const })
}
