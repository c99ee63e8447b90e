// Runs a table of cases for one agent after the other, each against the same model server.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { bench } from '../../fixtures/agent-cases.mjs'
import { startModelServer } from '../../fixtures/model-server.mjs'
import { FAILED, runCase } from '../cases.mjs'
import { folder } from './install.mjs'

const CASE_MS = 240_000

/** `agents`: [{ name, version, program, bin, node }]. Returns the words of each agent's cases by their names, and the count of failures. */
export async function runTable(agents, cases) {
  const { Harness } = createRequire(import.meta.url)('../../index.js')
  const server = await startModelServer()
  const results = {}
  let failures = 0
  for (const { name, version, program, bin, node } of agents) {
    results[name] = {}
    console.log(`\n${name} ${version}`)
    const shared = {}
    for (const [title, test] of Object.entries(cases)) {
      const context = bench({
        provider: name,
        server,
        shared,
        binary: join(bin, program),
        cache: join(folder, 'cache'),
        path: [node, process.env.PATH].filter(Boolean).join(':'),
        make: (options) => new Harness(options),
      })
      const { word, error } = await runCase(title, CASE_MS, () => test(context))
      context.close()
      results[name][title] = error ? FAILED : word
      if (error) failures++
    }
  }
  await server.close()
  return { results, failures }
}

/** The rows of a table for a document: a head, and each case. */
export function rowsOf(agents, results, titles) {
  const head = ['case', ...agents.map(({ name, version }) => `${name} ${version}`)]
  return [head, ...titles.map((title) => [title, ...agents.map(({ name }) => results[name][title])])]
}
