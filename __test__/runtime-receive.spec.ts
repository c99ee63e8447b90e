// client.receive: files of a runtime without an object store.
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { RuntimeClient, serveRuntime } from '../entries/runtime.js'

const root = realpathSync(mkdtempSync(join(tmpdir(), 'sheepdog-receive-')))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let count = 0
async function session() {
  const out = join(root, `out-${++count}`)
  const folder = join(root, `folder-${count}`)
  const server = await serveRuntime({ port: 0 })
  const client = await RuntimeClient.connect(server.url)
  const close = async () => {
    await client.close()
    await server.close()
  }
  return { out, folder, client, close, [Symbol.asyncDispose]: close }
}

/** Every file below a folder, by its path. */
const filesOf = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort()

describe('client.receive', () => {
  it('puts the files below its folder by their paths', async () => {
    await using at = await session()
    const { url, folder } = await at.client.receive({ folder: at.folder })
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect(folder).toBe(at.folder)
    const made = `mkdir -p ${at.out}/a && echo one > ${at.out}/a/x.txt && head -c 3000000 /dev/zero > ${at.out}/big`
    await at.client.executeCommands([made], { artifactsDirs: [at.out] })
    expect(await at.client.endSession()).toEqual({ confirmed: true, uploaded: 2, undelivered: [] })
    const place = at.out.slice(1)
    expect(filesOf(folder)).toEqual([`${place}/a/x.txt`, `${place}/big`])
    expect(readFileSync(join(folder, place, 'a/x.txt'), 'utf8')).toBe('one\n')
    expect(readFileSync(join(folder, place, 'big'))).toHaveLength(3_000_000)
    await expect(fetch(url)).rejects.toThrow()
  })

  it('replaces a file that is sent again, and a link of its name', async () => {
    await using at = await session()
    const { folder } = await at.client.receive({ folder: at.folder })
    await at.client.executeCommands([`mkdir -p ${at.out} && echo one > ${at.out}/f`], {
      artifactsDirs: [at.out],
    })
    const file = join(folder, at.out.slice(1), 'f')
    // While it comes it has another name.
    await expect.poll(() => filesOf(folder)).toEqual([`${at.out.slice(1)}/f`])
    const outside = join(root, `outside-${count}`)
    writeFileSync(outside, 'kept')
    rmSync(file)
    symlinkSync(outside, file)
    await at.client.executeCommands([`echo two > ${at.out}/f`], { artifactsDirs: [at.out] })
    await at.client.endSession()
    expect(readFileSync(file, 'utf8')).toBe('two\n')
    expect(readFileSync(outside, 'utf8')).toBe('kept')
  })

  it('writes nothing outside of its folder', async () => {
    await using at = await session()
    const { folder } = await at.client.receive({ folder: at.folder })
    const outside = mkdtempSync(join(root, 'outside-'))
    symlinkSync(outside, join(folder, root.split('/')[1]!))
    await at.client.executeCommands([`mkdir -p ${at.out} && echo one > ${at.out}/f`], {
      artifactsDirs: [at.out],
    })
    const { uploaded, undelivered } = await at.client.endSession()
    expect({ uploaded, undelivered }).toMatchObject({ uploaded: 0, undelivered: [{ path: `${at.out}/f` }] })
    expect(undelivered[0]!.reason).toMatch(/403|leads outside/)
    expect(filesOf(outside)).toEqual([])
  })

  it('takes no request without the secret of a file, and only PUT', async () => {
    await using at = await session()
    const { url } = await at.client.receive({ folder: at.folder })
    expect((await fetch(`${url}/x`, { method: 'PUT', body: 'x' })).status).toBe(404)
    expect((await fetch(`${url}/../../etc/passwd`)).status).toBe(404)
    expect(filesOf(at.folder)).toEqual([])
  })

  it('bounds the connections of strangers, and its files get through', async () => {
    await using at = await session()
    const { url } = await at.client.receive({ folder: at.folder })
    const strangers = Array.from({ length: 300 }, () => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      socket.on('error', () => {})
      socket.write('PUT /x HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n')
      return socket
    })
    await expect.poll(() => strangers.filter((socket) => !socket.closed).length).toBeLessThanOrEqual(64)
    await at.client.executeCommands([`echo hi > ${at.out}/a`], { artifactsDirs: [at.out] })
    expect((await at.client.endSession()).uploaded).toBe(1)
    for (const socket of strangers) socket.destroy()
  })

  it('receives no more than maxBytes, and leaves no part behind', async () => {
    await using at = await session()
    await at.client.receive({ folder: at.folder, maxBytes: 1000 })
    await at.client.executeCommands([`mkdir -p ${at.out} && head -c 5000 /dev/zero > ${at.out}/big`], {
      artifactsDirs: [at.out],
    })
    const { undelivered } = await at.client.endSession()
    expect(undelivered).toMatchObject([{ path: `${at.out}/big` }])
    expect(filesOf(at.folder)).toEqual([])
  })

  it.each([
    [{}, 'folder: is missing'],
    [{ folder: 'x', host: '0.0.0.0' }, 'url: is missing'],
    [{ folder: 'x', port: 70_000 }, 'port: expected a port'],
    [{ folder: 'x', url: 'localhost' }, 'url: expected an http'],
    [{ folder: 'x', dir: 'y' }, 'dir: no such option'],
    [{ folder: '/dev/null/x' }, 'folder: '],
  ])('refuses %j', async (options, message) => {
    await using at = await session()
    const given = 'folder' in options ? { ...options, folder: join(root, options.folder) } : options
    const wanted = message === 'folder: ' ? options : given
    await expect(at.client.receive(wanted as never)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining(message),
    })
    await at.client.receive({ folder: at.folder })
    await expect(at.client.receive({ folder: at.folder })).rejects.toThrow('was called already')
  })
})
