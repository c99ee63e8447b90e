// How the commands of a fleet get to it: the same options for all of them.
import { Fleet, type FleetOptions } from '../lib/fleet'
import type { OptionTable } from './command'

/** Options that each of these commands takes. */
export const fleetTable = {
  servers: {
    type: 'string',
    multiple: true,
    value: 'ADDRESS',
    help: 'a NATS server; may be repeated (default: the variable SHEEPDOG_NATS, else a server of its own with its store in --dir)',
  },
  dir: {
    type: 'string',
    value: 'FOLDER',
    fits: 'folder',
    help: 'store of its own server (default .sheepdog/fleet)',
  },
  token: { type: 'string', value: 'T', help: 'token for the server' },
  credentials: {
    type: 'string',
    value: 'FILE',
    fits: 'file',
    help: 'credentials file for the server',
  },
  ca: {
    type: 'string',
    value: 'FILE',
    fits: 'file',
    help: "certificates that sign the server's (default: the system's)",
  },
  prefix: { type: 'string', value: 'NAME', help: 'name of one of several fleets on a server' },
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
