// A program that may write in one folder and reach no network: the kernel holds that, for all that it starts as well.
//
//   node examples/sandbox.mjs
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from 'sheepdog'

const folder = await mkdtemp(join(tmpdir(), 'sheepdog-example-'))
const script = `echo yes > inside.txt; echo no > "${homedir()}/outside.txt" || echo "not there"`
try {
  const { stdout } = await run('sh', ['-c', script], {
    cwd: folder,
    sandbox: { write: [folder], network: 'none' },
  })
  console.log(stdout.trim(), await readdir(folder))
} catch (error) {
  // Needs Linux 5.13 with Landlock; for the network 6.7. Without them nothing is started.
  if (error.code !== 'SANDBOX_UNAVAILABLE') throw error
  console.log(error.message)
} finally {
  await rm(folder, { recursive: true })
}
