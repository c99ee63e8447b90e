// Makes lib/copilot/generated_events.ts and generated.ts from the JSON schemas that the runtime's package ships: types of all
// session events, and of the RPC trees. Run it after a new version of @github/copilot-sdk: `node scripts/copilot-types.mjs`.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import prettier from 'prettier'
import { root } from './setup.mjs'

const scope = join(root, 'node_modules', '@github')
const platform = readdirSync(scope).find((name) => name.startsWith('copilot-sdk-'))
if (!platform) throw new Error('no platform package of @github/copilot-sdk is installed')
const folder = join(scope, platform)
const version = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).version
const read = (name) => JSON.parse(readFileSync(join(folder, 'schemas', name), 'utf8'))
const events = read('session-events.schema.json')
const api = read('api.schema.json')

const isName = /^[A-Za-z_$][\w$]*$/
const key = (name) => (isName.test(name) ? name : JSON.stringify(name))

/** Names of the API's definitions that say something else than the event definition of the same name. */
const shape = (schema) =>
  JSON.stringify(schema, (name, value) => (name === 'description' || name === 'title' ? undefined : value))
const renamed = new Map()
for (const name of Object.keys(api.definitions)) {
  const twin = events.definitions[name]
  if (twin && shape(twin) !== shape(api.definitions[name])) renamed.set(name, `Rpc${name}`)
}

function typeOf(schema, names) {
  if (schema === true || schema === undefined) return 'JsonValue'
  if (schema === false) return 'never'
  if (schema.$ref) {
    const name = schema.$ref.split('/').pop()
    return names.get(name) ?? name
  }
  if ('const' in schema) return JSON.stringify(schema.const)
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ')
  const alternatives = (schema.anyOf ?? schema.oneOf)?.filter((one) => !isNothing(one))
  // Alternatives that only say which fields belong together are no types.
  const areTypes = !alternatives?.every((one) => Object.keys(one).every((name) => name === 'required'))
  if (alternatives && areTypes)
    return [...new Set(alternatives.map((one) => group(typeOf(one, names))))].join(' | ') || 'never'
  if (schema.allOf) return schema.allOf.map((one) => group(typeOf(one, names))).join(' & ')
  if (Array.isArray(schema.type)) {
    return [...new Set(schema.type.map((type) => group(typeOf({ ...schema, type }, names))))].join(' | ')
  }
  switch (schema.type) {
    case 'string':
      return 'string'
    case 'number':
    case 'integer':
      return 'number'
    case 'boolean':
      return 'boolean'
    case 'null':
      return 'null'
    case 'array':
      if (Array.isArray(schema.items))
        return `[${schema.items.map((item) => typeOf(item, names)).join(', ')}]`
      return arrayOf(group(typeOf(schema.items, names)), schema.minItems)
    default:
      return schema.properties || schema.additionalProperties !== undefined || schema.type === 'object'
        ? objectOf(schema, names)
        : 'JsonValue'
  }
}

const group = (type) => (/[|&]/.test(type) && !/^[{[(]/.test(type) ? `(${type})` : type)

function objectOf(schema, names, leftOut = []) {
  const required = new Set(schema.required ?? [])
  const fields = Object.entries(schema.properties ?? {})
    .filter(([name]) => !leftOut.includes(name))
    .map(([name, value]) => `${key(name)}${required.has(name) ? '' : '?'}: ${typeOf(value, names)}`)
  const rest = schema.additionalProperties
  if (fields.length === 0) return rest ? recordOf(rest, names) : rest === false ? '{}' : recordOf(true, names)
  if (rest) fields.push('[key: string]: unknown')
  return `{ ${fields.join('; ')} }`
}

/** "Nothing at all", among alternatives: the value may be left out. */
const isNothing = (schema) => typeof schema === 'object' && JSON.stringify(schema.not) === '{}'

const arrayOf = (item, least) => (least >= 1 ? `[${item}, ...${item}[]]` : `${item}[]`)

/** What a request takes may be undefined, what an answer has is not; as the SDK's types. */
const recordOf = (values, names) => {
  const isAnything = values === true || Object.keys(values).length === 0
  return `{ [key: string]: ${isAnything ? 'unknown' : typeOf(values, names)}${isAsked && !isAnything ? ' | undefined' : ''} }`
}
let isAsked = false

/** Names of the definitions that a schema is made of. */
function namesIn(schema, found = new Set()) {
  if (typeof schema !== 'object' || schema === null) return found
  if (schema.$ref) {
    const name = schema.$ref.split('/').pop()
    if (!found.has(name)) {
      found.add(name)
      namesIn(api.definitions[name], found)
    }
  }
  for (const value of Object.values(schema)) namesIn(value, found)
  return found
}

const answered = new Set()
function findAnswers(node) {
  if (typeof node !== 'object' || node === null) return
  if (node.rpcMethod) namesIn(node.result, answered)
  else Object.values(node).forEach(findAnswers)
}
findAnswers(api.server)
findAnswers(api.session)

/** A tree of methods; the path is the method's name. */
function treeOf(nodes, prefix, leftOut) {
  const members = []
  for (const [name, node] of Object.entries(nodes)) {
    if (typeof node !== 'object' || node === null) continue
    if (!node.rpcMethod) {
      const inner = treeOf(node, [...prefix, name], leftOut)
      if (inner !== '{  }') members.push(`${key(name)}: ${inner}`)
      continue
    }
    if (node.visibility === 'internal') continue
    const expected = [...prefix, name].join('.')
    if (node.rpcMethod !== expected) exceptions.push([expected, node.rpcMethod])
    if (leftOut.includes('sessionId')) methods.session.push(node.rpcMethod.replace(/^session\./, ''))
    else methods.server.push(node.rpcMethod)
    members.push(`${key(name)}(${paramsOf(node.params, leftOut)}): Promise<${resultOf(node.result)}>`)
  }
  return `{ ${members.join('; ')} }`
}

const exceptions = []
/** Paths of the methods of both trees, for the objects that have them. */
const methods = { server: [], session: [] }

function paramsOf(params, leftOut) {
  if (!params) return ''
  const whole = params.$ref ? api.definitions[params.$ref.split('/').pop()] : params
  const alternatives = whole.anyOf?.filter((one) => !isNothing(one))
  const mayBeNothing = alternatives !== undefined && alternatives.length < whole.anyOf.length
  const target = mayBeNothing && alternatives.length === 1 ? alternatives[0] : whole
  const left = Object.keys(target?.properties ?? {}).filter((name) => !leftOut.includes(name))
  if (target?.properties && left.length === 0) return ''
  const optional =
    mayBeNothing || (target?.properties && !(target.required ?? []).some((name) => !leftOut.includes(name)))
  const isUsed = leftOut.some((name) => target?.properties?.[name])
  const type = params.$ref
    ? isUsed
      ? `Omit<${typeOf(params, renamed)}, ${leftOut.map((name) => `'${name}'`).join(' | ')}>`
      : typeOf(params, renamed)
    : target.properties
      ? objectOf(target, renamed, leftOut)
      : typeOf(params, renamed)
  return `params${optional ? '?' : ''}: ${type}`
}

function resultOf(result) {
  if (!result || result.type === 'null') return 'void'
  const target = result.$ref ? api.definitions[result.$ref.split('/').pop()] : result
  return target?.type === 'null' ? 'void' : typeOf(result, renamed)
}

const banner = `// Generated by scripts/copilot-types.mjs from the schemas of ${platform.replace(/-(linux|darwin|win32).*/, '')} ${version}. Do not edit.`

async function write(name, lines) {
  const path = join(root, 'lib/copilot', name)
  const config = await prettier.resolveConfig(path)
  writeFileSync(
    path,
    await prettier.format([banner, ...lines].join('\n'), { ...config, parser: 'typescript' }),
  )
}

const none = new Map()
/** A field of most alternatives is one of all: it can be read without asking which it is. */
const withShared = (name, type) =>
  name === 'PermissionRequest' ? `(${type}) & { managedApprovalRequired?: boolean }` : type
await write('generated_events.ts', [
  '// Session events.',
  "import type { JsonValue } from './json'",
  ...Object.entries(events.definitions).map(
    ([name, schema]) => `export type ${name} = ${withShared(name, typeOf(schema, none))}`,
  ),
])

const own = Object.entries(api.definitions).filter(([name]) => !events.definitions[name] || renamed.has(name))
const body = [
  ...own.map(([name, schema]) => {
    isAsked = !answered.has(name)
    const type = typeOf(schema, renamed)
    isAsked = false
    return `export type ${renamed.get(name) ?? name} = ${type}`
  }),
  `export type ServerRpc = ${treeOf(api.server, [], [])}`,
  `export type SessionRpc = ${treeOf(api.session, ['session'], ['sessionId'])}`,
]
const text = body.join('\n')
const shared = Object.keys(events.definitions).filter((name) => new RegExp(`\\b${name}\\b`).test(text))
await write('generated.ts', [
  '// RPC.',
  "import type { JsonValue } from './json'",
  `import type { ${shared.join(', ')} } from './generated_events'`,
  "export type * from './generated_events'",
  ...body,
])
await write('generated_methods.ts', [
  '// Methods by path.',
  `export const serverMethods: readonly string[] = ${JSON.stringify(methods.server)}`,
  `export const sessionMethods: readonly string[] = ${JSON.stringify(methods.session)}`,
])
if (exceptions.length > 0) console.error('paths that are not their methods:', exceptions)
