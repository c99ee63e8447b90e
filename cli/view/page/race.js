// The entries of a race side by side: who won, why the others did not, and what each cost.
import { byId, count, cut, dollars, duration, element, many, table, tableRow } from './format.js'

const draw = table('race', 'Race', ['Agent', 'Outcome', 'Took', 'Tokens', 'Cost', 'Changed', 'Reason'])

export function drawRace({ race, id }) {
  byId('race').hidden = !race
  if (!race) return
  const winner = race.find(({ state }) => state === 'won')
  draw(
    `Race: ${many(race.length, 'agent')}, ${winner ? `${winner.provider} won` : 'nobody passed'}`,
    race.map(({ run, provider, state, tokens, costUsd, durationMs, files, reason }) => {
      const isElsewhere = run !== null && run !== id
      const name = element(isElsewhere ? 'a' : 'span', '', provider)
      if (isElsewhere) name.href = `#${encodeURIComponent(run)}`
      const row = tableRow(
        name,
        `${state}`.replace('-', ' '),
        duration(durationMs),
        tokens === null ? '' : `${count(tokens)} tokens`,
        costUsd === null ? '' : dollars(costUsd),
        files === null ? '' : many(files, 'file'),
        cut(reason ?? '', state === 'won' || state === 'passed' ? '' : 'error'),
      )
      row.className = state
      if (run === id) row.setAttribute('aria-current', 'true')
      return row
    }),
  )
}
