// Adds an option to each kind of call, and forgets one step after the other: the compiler names the option each time.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from '@typescript/typescript6'
import { describe, expect, it } from 'vitest'

const root = join(__dirname, '..')
const native = 'native/native.d.ts'
const run = 'lib/process/request.ts'
const turn = 'lib/harness/request.ts'
const open = 'lib/harness/session/request.ts'
const submission = 'lib/fleet/submission.ts'
const work = 'lib/fleet/worker.ts'
const operation = 'lib/fleet/operation.ts'
const fleet = 'lib/fleet.ts'

interface Step {
  file: string
  /** Its first match gets the lines of the option behind it. */
  after: RegExp
  lines: string
}

const declared = 'probeMs?: number;'
const checked = 'probeMs: check.timeout,'

/** The steps of an option, in order. With all of them the compiler is content. */
const kinds: Record<string, Step[]> = {
  'of run() and spawn()': [
    { file: run, after: /export interface RunOptions \{/, lines: declared },
    { file: run, after: /export const processOptionChecks = [^{]*\{/, lines: checked },
    { file: native, after: /export interface RunSpec \{/, lines: declared },
  ],
  'of a turn': [
    { file: turn, after: /export interface TurnOptions extends [^{]*\{/, lines: declared },
    { file: turn, after: /const turnChecks = [^{]*\{/, lines: checked },
    { file: native, after: /export interface TurnSpec \{/, lines: declared },
  ],
  'of a session': [
    { file: open, after: /export interface OpenOptions extends [^{]*\{/, lines: declared },
    { file: open, after: /export const openChecks = [^{]*\{/, lines: checked },
    { file: native, after: /export interface AgentSpec \{/, lines: declared },
  ],
  'of a prompt': [
    { file: open, after: /export interface PromptOptions extends [^{]*\{/, lines: declared },
    { file: open, after: /const promptChecks = [^{]*\{/, lines: checked },
    { file: native, after: /export interface PromptSpec \{/, lines: declared },
  ],
  'of a job': [
    { file: submission, after: /interface JobPlace \{/, lines: declared },
    { file: submission, after: /const checks = [^{]*\{/, lines: checked },
  ],
  'of a filter of jobs': [
    { file: operation, after: /export interface JobFilter \{/, lines: declared },
    { file: operation, after: /const filterChecks = \{/, lines: checked },
    { file: native, after: /export interface FilterSpec \{/, lines: declared },
  ],
  'of a list of jobs': [
    { file: operation, after: /export interface JobListOptions extends [^{]*\{/, lines: declared },
    { file: operation, after: /const listChecks = \{/, lines: checked },
    { file: fleet, after: /const \{ limit,/, lines: 'probeMs,' },
  ],
  'of a prune': [
    { file: operation, after: /export interface PruneOptions \{/, lines: declared },
    { file: operation, after: /const pruneChecks = \{/, lines: checked },
    { file: native, after: /export interface PruneSpec \{/, lines: declared },
  ],
  'of a schedule': [
    { file: operation, after: /export interface ScheduleOptions \{/, lines: declared },
    { file: operation, after: /const scheduleChecks = \{/, lines: checked },
  ],
  'of a worker': [
    { file: work, after: /export interface WorkOptions \{/, lines: declared },
    { file: work, after: /const checks = [^{]*\{/, lines: checked },
    { file: native, after: /export interface WorkSpec \{/, lines: declared },
  ],
}

const config = ts.getParsedCommandLineOfConfigFile(
  join(root, 'tsconfig.json'),
  { noEmit: true, incremental: false, tsBuildInfoFile: undefined },
  { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => {} },
)!
const unchanged = new Map<string, ts.SourceFile | undefined>()

/** What the compiler says of these files when some steps were made. */
function problems(steps: Step[], files: string[]): string[] {
  const texts = new Map<string, string>()
  for (const { file, after, lines } of steps) {
    const path = join(root, file)
    const text = texts.get(path) ?? readFileSync(path, 'utf8')
    expect(text).toMatch(after)
    texts.set(
      path,
      text.replace(after, (found) => `${found}\n${lines}\n`),
    )
  }
  const host = ts.createCompilerHost(config.options)
  const read = host.getSourceFile.bind(host)
  host.getSourceFile = (path, ...rest) => {
    const text = texts.get(path)
    // Unchanged files are parsed once.
    if (text !== undefined) return ts.createSourceFile(path, text, ts.ScriptTarget.ES2023)
    if (!unchanged.has(path)) unchanged.set(path, read(path, ...rest))
    return unchanged.get(path)
  }
  const roots = files.map((file) => join(root, file))
  const program = ts.createProgram(roots, config.options, host)
  return roots
    .flatMap((path) => program.getSemanticDiagnostics(program.getSourceFile(path)))
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))
}

describe('an option', () => {
  // Each kind has an option of its own name, so that one program tries all kinds.
  const named = Object.entries(kinds).map(([kind, steps], index) => {
    const name = `probe${index}Ms`
    const renamed = steps.map((step) => ({ ...step, lines: step.lines.replaceAll('probeMs', name) }))
    return { kind, name, steps: renamed }
  })
  const files = [
    run,
    turn,
    open,
    submission,
    work,
    operation,
    fleet,
    'lib/harness/session.ts',
    'lib/harness/session/specification.ts',
  ]

  it('compiles when no step is forgotten', () => {
    expect(
      problems(
        named.flatMap(({ steps }) => steps),
        files,
      ),
    ).toEqual([])
  }, 240_000)

  const longest = Math.max(...named.map(({ steps }) => steps.length))
  it.each(Array.from({ length: longest - 1 }, (_, index) => index + 1))(
    'whose step %i is forgotten does not compile, and is named',
    (forgotten) => {
      const found = problems(
        named.flatMap(({ steps }) => steps.filter((_, index) => index !== forgotten)),
        files,
      ).join('\n')
      for (const { kind, name, steps } of named)
        if (forgotten < steps.length) expect(found, `${kind}, without step ${forgotten}`).toContain(name)
    },
    240_000,
  )

  it('of turns and sessions is taken from the harness, unless it means something else', async () => {
    const { mergedOptions } = await import('../dist/lib/harness/session/specification.js')
    const { openChecks } = await import('../dist/lib/harness/session/request.js')
    const { harnessChecks } = await import('../dist/lib/harness/request.js')
    const both = Object.keys(openChecks).filter((name) => Object.hasOwn(harnessChecks, name))
    expect(both.length).toBeGreaterThan(20)
    const defaults = Object.fromEntries(both.map((name) => [name, { of: name }]))
    const shared = both.filter((name) => name !== 'tools' && name !== 'resume')
    expect(Object.keys(mergedOptions(defaults as never, undefined)).sort()).toEqual(shared.sort())
  })

  it('of a job crosses although JSON has no Infinity', async () => {
    const { jobSpec, jobText } = await import('../dist/lib/fleet/submission.js')
    const clocks = { timeoutMs: Infinity, idleTimeoutMs: -Infinity, retry: { waitForResetMs: Infinity } }
    const { options } = JSON.parse(jobText(jobSpec({ provider: 'codex', prompt: 'hi', ...clocks })))
    const most = Number.MAX_VALUE
    expect(options).toEqual({
      timeoutMs: most,
      idleTimeoutMs: -most,
      retry: { waitForResetMs: most },
    })
  })
})
