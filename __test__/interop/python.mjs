// Our server with the real Python client. Makes a virtual environment for it once.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../scripts/step.mjs'

const clientVersion = '0.15.1'
const environment = join(root, 'target', 'interop')
const python = join(environment, 'bin', 'python')

/** The Python that has the client, or in one line why there is none. */
export function findPython() {
  const has = () =>
    spawnSync(python, [
      '-c',
      `import importlib.metadata as m; assert m.version("runtimeuse-client") == "${clientVersion}"`,
    ]).status === 0
  if (existsSync(python) && has()) return { python }
  const version = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 11))'])
  if (version.error || version.status !== 0) return { problem: 'no Python 3.11 or newer' }
  if (spawnSync('python3', ['-m', 'venv', environment]).status !== 0)
    return { problem: 'Python has no working venv' }
  spawnSync(python, ['-m', 'pip', 'install', '--quiet', `runtimeuse-client==${clientVersion}`])
  return has() ? { python } : { problem: `runtimeuse-client ${clientVersion} could not be installed` }
}

/** `sheepdog serve` with the puppet as its handler, once it is ready: the process and its port. */
export async function servePuppet() {
  const server = spawn(process.execPath, [
    join(root, 'cli/sheepdog.js'),
    'serve',
    '--port',
    '0',
    '--handler',
    join(root, 'fixtures/runtime/puppet.mjs'),
  ])
  server.stderr.resume()
  const port = await new Promise((resolve, reject) => {
    let seen = ''
    server.stdout.on('data', (text) => {
      seen += text
      const [, port] = /listening on port (\d+)/.exec(seen) ?? []
      if (port) resolve(Number(port))
    })
    server.once('exit', () => reject(new Error(`the server ended: ${seen}`)))
  })
  return { server, port }
}

/** Serves the puppet and runs the client's scenarios against it. Resolves with the exit status and what was printed. */
export async function runClient(python) {
  const { server, port } = await servePuppet()
  try {
    const client = spawn(python, [join(root, '__test__/interop/client.py'), `ws://127.0.0.1:${port}`])
    let output = ''
    client.stdout.on('data', (text) => (output += text))
    client.stderr.resume()
    const status = await new Promise((resolve) => client.once('close', resolve))
    return { status, output }
  } finally {
    const ended = new Promise((resolve) => server.once('exit', resolve))
    server.kill('SIGTERM')
    await ended
  }
}
