// `npm run errors`: what is made of the table of error codes, crates/ground/src/error/table.json: the codes in Rust, the types of
// their fields, and the tables in docs/errors.md. A test holds all three to be current.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { format, resolveConfig } from 'prettier'
import { root } from './step.mjs'

const from = 'crates/ground/src/error/table.json'

/** The text of each file, by its path. */
export async function errorFiles() {
  const types = join(root, 'lib/error-facts.ts')
  const style = await resolveConfig(types)
  const table = JSON.parse(readFileSync(join(root, from), 'utf8'))
  return {
    [join(root, 'crates/ground/src/error/code.rs')]: rust(table),
    [types]: await format(interfaces(table), { ...style, parser: 'typescript', objectWrap: 'collapse' }),
    [join(root, 'docs/errors.md')]: page(table, readFileSync(join(root, 'docs/errors.md'), 'utf8')),
  }
}

const codesOf = ({ sections }) => sections.flatMap(({ codes }) => codes)
const nameOf = (fact) => fact.replace('?', '')
const inherited = ({ with: group }, { groups }) =>
  group ? groups[group.replace(/^Partial<(\w+)>$/, '$1')] : undefined

/** Names of all fields that an error with this code may have; those that it need not have end in "?". */
function factsOf(row, table) {
  const shared = Object.keys(inherited(row, table)?.facts ?? {})
  const isPartial = (row.with ?? '').startsWith('Partial<')
  return [...shared.map((name) => (isPartial ? `${nameOf(name)}?` : name)), ...Object.keys(row.facts ?? {})]
}

function rust(table) {
  const variant = (code) => code.toLowerCase().replace(/(?:^|_)([a-z])/g, (_, letter) => letter.toUpperCase())
  const rows = codesOf(table)
    .filter(({ isOfJavaScript }) => !isOfJavaScript)
    .map((row) => {
      const facts = factsOf(row, table).map((name) => `"${nameOf(name)}"`)
      return `    /// ${row.what}\n    ${variant(row.code)} = "${row.code}" [${facts.join(', ')}],\n`
    })
  const shared = Object.values(table.groups).filter(({ isOfAny }) => isOfAny)
  const names = shared.flatMap(({ facts }) => Object.keys(facts)).map((name) => `"${nameOf(name)}"`)
  return `//! Made from table.json by \`npm run errors\`.

codes! {
${rows.join('')}}

/// Fields that an error with any code may have.
pub(super) const OF_ANY: &[&str] =
    &[${names.join(', ')}];
`
}

function interfaces(table) {
  const field = ([name, fact]) => {
    const [type, text] = Array.isArray(fact) ? fact : [fact]
    return `${text ? `    /** ${text} */\n` : ''}    ${name}: ${type}\n`
  }
  const body = (facts) => `{\n${Object.entries(facts).map(field).join('')}  }`
  const groups = Object.entries(table.groups).map(
    ([name, { facts }]) => `/** Facts that several errors share. */\ninterface ${name} ${body(facts)}\n`,
  )
  const rows = codesOf(table).map(({ code, what, with: group, facts }) => {
    const parts = [...(group ? [group] : []), ...(facts ? [body(facts)] : [])]
    return `  /** ${what} */\n  ${code}: ${parts.join(' & ') || 'None'}\n`
  })
  return `// Made from ${from} by \`npm run errors\`: the fields of each code's error.
import type { AgentEvent } from './harness/event'
import type { AgentErrorKind, TurnResult } from './harness/result'
import type { RunResult } from './process/result'

/** No field beside the code and the message. */
type None = unknown

${groups.join('\n')}
/** Fields of each error, by its code. */
export interface ErrorFacts {
${rows.join('')}}

export type Code = keyof ErrorFacts
`
}

/** The page with its tables written anew: each stands between \`<!-- errors: SECTION -->\` and \`<!-- end -->\`. */
function page(table, text) {
  return text.replace(/(<!-- errors: (\w+) -->\n)[\s\S]*?(<!-- end -->)/g, (_, start, name, end) => {
    const { codes } = table.sections.find((section) => section.name === name)
    const rows = codes.map((row) => {
      const group = inherited(row, table)
      // Fields that the text above the table explains are not repeated in each row.
      const facts = group?.isExplained ? Object.keys(row.facts ?? {}) : factsOf(row, table)
      const fields = facts.filter((name) => nameOf(name) !== 'result').map((name) => `\`${name}\``)
      const named = fields.length > 0 ? `\`${row.code}\` (${fields.join(', ')})` : `\`${row.code}\``
      const advice = row.advice && ` ${row.advice[0].toUpperCase()}${row.advice.slice(1)}.`
      return `- ${named}: ${row.what}${advice}`
    })
    return `${start}\n${rows.join('\n')}\n\n${end}`
  })
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  for (const [file, text] of Object.entries(await errorFiles())) writeFileSync(file, text)
}
