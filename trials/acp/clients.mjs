// `npm run trial -- acp --clients [CLIENT|AGENT ...]`: clients of the Agent Client Protocol, unmodified, with real agents behind
// `sheepdog acp`. Right is a client that prints the scripted model's answer, and after which nothing is alive. The table goes to
// target/trials.
//
// Two clients are in no package. They are run from checkouts with installed packages, if these variables name them:
//   SHEEPDOG_ACP_TYPESCRIPT  the TypeScript SDK, for its example client
//   SHEEPDOG_ACPX            acpx, for its tests: those that run its scripted agent do so once alone and once behind `sheepdog acp`
import { spawn, spawnSync } from 'node:child_process'
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import { openAt, speakers } from '../../fixtures/acp/real.mjs'
import { workplace } from '../../fixtures/agents.mjs'
import { startModelServer } from '../../fixtures/model-server.mjs'
import { fail, root } from '../../scripts/step.mjs'
import { chosen } from '../cases.mjs'
import { writeTable } from '../table.mjs'
import { cache, install, installNode, installPython } from './installation.mjs'
import { killAll, leftoversIn } from './leftovers.mjs'

const CASE_MS = 180_000
const ANSWER = 'It is done.'
const agents = ['claude-code', 'codex', 'gemini', 'opencode']
const sheepdog = join(root, 'cli', 'sheepdog.js')
const { SHEEPDOG_ACP_TYPESCRIPT: typescript, SHEEPDOG_ACPX: acpx } = process.env

const packages = {
  acpx: ['acpx@0.19.1'],
  'harness-acp': ['@ai-sdk/harness-acp@1.0.38', 'zod@4.6.7', 'pnpm@10.34.8'],
}
const python = 'agent-client-protocol==0.12.1'

/** The examples are in the source package alone. */
function pythonExample() {
  const bin = installPython('python-sdk', [python])
  const sources = join(bin, '..', 'sources')
  if (!existsSync(sources)) {
    mkdirSync(sources)
    const pip = ['-m', 'pip', 'download', '--quiet', '--no-deps', '--no-binary', ':all:']
    spawnSync(join(bin, 'python'), [...pip, python, '-d', sources], { stdio: 'inherit' })
    const [archive] = readdirSync(sources).filter((name) => name.endsWith('.tar.gz'))
    const unpacked = archive && spawnSync('tar', ['xzf', archive], { cwd: sources })
    if (unpacked?.status !== 0) fail(`${python} has no source package`)
  }
  const [folder] = readdirSync(sources).filter((name) => !name.endsWith('.tar.gz'))
  return [join(bin, 'python'), join(sources, folder, 'examples', 'client.py')]
}

/** Its example client starts the agent beside it: that one starts `sheepdog acp`. */
function typescriptExample(place, words) {
  const folder = join(place.cwd, 'sdk')
  cpSync(join(typescript, 'src'), join(folder, 'src'), { recursive: true })
  symlinkSync(join(typescript, 'node_modules'), join(folder, 'node_modules'))
  copyFileSync(join(typescript, 'package.json'), join(folder, 'package.json'))
  const started = `spawn(${JSON.stringify(words[0])}, ${JSON.stringify(words.slice(1))}, { stdio: 'inherit' })`
  const agent = `import { spawn } from 'node:child_process'\n${started}\n`
  writeFileSync(join(folder, 'src', 'examples', 'agent.ts'), agent)
  return folder
}

/** Each client's command, with what it is told on stdin. */
const clients = {
  acpx: {
    title: packages.acpx[0],
    command: ({ words, place }) => [
      'acpx',
      '--cwd',
      place.cwd,
      '--agent',
      words.join(' '),
      '--approve-all',
      'exec',
      'go',
    ],
  },
  'python-sdk': {
    title: `${python.replace('==', ' ')} (PyPI), examples/client.py`,
    input: 'go\n',
    command: ({ words }) => [...pythonExample(), ...words],
  },
  'typescript-sdk': {
    title: `TypeScript SDK ${typescript && JSON.parse(readFileSync(join(typescript, 'package.json'), 'utf8')).version}, src/examples/client.ts`,
    isThere: typescript !== undefined,
    command({ words, place }) {
      const folder = typescriptExample(place, words)
      return ['sh', '-c', `cd '${folder}' && exec npx tsx src/examples/client.ts`]
    },
  },
  'harness-acp': {
    title: packages['harness-acp'][0],
    command({ words, place, env }) {
      const script = fileURLToPath(new URL('clients/harness-acp.mjs', import.meta.url))
      const modules = join(cache, 'acp-harness-acp', 'node_modules')
      const call = { modules, folder: place.cwd, words, env, prompt: 'go' }
      return [process.execPath, script, JSON.stringify(call)]
    },
  },
}

async function runCase(client, agent, folders, server) {
  const place = { ...workplace(`client-${client}`), cache: join(cache, 'cache') }
  const { env, model } = openAt(agent, server.urlFor(`text=${ANSWER}`), place, folders)
  const words = [process.execPath, sheepdog, 'acp', agent, '--permission', 'auto']
  if (model) words.push('--model', model)
  const [program, ...args] = clients[client].command({ words, place, env })
  const begun = performance.now()
  const child = spawn(program, args, { cwd: place.cwd, env: { ...process.env, ...env } })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text))
  // The example of Python ends at the end of its input, which cancels nothing: its prompt is waited for.
  child.stdin.write(clients[client].input ?? '')
  const onSaid = setInterval(() => said.includes(ANSWER) && child.stdin.end(), 100)
  const timer = setTimeout(() => child.kill('SIGKILL'), CASE_MS)
  await new Promise((resolve) => child.once('close', resolve))
  clearInterval(onSaid)
  clearTimeout(timer)
  const ms = performance.now() - begun
  const left = await leftoversIn(place)
  killAll(left)
  place.remove()
  return {
    isRight: said.includes(ANSWER) && left.length === 0,
    seconds: (ms / 1000).toFixed(1),
    left: left.length,
    said,
  }
}

/** How many of acpx's tests pass: alone, or with `sheepdog acp` before its scripted agent. */
function acpxTests(isBehind) {
  const tests = join(acpx, 'dist-test', 'test')
  spawnSync('npm', ['run', 'build:test'], { cwd: acpx, stdio: 'ignore' })
  if (isBehind) {
    renameSync(join(tests, 'mock-agent.js'), join(tests, 'mock-agent-itself.js'))
    const words = [
      sheepdog,
      'acp',
      '--permission',
      'auto',
      '--',
      process.execPath,
      join(tests, 'mock-agent-itself.js'),
    ]
    const lines = [
      "import { spawn } from 'node:child_process'",
      `const words = ${JSON.stringify(words)}`,
      "const child = spawn(process.execPath, [...words, ...process.argv.slice(2)], { stdio: 'inherit' })",
      "for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => child.kill(signal))",
      "child.on('exit', (code, signal) => (signal ? process.kill(process.pid, 'SIGKILL') : process.exit(code)))",
    ]
    writeFileSync(join(tests, 'mock-agent.js'), `${lines.join('\n')}\n`)
  }
  const files = ['integration.test.js', 'cli.test.js'].map((name) => join(tests, name))
  const { stdout } = spawnSync(
    process.execPath,
    ['--test', '--test-reporter=tap', '--test-concurrency=1', ...files],
    {
      cwd: acpx,
      encoding: 'utf8',
      maxBuffer: 64 << 20,
    },
  )
  const count = (word) => Number(new RegExp(`^# ${word} (\\d+)`, 'm').exec(stdout)?.[1])
  const failed = [...stdout.matchAll(/^not ok \d+ - (.*)/gm)].map(([, name]) => name)
  console.log(
    `acpx's tests, ${isBehind ? 'behind sheepdog acp' : 'alone'}: ${count('pass')} of ${count('tests')}`,
    failed,
  )
  return { words: `${count('pass')} of ${count('tests')}`, failed }
}

export async function runClients(words) {
  const there = Object.keys(clients).filter((name) => clients[name].isThere !== false)
  const [names, behind] = [chosen(there, words), chosen(agents, words)]
  const folders = [installNode()]
  for (const agent of behind) folders.push(install(agent, speakers[agent].packages))
  for (const [name, list] of Object.entries(packages)) folders.push(install(name, list))
  const server = await startModelServer({ script: 'text=hi' })
  const table = [['client', ...behind]]
  let faults = 0
  for (const name of words.includes('--suite') ? [] : names) {
    const row = [clients[name].title]
    for (const agent of behind) {
      const { isRight, seconds, left, said } = await runCase(name, agent, folders, server)
      if (!isRight) faults++
      const cell = isRight ? `ok (${seconds} s)` : `**wrong**, ${left} left`
      console.log(`${name} | ${agent} | ${cell}${isRight ? '' : ` | ${said.slice(-1500)}`}`)
      row.push(cell)
    }
    table.push(row)
  }
  await server.close()
  if (table.length === Object.keys(clients).length + 1 && behind.length === agents.length)
    writeTable('npm run trial -- acp --clients', table)
  if (acpx && words.includes('--suite')) {
    const alone = acpxTests(false)
    const between = acpxTests(true)
    const new_ = between.failed.filter((name) => !alone.failed.includes(name))
    if (new_.length > 0) fail(`these tests of acpx fail behind sheepdog acp alone: ${new_.join('; ')}`)
  }
  if (faults > 0) fail(`${faults} clients came out otherwise, or left a process`)
}
