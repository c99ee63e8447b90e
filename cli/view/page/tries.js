// The attempts of a run as a table: where one ran, how long, what it cost, and why it failed.
import { byId, count, cut, dollars, duration, many, table, tableRow } from './format.js'

const heads = ['Attempt', 'Worker', 'Began after', 'Took', 'Tokens', 'Cost', 'Error']
const draw = table('tries', 'Attempts', heads)

/** A job's table shows its only attempt too: its worker and its error are told nowhere else. */
export function drawTries({ tries, folder }, untilMs) {
  byId('tries').hidden = tries.length < (folder === '' ? 1 : 2)
  const failed = tries.filter(({ error }) => error !== null).length
  draw(
    many(tries.length, 'attempt') + (failed > 0 ? `, ${failed} failed` : ''),
    tries.map(({ attempt, worker, fromMs, toMs, tokens, costUsd, error }) =>
      tableRow(
        `${attempt}`,
        worker,
        `+${duration(fromMs)}`,
        duration((toMs ?? untilMs) - fromMs),
        tokens === null ? '' : `${count(tokens)} tokens`,
        costUsd === null ? '' : dollars(costUsd),
        cut(error ?? (toMs === null ? 'goes on' : ''), error === null ? '' : 'error'),
      ),
    ),
  )
}
