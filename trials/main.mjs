// `npm run trial -- NAME [ARGUMENTS]`: what takes long, or needs a network, another system or root, and is no part of the gate. Without
// a name it lists the trials. Each is a file here; its first lines, which --help prints, say what it needs and takes.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const trials = {
  acp: 'sessions with the real agents, and `sheepdog acp` and `mcp` with their real clients',
  agents: 'the real agent CLIs, their limits and permission levels, against the scripted model server',
  'copilot-sdk': "the SDK's own end-to-end tests, with this package in its place",
  coverage: 'lines that the tests run, of Rust and TypeScript',
  egress: 'the proxy of a sandbox with real programs, agents and attacks',
  faults: 'kills, stops and torn connections at random moments',
  fleet: 'workers and servers of a fleet that are killed, stopped and, in a cluster, cut off',
  'fleet-agents': 'a fleet with real agents',
  fuzz: 'the fuzz targets, guided by coverage where the toolchain can',
  platforms: 'other kernels, C libraries and systems',
  races: 'races of agents whose processes and hosts are killed',
  recording: 'the recording of docs/recording.svg',
  strangers: 'the packed package with runtimes, bundlers and compilers',
  survivors: 'ways in which a host can end, and what is left of its trees',
}

const [name, ...args] = process.argv.slice(2)
if (!Object.hasOwn(trials, name ?? '')) {
  const width = Math.max(...Object.keys(trials).map(({ length }) => length))
  const rows = Object.entries(trials).map(([one, what]) => `  ${one.padEnd(width)}  ${what}`)
  console.error(`Usage: npm run trial -- NAME [ARGUMENTS]\n\n${rows.join('\n')}`)
  process.exit(name === undefined ? 0 : 2)
}
const file = fileURLToPath(new URL(`${name}.mjs`, import.meta.url))
if (args.includes('--help')) {
  console.log(/^(?:\/\/.*\n)+/.exec(readFileSync(file, 'utf8'))[0].replaceAll(/^\/\/ ?/gm, ''))
  process.exit()
}
const { status } = spawnSync(process.execPath, [file, ...args], { stdio: 'inherit' })
process.exit(status ?? 1)
