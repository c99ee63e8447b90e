// A narrow page shows the list or the run. The address says which one, so that the browser's own way back works too.
import { byId } from './format.js'
const narrow = matchMedia('(max-width: 700px)')

export const isNarrow = () => narrow.matches

/** Whether the run is in sight, where only one of the two is. */
export const isReading = () => document.body.classList.contains('reading')

export function showRun(id) {
  const isBegun = isNarrow() && !isReading()
  document.body.classList.add('reading')
  if (location.hash === `#${id}`) return
  // A place of its own in the history, that leads back to the list.
  if (isBegun) history.pushState(undefined, '', `#${id}`)
  else history.replaceState(undefined, '', `#${id}`)
}

export function showList() {
  document.body.classList.remove('reading')
  if (location.hash !== '') history.replaceState(undefined, '', location.pathname)
  byId('runs').focus()
}
