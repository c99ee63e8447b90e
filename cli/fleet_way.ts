// How the commands of a fleet get to it: the same options for all of them.
import { Fleet, type FleetOptions } from '../lib/fleet'

/** Options that each of these commands takes. */
export const fleetTable = {
  servers: { type: 'string', multiple: true },
  dir: { type: 'string' },
  token: { type: 'string' },
  credentials: { type: 'string' },
  prefix: { type: 'string' },
} as const

export const fleetUsage = `  --servers ADDRESS    a NATS server; may be given more than once (default: the variable SHEEPDOG_NATS,
                       else a server of its own, its store in --dir)
  --dir FOLDER         default .sheepdog/fleet
  --token T            what the server asks for
  --credentials FILE   the same, as a credentials file
  --prefix NAME        one of several fleets on a server`

type Values = { [name in keyof typeof fleetTable]?: string | string[] }

export function fleetOptions({ servers, dir, token, credentials, prefix }: Values): FleetOptions {
  return { servers, dir, token, credentials, prefix } as FleetOptions
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
