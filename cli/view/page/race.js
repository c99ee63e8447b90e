// The entries of a race side by side: who won, why the others did not, and what each cost.
import { byId, count, dollars, duration, element } from './format.js'

const outcomes = {
  won: 'won',
  passed: 'passed',
  'failed-verify': 'failed verify',
  failed: 'failed',
  aborted: 'aborted',
}

export function drawRace({ race, id }) {
  const part = byId('race')
  part.hidden = !race
  if (!race) return
  const winner = race.find(({ state }) => state === 'won')
  const many = race.length === 1 ? '1 agent' : `${race.length} agents`
  part.querySelector('summary').textContent =
    `Race: ${many}, ${winner ? `${winner.provider} won` : 'nobody passed'}`
  part.querySelector('tbody').replaceChildren(
    ...race.map((entry) => {
      const { run, provider, state, tokens, costUsd, durationMs, files, reason } = entry
      const name = run === null || run === id ? element('span', '', provider) : element('a', '', provider)
      if (run !== null && run !== id) name.href = `#${encodeURIComponent(run)}`
      const why = element('td', state === 'won' || state === 'passed' ? '' : 'error', reason ?? '')
      why.title = reason ?? ''
      const row = element(
        'tr',
        state,
        element('td', '', name),
        element('td', '', outcomes[state] ?? `${state}`),
        element('td', '', duration(durationMs)),
        element('td', '', tokens === null ? '' : `${count(tokens)} tokens`),
        element('td', '', costUsd === null ? '' : dollars(costUsd)),
        element('td', '', files === null ? '' : `${count(files)} ${files === 1 ? 'file' : 'files'}`),
        why,
      )
      if (run === id) row.setAttribute('aria-current', 'true')
      return row
    }),
  )
}
