// The size of files, functions and states: what is larger holds two ideas.
import { readdirSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { expect, it } from 'vitest'

const root = join(__dirname, '..')
const longest = 500
const mostLines = 60
const mostFields = 12

/** Options, records and tables: no states, but one field for each option of the contract, or each fact that one has to tell. */
const recordOnes = [
  // Options that a caller may give.
  'crates/agents/src/harness/agent_request.rs AgentRequest',
  'crates/agents/src/harness/launch.rs Wanted',
  'crates/agents/src/harness/turn/request.rs TurnRequest',
  'crates/agents/src/model/request.rs CompletionRequest',
  'crates/fleet/src/spec.rs JobSpec',
  'crates/process/src/spec.rs ProcessSpec',
  'src/binding/agent.rs AgentSpec',
  // Results and reports.
  'crates/agents/src/harness/verdict/result.rs TurnFacts',
  'crates/fleet/src/record.rs JobRecord',
  'crates/process/src/census.rs TreeFacts',
  'crates/process/src/spec.rs RunResult',
  // Facts about each agent.
  'crates/agents/src/harness/provider/descriptor.rs Descriptor',
  'crates/agents/src/harness/provider/protocol.rs Protocol',
  // The request to the guard, and the numbers of the system calls of one architecture.
  'crates/process/src/guard/plan/filter.rs Calls',
]

const isWritten = (file: string) =>
  /\.(rs|ts|mjs|js)$/.test(file) && !/(^|\/)(target|node_modules|streams|generated\w*\.ts)/.test(file)

const folders = ['__test__', 'bench', 'cli', 'crates', 'fixtures', 'lib', 'scripts', 'src', 'trials']

const written = folders
  .flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) =>
      `${folder}/${file}`.split(sep).join('/'),
    ),
  )
  .filter(isWritten)
  .sort()
  .map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') }))

/** Sources of the product, without their tests. */
const sources = written
  .filter(({ file }) => /^(cli|lib|src|crates\/\w+\/(src|build))/.test(file) && !/tests?(\/|\.rs)/.test(file))
  .map(({ file, text }) => ({ file, lines: text.split(/^#\[cfg\(test\)\]\nmod \w+ \{/m)[0]!.split('\n') }))

interface Block {
  name: string
  lines: string[]
}

/** From each line that `begin` names to the one that closes it. The formatters put both at the same indent. */
function blocks(lines: string[], begin: RegExp): Block[] {
  return lines.flatMap((line, at) => {
    const [, indent, name] = begin.exec(line) ?? []
    if (indent === undefined || name === undefined) return []
    const opened = lines.findIndex((other, here) => here >= at && /[{;}]$/.test(other))
    // The body opens in the first line, or in one of the same indent that closes the parameters. Calls have none.
    const opener = lines[opened] ?? ''
    if (!opener.endsWith('{')) return []
    if (opened !== at && !new RegExp(`^${indent}(?! ).*([)>]|^ *{)`).test(opener)) return []
    // A method of an object literal has a comma behind it, a call with an object a bracket.
    const isEnd = (other: string) => other.startsWith(`${indent}}`) && /^ *}[),;]*$/.test(other)
    const end = lines.findIndex((other, here) => here > at && isEnd(other))
    return end < 0 ? [] : [{ name, lines: lines.slice(at, end + 1) }]
  })
}

const aFunction: Record<string, RegExp> = {
  rs: /^( *)(?:pub(?:\([a-z]+\))? )?(?:const )?(?:async )?(?:unsafe )?(?:extern "C" )?fn (\w+)/,
  ts: /^( *)(?:export )?(?:(?:static|override|private|async|get|set) )*(?:function )?\*?(?!if|for|while|switch|catch|return|await)(#?\w+)(?:<[^(]*>)?\((?=.*\{$|$)/,
}

/** A state; one that napi passes to and from JavaScript has a field for each option instead. */
const aStruct = /^( *)(?:pub(?:\([a-z]+\))? )?struct (\w+)/

function longFunctions(): string[] {
  return sources.flatMap(({ file, lines }) =>
    blocks(lines, aFunction[file.endsWith('.rs') ? 'rs' : 'ts']!)
      .filter((block) => block.lines.length > mostLines)
      .map(({ name }) => `${file} ${name}`),
  )
}

function wideStructs(): string[] {
  return sources
    .filter(({ file }) => file.endsWith('.rs'))
    .flatMap(({ file, lines }) =>
      blocks(
        lines.map((line, at) => (lines[at - 1]?.startsWith('#[napi(object') ? '' : line)),
        aStruct,
      )
        .filter(({ lines: [head = '', ...body] }) => {
          const field = new RegExp(`^${head.replace(/\S.*/, '')}    (?:pub(?:\\([a-z]+\\))? )?\\w+: `)
          return body.filter((line) => field.test(line)).length > mostFields
        })
        .map(({ name }) => `${file} ${name}`),
    )
}

function tooLong(): string[] {
  return written.filter(({ text }) => text.split('\n').length - 1 > longest).map(({ file }) => file)
}

it('no file has more than 500 lines', () => {
  expect(tooLong()).toEqual([])
})

it('no function has more than 60 lines', () => {
  expect(longFunctions()).toEqual([])
})

it('no state has more than 12 fields', () => {
  expect(wideStructs().sort()).toEqual([...recordOnes].sort())
})

it('the reader of blocks finds their ends', () => {
  const text = `
impl One {
    pub(crate) async fn two(
        &self,
    ) -> u8 {
        if true {
        }
        3
    }
    fn four(&self);
}
pub struct Five {
    six: u8,
}`.split('\n')
  expect(blocks(text, aFunction.rs!).map(({ name, lines }) => [name, lines.length])).toEqual([['two', 7]])
  expect(blocks(text, aStruct).map(({ name, lines }) => [name, lines.length])).toEqual([['Five', 3]])
})
