// The sums above the list: of the runs that the filter leaves.
import { count, dollars, many } from './format.js'

const isFailed = ({ state }) => state === 'failed' || state === 'killed' || state === 'lost'

export function drawSums(runs) {
  const sum = (part) => runs.reduce((all, run) => all + (part(run) ?? 0), 0)
  const failed = runs.filter(isFailed).length
  const tokens = sum((run) => run.tokens)
  const costUsd = sum((run) => run.costUsd)
  const words = [
    many(runs.length, 'run'),
    `${count(failed)} failed`,
    `${count(tokens)} tokens`,
    ...(costUsd > 0 ? [dollars(costUsd)] : []),
  ]
  document.getElementById('sums').textContent = words.join(' · ')
}
