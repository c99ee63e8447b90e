// How the commands of a fleet get to it: the same options for all of them.
import { Fleet, type FleetOptions, type JobState } from '../lib/fleet'
import { suggestion } from '../lib/hint'
import { UsageError } from './arguments'
import { type OptionTable, several, setting } from './command'

/** Options that each of these commands takes. */
export const fleetTable = {
  servers: several(
    'ADDRESS',
    'a NATS server; may be repeated (default: the variable SHEEPDOG_NATS, else a server of its own with its store in --dir)',
  ),
  dir: setting('FOLDER', 'store of its own server (default .sheepdog/fleet)'),
  token: setting('T', 'token for the server'),
  credentials: setting('FILE', 'credentials file for the server'),
  ca: setting('FILE', "certificates that sign the server's (default: the system's)"),
  prefix: setting('NAME', 'name of one of several fleets on a server'),
} as const satisfies OptionTable

/** Refuses options of other verbs, which are named where their help begins: they would be passed over in silence. */
export function checkVerb(verb: string, table: OptionTable, values: object): void {
  for (const name of Object.keys(values)) {
    const [, verbs] = /^([a-z]+(?:, [a-z]+)*): /.exec(table[name]?.help ?? '') ?? []
    if (verbs !== undefined && !verbs.split(', ').includes(verb))
      throw new UsageError(`--${name} is an option of ${verbs}, not of ${verb}`)
  }
}

/** The option for jobs in some of these states. */
export const states = <const State extends JobState>(help: string, known: readonly State[]) => ({
  ...several('S', help, known),
  read: (flag: string, given: string[]) => given.map((name) => stateOf(flag, name, known)),
})

function stateOf<State extends string>(flag: string, name: string, known: readonly State[]): State {
  const state = known.find((one) => one === name)
  if (state !== undefined) return state
  const names = `${known.slice(0, -1).join(', ')} or ${known.at(-1)}`
  const hint = suggestion(name, [...known])
  throw new UsageError(`${flag}: expected ${names}, got ${JSON.stringify(name)}${hint}`)
}

type Values = { [name in keyof typeof fleetTable]?: string | string[] }

export function fleetOptions({ servers, dir, token, credentials, ca, prefix }: Values): FleetOptions {
  return { servers, dir, token, credentials, ca, prefix } as FleetOptions
}

/** Does something with the fleet, and closes it. */
export async function withFleet(values: Values, act: (fleet: Fleet) => Promise<number>): Promise<number> {
  const fleet = await Fleet.connect(fleetOptions(values))
  try {
    return await act(fleet)
  } finally {
    await fleet.close()
  }
}
