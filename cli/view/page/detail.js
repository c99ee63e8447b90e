// One run: its head, its time line, its processes, its rows.
import { clearTexts, drawHead, drawProcesses, drawTexts } from './figures.js'
import { announce, byId, duration, element, isShort, many, states } from './format.js'
import { drawRace } from './race.js'
import { RunRows } from './run_rows.js'
import { Search } from './search.js'
import { TimelineView } from './timeline.js'
import { drawTries } from './tries.js'

/** Shorter pauses are no silence. */
const silenceMs = 3000
/** A run of more rows does not open its texts by itself. */
const fewRows = 50
/** More is not copied: it can be downloaded. */
const mostCopied = 20 << 20

export const get = async (path) => {
  const response = await fetch(`api/${path}`)
  if (!response.ok) throw new Error(`${response.status}`)
  return response.json()
}

export class Detail {
  #id
  #run
  #allowStop = false
  #rows = new RunRows(
    byId('rows'),
    (part) => get(`${this.#path()}/${part}`),
    () => this.#follow(false),
  )
  #search = new Search(
    (part) => get(`${this.#path()}/${part}`),
    (words) => this.#rows.mark(words),
    (row) => this.#goTo(row),
  )
  #line = new TimelineView(byId('canvas'), byId('tip'), (row) => this.#goTo(row))
  #loading = 0

  constructor() {
    byId('stop').addEventListener('click', () => this.#ask())
    byId('sure').addEventListener('close', () => byId('sure').returnValue === 'yes' && void this.#stop())
    byId('tail').addEventListener('change', ({ target }) => target.checked && this.#rows.toEnd())
    byId('silence').addEventListener('click', () => this.#toSilence())
    byId('copy').addEventListener('click', () => void this.#copy())
    // Silence and the clock go on when nothing comes.
    setInterval(() => this.#run && !this.#isOver && this.#draw(), 1000)
    // Processes that a dead host left may live on for a moment, or for long.
    const hasProcesses = () => this.#run?.state === 'running' || !byId('tree').hidden
    setInterval(() => hasProcesses() && void this.#loadProcesses(), 1500)
  }

  get id() {
    return this.#id
  }

  #path() {
    return `runs/${encodeURIComponent(this.#id)}`
  }

  async open(id, allowStop) {
    this.#id = id
    this.#allowStop = allowStop
    this.#run = undefined
    this.#search.clear()
    byId('tree').hidden = true
    clearTexts()
    await this.refresh()
  }

  /** Something came. */
  async refresh() {
    const [id, loading] = [this.#id, ++this.#loading]
    const run = await get(this.#path()).catch((error) => {
      if (error.message === '404' && id === this.#id) this.#leave()
      throw error
    })
    if (id !== this.#id || loading !== this.#loading) return
    const before = this.#run
    this.#run = { ...run, seenAt: performance.now() }
    byId('detail').hidden = false
    byId('nothing').hidden = true
    if (!before) {
      this.#rows.clear(run.kind === 'run')
      this.#follow(true)
      this.#drawFiles()
    }
    this.#rows.isExact = isShort(run)
    this.#rows.resize(run.rows)
    if (byId('tail').checked && run.state === 'running') this.#rows.toEnd()
    this.#draw()
    drawTexts(run, this.#isOver && isShort(run) && run.rows <= fewRows, (row) => this.#goTo(row))
    void this.#loadProcesses()
    if (before && before.state !== run.state) announce(`${run.name}: ${states[run.state][0]}`)
    // A long one is read piece by piece.
    if (run.isReading) setTimeout(() => id === this.#id && void this.refresh().catch(() => {}), 300)
  }

  /** The run was removed. */
  #leave() {
    this.#id = this.#run = undefined
    byId('detail').hidden = byId('tree').hidden = true
    byId('nothing').hidden = false
  }

  get #isOver() {
    return this.#run.state !== 'running' && this.#run.state !== 'waiting'
  }

  #follow(isFollowing) {
    byId('tail').checked = isFollowing
  }

  #draw() {
    const run = this.#run
    const since = !this.#isOver ? performance.now() - run.seenAt : 0
    const durationMs = run.durationMs === null ? null : run.durationMs + since
    const isOutput = run.kind === 'run'
    drawHead(run, durationMs)
    byId('stop').hidden = !this.#allowStop || this.#isOver
    byId('follow').hidden = this.#isOver
    byId('what').textContent = isOutput ? 'Output' : 'Events'
    const reading = run.isReading ? ', reading' : ''
    byId('count').textContent = `${many(run.rows, isOutput ? 'line' : 'row')}${reading}`
    byId('silence').hidden = this.#silences().length === 0
    const untilMs = this.#isOver ? run.timeline.heardMs : durationMs
    drawTries(run, untilMs)
    drawRace(run)
    this.#line.show(run.timeline, untilMs, run.kind)
  }

  /** Its silences, and that at its end: nothing was heard until it was killed. */
  #silences() {
    const { timeline, durationMs, rows } = this.#run
    const atEnd = this.#isOver ? (durationMs ?? 0) - timeline.heardMs : 0
    const last = atEnd >= silenceMs ? [[timeline.heardMs, durationMs, Math.max(0, rows - 1)]] : []
    return [...timeline.silences, ...last]
  }

  /** The next one after the row in hand; after the last, the first. */
  #toSilence() {
    const all = this.#silences()
    const next = all.find(([, , row]) => row > this.#rows.active) ?? all[0]
    if (!next) return
    const [from, to, row] = next
    this.#goTo(row)
    announce(`silent for ${duration(to - from)}, row ${row + 1}`)
  }

  #drawFiles() {
    const kinds =
      this.#run.kind === 'run'
        ? [
            ['text', 'text'],
            ['stdout', 'stdout'],
            ['stderr', 'stderr'],
          ]
        : [
            ['text', 'text'],
            ['events', 'JSON lines'],
          ]
    const links = kinds.map(([what, words]) => {
      const link = element('a', '', words)
      link.href = `api/${this.#path()}/file?what=${what}`
      link.download = ''
      link.setAttribute('aria-label', `Download ${words}`)
      return link
    })
    byId('files').replaceChildren(
      'Download ',
      ...links.flatMap((link, at) => (at > 0 ? [' · ', link] : [link])),
    )
  }

  /** Copies the marked text, else everything. */
  async #copy() {
    const button = byId('copy')
    const marked = getSelection()
    const isMarked = marked && !marked.isCollapsed && byId('rows').contains(marked.anchorNode)
    let words = 'Copied'
    try {
      let text = isMarked ? marked.toString() : ''
      if (!isMarked) {
        const response = await fetch(`api/${this.#path()}/file?what=text`)
        text = await response.text()
        if (text.length > mostCopied) {
          text = text.slice(-mostCopied)
          words = 'Copied the end'
        }
      }
      await navigator.clipboard.writeText(text)
    } catch {
      words = 'Not allowed'
    }
    button.textContent = words
    announce(words)
    setTimeout(() => (button.textContent = 'Copy'), 1500)
  }

  async #loadProcesses() {
    const id = this.#id
    if (this.#run?.state === 'done' || this.#run?.state === 'failed') return drawProcesses([])
    const processes = await get(`${this.#path()}/processes`).catch(() => [])
    if (id === this.#id) drawProcesses(processes)
  }

  #ask() {
    byId('question').textContent = `Stop “${this.#run.name}”?`
    byId('consequence').textContent =
      this.#run.folder === ''
        ? 'The job is cancelled. It is not tried again.'
        : 'It gets SIGTERM, with all its processes, and SIGKILL after two seconds.'
    byId('sure').returnValue = ''
    byId('sure').showModal()
  }

  async #stop() {
    byId('stop').disabled = true
    await fetch(`api/${this.#path()}/stop`, { method: 'POST' }).catch(() => {})
    byId('stop').disabled = false
  }

  #goTo(row) {
    this.#follow(false)
    this.#rows.goTo(row)
  }
}
