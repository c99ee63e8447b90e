// Connections to a server of this process from programs that have not shown yet that they may use it. Every program that reaches the
// port can make some; they must not use up the files of this process.
import type { Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

/** Connections of strangers that are open at one time; another one closes the oldest of them. */
const maxStrangers = 64

/** Bounds the strangers of a server. Returns the function that tells that a connection's program may use it. */
export function boundStrangers(server: Server): (known: Socket) => void {
  const strangers = new Set<Socket>()
  server.on('connection', (socket) => {
    strangers.add(socket)
    socket.once('close', () => strangers.delete(socket))
    const [oldest] = strangers
    if (strangers.size > maxStrangers) oldest?.destroy()
  })
  return (known) => void strangers.delete(known)
}

/**
 * Lets the server listen. Node tells of a connection that the system does not let in, too, by 'error' of the server: for want of a
 * listener that would end the host.
 */
export async function listen(server: Server, port: number, host: string): Promise<AddressInfo> {
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject)
    server.listen(port, host, resolve)
  })
  return server.address() as AddressInfo
}
