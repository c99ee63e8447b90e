// The attempts of a run as a table: where one ran, how long, what it cost, and why it failed.
import { byId, count, dollars, duration, element } from './format.js'

/** A job's table shows its only attempt too: its worker and its error are told nowhere else. */
export function drawTries({ tries, folder }, untilMs) {
  const part = byId('tries')
  part.hidden = tries.length < (folder === '' ? 1 : 2)
  if (part.hidden) return
  const many = tries.length === 1 ? '1 attempt' : `${tries.length} attempts`
  const failed = tries.filter(({ error }) => error !== null).length
  part.querySelector('summary').textContent = failed > 0 ? `${many}, ${failed} failed` : many
  part.querySelector('tbody').replaceChildren(
    ...tries.map(({ attempt, worker, fromMs, toMs, tokens, costUsd, error }) => {
      const words = error ?? (toMs === null ? 'goes on' : '')
      const cell = element('td', error === null ? '' : 'error', words)
      cell.title = words
      return element(
        'tr',
        '',
        element('td', '', `${attempt}`),
        element('td', '', worker ?? ''),
        element('td', '', `+${duration(fromMs)}`),
        element('td', '', duration((toMs ?? untilMs) - fromMs)),
        element('td', '', tokens === null ? '' : `${count(tokens)} tokens`),
        element('td', '', costUsd === null ? '' : dollars(costUsd)),
        cell,
      )
    }),
  )
}
