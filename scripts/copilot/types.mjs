// Makes lib/copilot/generated_events.ts and generated.ts from the JSON schemas that the runtime's packages ship: types of all
// session events, and of the RPC trees. Run it after a new version of the SDK: `node scripts/copilot/types.mjs`.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import prettier from 'prettier'
import { isSameShape, readSchemas } from './schemas.mjs'
import { root } from '../step.mjs'

const { origin, events, api } = readSchemas()

const isName = /^[A-Za-z_$][\w$]*$/
const key = (name) => (isName.test(name) ? name : JSON.stringify(name))

/** Names of the API's definitions that say something else than the event definition of the same name. */
const renamed = new Map()
for (const name of Object.keys(api.definitions)) {
  const twin = events.definitions[name]
  if (twin && !isSameShape(twin, api.definitions[name])) renamed.set(name, `Rpc${name}`)
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
  const alternatives = (schema.anyOf ?? schema.oneOf)?.filter((one) => !isNothing(one) && !isInternal(one))
  // Alternatives that only say which fields belong together are no types.
  const areTypes = !alternatives?.every((one) => Object.keys(one).every((name) => name === 'required'))
  if (alternatives && areTypes)
    return [...new Set(alternatives.map((one) => group(typeOf(one, names))))].join(' | ') || 'never'
  const all = schema.allOf?.filter((one) => !one.if)
  if (all?.length > 0) return all.map((one) => group(typeOf(one, names))).join(' & ')
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
  if (fields.length === 0 && schema.properties && !rest) return '{}'
  if (fields.length === 0) return rest ? recordOf(rest, names) : rest === false ? '{}' : recordOf(true, names)
  if (rest) fields.push(`[key: string]: ${rest['x-opaque-json'] ? 'JsonValue | undefined' : 'unknown'}`)
  return `{ ${fields.join('; ')} }`
}

/** "Nothing at all", among alternatives: the value may be left out. */
const isNothing = (schema) => typeof schema === 'object' && JSON.stringify(schema.not) === '{}'

/** What the runtime keeps for itself. */
const isInternal = (schema) => schema.visibility === 'internal'

const arrayOf = (item, least) => (least >= 1 ? `[${item}, ...${item}[]]` : `${item}[]`)

/** A map may have nothing under a name, but where the SDK's types say that it has. */
const wholeMaps = new Set([
  'ContentFilterMode',
  'ManagedMcpServerConfig',
  'McpSerializableServerConfig',
  'ProtocolSectionOverride',
  'UIElicitationFieldValue',
  'UserSettingMetadata',
])
const recordOf = (values, names) => {
  const isAnything = values === true || Object.keys(values).length === 0
  const type = isAnything ? 'unknown' : typeOf(values, names)
  return `{ [key: string]: ${type}${isAnything || wholeMaps.has(type) ? '' : ' | undefined'} }`
}

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

const banner = `// Generated by scripts/copilot/types.mjs from the schemas of ${origin}. Do not edit.`

async function write(name, lines) {
  const path = join(root, 'lib/copilot', name)
  const config = await prettier.resolveConfig(path)
  writeFileSync(
    path,
    await prettier.format([banner, ...lines].join('\n'), { ...config, parser: 'typescript' }),
  )
}

const none = new Map()
/** The SDK's types leave these events out; they come all the same, as those that no version knows. */
const isPublic = ({ $ref }) => !isInternal(events.definitions[$ref.split('/').pop()])
events.definitions.SessionEvent.anyOf = events.definitions.SessionEvent.anyOf.filter(isPublic)
await write('generated_events.ts', [
  '// Session events.',
  "import type { JsonValue } from './json'",
  ...Object.entries(events.definitions).map(
    ([name, schema]) => `export type ${name} = ${typeOf(schema, none)}`,
  ),
])

const own = Object.entries(api.definitions).filter(([name]) => !events.definitions[name] || renamed.has(name))
const body = [
  ...own.map(([name, schema]) => {
    return `export type ${renamed.get(name) ?? name} = ${typeOf(schema, renamed)}`
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
