// Servers of the command, which only this machine reaches.
import type { AddressInfo, Server } from 'node:net'

/**
 * Resolves with the port. Node tells of a connection that the system does not let in, too, by 'error' of the server: for want of a
 * listener that would end the command.
 */
export async function listenOnLoopback(server: Server, port = 0): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  return (server.address() as AddressInfo).port
}
