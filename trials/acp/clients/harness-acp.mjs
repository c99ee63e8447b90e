// `@ai-sdk/harness-acp` as a client of `sheepdog acp`: `node harness-acp.mjs '{ modules, folder, words, env, prompt }'`. The adapter
// installs an agent in a sandbox and talks to it there; its sandbox here is a folder of this machine. Prints the answer's text.
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'

const { modules, folder, words, env, prompt } = JSON.parse(process.argv[2])
const load = (name) => import(pathToFileURL(join(modules, name)).href)
const { HarnessAgent } = await load('@ai-sdk/harness/dist/agent/index.js')
const { createACP } = await load('@ai-sdk/harness-acp/dist/index.js')

const quoted = (word) => `'${word.replaceAll("'", `'\\''`)}'`

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((done) => server.once('listening', done))
  const { port } = server.address()
  await new Promise((done) => server.close(done))
  return port
}

/** The sandbox: commands of a shell, and files, in this folder. */
async function openSandbox() {
  const port = await freePort()
  const children = new Set()
  const at = (path) => resolve(folder, path)
  const read = (path) => {
    try {
      return readFileSync(at(path))
    } catch {
      return null
    }
  }
  const write = (path, content) => {
    mkdirSync(dirname(at(path)), { recursive: true })
    writeFileSync(at(path), content)
  }
  const start = ({ command, workingDirectory = '.', env: own }) => {
    const cwd = at(workingDirectory)
    mkdirSync(cwd, { recursive: true })
    const child = spawn('bash', ['-c', command], {
      cwd,
      env: { ...process.env, ...own },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    children.add(child)
    const ended = new Promise((done) => child.once('close', (code) => done({ exitCode: code ?? 1 })))
    return { child, ended }
  }
  const session = {
    description: 'a folder',
    readFile: async ({ path }) => read(path) && new Blob([read(path)]).stream(),
    readBinaryFile: async ({ path }) => read(path),
    readTextFile: async ({ path }) => read(path)?.toString() ?? null,
    writeFile: async ({ path, content }) =>
      write(path, Buffer.from(await new Response(content).arrayBuffer())),
    writeBinaryFile: async ({ path, content }) => write(path, content),
    writeTextFile: async ({ path, content }) => write(path, content),
    async spawn(options) {
      const { child, ended } = start(options)
      return {
        pid: child.pid,
        stdout: Readable.toWeb(child.stdout),
        stderr: Readable.toWeb(child.stderr),
        wait: () => ended,
        kill: async () => void child.kill(),
      }
    },
    async run(options) {
      const { child, ended } = start(options)
      const texts = { stdout: '', stderr: '' }
      for (const name of Object.keys(texts)) child[name].on('data', (text) => (texts[name] += text))
      return { ...(await ended), ...texts }
    },
  }
  const stop = async () => {
    for (const child of children) child.kill()
  }
  const endpoint = async ({ protocol = 'http' }) => ({ url: `${protocol}://127.0.0.1:${port}` })
  return {
    ...session,
    id: 'folder',
    defaultWorkingDirectory: folder,
    ports: [port],
    getPortEndpoint: endpoint,
    getPortUrl: async (options) => (await endpoint(options)).url,
    stop,
    destroy: stop,
    restricted: () => session,
  }
}

const sandbox = {
  specificationVersion: 'harness-sandbox-v1',
  providerId: 'folder',
  async createSession({ onFirstCreate, abortSignal } = {}) {
    const session = await openSandbox()
    await onFirstCreate?.(session.restricted(), { abortSignal })
    return session
  },
}

const variables = Object.entries(env).map(([name, value]) => `export ${name}=${quoted(value)}`)
const launcher = ['#!/bin/sh', ...variables, `exec ${words.map(quoted).join(' ')} "$@"`].join('\n')
const harness = createACP({
  harnessId: 'acp-sheepdog',
  source: {
    type: 'install-command',
    command: `printf '%s\\n' ${quoted(launcher)} > "$HOME/.local/bin/sheepdog"; chmod +x "$HOME/.local/bin/sheepdog"`,
  },
  executable: 'sheepdog',
  modelMapping: { type: 'session-config-option', path: 'model' },
})
const agent = new HarnessAgent({ harness, sandbox })
const session = await agent.createSession()
try {
  const { text } = await agent.generate({ session, prompt })
  console.log(text)
} finally {
  await session.destroy()
}
process.exit(0)
