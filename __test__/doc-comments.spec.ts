// An editor shows the doc comments of index.d.ts and of the entries: everything that is exported has one, and it reads as plain English.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import ts from '@typescript/typescript6'
import { beforeAll, expect, it } from 'vitest'
import { bareComments, bareCommentsBelow } from '../scripts/comments.mjs'

interface Documented {
  name: string
  comment: string
  tags: string[]
  isOptional: boolean
  /** Whether the names are the Copilot SDK's. */
  isOfCopilot: boolean
  /** Type of an option, as it is written. */
  type: string
}

const root = join(__dirname, '..')
const entries = readdirSync(join(root, 'entries')).filter((name) => name.endsWith('.d.ts'))
const files = [join(root, 'index.d.ts'), ...entries.map((name) => join(root, 'entries', name))]
let documented: Documented[]

beforeAll(() => {
  const lib = ['lib.esnext.d.ts', 'lib.esnext.disposable.d.ts']
  const program = ts.createProgram(files, { skipLibCheck: true, target: ts.ScriptTarget.ESNext, lib })
  const checker = program.getTypeChecker()
  documented = []
  let file = ''
  const add = (name: string, symbol: ts.Symbol) => {
    documented.push({
      name,
      comment: ts.displayPartsToString(symbol.getDocumentationComment(checker)),
      tags: symbol.getJsDocTags(checker).map((tag) => tag.name),
      isOptional: (symbol.flags & ts.SymbolFlags.Optional) !== 0,
      type: typeOf(symbol),
      isOfCopilot: file.endsWith('copilot.d.ts'),
    })
  }
  const addMembers = (owner: string, members: readonly ts.Node[]) => {
    for (const member of members) {
      const { name } = member as ts.NamedDeclaration
      if (!name || ts.isPrivateIdentifier(name)) continue
      const path = `${owner}.${name.getText()}`
      add(path, checker.getSymbolAtLocation(name)!)
      // The fields of an option that is an object, such as `retry`.
      if (ts.isPropertySignature(member) && member.type && owner.endsWith('Options'))
        addMembers(path, fieldsOf(member.type))
    }
  }
  for (file of files) addExports(program.getSourceFile(file)!)
  function addExports(source: ts.SourceFile) {
    for (const exported of checker.getExportsOfModule(checker.getSymbolAtLocation(source)!)) {
      const isAlias = exported.flags & ts.SymbolFlags.Alias
      const symbol = isAlias ? checker.getAliasedSymbol(exported) : exported
      for (const declaration of symbol.declarations ?? []) {
        if (declaration.getSourceFile() !== source) continue
        add(exported.name, symbol)
        if (ts.isInterfaceDeclaration(declaration) || ts.isClassDeclaration(declaration))
          addMembers(exported.name, declaration.members)
      }
    }
  }
})

function typeOf({ valueDeclaration }: ts.Symbol): string {
  return valueDeclaration && ts.isPropertySignature(valueDeclaration)
    ? (valueDeclaration.type?.getText() ?? '')
    : ''
}

/** Whether an option is a switch, a number or one of some words, and nothing else. */
function isPlain(type: string): boolean {
  const alternatives = type.split('|').map((part) => part.trim())
  return alternatives.some((part) => /^(boolean|number|'.*')$/.test(part)) && alternatives.length < 9
}

/** The fields of an object type, also where a value may be something else instead. */
function fieldsOf(type: ts.TypeNode): readonly ts.Node[] {
  if (ts.isTypeLiteralNode(type)) return type.members
  return ts.isUnionTypeNode(type) ? type.types.flatMap(fieldsOf) : []
}

it('every export and each of its members has a doc comment', () => {
  expect(documented.length).toBeGreaterThan(1000)
  expect(documented.filter(({ comment }) => comment === '').map(({ name }) => name)).toEqual([])
})

it('no doc comment begins with a bare who, what, of, whom or where', () => {
  const isBare = ({ comment }: Documented) => /^(who|what|of|whom|where)\b/i.test(comment)
  expect(documented.filter(isBare).map(({ name, comment }) => `${name}: ${comment}`)).toEqual([])
})

it('every optional time of an option says its default', () => {
  const times = documented.filter(({ name, isOptional }) => isOptional && /Options\..*Ms$/.test(name))
  expect(times.map(({ name }) => name)).toContain('TurnOptions.retry.waitForResetMs')
  const silent = times.filter(({ tags }) => !tags.includes('default'))
  expect(silent.map(({ name }) => name)).toEqual([])
})

it('every option with a plain value says its default, but for those of the Copilot SDK', () => {
  const plain = documented.filter(
    ({ name, isOptional, isOfCopilot, type }) =>
      isOptional && !isOfCopilot && /^\w+(Options|Policy)\./.test(name) && isPlain(type),
  )
  expect(plain.map(({ name }) => name)).toEqual(
    expect.arrayContaining([
      'RunOptions.echo',
      'ExpectOptions.timeoutMs',
      'RunOptions.pty.columns',
      'PruneOptions.dryRun',
    ]),
  )
  expect(plain.filter(({ tags }) => !tags.includes('default')).map(({ name }) => name)).toEqual([])
})

it('no default stands in the text of a comment, where editors do not look for it', () => {
  const hidden = documented.filter(
    ({ name, comment }) => /Options\./.test(name) && /\bDefault: /.test(comment),
  )
  expect(hidden.map(({ name }) => name)).toEqual([])
})

it('every option that can end what runs says which error that is', () => {
  const clocks = documented.filter(({ name }) => /Options\.(idleT|startT|toolIdleT|t)imeoutMs$/.test(name))
  expect(clocks.length).toBeGreaterThan(8)
  expect(clocks.filter(({ tags }) => !tags.includes('throws')).map(({ name }) => name)).toEqual([])
})

it('the main entry points have an example', () => {
  const entries = ['run', 'spawn', 'complete', 'serveRuntime', 'Harness', 'Harness.run', 'Harness.open']
  for (const name of [
    ...entries,
    'AgentSession',
    'RuntimeClient',
    'CopilotClient',
    'Fleet',
    'SheepdogError',
  ]) {
    const found = documented.filter((one) => one.name === name)
    expect(
      found.flatMap(({ tags }) => tags),
      name,
    ).toContain('example')
  }
})

it('no comment begins with a bare who, what, of, whom or where', () => {
  expect(
    bareComments('// Of a run.\n\n/** What it is. */\n// The one\n// of two.\n// Ends.\n  // who asks'),
  ).toEqual([1, 3, 7])
  expect(['lib', 'cli', 'src', 'crates'].flatMap(bareCommentsBelow)).toEqual([])
})
