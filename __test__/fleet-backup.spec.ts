// What docs/fleet.md says of backups: a copy of the folder of a fleet that is down is the fleet.
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Fleet } from '../entries/fleet.js'
import { hasServer, newFolder } from './fleet-worker'

const handlers = {
  async keep(job: any) {
    await job.emit({ type: 'said', text: job.data })
    writeFileSync(join(job.cwd, 'kept.txt'), job.data)
    await job.artifact('kept.txt')
    return job.data
  },
}

describe.runIf(hasServer)('a copy of the folder of a fleet', () => {
  it('has its results, logs and artifacts, and does what waits', async () => {
    const [dir, copy, cwd] = [join(newFolder(), 'fleet'), join(newFolder(), 'fleet'), newFolder()]
    const before = await Fleet.connect({ dir })
    const worker = await before.work({ handlers })
    const done = await before.submit({ id: 'done', handler: 'keep', data: 'one', cwd })
    expect(await done.result).toBe('one')
    await worker.close()
    await before.submit({ id: 'waits', handler: 'keep', data: 'two', cwd })
    await before.close()
    cpSync(dir, copy, { recursive: true })

    const after = await Fleet.connect({ dir: copy })
    const old = await after.job('done')
    expect(await old.result).toBe('one')
    const said: string[] = []
    for await (const event of old.events()) said.push((event as any).text)
    expect(said).toEqual(['one'])
    const to = join(newFolder(), 'back.txt')
    await old.download('kept.txt', to)
    expect(readFileSync(to, 'utf8')).toBe('one')
    const again = await after.work({ handlers })
    expect(await (await after.job('waits')).result).toBe('two')
    // Done is done: nothing of it runs anew.
    expect((await old.record()).attempt).toBe(1)
    await again.close()
    await after.close()
  })
})
