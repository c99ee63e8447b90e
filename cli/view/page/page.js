// The page: the list of runs, the one that is chosen, and the news of both.
import { Detail, get } from './detail.js'
import { announce, byId, duration, element, sign, states, time, tint } from './format.js'
import { isNarrow, showList, showRun } from './narrow.js'
import { VirtualList } from './rows.js'
import { drawSums } from './sums.js'

const runHeight = 54
const detail = new Detail()
const list = new VirtualList(byId('runs'), runHeight, drawRun)
let all = []
let shown = []
let allowStop = false

function drawRun(index) {
  const run = shown[index]
  if (!run) return undefined
  const name = element('div', 'head', sign(run.state), element('span', 'name', run.name))
  const words = [
    states[run.state][0],
    run.what,
    duration(run.durationMs),
    run.state === 'lost' ? undefined : run.ending,
    time(run.startedAtMs),
  ]
  const drawn = element('div', '', name, element('div', 'under', words.filter(Boolean).join(' · ')))
  tint(drawn, 'run', run.state)
  drawn.setAttribute('role', 'option')
  drawn.setAttribute('aria-selected', `${run.id === detail.id}`)
  drawn.classList.toggle('chosen', run.id === detail.id)
  drawn.title = run.name
  drawn.addEventListener('click', () => choose(run.id))
  return drawn
}

function choose(id) {
  if (!id) return
  showRun(id)
  void detail.open(id, allowStop).catch(() => {})
  list.redraw()
}

/** The list's words when it is empty. */
function drawNone() {
  const words = byId('filter').value
  const text = all.length === 0 ? 'There are no runs yet.' : `No match: no run has “${words}”.`
  byId('none').hidden = shown.length > 0
  if (shown.length > 0 || byId('none').textContent === text) return
  byId('none').textContent = text
  announce(text)
}

function filter() {
  const words = byId('filter').value.toLowerCase().split(/\s+/).filter(Boolean)
  const text = (run) =>
    `${run.name} ${run.id} ${run.what} ${states[run.state][0]} ${run.ending ?? ''}`.toLowerCase()
  shown = all.filter((run) => words.every((word) => text(run).includes(word)))
  list.resize(shown.length)
  list.redraw()
  drawSums(shown)
  drawNone()
}

async function refresh() {
  const { title, runs, ...rest } = await get('runs')
  all = runs
  allowStop = rest.allowStop
  // Its end is what is seen of a long one; the mark keeps the slashes where they are.
  byId('folder').textContent = `\u200e${title}`
  byId('folder').title = title
  filter()
}

byId('filter').addEventListener('input', filter)
byId('runs').addEventListener('keydown', (event) => {
  if (list.active < 0) list.activate(shown.findIndex(({ id }) => id === detail.id))
  const next = event.key === 'Enter' ? list.active : list.target(event.key)
  if (next === undefined || next < 0 || shown.length === 0) return
  event.preventDefault()
  list.activate(next)
  // A run is opened when it is asked for, where it takes the place of the list.
  if (isNarrow() && event.key !== 'Enter') return
  choose(shown[list.active].id)
  list.activate(list.active)
})
byId('filter').addEventListener('keydown', (event) => {
  if (event.key !== 'ArrowDown') return
  event.preventDefault()
  byId('runs').focus()
})
byId('back').addEventListener('click', showList)
addEventListener('hashchange', () => (location.hash === '' ? showList() : choose(location.hash.slice(1))))
// The clocks of those that run.
setInterval(() => {
  const running = all.filter(({ state }) => state === 'running')
  for (const run of running) run.durationMs = Date.now() - run.startedAtMs
  if (running.length > 0) list.redraw()
}, 1000)

const pollMs = 400
let { version } = await get('news?since=0')
await refresh()
const wanted = location.hash.slice(1)
const first = all.find(({ id }) => id === wanted) ?? all[0]
if (first && (wanted || !isNarrow())) choose(first.id)

function onLink(isLive) {
  byId('link').classList.toggle('on', isLive)
  byId('link').textContent = isLive ? 'live' : 'not connected'
}

/** Draws what has changed. Lines that are written to the run in sight change nothing in the list, unless the run is new or has ended. */
async function follow() {
  const news = await get(`news?since=${version}`)
  if (news.ids.length > 0) {
    const before = all.find(({ id }) => id === detail.id)
    await refresh()
    if (!detail.id && all[0] && !isNarrow()) choose(all[0].id)
    const now = all.find(({ id }) => id === detail.id)
    if (detail.id && (news.ids.includes(detail.id) || before?.state !== now?.state))
      void detail.refresh().catch(() => {})
  }
  version = news.version
}

for (;;) {
  onLink(
    await follow().then(
      () => true,
      () => false,
    ),
  )
  await new Promise((resolve) => setTimeout(resolve, pollMs))
}
