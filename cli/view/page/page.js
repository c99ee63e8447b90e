// The page: the list of runs, the one that is chosen, and the news of both.
import { Detail, get } from './detail.js'
import { duration, element, time } from './format.js'
import { VirtualList } from './rows.js'

const runHeight = 54
const byId = (id) => document.getElementById(id)
const detail = new Detail()
const list = new VirtualList(byId('runs'), runHeight, drawRun)
let all = []
let shown = []
let allowStop = false

function drawRun(index) {
  const run = shown[index]
  if (!run) return undefined
  const name = element('div', 'head', element('span', 'dot'), element('span', 'name', run.name))
  const words = [
    run.what,
    duration(run.durationMs),
    run.state === 'lost' ? 'host gone' : run.ending,
    time(run.startedAtMs),
  ]
  const drawn = element(
    'div',
    `run ${run.state}`,
    name,
    element('div', 'under', words.filter(Boolean).join(' · ')),
  )
  drawn.setAttribute('role', 'option')
  drawn.setAttribute('aria-selected', `${run.id === detail.id}`)
  drawn.classList.toggle('chosen', run.id === detail.id)
  drawn.title = run.name
  drawn.addEventListener('click', () => choose(run.id))
  return drawn
}

function choose(id) {
  if (location.hash !== `#${id}`) history.replaceState(undefined, '', `#${id}`)
  void detail.open(id, allowStop).catch(() => {})
  list.redraw()
}

function filter() {
  const words = byId('filter').value.toLowerCase().split(/\s+/).filter(Boolean)
  const text = (run) => `${run.name} ${run.what} ${run.state} ${run.ending ?? ''}`.toLowerCase()
  shown = all.filter((run) => words.every((word) => text(run).includes(word)))
  list.resize(shown.length)
  list.redraw()
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
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
  if (!step) return
  event.preventDefault()
  const at = shown.findIndex(({ id }) => id === detail.id)
  const next = shown[Math.max(0, Math.min(shown.length - 1, at + step))]
  if (next) choose(next.id)
})
addEventListener('hashchange', () => choose(location.hash.slice(1)))
// The clocks of those that run.
setInterval(() => {
  const running = all.filter(({ state }) => state === 'running')
  for (const run of running) run.durationMs = Date.now() - run.startedAtMs
  if (running.length > 0) list.redraw()
}, 1000)

await refresh()
const wanted = location.hash.slice(1)
const first = all.find(({ id }) => id === wanted) ?? all[0]
if (first) choose(first.id)

const live = new EventSource('api/live')
live.addEventListener('open', () => byId('link').classList.add('on'))
live.addEventListener('error', () => byId('link').classList.remove('on'))
live.addEventListener('message', ({ data }) => {
  const ids = JSON.parse(data)
  const known = new Map(all.map((run) => [run.id, run]))
  // Lines that are written to the run in sight change nothing in the list, unless the run is new or has ended.
  void refresh().then(() => {
    if (!detail.id && all[0]) choose(all[0].id)
    const [before, now] = [known.get(detail.id), all.find(({ id }) => id === detail.id)]
    if (ids.includes(detail.id) || before?.state !== now?.state) void detail.refresh().catch(() => {})
  })
})
