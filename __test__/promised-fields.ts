// The fields that docs/errors.md and the types promise for a code.
import table from '../crates/ground/src/error/table.json'

interface Row {
  code: string
  with?: string
  facts?: object
}
const groups: Record<string, { facts: object }> = table.groups
const rows: Row[] = table.sections.flatMap(({ codes }) => codes as Row[])

/** Fields without a "?". Those of a group that is partial may be missing. */
export function promised(code: string): string[] {
  const { with: group, facts = {} } = rows.find((row) => row.code === code)!
  const shared = group && !group.startsWith('Partial<') ? groups[group]!.facts : {}
  return Object.keys({ ...shared, ...facts }).filter((name) => !name.endsWith('?'))
}

/** The promised fields that an error does not have. */
export const missingFields = (error: object & { code?: string }): string[] =>
  promised(error.code!).filter((name) => (error as Record<string, unknown>)[name] === undefined)

/** Codes that promise fields. */
export const promising: string[] = rows.map(({ code }) => code).filter((code) => promised(code).length > 0)
