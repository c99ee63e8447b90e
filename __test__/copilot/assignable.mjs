// What of the Copilot SDK's types and of ours is not the other: for every exported name, and every member of it, whether the
// one can stand where the other is asked for. Differences are named by the path to where they begin.
import { join } from 'node:path'
import typescript from '@typescript/typescript6'
import { root } from '../../scripts/step.mjs'

const { SymbolFlags, TypeFlags } = typescript
const entry = join(root, '__differential.ts')
const options = {
  target: typescript.ScriptTarget.ES2023,
  lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts', 'lib.dom.d.ts'],
  module: typescript.ModuleKind.ESNext,
  moduleResolution: typescript.ModuleResolutionKind.Bundler,
  types: ['node'],
  strict: true,
  noEmit: true,
  skipLibCheck: true,
}

/**
 * Both ways: `given` is what a program written for the SDK hands to us and we do not take; `got` what we hand to it and it does
 * not expect.
 * @param {string} sdk the package
 * @param {(text: string) => string} edit changes our declarations before they are looked at
 * @returns {{ names: number, missing: string[], given: string[], got: string[] }}
 */
export function differencesFrom(sdk, edit = (text) => text) {
  const imports = `import type * as theirs from '${sdk}'\nimport type * as ours from './entries/copilot.js'\n`
  let program = compile(`${imports}export type Both = [theirs: typeof theirs, ours: typeof ours]\n`, edit)
  const [theirs, ours] = namespaces(program)
  const missing = [...theirs.keys()].filter((name) => !ours.has(name))
  const lines = [...theirs].flatMap(([name, symbol]) => {
    const other = ours.get(name)
    if (!other) return []
    const found = []
    if (symbol.flags & SymbolFlags.Type && other.flags & SymbolFlags.Type)
      found.push([name, `theirs.${name}${anyOf(symbol)}`, `ours.${name}${anyOf(other)}`])
    if (symbol.flags & SymbolFlags.Value && other.flags & SymbolFlags.Value)
      found.push([`typeof ${name}`, `typeof theirs.${name}`, `typeof ours.${name}`])
    return found
  })
  const pairs = lines.map(([, one, other], at) => `export type T${at} = [${one}, ${other}]\n`)
  program = compile(imports + pairs.join(''), edit, program)
  const checker = program.getTypeChecker()
  const aliases = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry)))
  const given = new Reasons(checker)
  const got = new Reasons(checker)
  lines.forEach(([name], at) => {
    const symbol = aliases.find((alias) => alias.name === `T${at}`)
    const [one, other] = checker.getTypeArguments(checker.getDeclaredTypeOfSymbol(symbol))
    // Classes and functions are handed out only.
    const isClass = (one.symbol?.flags ?? 0) & SymbolFlags.Class
    if (isClass) got.explainMembers(other, one, name)
    else if (!name.startsWith('typeof ')) given.explain(one, other, name)
    got.explain(other, one, name)
  })
  return { names: theirs.size, missing, given: given.found, got: got.found }
}

/** Exported symbols by name, of both. */
function namespaces(program) {
  const checker = program.getTypeChecker()
  const source = program.getSourceFile(entry)
  return source.statements.filter(typescript.isImportDeclaration).map((statement) => {
    const module = checker.getSymbolAtLocation(statement.moduleSpecifier)
    if (!module) throw new Error(`no types of ${statement.moduleSpecifier.text}`)
    return new Map(
      checker
        .getExportsOfModule(module)
        .map((symbol) => [
          symbol.name,
          symbol.flags & SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol,
        ])
        .filter(([name]) => name !== 'default'),
    )
  })
}

/** Type parameters are filled with `any`: names, not inferences, are compared. */
function anyOf(symbol) {
  const declaration = symbol.declarations?.find((one) => one.typeParameters)
  return declaration ? `<${declaration.typeParameters.map(() => 'any').join(', ')}>` : ''
}

/** Declarations of Node and of the language, parsed once for all programs. */
const common = new Map()

function compile(text, edit, old) {
  const host = typescript.createCompilerHost(options)
  const { getSourceFile } = host
  host.getSourceFile = (name, target) => {
    if (name === entry) return typescript.createSourceFile(name, text, target)
    const known = old?.getSourceFile(name)
    if (known) return known
    // A class with private members equals itself alone, however alike another is.
    const isOurs =
      name.startsWith(join(root, 'index')) ||
      name.startsWith(join(root, 'entries')) ||
      name.startsWith(join(root, 'copilot'))
    if (!isOurs && !/node_modules\/.*copilot-sdk/.test(name)) {
      if (!common.has(name)) common.set(name, getSourceFile.call(host, name, target))
      return common.get(name)
    }
    const declared = host.readFile(name)
    const open = (isOurs ? edit(declared) : declared).replace(
      /^ {4}private [^;{]*;$|^ +(protected|private) (readonly )?\w+[(:].*$|^ +#private;?$/gm,
      '',
    )
    return typescript.createSourceFile(name, open, target)
  }
  const exists = host.fileExists
  host.fileExists = (name) => name === entry || exists.call(host, name)
  return typescript.createProgram([entry], options, host)
}

const isObject = (type) => (type.flags & TypeFlags.Object) !== 0

class Reasons {
  found = []
  #checker
  #seen = new Set()

  constructor(checker) {
    this.#checker = checker
  }

  /** Adds where `source` begins to be no `target`. What was explained once is not again. */
  explain(source, target, path) {
    const before = this.found.length
    if (this.#checker.isTypeAssignableTo(source, target)) return true
    // Classes are compared member by member, under their own names.
    const isClass = (target.symbol?.flags ?? 0) & SymbolFlags.Class
    if (isClass && path !== target.symbol.name) return false
    const pair = `${source.id} ${target.id}`
    if (this.#seen.has(pair)) return false
    this.#seen.add(pair)
    if (source.isUnion()) this.#explainUnion(source, target, path)
    // Deeper down are the insides of other libraries.
    else if (path.split(/[.[(]/).length > 12) this.found.push(path)
    else if (target.isUnion()) this.#explainMember(source, target, path)
    else if (isObject(source) && isObject(target)) this.#explainObject(source, target, path)
    const isExplained = this.found.length > before || this.#isKnown
    if (!isExplained) this.found.push(path)
    return false
  }

  /** Methods one by one: as parts of a whole, their parameters may be wider or narrower (methods are bivariant). */
  explainMembers(source, target, path) {
    for (const property of target.getProperties()) {
      const own = source.getProperty(property.name)
      if (!own || property.name.startsWith('__@')) continue
      const [one, other] = [own, property].map((symbol) => this.#checker.getTypeOfSymbol(symbol))
      const where = `${path}.${property.name}`
      const calls = [one, other].map((type) => type.getCallSignatures().length)
      if (calls[0] === 1 && calls[1] === 1) this.#explainObject(one, other, where)
      else if (calls[0] + calls[1] === 0 && isObject(other) && !this.#isLibrary(other))
        this.explainMembers(one, other, where)
    }
  }

  #isLibrary(type) {
    const file = type.symbol?.declarations?.[0]?.getSourceFile().fileName ?? ''
    return /\/(lib\.[\w.]+\.d\.ts|@types\/node\/.*|zod\/.*)$/.test(file)
  }

  /** Whether the reason of the last difference was given before. */
  #isKnown = false

  #explainUnion(source, target, path) {
    this.#isKnown = false
    let isKnown = false
    for (const member of source.types) {
      if (this.#checker.isTypeAssignableTo(member, target)) continue
      const before = this.found.length
      this.#explainMember(member, target, path)
      if (this.found.length === before) isKnown = true
    }
    this.#isKnown = isKnown
  }

  /** One alternative: the one of the target that it is meant to be tells most. */
  #explainMember(member, target, path) {
    this.#isKnown = false
    if (!isObject(member)) return void this.found.push(`${path} = ${this.#checker.typeToString(member)}`)
    const tag = this.#tagOf(member)
    const among = target.isUnion() ? target.types.filter(isObject) : [target]
    const twin = tag
      ? among.find((one) => this.#tagOf(one) === tag)
      : among.length === 1
        ? among[0]
        : undefined
    const where = tag ? `${path}[${tag}]` : path
    if (!twin) return void this.found.push(where)
    const before = this.found.length
    this.explain(member, twin, where)
    this.#isKnown = this.found.length === before
  }

  /** What tells alternatives apart. */
  #tagOf(type) {
    for (const name of ['type', 'kind', 'status', 'source']) {
      const property = type.getProperty(name)
      const value = property && this.#checker.getTypeOfSymbol(property)
      if (value?.isStringLiteral()) return value.value
    }
    return undefined
  }

  #explainObject(source, target, path) {
    this.#isKnown = false
    const checker = this.#checker
    let isKnown = false
    const step = (one, other, where) => {
      const before = this.found.length
      if (!this.explain(one, other, where) && this.found.length === before) isKnown = true
    }
    if (this.#isLibrary(target)) {
      const inner = this.#isLibrary(source) ? checker.getTypeArguments(source) : []
      checker.getTypeArguments(target).forEach((type, at) => inner[at] && step(inner[at], type, `${path}[]`))
      this.#isKnown = isKnown
      return
    }
    const [call, ...others] = source.getCallSignatures()
    const [asked, ...more] = target.getCallSignatures()
    if (others.length + more.length > 0) this.found.push(path)
    else if (call && asked) {
      call.parameters.forEach((parameter, at) => {
        const other = asked.parameters[at]
        if (other)
          step(
            checker.getTypeOfSymbol(other),
            checker.getTypeOfSymbol(parameter),
            `${path}(${parameter.name})`,
          )
      })
      const promised = (type) => checker.getAwaitedType?.(type) ?? type
      step(promised(call.getReturnType()), promised(asked.getReturnType()), `${path}()`)
    } else {
      for (const property of target.getProperties()) {
        // Of unique symbols: their names are no names.
        if (property.name.startsWith('__@')) continue
        const own = source.getProperty(property.name)
        const where = `${path}.${property.name}`
        if (own) step(checker.getTypeOfSymbol(own), checker.getTypeOfSymbol(property), where)
        else if (!(property.flags & SymbolFlags.Optional)) this.found.push(`${where} is missing`)
      }
    }
    this.#isKnown = isKnown
  }
}
