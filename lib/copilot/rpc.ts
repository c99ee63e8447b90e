// RPC by path: `rpc.a.b(params)` is the request "a.b". The types come from the runtime's schemas; the object needs no list.

type Request = (method: string, params: unknown) => Promise<unknown>

/** A tree of methods; every path is one, so that methods newer than the types can be called too. */
export function rpcTree<T>(request: Request, prefix = ''): T {
  const branches = new Map<string, unknown>()
  return new Proxy(Object.create(null) as object, {
    get(_, name) {
      // A tree is no promise, and has no symbols.
      if (typeof name !== 'string' || name === 'then' || name === 'toJSON') return undefined
      let branch = branches.get(name)
      if (!branch) branches.set(name, (branch = rpcNode(request, prefix ? `${prefix}.${name}` : name)))
      return branch
    },
  }) as T
}

function rpcNode(request: Request, path: string): unknown {
  const branches = new Map<string, unknown>()
  // Awaited, so that an error's stack leads through here to the caller.
  const call = async (params?: unknown): Promise<unknown> => await request(path, params ?? {})
  return new Proxy(call, {
    get(target, name) {
      if (typeof name !== 'string' || name === 'then') return undefined
      if (name === 'bind' || name === 'call' || name === 'apply') return Reflect.get(target, name)
      let branch = branches.get(name)
      if (!branch) branches.set(name, (branch = rpcNode(request, `${path}.${name}`)))
      return branch
    },
  })
}
