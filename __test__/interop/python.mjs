// Our server with the real Python client. Makes a virtual environment for it once.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { pythonPrograms } from '../../scripts/python.mjs'
import { root } from '../../scripts/step.mjs'

const clientVersion = '0.15.1'

/** The Python that has the client, or in one line why there is none. */
export function findPython() {
  const packages = [`runtimeuse-client==${clientVersion}`]
  const { bin, problem } = pythonPrograms(join(root, 'target', 'interop'), packages, [3, 11])
  return bin ? { python: join(bin, 'python') } : { problem }
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
