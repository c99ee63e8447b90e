// Pictures of a terminal, one after the other, as one SVG that plays them. PURE.

const cell = { width: 8.4, height: 18 }
const margin = { x: 16, top: 44, bottom: 16 }
/** The last picture stays so long before it all begins again. */
const restMs = 5000

/**
 * @param {{ atMs: number, rows: { text: string, colour: string, isBold: boolean, isDim: boolean }[][] }[]} frames
 * @param {{ columns: number, title: string }} options
 */
export function renderPicture(frames, { columns, title }) {
  const totalMs = frames.at(-1).atMs + restMs
  const height = Math.max(...frames.map(({ rows }) => rows.length))
  const width = Math.round(columns * cell.width + 2 * margin.x)
  const tall = height * cell.height + margin.top + margin.bottom
  const texts = []
  const moments = new Map()
  for (let row = 0; row < height; row++) {
    for (const { content, fromMs, toMs } of stretches(frames, row, totalMs)) {
      const y = margin.top + (row + 0.75) * cell.height
      const name = momentOf(moments, fromMs, toMs, totalMs)
      texts.push(`<text x="${margin.x}" y="${y}"${name}>${content}</text>`)
    }
  }
  const keyframes = [...moments.values()].map(
    ({ name, rule }) => `@keyframes ${name}{${rule}}.${name}{animation-name:${name}}`,
  )
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${tall}" width="${width}" height="${tall}" role="img" aria-label="${escape(title)}">
<style>
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d5d9e0;white-space:pre}
.t{animation:none ${totalMs}ms step-end infinite;visibility:hidden}.b{font-weight:bold}.d{fill:#8a93a2}
.red{fill:#ff7b72}.green{fill:#7ee787}.yellow{fill:#e3b341}.blue{fill:#79c0ff}.magenta{fill:#d2a8ff}.cyan{fill:#56d4dd}
${keyframes.join('\n')}
@media (prefers-reduced-motion:reduce){.t{animation:none}.last{visibility:visible}}
</style>
<rect width="${width}" height="${tall}" rx="8" fill="#161b22"/>
<circle cx="20" cy="20" r="6" fill="#ff5f57"/><circle cx="40" cy="20" r="6" fill="#febc2e"/><circle cx="60" cy="20" r="6" fill="#28c840"/>
${texts.join('\n')}
</svg>
`
}

/** What a row shows, and from when to when. */
function stretches(frames, row, totalMs) {
  const found = []
  for (const { atMs, rows } of frames) {
    const content = (rows[row] ?? []).map(renderSpan).join('')
    const last = found.at(-1)
    if (last?.content === content) continue
    if (last) last.toMs = atMs
    found.push({ content, fromMs: atMs, toMs: totalMs })
  }
  return found.filter(({ content }) => content !== '')
}

/** The class of what is seen from then to then; what is always there needs none. */
function momentOf(moments, fromMs, toMs, totalMs) {
  if (fromMs === 0 && toMs === totalMs) return ''
  const key = `${fromMs}-${toMs}`
  const share = (ms) => `${((100 * ms) / totalMs).toFixed(2)}%`
  if (!moments.has(key)) {
    const off = toMs === totalMs ? '' : `${share(toMs)}{visibility:hidden}`
    const on = fromMs === 0 ? '' : '0%{visibility:hidden}'
    const rule = `${on}${share(fromMs)}{visibility:visible}${off}`
    moments.set(key, { name: `m${moments.size}`, rule })
  }
  return ` class="t ${moments.get(key).name}${toMs === totalMs ? ' last' : ''}"`
}

function renderSpan({ text, colour, isBold, isDim }) {
  const classes = [colour, isBold ? 'b' : '', isDim ? 'd' : ''].filter(Boolean).join(' ')
  return classes ? `<tspan class="${classes}">${escape(text)}</tspan>` : escape(text)
}

function escape(text) {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}
