// Tables, and the figures that were promised beside the ones that were reached.

/** Prints rows of `{ column: text or number }` under their columns' names. */
export function table(rows) {
  const columns = Object.keys(rows[0])
  const cells = [columns, ...rows.map((row) => columns.map((column) => show(row[column])))]
  const widths = columns.map((_, index) => Math.max(...cells.map((row) => row[index].length)))
  for (const row of cells) {
    const padded = row.map((cell, index) =>
      index === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[index]),
    )
    console.log(`  ${padded.join('  ')}`)
  }
}

function show(value) {
  if (typeof value !== 'number') return value ?? '-'
  if (Number.isInteger(value)) return String(value)
  return value.toFixed(Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0)
}

/**
 * Prints each figure with what was asked for. @param figures `[what, value, '>=' or '<=', limit, unit?]`
 * @returns whether all were reached
 */
export function verdicts(figures) {
  let reached = true
  for (const [what, value, relation, limit, unit = ''] of figures) {
    const holds = relation === '>=' ? value >= limit : value <= limit
    reached &&= holds
    const asked = `${relation === '>=' ? 'at least' : 'at most'} ${show(limit)}${unit}`
    console.log(`  ${holds ? 'reached' : 'MISSED '}  ${what}: ${show(value)}${unit} (${asked})`)
  }
  return reached
}
