// The head of a run: its state, its facts, its longer texts, its processes.
import {
  byId,
  bytes,
  count,
  cut,
  dollars,
  duration,
  element,
  fullTime,
  many,
  sign,
  states,
  table,
  tableRow,
  tint,
} from './format.js'

/** `durationMs` is that of now. */
export function drawHead(run, durationMs) {
  byId('name').textContent = run.name
  byId('name').title = run.prompt ?? run.name
  byId('state').replaceChildren(sign(run.state), ` ${states[run.state][0]}`)
  tint(byId('state'), 'pill', run.state)
  const message = [run.message, run.problem && `The record is not whole: ${run.problem}`]
    .filter(Boolean)
    .join('\n')
  byId('message').textContent =
    message ||
    (run.state === 'lost' ? 'The host was gone before it ended: this is what was known until then.' : '')
  byId('message').hidden = byId('message').textContent === ''
  const silence = run.state === 'running' && durationMs - run.timeline.heardMs
  const hasHandler = run.facts.some(([name]) => name === 'handler')
  const figures = [
    [run.kind === 'run' ? 'program' : 'agent', hasHandler ? null : run.what],
    ['started', fullTime(run.startedAtMs)],
    ['took', duration(durationMs)],
    ['ended', run.state === 'running' ? null : run.ending],
    ['silent', silence >= 1000 ? duration(silence) : null],
    ['attempts', run.attempts > 1 ? run.attempts : null],
    ['tokens', run.tokens && `${count(run.tokens.input)} in, ${count(run.tokens.output)} out`],
    ['cost', run.costUsd && dollars(run.costUsd)],
    ...run.facts,
  ]
  byId('figures').replaceChildren(
    ...figures
      .filter(([, value]) => value)
      .map(([name, value]) => {
        const figure = element('dd', '', `${value}`)
        figure.title = value
        return element('div', '', element('dt', '', name), figure)
      }),
  )
}

/** Texts that were opened without being asked for: one that is folded again stays so. */
const offered = new Set()

/** Those of another run. */
export function clearTexts() {
  offered.clear()
  byId('texts').replaceChildren()
}

/** The prompt, the answer, a job's data: folded, or `isOpen` at first, and left as their reader leaves them. */
export function drawTexts({ prompt, prompts, texts }, isOpen, goTo) {
  const all = [...(prompt ? [['prompt', prompt]] : []), ...texts]
  const drawn = all.map(([name, text]) => {
    const block = element('pre', '', text)
    block.tabIndex = 0
    block.setAttribute('role', 'region')
    block.setAttribute('aria-label', name)
    return folded(name, block)
  })
  if (prompts.length > 0) {
    const items = prompts.map(({ text, row }) => {
      const button = element('button', 'plain', text.split('\n', 1)[0].slice(0, 300) || 'an empty prompt')
      button.title = text
      button.addEventListener('click', () => goTo(row))
      return element('li', '', button)
    })
    drawn.unshift(folded(many(prompts.length, 'prompt'), element('ol', '', ...items)))
  }
  const open = new Set([...byId('texts').querySelectorAll('details[open]')].map(({ id }) => id))
  for (const one of drawn) {
    one.open = open.has(one.id) || (isOpen && !offered.has(one.id))
    if (isOpen) offered.add(one.id)
  }
  const wasOpen = drawn.every((one) => one.open === open.has(one.id))
  const isSame = wasOpen && byId('texts').textContent === drawn.map(({ textContent }) => textContent).join('')
  // Texts that are the same stay: someone may be reading or marking them.
  if (!isSame) byId('texts').replaceChildren(...drawn)
}

function folded(name, inside) {
  const drawn = element('details', '', element('summary', '', name), inside)
  drawn.id = `text-${name.replace(/[^a-z]+/g, '-')}`
  return drawn
}

const drawTree = table('tree', 'Processes', ['Command', 'Process id', 'Memory', 'Processor time'])

export function drawProcesses(processes) {
  const tree = byId('tree')
  // Opened once: it stays as its reader leaves it.
  if (tree.hidden && processes.length > 0 && processes.length <= 6) tree.open = true
  tree.hidden = processes.length === 0
  const memory = processes.reduce((sum, { rssBytes }) => sum + rssBytes, 0)
  drawTree(
    `${many(processes.length, 'process', 'processes')}, ${bytes(memory)}`,
    processes.map(({ pid, depth, command, rssBytes, cpuMs }) =>
      tableRow(
        cut(`${'\u00a0\u00a0'.repeat(depth)}${depth > 0 ? '└ ' : ''}${command}`),
        `${pid}`,
        bytes(rssBytes),
        `${duration(cpuMs)} cpu`,
      ),
    ),
  )
}
