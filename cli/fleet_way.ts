// How the commands of a fleet get to it: the same options for all of them.
import { Fleet, type FleetOptions } from '../lib/fleet'
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
