// What no agent can be asked.
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Harness, type HarnessOptions } from '..'
import { checkoutFor } from '../fixtures/other-user.mjs'
import { answer, failure, folder, following } from './played-agent'

describe('bad input', () => {
  it.each<[object, string]>([
    [{ provider: 'codx' }, 'provider: no provider is named "codx"; did you mean codex?'],
    [{}, 'provider: is missing'],
    [{ provider: 'codex', idleTimeoutMs: NaN }, 'idleTimeoutMs: '],
    [{ provider: 'codex', maxConcurrent: 0 }, 'maxConcurrent: '],
    [{ provider: 'codex', retry: { attemps: 3 } }, 'retry.attemps: no such option; did you mean attempts?'],
    [{ provider: 'codex', schema: { type: 'objct' } }, 'schema: '],
    [{ provider: 'codex', schema: 'a' }, 'schema: '],
    [{ provider: 'codex', binary: [] }, 'binary: '],
    [{ provider: 'codex', limit: {} }, 'limit: '],
    [{ provider: 'codex', permission: 'ask' }, 'permission: '],
    [{ provider: 'codex', env: { A: 'a\0b' } }, 'env["A"]: '],
    [{ provider: 'codex', env: { 'A=B': '' } }, 'env["A=B"]: '],
    [
      { provider: 'codex', schema: { parse() {}, _def: {} } },
      'schema: expected a JSON Schema, got an object with methods',
    ],
    [
      { provider: 'codex', schema: { '~standard': {} } },
      'schema: expected a JSON Schema, got an object with methods',
    ],
    [{ provider: 'codex', schema: { toJSONSchema: async () => ({}) } }, 'schema: expected a JSON Schema'],
    [{ provider: 'codex', schema: { toJSONSchema: () => true } }, 'schema: its toJSONSchema() gave true'],
    [{ provider: 'codex', schema: { $ref: '#/$defs/none' } }, 'schema: '],
    [
      { provider: 'codex', schema: { properties: { a: { pattern: '(' } } } },
      'schema: invalid JSON Schema at /properties/a/pattern',
    ],
  ])('%j is refused by its path', (options, message) => {
    expect(() => new Harness(options as HarnessOptions)).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringContaining(message) }),
    )
  })

  it.each([
    ['', 'prompt: '],
    ['a\0b', 'prompt: '],
  ])('the prompt %j is refused', async (prompt, message) => {
    const error = await failure(following([]).run(prompt))
    expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining(message) })
  })

  it('a program that is missing is told with how to install it', async () => {
    const harness = new Harness({ provider: 'pi', env: { PATH: folder } })
    const error = await failure(harness.run('hi'))
    expect(error).toMatchObject({
      code: 'AGENT_NOT_FOUND',
      install: expect.stringContaining('npm install -g'),
    })
    expect(
      (
        await failure(
          new Harness({ provider: 'pi', permission: 'auto', binary: join(folder, 'none') }).run('hi'),
        )
      ).code,
    ).toBe('AGENT_NOT_FOUND')
  })

  it('a folder that is missing is told as such', async () => {
    expect((await failure(following([]).run('hi', { cwd: join(folder, 'none') }))).code).toBe(
      'PROCESS_CWD_MISSING',
    )
  })

  it('a folder that the agent can not write to is told as such, unless it is only to read', () => {
    const open = mkdtempSync(join(tmpdir(), 'harness-user-'))
    const locked = join(open, 'locked')
    mkdirSync(locked)
    chmodSync(locked, 0o555)
    chmodSync(open, 0o777)
    try {
      // Root may write anywhere: the host has to be an ordinary user.
      const user = process.getuid!() === 0 ? { uid: 65534, gid: 65534 } : {}
      const root = checkoutFor(65534)
      const script = `
        const { Harness } = require(${JSON.stringify(join(root, 'index.js'))})
        const binary = [process.execPath, ...${JSON.stringify([join(root, 'fixtures/bin/agent.mjs'), JSON.stringify(answer)])}]
        const harness = new Harness({ provider: 'codex', binary, cwd: ${JSON.stringify(locked)} })
        const told = (options) => harness.run('hi', options).then(({ text }) => text, ({ code, message }) => code + ' ' + message)
        ;(async () => {
          const all = [await told(), await told({ permission: 'plan' })]
          process.chdir(${JSON.stringify(locked)})
          all.push(await told({ cwd: undefined }), await new Harness({ provider: 'codex', binary }).run('hi').catch(({ code }) => code))
          console.log(JSON.stringify(all))
        })()`
      const host = spawnSync(process.execPath, ['-e', script], {
        ...user,
        cwd: open,
        encoding: 'utf8',
        env: { PATH: process.env.PATH, TMPDIR: open },
      })
      expect(host.stderr).toBe('')
      const [auto, plan, again, here] = JSON.parse(host.stdout)
      expect(auto).toMatch(/^INVALID_OPTION cwd: the agent cannot write to .*locked/)
      expect(plan).toBe('Hello.')
      expect(again).toBe(auto)
      expect(here).toBe('INVALID_OPTION')
    } finally {
      rmSync(open, { recursive: true, force: true })
    }
  })
})
