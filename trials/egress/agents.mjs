// The eight real agent CLIs with a key that they never see: an answer and a tool call each, over TLS that ends in the host process.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { agents, pointAt, workplace } from '../../fixtures/agents.mjs'
import { startModelServer } from '../../fixtures/model-server.mjs'
import { folder as cache, pinned } from '../agents/install.mjs'
import { FAILED, runCase } from '../cases.mjs'
import { filesWith, isNamed, listed, name as host, secure } from './outside.mjs'

const FIXTURE = 'fake-key-0123456789'
const CASE_MS = 240_000
const KEY = 'fake-key-REAL0123456789abcdef'
/** The variable of each CLI that holds its key. */
const variables = {
  'claude-code': 'ANTHROPIC_API_KEY',
  codex: 'FAKE_KEY',
  gemini: 'GEMINI_API_KEY',
  opencode: 'FAKE_KEY',
  copilot: 'COPILOT_PROVIDER_API_KEY',
  qwen: 'OPENAI_API_KEY',
  pi: 'FAKE_KEY',
  kimi: 'KIMI_MODEL_API_KEY',
}
const usage = { input: 900, cached: 300, output: 21 }
const cases = {
  answer: [{ text: 'The answer is 42.', usage }],
  // The tool prints what an agent told by an attacker would look for.
  tool: [
    { shell: 'env > seen.txt; echo tool-ran', usage },
    { text: 'Done.', usage },
  ],
}

async function attempt(provider, title, server, port) {
  const { Harness } = createRequire(import.meta.url)('../../index.js')
  const { bin, program, node } = pinned(provider)
  const place = workplace(provider)
  try {
    const url = server.urlFor(JSON.stringify(cases[title]))
    const run = url.split('/').at(-1)
    const secureUrl = url.replace(server.url, `https://${host}:${port}`)
    const options = pointAt(provider, secureUrl, { ...place, cache: join(cache, 'cache') })
    options.env = JSON.parse(JSON.stringify(options.env).replaceAll(FIXTURE, KEY))
    options.env[variables[provider]] ??= KEY
    options.env.PATH = [node, process.env.PATH].filter(Boolean).join(':')
    if (provider === 'pi') {
      // In its file the name of a variable stands for the key.
      const models = join(place.home, '.pi/agent/models.json')
      writeFileSync(models, readFileSync(models, 'utf8').replaceAll(FIXTURE, variables.pi))
    }
    const record = join(place.home, 'record')
    const secrets = { [variables[provider]]: { value: KEY, hosts: [`${host}:${port}`] } }
    const result = await new Harness({
      ...options,
      binary: join(bin, program),
      permission: 'auto',
      timeoutMs: 180_000,
      record,
      retry: { attempts: 1 },
      sandbox: { write: ['.'], network: { hosts: listed(port), secrets } },
    }).run('Please do it.')
    const asked = server.requests.filter((request) => request.run === run)
    const keys = asked.map(
      ({ headers }) => headers['x-api-key'] ?? headers['x-goog-api-key'] ?? headers.authorization,
    )
    assert.ok(keys.length > 0, 'no request arrived')
    assert.deepEqual([...new Set(keys.map((key) => key?.replace(/^Bearer /, '')))], [KEY])
    const metered = result.usage.metered
    const all = (count) => ({
      inputTokens: 900 * count,
      outputTokens: 21 * count,
      cachedInputTokens: 300 * count,
    })
    const steps = asked.filter(({ side }) => !side).length
    // Side calls have answers of the server's own.
    if (steps === asked.length) {
      const { inputTokens, outputTokens, cachedInputTokens } = metered
      assert.deepEqual({ inputTokens, outputTokens, cachedInputTokens }, all(asked.length))
    }
    assert.deepEqual([metered.requests, metered.estimated, metered.unread], [asked.length, 0, 0])
    assert.equal(result.text, title === 'tool' ? 'Done.' : 'The answer is 42.')
    if (title === 'tool') {
      assert.equal(result.toolCalls, 1)
      const seen = readFileSync(join(place.cwd, 'seen.txt'), 'utf8')
      assert.match(seen, /^HTTPS_PROXY=/m)
    }
    assert.deepEqual(filesWith(join(place.home, '..'), KEY), [], 'the key is in a file')
    assert.ok(!JSON.stringify(result).includes(KEY), 'the key is in the result')
    return result.sandbox.refused.map(({ what }) => what)
  } finally {
    place.remove()
  }
}

export async function run(words) {
  const names = Object.keys(agents).filter((name) => words.length === 0 || words.includes(name))
  const server = await startModelServer()
  const front = await secure(server.port)
  const way = isNamed ? 'TLS, by the proxy' : 'TLS, by the redirect of localhost'
  const rows = [['agent', 'answer', 'tool call', 'way to the model', 'other hosts that it asked for']]
  for (const provider of names) {
    const refused = new Set()
    const outcomes = []
    for (const title of Object.keys(cases)) {
      const test = () => attempt(provider, title, server, front.port)
      const { word, error } = await runCase(`${provider}, ${title}`, CASE_MS, test)
      if (error) console.log(error.result?.sandbox?.refused)
      for (const what of word ?? []) refused.add(what)
      outcomes.push(error ? FAILED : 'ok')
    }
    rows.push([`${provider} ${agents[provider].version}`, ...outcomes, way, `${refused.size}, refused`])
  }
  front.close()
  await server.close()
  return { rows, isWhole: names.length === Object.keys(agents).length }
}
