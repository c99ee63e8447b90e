// An agent in a sandbox replaces the files that the host writes and reads for it.
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { Harness } from '../index.js'

const top = realpathSync(mkdtempSync(join(tmpdir(), 'sheepdog-host-files-')))
afterAll(() => rmSync(top, { recursive: true }))

const ANSWERS = [
  { type: 'thread.started', thread_id: '01a20452-919f-74c0-8205-eaeed1c6f1c9' },
  { type: 'turn.started' },
  { type: 'item.completed', item: { id: 'item_0', type: 'agent_message', text: 'no JSON at all' } },
  { type: 'turn.completed', usage: { input_tokens: 1, cached_input_tokens: 0, output_tokens: 1 } },
]

/** Codex as a script: it attacks, then gives an answer that fits no schema, so that it is asked again. */
function attacked(name: string, attack: string) {
  const folder = join(top, name)
  const [inside, outside, home] = ['inside', 'outside', 'home'].map((part) => join(folder, part)) as [
    string,
    string,
    string,
  ]
  for (const made of [inside, outside, home]) mkdirSync(made, { recursive: true })
  writeFileSync(join(outside, 'file'), 'content')
  writeFileSync(join(outside, 'secret'), '{"told":"a secret"}')
  const answer = ANSWERS.map((line) => `echo '${JSON.stringify(line)}'`).join('\n')
  const script = `while [ $# -gt 0 ]; do [ "$1" = --output-schema ] && SCHEMA=$2; shift; done
OUT='${outside}'; ${attack}
${answer}`
  const harness = new Harness({
    provider: 'codex',
    binary: ['sh', '-c', script, 'codex'],
    cwd: inside,
    env: { HOME: home, CODEX_HOME: undefined },
    permission: 'auto',
    sandbox: 'workspace',
  })
  return { harness, inside, outside }
}

const schema = {
  type: 'object',
  properties: { told: { type: 'string' } },
  required: ['told'],
  additionalProperties: false,
}

describe('a sandboxed agent', () => {
  it.each([
    ['the schema by a link', 'ln -sf $OUT/file $SCHEMA'],
    ['what comes before the schema', 'ln -sf $OUT/file $(dirname $SCHEMA)/.schema.json'],
    ['the folder of the run', 'R=$(dirname $SCHEMA); mv $R $R.gone; ln -s $OUT $R'],
  ])('replaces %s, and nothing outside is written', async (name, attack) => {
    const { harness, outside } = attacked(name.replaceAll(' ', '-'), attack)
    await expect(harness.run('hi', { schema })).rejects.toMatchObject({ code: /./ })
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('content')
    expect(readdirSync(outside).sort()).toEqual(['file', 'secret'])
  })

  it.each([
    ['a link to what it may not read', 'ln -s $OUT/secret'],
    ['a FIFO', 'set -- ; mkfifo'],
  ])('puts %s in place of its answer, and it is not read', async (name, make) => {
    const { harness } = attacked(name.replaceAll(' ', '-'), `${make} $TMPDIR/answer.json`)
    const begun = Date.now()
    const failure = await harness.run('hi', { schema }).then(
      (result) => ({ code: 'none', result }),
      (error) => error,
    )
    expect(JSON.stringify(failure)).not.toContain('a secret')
    expect(failure.code).toMatch(/^AGENT_/)
    expect(Date.now() - begun).toBeLessThan(20_000)
  })

  it('is reported when it changes what runs later, outside', async () => {
    const { harness, inside } = attacked('later', 'mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit')
    const { warnings } = await harness.run('hi')
    expect(warnings.join()).toContain(join(inside, '.git/hooks/pre-commit'))
  })

  it('has no home for a workspace', async () => {
    const { harness, outside } = attacked('home', 'true')
    const failure = harness.run('hi', { cwd: outside, env: { HOME: outside } })
    await expect(failure).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(failure).rejects.toThrow('all of your home')
  })
})
