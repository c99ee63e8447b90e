// `node scripts/pictures.mjs`: docs/pictures/*.svg, each made of the text in scripts/pictures. A line of the text is one of:
//   size WIDTH HEIGHT | TITLE             first line; the title is read out by screen readers
//   box ID X Y WIDTH HEIGHT | LINE | ...  a box with lines of text; the first one is bold
//   area X Y WIDTH HEIGHT | TITLE         a dashed outline
//   arrow FROM -> TO | LABEL              FROM and TO are ID.SIDE or ID.SIDE+OFFSET; SIDE is l, r, t or b
//   text X Y | LINE                       words alone
// Colours follow the reader's scheme, on a background of the picture's own.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './step.mjs'

const STYLE = `
  .ground { fill: #fff; stroke: #d0d7de } .box { fill: #eef3fb; stroke: #3451b2 } .area { fill: none; stroke: #8c959f; stroke-dasharray: 5 4 }
  text { fill: #1f2328; font: 13px system-ui, sans-serif } .strong { font-weight: 600 } .quiet { fill: #57606a; font-size: 12px }
  .line { stroke: #57606a; stroke-width: 1.4; fill: none } .tip { fill: #57606a }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #161b22; stroke: #30363d } .box { fill: #1f2a44; stroke: #8aa4ff } .area { stroke: #8b949e }
    text { fill: #e6edf3 } .quiet { fill: #b1bac4 } .line { stroke: #b1bac4 } .tip { fill: #b1bac4 }
  }`

const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')

/** Where an arrow touches a box. */
function end(word, boxes) {
  const [, id, side, offset = '0'] = /^(\w+)\.([lrtb])([+-]\d+)?$/.exec(word) ?? []
  const box = boxes.get(id)
  if (!box) throw new Error(`no box for "${word}"`)
  const { x, y, width, height } = box
  const across = Number(offset)
  return {
    l: { x, y: y + height / 2 + across },
    r: { x: x + width, y: y + height / 2 + across },
    t: { x: x + width / 2 + across, y },
    b: { x: x + width / 2 + across, y: y + height },
  }[side]
}

/** The picture of a text. */
export function render(source) {
  const boxes = new Map()
  const shapes = []
  const texts = []
  const write = (x, y, line, style = '', anchor = 'middle') =>
    texts.push(`<text x="${x}" y="${y}" text-anchor="${anchor}" class="${style}">${escape(line)}</text>`)
  let head
  for (const row of source.split('\n').filter((line) => line.trim() !== '')) {
    const [words, ...lines] = row.split('|').map((part) => part.trim())
    const [kind, ...rest] = words.split(/\s+/)
    const id = kind === 'box' ? rest.shift() : undefined
    const [x, y, width, height] = rest.map(Number)
    if (kind === 'size') head = { width: x, height: y, title: lines[0] }
    else if (kind === 'box') {
      boxes.set(id, { x, y, width, height })
      shapes.push(`<rect class="box" x="${x}" y="${y}" width="${width}" height="${height}" rx="6"/>`)
      const first = y + height / 2 - (lines.length - 1) * 8.5 + 4.5
      lines.forEach((line, index) =>
        write(x + width / 2, first + index * 17, line, index === 0 ? 'strong' : 'quiet'),
      )
    } else if (kind === 'area') {
      shapes.unshift(`<rect class="area" x="${x}" y="${y}" width="${width}" height="${height}" rx="8"/>`)
      write(x + 10, y + 18, lines[0], 'quiet', 'start')
    } else if (kind === 'text') write(x, y, lines[0], 'quiet')
    else if (kind === 'arrow') {
      const [from, to] = [end(rest[0], boxes), end(rest[2], boxes)]
      shapes.push(`<path class="line" marker-end="url(#tip)" d="M${from.x} ${from.y} L${to.x} ${to.y}"/>`)
      const isUpright = Math.abs(to.x - from.x) < 30
      if (lines[0] && isUpright) write(from.x + 8, (from.y + to.y) / 2 + 4, lines[0], 'quiet', 'start')
      else if (lines[0]) write((from.x + to.x) / 2, (from.y + to.y) / 2 - 6, lines[0], 'quiet')
    } else throw new Error(`no such line: "${row}"`)
  }
  const { width, height, title } = head
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">
<title>${escape(title)}</title>
<style>${STYLE}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>
<rect class="ground" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>
${[...shapes, ...texts].join('\n')}
</svg>
`
}

/** Every picture, by its path. */
export function pictures() {
  const folder = join(root, 'scripts/pictures')
  return Object.fromEntries(
    readdirSync(folder).map((name) => [
      join(root, 'docs/pictures', name.replace('.txt', '.svg')),
      render(readFileSync(join(folder, name), 'utf8')),
    ]),
  )
}

if (import.meta.url === pathToFileURL(process.argv[1]).href)
  for (const [file, text] of Object.entries(pictures())) writeFileSync(file, text)
