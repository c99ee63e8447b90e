// How the commands of a fleet get to it: the same options for all of them.
import { Fleet, type FleetOptions } from '../lib/fleet'
import type { OptionTable } from './command'

/** Options that each of these commands takes. */
export const fleetTable = {
  servers: {
    type: 'string',
    multiple: true,
    value: 'ADDRESS',
    help: 'address of a NATS server (repeatable; default: the variable SHEEPDOG_NATS, else a server that is started here, with its store in --dir)',
  },
  dir: {
    type: 'string',
    value: 'FOLDER',
    fits: 'folder',
    help: 'store of a server that is started here (default .sheepdog/fleet)',
  },
  token: { type: 'string', value: 'T', help: 'token for the server' },
  credentials: { type: 'string', value: 'FILE', fits: 'file', help: 'credentials file for the server' },
  ca: {
    type: 'string',
    value: 'FILE',
    fits: 'file',
    help: 'certificates (PEM) that sign the certificate of the server (default: those that the system trusts)',
  },
  prefix: {
    type: 'string',
    value: 'NAME',
    help: 'name of the fleet, where one server has several (default sd)',
  },
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
