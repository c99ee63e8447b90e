// The law of imports in lib/ and cli/ (ARCHITECTURE.md): rooms may only use what lies below them, and no file comes back to itself.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { describe, expect, it } from 'vitest'

const root = join(__dirname, '..')

/** Rooms from the bottom up: each may use itself and those named; "base" are the files that know no capability. */
const MAY_USE: Record<string, string[]> = {
  base: [],
  // What is told of the others, who call it.
  observability: ['base'],
  process: ['base', 'observability'],
  model: ['base'],
  // The caller's tools, for sessions with any agent.
  tool: ['base'],
  copilot: ['base', 'tool'],
  harness: ['base', 'observability', 'process', 'tool'],
  runtime: ['base', 'process', 'harness'],
  fleet: ['base', 'observability', 'process', 'harness'],
  // Agents of scripts, for the tests of users.
  testing: ['base', 'harness'],
  index: ['base', 'process', 'harness', 'tool', 'observability'],
  // Files that the root leaves to entries of their own.
  entries: ['base', 'model', 'copilot', 'runtime', 'fleet', 'testing'],
  // Over the public API; a command loads the room that it needs.
  cli: ['index', 'entries', 'process', 'harness', 'runtime', 'fleet', 'base'],
}

/** What else a room may name in types alone. */
const MAY_NAME: Record<string, string[]> = {
  // What each error carries.
  'lib/error-facts.ts': ['process', 'harness'],
  'lib/observability/channel.ts': ['process', 'harness'],
  'lib/observability/run_watch.ts': ['process'],
  'lib/observability/span.ts': ['harness'],
  'lib/observability/turn_watch.ts': ['harness'],
  'lib/observability/session_watch.ts': ['harness'],
  // A failure is of the same kinds, whoever asked the model.
  'lib/model.ts': ['harness'],
}

interface Import {
  from: string
  to: string
  isType: boolean
  names: string[]
}

function sources(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => join(folder, file).split(sep).join('/'))
}

/** Imports and re-exports of files here, as prettier writes them. */
function importsOf(file: string, text = readFileSync(join(root, file), 'utf8')): Import[] {
  const statements = text.matchAll(/^(?:import|export) ([^'"`;=()]*?)\s*from '(\.[^']+)'/gm)
  return [...statements].map(([, names = '', specifier = '']) => {
    const to = relative(root, resolve(root, dirname(file), specifier))
      .split(sep)
      .join('/')
    return { from: file, to: `${to}.ts`, isType: isTypeOnly(names), names: namesIn(names) }
  })
}

/** Names of a list as their file exports them: "a" and "B" of "{ a as other, type B }". */
function namesIn(list: string): string[] {
  const names = list
    .replace(/^type /, '')
    .replace(/[{}]/g, '')
    .split(',')
  return names
    .map((name) =>
      name
        .trim()
        .replace(/^type /, '')
        .replace(/ as .*/, ''),
    )
    .filter((name) => name !== '')
}

/** "type X" and "{ type A, type B }", not "{ a, type B }". */
function isTypeOnly(names: string): boolean {
  if (names.startsWith('type ')) return true
  const list = /^\{([\s\S]*)\}$/.exec(names)?.[1]
  return !!list && list.split(',').every((name) => name.trim() === '' || name.trim().startsWith('type '))
}

function roomOf(file: string): string {
  const [folder, first = ''] = file.split('/')
  if (folder === 'cli') return 'cli'
  const name = first.replace(/\.ts$/, '')
  return name in MAY_USE ? name : 'base'
}

const files = [...sources('lib'), ...sources('cli')]
const imports = files.flatMap((file) => importsOf(file)).filter(({ to }) => /^(lib|cli)\//.test(to))

/** Code without its comments and texts. */
function codeOf(file: string): string {
  const text = readFileSync(join(root, file), 'utf8')
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/.*|'(?:[^'\\\n]|\\.)*'/g, (part) =>
    part.startsWith("'") ? part : '',
  )
}

/** Globals that a test runner, an engine or the program can replace, and calls that throw where the system lacks an answer. */
const HOSTS_OWN: Record<string, RegExp> = {
  timers: /(?<![.\w])(?:set|clear)(?:Timeout|Interval|Immediate)\s*\(|from 'node:timers|= globalThis$/m,
  clock: /(?<![.\w])performance\.|from 'node:perf_hooks'|process\.hrtime/,
  environment: /process\.env\b/,
  folder: /process\.(?:cwd|chdir)\b|import \{[^}]*\bresolve\b[^}]*\} from 'node:path'/,
  stack: /\.stack\b(?!s)/,
  user: /(?<!\.)\b(?:homedir|userInfo|hostname)\(\)/,
}

describe('what is taken from the host', () => {
  it.each(Object.entries(HOSTS_OWN))('is asked for in one place: %s', (_, pattern) => {
    const elsewhere = files.filter((file) => file !== 'lib/host.ts' && pattern.test(codeOf(file)))
    expect(elsewhere).toEqual([])
    expect(pattern.test(codeOf('lib/host.ts'))).toBe(true)
  })
})

describe('imports', () => {
  it('are of files that there are', () => {
    expect(files.length).toBeGreaterThan(50)
    expect(imports.filter(({ to }) => !files.includes(to))).toEqual([])
  })

  it('point one way between rooms', () => {
    const faults = imports.filter(({ from, to, isType }) => {
      const [here, there] = [roomOf(from), roomOf(to)]
      if (here === there || MAY_USE[here]!.includes(there)) return false
      return !(isType && MAY_NAME[from]?.includes(there))
    })
    expect(faults).toEqual([])
  })

  it('come back to no file that they began in', () => {
    const edges = new Map<string, string[]>()
    // Types are gone when the program runs, and may name each other.
    for (const { from, to, isType } of imports) {
      if (!isType) edges.set(from, [...(edges.get(from) ?? []), to])
    }
    const circles: string[] = []
    const done = new Set<string>()
    function walk(file: string, path: string[]) {
      const at = path.indexOf(file)
      if (at >= 0) return void circles.push([...path.slice(at), file].join(' -> '))
      if (done.has(file)) return
      for (const next of edges.get(file) ?? []) walk(next, [...path, file])
      done.add(file)
    }
    for (const file of files) walk(file, [])
    expect(circles).toEqual([])
  })

  it('of an outer room stand in tests that go with it, or scripts/core-specs.json names the file', () => {
    const read = (file: string) => JSON.parse(readFileSync(join(root, 'scripts', file), 'utf8'))
    const rooms = Object.values<{ specs: string[]; entry?: string }>(read('rooms.json'))
    const leave = [...rooms.flatMap(({ specs }) => specs), ...read('core-specs.json').mixed]
    const entries = rooms.flatMap(({ entry }) => entry ?? []).join('|')
    const outer = new RegExp(
      `'[^'\\n]*(?:\\bentries/(?:${entries})\\.js|/cli/view/|\\./(?:fleet-worker|nats-server))`,
    )
    const goes = (file: string) => leave.some((path: string) => file.startsWith(path.replace(/\*.*/, '')))
    const stays = readdirSync(join(root, '__test__'), { encoding: 'utf8', recursive: true })
      .map((name) => `__test__/${name}`)
      .filter((file) => file.endsWith('.ts') && file !== '__test__/layers.spec.ts' && !goes(file))
    expect(stays.length).toBeGreaterThan(50)
    expect(stays.filter((file) => outer.test(readFileSync(join(root, file), 'utf8')))).toEqual([])
  })

  it('of the addon are in one file, and the command has none', () => {
    const loaders = files.filter((file) => /native\.js'/.test(readFileSync(join(root, file), 'utf8')))
    expect(loaders).toEqual(['lib/native.ts'])
    expect(imports.filter(({ from, to }) => roomOf(from) === 'cli' && to === 'lib/native.ts')).toEqual([])
  })
})

/** Names that the command takes of lib/ though no entry exports it. The list may only become shorter. */
const UNEXPORTED: Record<string, string[]> = {
  'lib/fleet/job.ts': ['TimedEvent', 'timed'],
  'lib/harness/provider.ts': ['providerNames'],
  'lib/harness/record_file.ts': [
    'RecordFiles',
    'RecordedEntry',
    'isRecordName',
    'kindOf',
    'readRace',
    'readRange',
    'readRecord',
  ],
  'lib/harness/recorded_runs.ts': ['summaryOf'],
  'lib/harness/session/tool_protocol.ts': ['ToolProtocol'],
  'lib/hint.ts': ['suggestion'],
  // The host's own functions: no other file may ask for them.
  'lib/host.ts': [
    'absolutePath',
    'elapsedMs',
    'environment',
    'folderName',
    'home',
    'stackOf',
    'timers',
    'variable',
  ],
  'lib/json.ts': ['quoted', 'toJson'],
  'lib/plain-text.ts': ['harmless'],
}

/** Names that a declaration file exports, by themselves or in a list. */
function exportsOf(text: string): string[] {
  const declared = text.matchAll(
    /^export (?:declare )?(?:abstract )?(?:class|function|const|interface|type) (\w+)/gm,
  )
  const lists = text.replace(/\w+ as /g, '').matchAll(/^export (?:type )?\{([^}]*)\}/gm)
  return [
    ...[...declared].map(([, name = '']) => name),
    ...[...lists].flatMap(([, list = '']) => namesIn(list)),
  ]
}

describe('the command', () => {
  const declarations = ['index.d.ts', ...readdirSync(join(root, 'entries')).map((name) => `entries/${name}`)]
    .filter((file) => file.endsWith('.d.ts'))
    .map((file) => readFileSync(join(root, file), 'utf8'))
  const exported = new Set(declarations.flatMap(exportsOf))

  it('takes exported names alone, but for a list that only becomes shorter', () => {
    expect(exported).toContain('AgentEvent')
    const found: Record<string, Set<string>> = {}
    for (const { to, names } of imports.filter(
      ({ from, to }) => roomOf(from) === 'cli' && to.startsWith('lib/'),
    )) {
      for (const name of names.filter((one) => !exported.has(one))) (found[to] ??= new Set()).add(name)
    }
    const list = Object.entries(found).map(([file, names]) => [file, [...names].sort()] as const)
    expect(Object.fromEntries(list)).toEqual(UNEXPORTED)
  })
})

describe('the reader of imports', () => {
  it('tells values from types', () => {
    const text = `
import { a, type B } from './a'
import type { C } from './c'
import { type D } from './d'
export * from './e'
export {
  type F,
  type G,
} from './f'
import { join } from 'node:path'`
    expect(importsOf('lib/x.ts', text).map(({ to, isType }) => [to, isType])).toEqual([
      ['lib/a.ts', false],
      ['lib/c.ts', true],
      ['lib/d.ts', true],
      ['lib/e.ts', false],
      ['lib/f.ts', true],
    ])
  })
})
