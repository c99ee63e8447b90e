// `npm run trial -- NAME [ARGUMENTS]`: what takes long, or needs a network, another system or root, and is no part of the gate. Without
// a name it lists the trials. Each is a file here; its first lines, which --help prints, say what it needs and takes.
import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

/** The description of each trial, from its first lines. */
const heads = new Map(
  readdirSync(import.meta.dirname)
    .filter((file) => file.endsWith('.mjs'))
    .map((file) => {
      const [lines = ''] = /^(?:\/\/.*\n)+/.exec(readFileSync(join(import.meta.dirname, file), 'utf8')) ?? []
      return [file.slice(0, -'.mjs'.length), lines.replaceAll(/^\/\/ ?/gm, '')]
    })
    .filter(([name, head]) => head.startsWith(`\`npm run trial -- ${name}`)),
)

const [name, ...args] = process.argv.slice(2)
if (!heads.has(name)) {
  const rows = [...heads].map(([one, head]) => {
    const [what] = head.replace(/^`.*?`: /s, '').split(/[.:;] |\.\n| \(/)
    return `  ${one.padEnd(14)}${what.replaceAll('\n', ' ')}`
  })
  console.error(`Usage: npm run trial -- NAME [ARGUMENTS]\n\n${rows.join('\n')}`)
  process.exit(name === undefined ? 0 : 2)
}
if (args.includes('--help')) {
  console.log(heads.get(name))
  process.exit()
}
const { status } = spawnSync(process.execPath, [join(import.meta.dirname, `${name}.mjs`), ...args], {
  stdio: 'inherit',
})
process.exit(status ?? 1)
