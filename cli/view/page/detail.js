// One run: its head, its time line, its processes, its rows.
import { bytes, count, duration, element, moment, time } from './format.js'
import { VirtualList } from './rows.js'
import { TimelineView } from './timeline.js'

const rowHeight = 26
const pageRows = 200
/** An unfolded row shows so much, and scrolls inside. */
const mostUnfolded = 380
/** Longest output of a row that is kept in the page. */
const mostText = 200_000

const byId = (id) => document.getElementById(id)
export const get = async (path) => {
  const response = await fetch(`api/${path}`)
  if (!response.ok) throw new Error(`${response.status}`)
  return response.json()
}

const states = {
  waiting: 'waiting',
  running: 'running',
  done: 'done',
  failed: 'failed',
  killed: 'killed',
  lost: 'host gone',
}

export class Detail {
  #id
  #run
  #allowStop = false
  /** Pages of rows by number: rows, or a promise of them. */
  #pages = new Map()
  #texts = new Map()
  #rows = new VirtualList(byId('rows'), rowHeight, (index) => this.#drawRow(index))
  #line = new TimelineView(byId('canvas'), byId('tip'), (row) => this.#goTo(row))
  #flash
  #loading = 0

  constructor() {
    byId('stop').addEventListener('click', () => void this.#stop())
    byId('tail').addEventListener('change', ({ target }) => target.checked && this.#rows.toEnd())
    byId('rows').addEventListener('wheel', ({ deltaY }) => deltaY < 0 && this.#follow(false), {
      passive: true,
    })
    // Silence and the clock go on when nothing comes.
    setInterval(() => this.#run?.state === 'running' && this.#drawHead(), 1000)
    // Processes that a dead host left may live on for a moment, or for long.
    const hasProcesses = () => this.#run?.state === 'running' || !byId('tree').hidden
    setInterval(() => hasProcesses() && void this.#loadProcesses(), 1500)
  }

  get id() {
    return this.#id
  }

  async open(id, allowStop) {
    this.#id = id
    this.#allowStop = allowStop
    this.#run = undefined
    this.#pages.clear()
    this.#texts.clear()
    this.#flash = undefined
    this.#rows.clear()
    this.#follow(true)
    byId('tree').hidden = true
    await this.refresh()
  }

  /** Something came. */
  async refresh() {
    const [id, loading] = [this.#id, ++this.#loading]
    const run = await get(`runs/${encodeURIComponent(id)}`)
    if (id !== this.#id || loading !== this.#loading) return
    const known = this.#run?.rows ?? 0
    this.#run = { ...run, seenAt: performance.now() }
    byId('detail').hidden = false
    byId('nothing').hidden = true
    byId('rows').classList.toggle('output', run.kind === 'run')
    // The last row may have grown, and its page has room for more.
    const first = Math.max(0, known - 1)
    for (const page of this.#pages.keys()) if ((page + 1) * pageRows > first) this.#pages.delete(page)
    this.#rows.resize(run.rows)
    this.#rows.redraw(first)
    if (byId('tail').checked && run.state === 'running') this.#rows.toEnd()
    this.#drawHead()
    void this.#loadProcesses()
  }

  #follow(isFollowing) {
    byId('tail').checked = isFollowing
  }

  #drawHead() {
    const run = this.#run
    const since = run.state === 'running' ? performance.now() - run.seenAt : 0
    const durationMs = run.durationMs === null ? null : run.durationMs + since
    byId('name').textContent = run.name
    byId('name').title = run.prompt ?? run.name
    byId('state').textContent = states[run.state]
    byId('state').className = `pill ${run.state}`
    byId('stop').hidden = !(this.#allowStop && run.state === 'running')
    const message = [run.message, run.problem && `The record is not whole: ${run.problem}`]
      .filter(Boolean)
      .join('\n')
    byId('message').textContent =
      message ||
      (run.state === 'lost' ? 'The host was gone before it ended: this is what was known until then.' : '')
    byId('message').hidden = byId('message').textContent === ''
    const silence = run.state === 'running' && durationMs - run.timeline.heardMs
    const figures = [
      [run.kind === 'run' ? 'program' : 'agent', run.what],
      ['started', time(run.startedAtMs)],
      ['took', duration(durationMs)],
      ['ended', run.state === 'running' ? null : run.ending],
      ['silent', silence >= 1000 ? duration(silence) : null],
      ['attempts', run.attempts > 1 ? run.attempts : null],
      ['tokens', run.tokens && `${count(run.tokens.input)} in, ${count(run.tokens.output)} out`],
      ['cost', run.costUsd && `$${run.costUsd.toFixed(run.costUsd < 0.1 ? 4 : 2)}`],
      ...run.facts,
    ]
    const shown = figures.filter(([, value]) => value)
    byId('figures').replaceChildren(
      ...shown.map(([name, value]) => {
        const figure = element('dd', '', `${value}`)
        figure.title = value
        return element('div', '', element('dt', '', name), figure)
      }),
    )
    byId('count').textContent =
      run.kind === 'run' ? `${count(run.rows)} pieces of output` : `${count(run.rows)} rows`
    this.#line.show(
      run.timeline,
      run.state === 'running' ? durationMs : run.timeline.heardMs,
      run.kind === 'run',
    )
  }

  async #loadProcesses() {
    const id = this.#id
    if (this.#run?.state === 'done' || this.#run?.state === 'failed') return this.#drawProcesses([])
    const processes = await get(`runs/${encodeURIComponent(id)}/processes`).catch(() => [])
    if (id === this.#id) this.#drawProcesses(processes)
  }

  #drawProcesses(processes) {
    const tree = byId('tree')
    // Opened once: who closes it has his reason.
    if (tree.hidden && processes.length > 0 && processes.length <= 6) tree.open = true
    tree.hidden = processes.length === 0
    const memory = processes.reduce((sum, { rssBytes }) => sum + rssBytes, 0)
    const many = processes.length === 1 ? '1 process' : `${processes.length} processes`
    tree.querySelector('summary').textContent = `${many}, ${bytes(memory)}`
    tree.querySelector('tbody').replaceChildren(
      ...processes.map(({ pid, depth, command, rssBytes, cpuMs }) => {
        const name = element('td', '', `${'\u00a0\u00a0'.repeat(depth)}${depth > 0 ? '└ ' : ''}${command}`)
        name.title = command
        return element(
          'tr',
          '',
          name,
          element('td', '', `${pid}`),
          element('td', '', bytes(rssBytes)),
          element('td', '', `${duration(cpuMs)} cpu`),
        )
      }),
    )
  }

  async #stop() {
    byId('stop').disabled = true
    await fetch(`api/runs/${encodeURIComponent(this.#id)}/stop`, { method: 'POST' }).catch(() => {})
    byId('stop').disabled = false
  }

  #row(index) {
    const page = Math.floor(index / pageRows)
    const rows = this.#pages.get(page)
    if (Array.isArray(rows)) return rows[index - page * pageRows]
    if (!rows) this.#pages.set(page, this.#load(page))
    return undefined
  }

  async #load(page) {
    const id = this.#id
    const rows = await get(
      `runs/${encodeURIComponent(id)}/rows?from=${page * pageRows}&count=${pageRows}`,
    ).catch(() => [])
    if (id !== this.#id) return
    this.#pages.set(page, rows)
    this.#rows.redraw(page * pageRows, (page + 1) * pageRows)
  }

  #drawRow(index) {
    const row = this.#row(index)
    if (!row) return undefined
    const text = this.#texts.get(index)
    const more = text === undefined && row.more > 1 ? `${row.more > 999 ? 'many' : row.more} lines` : ''
    const line = element(
      'div',
      'line',
      element('span', 'at', moment(row.ms)),
      element('span', 'label', row.label),
      element('span', 'text', row.text),
      element('span', 'more', more),
    )
    const drawn = element('div', `row ${row.tone}`, line)
    if (row.more > 0) {
      drawn.classList.add('folds')
      line.addEventListener('click', () => void this.#toggle(index))
    }
    if (index === this.#flash) drawn.classList.add('flash')
    if (text !== undefined) drawn.append(element('pre', '', text))
    return drawn
  }

  async #toggle(index) {
    if (this.#texts.delete(index)) return this.#rows.unfold(index, 0)
    this.#follow(false)
    const id = this.#id
    const { text, isCut } = await get(`runs/${encodeURIComponent(id)}/row?index=${index}`)
    if (id !== this.#id) return
    const shown =
      text.length > mostText || isCut
        ? `${text.slice(0, mostText)}\n[... more in the record's folder ...]`
        : text
    this.#texts.set(index, shown)
    const lines = shown.split('\n').reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / 130)), 0)
    this.#rows.unfold(index, Math.min(lines * 18 + 26, mostUnfolded))
  }

  #goTo(row) {
    this.#follow(false)
    const before = this.#flash
    this.#flash = row
    if (before !== undefined) this.#rows.redraw(before, before)
    this.#rows.redraw(row, row)
    this.#rows.scrollTo(row)
  }
}
