// What two versions of the runtime say about themselves, as one: everything that either of them has.
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../step.mjs'

/** What a schema says beside the shape. A property of one of these names has a schema, not a text. */
const isRemark = (name, value) =>
  ['description', 'title', 'visibility', 'stability'].includes(name)
    ? typeof value === 'string'
    : name.startsWith('x-')
const shapeOf = (schema) =>
  JSON.stringify(schema, (name, value) => (isRemark(name, value) ? undefined : value))
export const isSameShape = (one, other) => shapeOf(one) === shapeOf(other)

/** The schemas of the newest release and of the newest preview, from the packages of their runtimes. */
export function readSchemas() {
  const versions = [
    readVersion(join(root, 'node_modules')),
    readVersion(join(root, 'node_modules/copilot-sdk-preview/node_modules')),
  ]
  const [release, preview] = versions
  return {
    origin: `copilot-sdk ${release.version} and ${preview.version}`,
    events: { definitions: mergeDefinitions(release.events.definitions, preview.events.definitions) },
    api: {
      definitions: mergeDefinitions(release.api.definitions, preview.api.definitions),
      server: mergeMethods(release.api.server, preview.api.server),
      session: mergeMethods(release.api.session, preview.api.session),
    },
  }
}

function readVersion(modules) {
  const scope = join(modules, '@github')
  const platform = readdirSync(scope).find((name) => name.startsWith('copilot-sdk-'))
  if (!platform) throw new Error(`no runtime for this platform in ${scope}: run \`npm install\``)
  const read = (name) => JSON.parse(readFileSync(join(scope, platform, name), 'utf8'))
  return {
    version: read('package.json').version,
    events: read('schemas/session-events.schema.json'),
    api: read('schemas/api.schema.json'),
  }
}

const isObject = (value) => typeof value === 'object' && value !== null

function mergeEach(older, newer, merge) {
  const names = new Set([...Object.keys(older), ...Object.keys(newer)])
  return Object.fromEntries(
    [...names].map((name) => [
      name,
      name in older && name in newer ? merge(older[name], newer[name]) : (newer[name] ?? older[name]),
    ]),
  )
}

function mergeDefinitions(older, newer) {
  named = newer
  return mergeEach(older, newer, mergeSchema)
}

function mergeMethods(older, newer) {
  return mergeEach(older, newer, (one, other) => {
    if (!isObject(one) || !isObject(other)) return other
    if (!one.rpcMethod || !other.rpcMethod) return mergeMethods(one, other)
    return {
      ...other,
      params: mergeOptional(one.params, other.params),
      result: mergeOptional(one.result, other.result),
    }
  })
}

const mergeOptional = (one, other) => (one && other ? mergeSchema(one, other) : (other ?? one))

let named = {}
const namedBy = ({ $ref }) => named[$ref.split('/').pop()] ?? {}

/** Valid for what is valid for either; a field that one of them does not know may be missing. */
function mergeSchema(older, newer) {
  if (isSameShape(older, newer)) return newer
  if (older.properties && newer.properties) {
    const required = (older.required ?? []).filter((name) => newer.required?.includes(name))
    return { ...newer, properties: mergeEach(older.properties, newer.properties, mergeSchema), required }
  }
  if (older.enum && newer.enum) return { ...newer, enum: [...new Set([...older.enum, ...newer.enum])] }
  if (older.anyOf && newer.anyOf) return { ...newer, anyOf: distinct([...older.anyOf, ...newer.anyOf]) }
  if (isObject(older.items) && isObject(newer.items) && !Array.isArray(newer.items))
    return { ...newer, items: mergeSchema(older.items, newer.items) }
  if (newer.$ref && older.const !== undefined && namedBy(newer).enum?.includes(older.const)) return newer
  return { anyOf: distinct([older, newer].flatMap((schema) => schema.anyOf ?? [schema])) }
}

const distinct = (schemas) =>
  schemas.filter((schema, index) => schemas.findIndex((other) => isSameShape(schema, other)) === index)
