// The real runtimes (copilot-runtime of the platform package), without login: their model is the scripted model server.
import { join } from 'node:path'
import { afterAll, beforeAll, onTestFinished } from 'vitest'
import { startModelServer } from '../../fixtures/model-server.mjs'
import {
  CopilotClient,
  type CopilotClientOptions,
  RuntimeConnection,
  approveAll,
} from '../../entries/copilot.js'
import { temporaryFolder } from './peer'

const platform = `${process.platform}-${process.arch}`
const below = join(__dirname, '../../node_modules')
const pathOf = (modules: string) =>
  join(modules, `@github/copilot-sdk-${platform}/prebuilds/${platform}/copilot-runtime`)

/** The newest release's and the newest preview's, and how each calls the runs that a script makes. */
export const runtimes = [
  { name: 'release', path: pathOf(below), says: 'Agent factories' },
  {
    name: 'preview',
    path: pathOf(join(below, 'copilot-sdk-preview/node_modules')),
    says: 'Dynamic workflows',
  },
]

/** A model server for the tests of this file, clients of the real runtime, and sessions whose model follows a script. */
export function realRuntime() {
  let server: Awaited<ReturnType<typeof startModelServer>>
  let run = 0
  beforeAll(async () => {
    server = await startModelServer({ script: 'text=unused' })
  })
  afterAll(() => server.close())
  return {
    /** What the model was asked, by all. */
    requests: () => server.requests,

    /** `options` without a path: the release's. */
    connect(home = temporaryFolder(), { path, ...options }: CopilotClientOptions & { path?: string } = {}) {
      const env = { ...process.env, HOME: home, COPILOT_HOME: undefined }
      const client = new CopilotClient({
        baseDirectory: home,
        useLoggedInUser: false,
        env,
        workingDirectory: temporaryFolder(),
        ...(path ? { connection: RuntimeConnection.forStdio({ path }) } : {}),
        ...options,
      })
      onTestFinished(async () => {
        await client.stop()
      })
      return { client, home }
    },

    /** A session's configuration whose model follows the script. */
    byScript: (script: string | object[], name = `r${run++}`) => ({
      model: 'any',
      provider: { type: 'openai' as const, baseUrl: `${server.urlFor(script, name)}/v1`, apiKey: 'x' },
      onPermissionRequest: approveAll,
    }),
  }
}
