// Each limit that the types state ("at most ...") is tried: the limit itself is taken, one more is refused and named.
import { mkdtempSync, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Harness, run } from '..'
import { Fleet, type JobOptions } from '../entries/fleet.js'
import { scriptedAgent } from '../entries/testing.js'
import { hasServer, newFolder } from './fleet-worker'
import { failure } from './played-agent'

const root = join(__dirname, '..')

/** Members whose comment states a number that they have at most, and what the number is about. */
function stated(): Record<string, string> {
  const files = ['index.d.ts', ...readdirSync(join(root, 'entries')).map((name) => join('entries', name))]
  const found: Record<string, string> = {}
  for (const file of files.filter((name) => name.endsWith('.d.ts'))) {
    const text = readFileSync(join(root, file), 'utf8')
    for (const [, comment, member] of text.matchAll(
      /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s+(?:readonly )?(\w+)\??[:(]/g,
    )) {
      const words = comment!.replace(/\s+\*?\s*/g, ' ')
      const number =
        /\bat most (?:the last )?(\d[\d,]*\b ?(?:bytes|[KM]iB|seconds)?)/i.exec(words)?.[1] ??
        /([\d,]+ MiB) at most/.exec(words)?.[1]
      if (number) found[member!] = number.trim()
    }
  }
  return found
}

const half = 511 << 20
const folder = mkdtempSync(join(tmpdir(), 'limits-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function image(bytes: number): string {
  const file = join(folder, `${bytes}.png`)
  writeFileSync(file, Buffer.from('89504e470d0a1a0a', 'hex'))
  truncateSync(file, bytes)
  return file
}

it('the types state no other limit than those that are tried here', () => {
  // Of results, events and waits: nobody can give more.
  const told = {
    changed: '100',
    restored: '100',
    run: '200',
    events: '200',
    attempts: '50',
    data: '2 KiB',
  }
  const tried = {
    maxOutputBytes: '511 MiB',
    maxLineBytes: '511 MiB',
    images: '20 MiB',
    title: '1,000 bytes',
    tags: '50',
  }
  expect(stated()).toEqual({ ...told, ...tried })
})

it.each(['maxOutputBytes', 'maxLineBytes'])('%s', async (name) => {
  expect(await run('true', [], { [name]: half })).toMatchObject({ ok: true })
  const error = await failure(run('true', [], { [name]: half + 1 }))
  expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringMatching(`^${name}: `) })
})

it('images', async () => {
  const turn = (bytes: number) =>
    new Harness({ provider: 'qwen', binary: ['false'] }).run('Look.', { images: [image(bytes)] })
  expect(await failure(turn(20 << 20))).not.toMatchObject({ code: 'INVALID_OPTION' })
  expect(await failure(turn((20 << 20) + 1))).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringMatching(/^images\[0\]: .*20 MiB/),
  })
})

it('an image of a prompt', async () => {
  const agent = scriptedAgent([{ say: 'A cat.' }])
  const session = await new Harness({ provider: agent }).open()
  const prompt = (bytes: number) =>
    session.prompt([{ type: 'image', mimeType: 'image/png', data: readFileSync(image(bytes)) }])
  expect(await failure(prompt((20 << 20) + 1))).toMatchObject({ code: 'INVALID_OPTION' })
  expect(await prompt(20 << 20)).toMatchObject({ text: 'A cat.' })
  await session.close()
})

describe.runIf(hasServer)('a job', () => {
  let fleet: Fleet
  beforeAll(async () => {
    fleet = await Fleet.connect({ dir: newFolder() })
  })
  afterAll(() => fleet?.close())

  const many = (count: number) => Array.from({ length: count }, (_, index) => `tag-${index}`)
  it.each<[string, Partial<JobOptions>, Partial<JobOptions>]>([
    ['title', { title: 'ä'.repeat(500) }, { title: `${'ä'.repeat(500)}x` }],
    ['tags', { tags: many(50) }, { tags: many(51) }],
    ['keyLimit', { key: 'k', keyLimit: 1000 }, { key: 'k', keyLimit: 1001 }],
    ['priority', { priority: 9 }, { priority: 10 }],
  ])('%s', async (name, most, more) => {
    const submit = (fields: object) => fleet.submit({ handler: 'none', ...fields } as JobOptions)
    await submit(most)
    const error = await failure(submit(more))
    expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringMatching(`^${name}: `) })
  })
})
