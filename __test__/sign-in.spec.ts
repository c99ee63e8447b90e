// Where `sheepdog doctor` looks for a sign-in: keys in variables, then the file.
import { expect, it } from 'vitest'
import { places, signInOf } from '../cli/sign_in'
import { agents } from '../fixtures/agents.mjs'

const nothing = () => false

it('the tested versions are those of the tests', () => {
  const tested = Object.fromEntries(Object.entries(places).map(([name, place]) => [name, place.tested]))
  const used = Object.fromEntries(Object.entries(agents).map(([name, { version }]) => [name, version]))
  expect(tested).toEqual(used)
})

it('a key in a variable is a sign-in, an empty variable is none', () => {
  expect(signInOf(places.codex, { OPENAI_API_KEY: 'k' }, '/home', nothing).by).toBe('OPENAI_API_KEY')
  expect(signInOf(places.codex, { OPENAI_API_KEY: '' }, '/home', nothing).by).toBeUndefined()
})

it('the file is looked for where the CLI keeps it', () => {
  const seen: string[] = []
  const look = (env: Record<string, string>) =>
    signInOf(places.gemini, env, '/home', (path) => !!seen.push(path)).by
  expect(look({})).toBe('/home/.gemini/oauth_creds.json')
  expect(look({ GEMINI_CLI_HOME: '/other' })).toBe('/other/.gemini/oauth_creds.json')
})

it('a file that exists without a sign-in is looked into', () => {
  const asked: unknown[] = []
  signInOf(places.copilot, {}, '/home', (...all) => !!asked.push(all))
  expect(asked).toEqual([['/home/.copilot/config.json', '"login"']])
})

it('without either it says where it looked', () => {
  expect(signInOf(places.pi, {}, '/home', nothing)).toEqual({
    lookedFor: ['ANTHROPIC_API_KEY', 'OPENAI_API_KEY', 'GEMINI_API_KEY', '/home/.pi/agent/auth.json'],
    how: 'start pi and type /login',
  })
})
