// What the demo says at its end.
import { displayWidth, fitWidth, plainText, showBytes, showCount, showDuration } from './sheepdog.mjs'

const head = ['what ran', 'how it ended', 'took', 'printed', 'strays killed']
const widestCell = 44

/** One row a run: `{ what, result?, error?, lines }`. */
export function table(runs) {
  const rows = [head, ...runs.map(row)].map((cells) =>
    cells.map((cell) => fitWidth(plainText(cell), widestCell)),
  )
  const widths = head.map((_, column) => Math.max(...rows.map((cells) => displayWidth(cells[column]))))
  const line = (cells) =>
    cells
      .map((cell, column) => cell + ' '.repeat(widths[column] - displayWidth(cell)))
      .join('  ')
      .trimEnd()
  const [title, ...body] = rows.map(line)
  return [title, widths.map((width) => '-'.repeat(width)).join('  '), ...body].join('\n')
}

function row({ what, result, error, lines }) {
  if (!result) return [what, `not started: ${error?.code}`, '-', '-', '-']
  const printed = `${showCount(lines, 'line')}, ${showBytes(result.stdoutBytes + result.stderrBytes)}`
  return [what, ending(result, error), showDuration(result.durationMs), printed, `${result.straysKilled}`]
}

function ending({ exitCode, signal }, error) {
  if (error?.code === 'PROCESS_IDLE') return `silent for ${showDuration(error.idleTimeoutMs)}: killed`
  if (error?.code === 'PROCESS_TIMED_OUT')
    return `still running after ${showDuration(error.timeoutMs)}: stopped`
  if (error) return error.code
  return signal ? `ended by ${signal}` : `exited with ${exitCode}`
}
